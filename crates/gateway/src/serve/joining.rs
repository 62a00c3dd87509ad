//! Small embeddings calls of one route that arrive together, as one upstream call (`batch.wait`).
//!
//! Whoever comes first leads; its tries and its deadline are those of the joint call. What each uses is put aside
//! before it joins and settled by its own share, so limits, quotas and records stay each caller's own.

use std::slice::from_ref;
use std::sync::Arc;

use base::{AttemptOutcome, Refusal};
use dialect::{Ask, View, embeddings};
use rules::cache_key::KeyBuilder;
use rules::pursuit::{LEAST, deadline_exceeded};
use state::answers::Key;
use tokio::sync::oneshot;

use super::internal;
use super::seek::Seeker;
use super::vectors::Gathering;
use crate::attempt::Landed;
use crate::cache::flights::Passenger;
use crate::cache::shared_call::Pledge;
use crate::embeddings::Carrier;
use crate::embeddings::joining::{Follower, Joined, Lead, Member, Merged, Place, SMALL, Word};
use crate::pursue::Won;
use crate::running::OnRoute;
use crate::shape::Shaped;
use crate::trail::{Rest, Trail};
use crate::worker::set_off;
use crate::{batch, recall, stake};

/// Inputs of one call where nobody knows how many an upstream takes.
const MOST_INPUTS: usize = 256;

