//! Tells webhooks of events, beside all requests: on the control runtime, one delivery at a time for each of
//! them.

use std::sync::Arc;
use std::time::Duration;

use base::Fault;
use config::{Snapshot, Webhook};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::{AbortHandle, JoinSet};

use crate::live::Live;
use crate::net::{Transport, post};
use crate::webhooks::{Ended, Event, Folding, Line, Message, Next, Verdict, signature, verdict};

/// One try at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// Some breakers close by time alone, which nobody sees before the next call or scrape; so often they are
/// looked at where somebody is to be told.
const LOOK: Duration = Duration::from_secs(5);

/// Delivers what webhooks are to be told, for ever. `transport` should have places of its own, so that a
/// delivery takes none from calls.
pub async fn keep_delivering(live: Arc<Live>, transport: Transport) {
    let mut post_room = PostRoom { transport: Arc::new(transport), tasks: JoinSet::new(), open: Vec::new() };
    let mut folding = Folding::default();
    loop {
        let running = live.running();
        post_room.bind(&live, &running.snapshot);
        let now = live.clock.now();
        let due = folding.due(now);
        let heard = live.webhooks.take().into_iter().map(Event::of);
        let heard: Vec<Event> = heard.filter_map(|event| folding.take(event, now)).collect();
        for event in due.into_iter().chain(heard) {
            post_room.tell(&live, event, &running.snapshot.general.environment);
        }
        let look = (!running.snapshot.webhooks.is_empty()).then_some(LOOK);
        if look.is_some() {
            running.standings().for_each(|(_, standing)| _ = standing.shown(now));
        }
        drop(running);
        let next = folding.next().map(|next| next.saturating_duration_since(live.clock.now()));
        let next = next.into_iter().chain(look).min();
        let due = async {
            match next {
                Some(next) => tokio::time::sleep(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = live.webhooks.news() => {}
            () = due => {}
        }
    }
}

/// Every webhook's line, with the task that works it off.
struct PostRoom {
    transport: Arc<Transport>,
    /// Bounded by the configured webhooks.
    tasks: JoinSet<()>,
    open: Vec<(Arc<Line>, AbortHandle)>,
}

impl PostRoom {
    /// Takes the webhooks of the configuration in force. What waits for one that is at another address now, or
    /// nowhere, is dropped.
    fn bind(&mut self, live: &Arc<Live>, snapshot: &Snapshot) {
        while self.tasks.try_join_next().is_some() {}
        let mut old = std::mem::take(&mut self.open);
        for hook in &snapshot.webhooks {
            let is_same = |(line, _): &(Arc<Line>, AbortHandle)| line.hook.load().to.place() == hook.to.place();
            let kept = old.iter().position(is_same).map(|at| old.swap_remove(at));
            let open = kept.unwrap_or_else(|| {
                let line = Arc::new(Line::new(hook.clone()));
                let task = work_off(live.clone(), self.transport.clone(), line.clone());
                (line, self.tasks.spawn(task))
            });
            open.0.hook.store(hook.clone());
            self.open.push(open);
        }
        for (line, task) in old {
            task.abort();
            let hook = line.hook.load();
            for message in line.clear() {
                live.metrics.webhooks.ended(&hook.name, message.kind, DROPPED);
            }
        }
        let lines = self.open.iter().map(|(line, _)| line.clone()).collect();
        live.webhooks.keep(lines);
    }

    /// Puts an event into the line of every webhook that wants to be told of it.
    fn tell(&self, live: &Live, event: Event, environment: &str) {
        let occasion = event.occasion;
        let wanting = || self.open.iter().map(|(line, _)| line).filter(|line| line.hook.load().on.contains(&occasion));
        if wanting().next().is_none() {
            return;
        }
        let id = (u128::from(live.dice.bits()) << 64) | u128::from(live.dice.bits());
        let message = Arc::new(event.message(id, environment));
        for line in wanting() {
            if let Some(dropped) = line.put(message.clone(), live.clock.now()) {
                live.metrics.webhooks.ended(&line.hook.load().name, dropped.kind, DROPPED);
            }
        }
    }
}

/// What `result` says of a message that was not tried to its end.
const DROPPED: &str = "dropped";

/// Delivers what comes into one line, one after the other.
async fn work_off(live: Arc<Live>, transport: Arc<Transport>, line: Arc<Line>) {
    loop {
        let now = live.clock.now();
        match line.next(now) {
            Next::Nothing => line.news().await,
            Next::At(due) => {
                tokio::select! {
                    () = tokio::time::sleep(due.saturating_duration_since(now)) => {}
                    () = line.news() => {}
                }
            }
            Next::Try(message) => deliver(&live, &transport, &line, &message).await,
        }
    }
}

/// Tries a message once.
async fn deliver(live: &Live, transport: &Transport, line: &Line, message: &Arc<Message>) {
    let hook = line.hook.load_full();
    let began = live.clock.now();
    let headers = headers(&hook, message, live.clock.wall().as_secs());
    let answer = post(transport, &hook.to, headers, message.body.clone(), PATIENCE).await;
    let (ended, why) = judged(answer, live.clock.wall());
    let now = live.clock.now();
    let Some((tries, age)) = line.tried(message, began, now) else { return };
    let verdict = verdict(ended, tries, age, live.dice.unit());
    if let (Verdict::Again(_) | Verdict::Expired, Some(wait)) = (verdict, ended.1) {
        line.rest(wait, now);
    }
    let is_new = line.settle(message, verdict, &why, now);
    live.metrics.webhooks.ended(&hook.name, message.kind, verdict.as_str());
    // A path may be as good as a key.
    let host = hook.to.provider.origin.authority();
    let (webhook, event) = (&*hook.name, message.kind);
    match verdict {
        Verdict::Delivered => tracing::debug!(webhook, event, "a webhook was delivered"),
        Verdict::Again(_) if is_new => tracing::warn!(webhook, host, event, why, "a webhook fails; it is tried again"),
        Verdict::Again(_) => tracing::debug!(webhook, host, event, why, tries, "a webhook fails again"),
        Verdict::Refused => {
            tracing::warn!(webhook, host, event, why, "a webhook's receiver refuses an event; it is given up")
        }
        Verdict::Expired => {
            tracing::warn!(webhook, host, event, why, tries, "a webhook was not delivered; it is given up")
        }
    }
}

/// What a try came to, and in words.
fn judged(answer: Result<http::Response<bytes::Bytes>, Fault>, wall: Duration) -> (Ended, String) {
    match answer {
        Ok(answer) => {
            let status = answer.status();
            let asked = dialect::errors::retry_after(answer.headers(), wall);
            let more = if status.is_redirection() {
                ", and no redirect is followed: write where it leads as `url`"
            } else {
                ""
            };
            ((Some(status.as_u16()), asked), format!("status {}{more}", status.as_u16()))
        }
        Err(fault) => ((None, None), fault.message.to_string()),
    }
}

/// The headers of a try at that time, since the Unix epoch in seconds.
fn headers(hook: &Webhook, message: &Message, timestamp: u64) -> HeaderMap {
    let signature = signature(&hook.key, &message.id, timestamp, &message.body);
    let values = [
        ("webhook-id", HeaderValue::from_str(&message.id)),
        ("webhook-timestamp", Ok(HeaderValue::from(timestamp))),
        ("webhook-signature", HeaderValue::from_str(&signature)),
    ];
    let sound =
        |(name, value): (&'static str, Result<HeaderValue, _>)| Some((HeaderName::from_static(name), value.ok()?));
    values.into_iter().filter_map(sound).collect()
}
