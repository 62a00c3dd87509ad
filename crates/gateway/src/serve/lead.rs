//! A call that others may wait for: the rest of its story, in a task of its worker's own.

use std::future::poll_fn;
use std::sync::Arc;

use base::{AttemptOutcome, Code, Outcome, Refusal};
use bytes::Bytes;
use dialect::images;
use http::{HeaderMap, HeaderValue, Response, header};
use tokio::sync::oneshot;

use super::cacheable::{Cacheable, Lead};
use super::{Connection, Gone, JSON, answers, keep, shutting_down};
use crate::attempt::{Landed, Opened};
use crate::cache::flights::{Broken, End, Head};
use crate::cache::forms::{Gathering, Whole};
use crate::caller::socket::Presence;
use crate::degrade::Softened;
use crate::pursue::Won;
use crate::recall::{self, Expired};
use crate::refuse;
use crate::relay::{Passage, Relay};
use crate::reply::Reply;
use crate::reply::flight_body::FlightBody;
use crate::trail::Trail;
use crate::worker::{Worker, set_off};

/// What the leader gets.
enum Answer {
    Whole(Response<Reply>),
    /// The head of what comes by the flight, and whether that is a stream of events.
    Begun(HeaderMap, bool),
}

/// Leads a flight: sends it on its way, and waits for the leader's own answer.
pub async fn lead(connection: &Connection, lead: Lead, mut trail: Trail) -> Result<Response<Reply>, Gone> {
    let Lead { worker, call, stale, rider, purges } = lead;
    trail.departed = Some(rider.flight.departed.clone());
    let (tell, told) = oneshot::channel();
    let flight = Flight { worker, call, stale, flight: rider.flight.clone(), purges };
    set_off(async move {
        let underway = flight.flight.clone();
        let cockpit = Cockpit(flight);
        tokio::select! {
            biased;
            () = underway.abandoned() => {}
            () = cockpit.0.fly(trail, tell) => {}
        }
    });
    match told.await {
        Ok(Answer::Whole(response)) => {
            connection.presence.idle();
            Ok(response)
        }
        Ok(Answer::Begun(headers, is_events)) => {
            connection.presence.answering();
            let ride = FlightBody::new(rider, None, connection.presence.clone(), is_events);
            let mut response = Response::new(Reply::Flight(Box::new(ride)));
            *response.headers_mut() = headers;
            Ok(response)
        }
        // The task is gone without a word: it has written down what it could.
        Err(_) => Err(Gone),
    }
}

struct Flight {
    worker: Arc<Worker>,
    call: Cacheable,
    stale: Option<Expired>,
    flight: Arc<crate::cache::flights::Flight>,
    purges: u64,
}

/// Whatever becomes of the task, nobody waits for ever.
struct Cockpit(Flight);

impl Drop for Cockpit {
    fn drop(&mut self) {
        self.0.flight.land(End::PassedOn);
        self.0.worker.live.flights.close(&self.0.flight);
    }
}

impl Flight {
    async fn fly(&self, mut trail: Trail, tell: oneshot::Sender<Answer>) {
        let Some(seeker) = self.call.seeker(&self.worker) else {
            let _ = tell.send(Answer::Whole(self.refused(super::internal(), trail)));
            return;
        };
        let mut cut = self.worker.per_worker.cut();
        let sought = tokio::select! {
            biased;
            sought = seeker.seek(&self.call.shaped, &mut trail) => sought,
            _ = cut.wait_for(|cut| *cut) => Err(shutting_down()),
        };
        match sought {
            Ok(Won { landed: Landed::Whole(answer), upstream, shown, is_counted, .. }) => {
                trail.answered_by(&upstream);
                let _ = tell.send(Answer::Whole(self.whole(answer, shown, is_counted, trail)));
            }
            Ok(Won { landed: Landed::Stream(opened), upstream, shown, visit, .. }) => {
                trail.answered_by(&upstream);
                let image = || images::worth(std::iter::once(&*upstream.sent));
                let prompt_guess = self.call.shaped.ask.prompt_estimate(image);
                let passage = Passage {
                    worker: self.worker.clone(),
                    upstream,
                    visit,
                    timeout: self.call.route.timeout,
                    presence: Presence::default(),
                    cut,
                    prompt_guess,
                };
                let (head, headers) = self.head(&opened, shown, &passage.upstream.label, &mut trail);
                let _ = tell.send(Answer::Begun(headers, head.is_events));
                self.flight.begin(head.clone());
                Box::pin(self.stream(*opened, passage, head, trail)).await;
            }
            Err(refusal) => {
                // A leader who has left needs none.
                let _ = tell.send(Answer::Whole(self.refused(refusal, trail)));
            }
        }
    }