impl Gathering<'_> {
    /// Asks upstreams for these inputs: with those of other calls where the route waits for such, else alone.
    pub async fn bring_with_others(&self, sent: &Shaped, trail: &mut Trail) -> Result<Won, Refusal> {
        let Seeker { worker, on, client, errands, deadline } = self.seeker;
        let (ask, route) = (&sent.ask, on.route);
        let most = batch::most(ask, route).unwrap_or(MOST_INPUTS);
        let is_small = matches!(&ask.view, View::Embeddings(view) if view.inputs < most) && ask.body.len() <= SMALL;
        let has_time = worker.live.clock.now() + route.wait + LEAST < deadline;
        let key = (is_small && has_time && !route.wait.is_zero()).then(|| self.key(ask)).flatten();
        let Some(key) = key else { return self.seeker.seek_upstream(sent, trail).await };
        stake::stake(on, client, errands.first, from_ref(ask), trail).await?;
        let passenger = self.passenger(trail);
        let carrier = Carrier { passenger: &passenger, shared_call: self.shared_call };
        match worker.live.joint_calls.join(key, ask, most, carrier) {
            Place::Leads(lead) => self.lead(lead, sent, trail).await,
            Place::Follows(follower) => self.follow(follower, sent, &passenger, trail).await,
        }
    }

    /// What all calls of one joint call have in common; `None` for a call that must go alone.
    fn key(&self, ask: &Ask) -> Option<Key> {
        let Seeker { on: OnRoute { running, route, .. }, client, errands, .. } = self.seeker;
        let branch =
            errands.first.and_then(|first| route.upstreams.get(first)).map(|upstream| upstream.name.as_bytes());
        // Across a reload a call goes with those alone whom the same upstreams will answer.
        let upstream = |upstream: &std::sync::Arc<config::Upstream>| {
            [upstream.label.to_string(), upstream.space.as_deref().unwrap_or_default().to_owned()]
        };
        let upstreams: Vec<String> = route.upstreams.iter().flat_map(upstream).collect();
        let builder = KeyBuilder::new("company")
            .part(running.snapshot.general.environment.as_bytes())
            .part(route.name.as_bytes())
            .option(branch)
            .list(upstreams.iter().map(String::as_bytes))
            // Batch waits longer for its place at an upstream: online calls would wait with it.
            .part(client.priority.as_str().as_bytes())
            .content(|sink| embeddings::joint_call(ask, sink));
        builder.ok().map(|builder| Key(builder.finish()))
    }

    /// Everything has been put aside already.
    async fn alone(&self, sent: &Shaped, trail: &mut Trail) -> Result<Won, Refusal> {
        self.seeker.ask_upstream(sent, &[], trail).await
    }

    async fn lead(&self, lead: Lead<'_>, sent: &Shaped, trail: &mut Trail) -> Result<Won, Refusal> {
        trail.tries.pause();
        // Whether it is full or the time is over: it goes.
        let _ = tokio::time::timeout(self.seeker.on.route.wait, lead.full()).await;
        trail.tries.wait_ends();
        let members = lead.close();
        let asks: Vec<&Ask> = std::iter::once(&sent.ask).chain(members.iter().map(|member| &member.ask)).collect();
        let merged = if members.is_empty() { None } else { embeddings::merge(&asks) };
        let Some(merged) = merged else { return self.alone(sent, trail).await };
        let merged = Shaped { ask: merged, too_small: sent.too_small.clone() };
        let first = trail.tries.count();
        match self.alone(&merged, trail).await {
            Ok(won) => {
                trail.tries.end(AttemptOutcome::Ok, Some(200));
                let Won { landed: Landed::Whole(answer), upstream, shown, .. } = won else {
                    return Err(internal());
                };
                let attempts = trail.tries.ended_since(first);
                let (from, label) = (upstream.clone(), shown.clone());
                let merged = Merged { ask: merged.ask, answer, upstream: from, shown: label, attempts };
                let joined = Arc::new(Joined::new(&asks, merged));
                tell(members, |at| Word::Answered(joined.clone(), at + 1));
                let piece = joined.piece(0, &sent.ask).ok_or_else(internal)?;
                Ok(Won { landed: Landed::Whole(piece), upstream, shown, visit: None, is_counted: false })
            }
            Err(refusal) => {
                let attempts = trail.tries.ended_since(first);
                if recall::is_about_the_call(&refusal) {
                    tell(members, |_| Word::Apart(attempts.clone()));
                    return self.alone(sent, trail).await;
                }
                let shared = Arc::new(refusal.clone());
                tell(members, |_| Word::Refused(shared.clone(), attempts.clone()));
                Err(refusal)
            }
        }
    }

    async fn follow(
        &self,
        follower: Follower,
        sent: &Shaped,
        passenger: &Passenger,
        trail: &mut Trail,
    ) -> Result<Won, Refusal> {
        let leader = follower.leader.clone();
        trail.tries.pause();
        let word = self.word(follower, trail).await;
        trail.tries.wait_ends();
        match word? {
            Some(Word::Answered(joined, at)) => {
                trail.tries.share(&joined.merged.attempts);
                let piece = joined.piece(at, &sent.ask).ok_or_else(internal)?;
                let (upstream, shown) = (joined.merged.upstream.clone(), joined.merged.shown.clone());
                Ok(Won { landed: Landed::Whole(piece), upstream, shown, visit: None, is_counted: false })
            }
            Some(Word::Refused(refusal, attempts)) => {
                trail.tries.share(&attempts);
                if recall::is_leaders_own(&refusal, &leader, passenger) {
                    return self.alone(sent, trail).await;
                }
                let is_of_one_client = leader.client == passenger.client;
                Err(if is_of_one_client { (*refusal).clone() } else { in_own_words(&refusal) })
            }
            Some(Word::Apart(attempts)) => {
                trail.tries.share(&attempts);
                self.alone(sent, trail).await
            }
            None => self.alone(sent, trail).await,
        }
    }

    /// What the joint call has come to; nothing where its leader is gone.
    async fn word(&self, follower: Follower, trail: &mut Trail) -> Result<Option<Word>, Refusal> {
        let Follower { word, seat, .. } = follower;
        // What has been asked for is paid for, also by a caller who leaves: as long as others wait for the answer.
        let _pledge = Pledge::make(self.shared_call);
        let mut seat = seat;
        let mut word = word;
        let mut over = std::pin::pin!(tokio::time::sleep_until(self.seeker.deadline.into()));
        loop {
            tokio::select! {
                biased;
                word = &mut word => {
                    let word = word.ok();
                    let goes_alone = !matches!(word, Some(Word::Answered(..)));
                    // Nothing new begins for a caller who has left.
                    return if goes_alone && self.shared_call.is_unwanted() { Err(deadline_exceeded()) } else { Ok(word) };
                }
                () = self.shared_call.unwanted(), if seat.is_some() => seat = None,
                () = &mut over => {
                    let (owed, rest) = oneshot::channel();
                    trail.owed = Some(owed);
                    set_off(pays(word, rest));
                    return Err(deadline_exceeded());
                }
            }
        }
    }
}

/// Waits for what comes of a joint call that goes on for others: whose time is over pays its share of the answer too.
/// No longer than that call's own deadline.
async fn pays(word: oneshot::Receiver<Word>, rest: oneshot::Receiver<Rest>) {
    let word = word.await;
    let Ok(mut rest) = rest.await else { return };
    match word {
        Ok(Word::Answered(joined, at)) => {
            rest.tried(&joined.merged.attempts);
            if let Some(used) = joined.used(at) {
                rest.used(&joined.merged.upstream, used);
            }
        }
        Ok(Word::Refused(_, attempts) | Word::Apart(attempts)) => rest.tried(&attempts),
        Err(_) => {}
    }
}

/// A failure as another client may hear of it: an upstream's words may hold what the leader, or a third, has asked.
fn in_own_words(refusal: &Refusal) -> Refusal {
    let message = "no upstream has answered this call, which went as one with others; send it again";
    Refusal { retry_after: refusal.retry_after, ..Refusal::new(refusal.code, message) }
}

/// Tells each member; one who has left needs no word.
fn tell(members: Vec<Member>, word: impl Fn(usize) -> Word) {
    for (at, member) in members.into_iter().enumerate() {
        let _ = member.word.send(word(at));
    }
}