    /// Nobody has answered.
    fn refused(&self, refusal: Refusal, mut trail: Trail) -> Response<Reply> {
        // Too long for the upstream's model is its word too: what is too long for the route has not come so far.
        if refusal.code.row().outcome == Outcome::CallerRefused || refusal.code == Code::ContextLengthExceeded {
            keep::refusal(&self.keeper(), &refusal);
        }
        self.over(End::Refused(Arc::new(refusal.clone())));
        let live = &self.worker.live;
        match self.call.soften(refusal, self.stale.clone(), live, &mut trail) {
            Softened::Answer(body) => answers::own(body, Outcome::UpstreamDegraded, trail),
            Softened::Stale(found) => answers::kept(found, &self.call.running, &self.call.route, live, trail),
            Softened::Error(refusal) => refuse::refuse(&refusal, trail),
        }
    }

    /// Everything came at once.
    fn whole(
        &self,
        answer: dialect::Answer,
        shown: HeaderValue,
        is_counted: bool,
        mut trail: Trail,
    ) -> Response<Reply> {
        let ask = &self.call.shaped.ask;
        let is_stream = answer.is_stream;
        let (body, head) = answers::whole(answer, shown.clone(), is_counted, ask, &mut trail);
        let took = self.worker.live.clock.now() - trail.began();
        let (usage, cost) = trail.used_so_far();
        let content_type = head.content_type.clone();
        let whole = if is_stream {
            let mut gathering = Gathering::of(ask);
            gathering.take(&body);
            gathering.finish(ask, usage.unwrap_or_default())
        } else {
            Some(Whole::of(ask, body.clone()))
        };
        let answer = keep::Complete {
            given: Some(body.clone()),
            content_type,
            whole,
            shown,
            upstream: trail.record.upstream.clone().unwrap_or_default(),
            usage,
            cost,
            took,
        };
        let landed = keep::answer(&self.keeper(), answer);
        trail.cache_id = landed.id;
        self.over(End::Landed(Arc::new(landed)));
        let mut response = Response::new(Reply::whole(body));
        *response.headers_mut() = trail.conclude(head, Some(AttemptOutcome::Ok), Outcome::Ok);
        response
    }

    /// The head of an answer that comes piece by piece: as the flight tells it, and as the leader gets it.
    fn head(&self, opened: &Opened, shown: HeaderValue, label: &str, trail: &mut Trail) -> (Head, HeaderMap) {
        trail.record.status = 200;
        let is_events = opened.raw.is_none();
        let is_of_key = recall::is_of_key(&self.call.route, self.call.errands.first, label);
        trail.cache_id = trail.cache_id.filter(|_| is_of_key);
        let id = trail.cache_id;
        let headers = answers::begun(&shown, opened.raw.as_ref(), trail);
        let content_type = headers.get(header::CONTENT_TYPE).cloned().unwrap_or(JSON);
        (Head { shown, content_type, is_events, id }, headers)
    }

    /// The rest of an answer that comes piece by piece.
    async fn stream(&self, opened: Opened, passage: Passage, head: Head, trail: Trail) {
        let (upstream, began) = (passage.upstream.clone(), trail.began());
        let mut cut = passage.cut.clone();
        let mut relay = Relay::new(opened, passage, trail);
        let mut gathering = Gathering::of(&self.call.shaped.ask);
        let mut is_over = false;
        loop {
            if !is_over {
                tokio::select! {
                    biased;
                    () = self.flight.demand() => {}
                    _ = cut.wait_for(|cut| *cut) => {}
                }
            }
            let piece = match poll_fn(|cx| relay.poll_bytes(cx)).await {
                Some(Ok(piece)) => piece,
                Some(Err(_)) => Bytes::new(),
                None if is_over => return,
                None => Bytes::new(),
            };
            if is_over {
                continue;
            }
            gathering.take(&piece);
            if let Some((outcome, refusal)) = relay.broken() {
                let refusal = crate::cache::flights::broken_off(refusal.code);
                self.flight.push_last(&piece, End::Broken(Arc::new(Broken { outcome: *outcome, refusal })));
            } else if relay.is_done() {
                let usage = relay.usage();
                gathering.unshown_usage(relay.unshown_usage());
                let answer = keep::Complete {
                    given: self.flight.gathered(&piece),
                    content_type: head.content_type.clone(),
                    whole: gathering.finish(&self.call.shaped.ask, usage),
                    shown: head.shown.clone(),
                    upstream: upstream.label.clone(),
                    usage: Some(usage),
                    cost: upstream.price.as_ref().and_then(|price| price.of(usage)),
                    took: self.worker.live.clock.now() - began,
                };
                let landed = keep::answer(&self.keeper(), answer);
                self.flight.push_last(&piece, End::Landed(Arc::new(landed)));
            } else {
                self.flight.push(&piece);
                continue;
            }
            is_over = true;
            self.worker.live.flights.close(&self.flight);
        }
    }

    fn over(&self, end: End) {
        self.flight.land(end);
        self.worker.live.flights.close(&self.flight);
    }

    fn keeper(&self) -> keep::Keeper<'_> {
        keep::Keeper {
            live: &self.worker.live,
            running: &self.call.running,
            route: &self.call.route,
            wish: &self.call.wish,
            asked: self.call.asked.as_ref(),
            flight: &self.flight,
            first: self.call.errands.first,
            purges: self.purges,
        }
    }
}
