//! A call whose answer may be there already, or be awaited by others.

use std::sync::Arc;
use std::time::Instant;

use base::{Code, Outcome, Refusal};
use config::{Client, Route};
use http::HeaderMap;

use super::seek::Seeker;
use super::{Answered, Connection, End, Errands, Told, internal, keep};
use crate::cache::flights::Rider;
use crate::consult::{self, Consult};
use crate::degrade::{self, Softened};
use crate::live::Live;
use crate::recall::{self, ByMeaning, Comparable, Expired, Found, Recalled, Wish};
use crate::running::Running;
use crate::semantic_cache::questions::Asked;
use crate::shape::Shaped;
use crate::trail::Trail;
use crate::worker::Worker;

/// What a look-up is told that finds nothing.
pub fn miss(route: &Route) -> Refusal {
    if route.cache.is_on() {
        return Refusal::new(Code::CacheMiss, "nothing is stored that answers this question; make the call");
    }
    let why = format!(
        "the route `{}` has no cache (`cache.mode` is off), so nothing is ever found; make the call",
        route.name
    );
    Refusal::new(Code::CacheMiss, why)
}

/// All that is known of it.
pub struct Cacheable {
    pub running: Arc<Running>,
    pub route: Arc<Route>,
    pub client: Arc<Client>,
    pub shaped: Shaped,
    pub errands: Errands,
    pub deadline: Instant,
    pub wish: Wish,
    /// What it asks, where another call may have asked the same in other words.
    pub asked: Option<Asked>,
}

/// One that goes upstream for all that wait for the same: all that the rest of its story needs.
pub struct Lead {
    pub worker: Arc<Worker>,
    pub call: Cacheable,
    /// An expired answer, for the case that the upstreams fail.
    pub stale: Option<Expired>,
    pub rider: Rider,
    /// Purges there had been when it began.
    pub purges: u64,
}

impl Cacheable {
    /// Finds out what it asks, where another call may have asked the same in other words.
    ///
    /// # Errors
    /// `invalid_request` for a header that cannot be read.
    pub fn read_question(&mut self, headers: &HeaderMap, trail: &mut Trail) -> Result<(), Refusal> {
        let Self { running, route, shaped, errands, wish, .. } = &*self;
        let comparable = Comparable { running, route, ask: &shaped.ask, first: errands.first, wish };
        self.asked = comparable.asked(headers, trail)?;
        Ok(())
    }

    /// Who asks upstreams for it; `None` where its route has no state.
    pub fn seeker<'a>(&'a self, worker: &'a Arc<Worker>) -> Option<Seeker<'a>> {
        let Self { running, route, client, errands, deadline, .. } = self;
        Some(Seeker { worker, on: running.on(route)?, client, errands, deadline: *deadline })
    }

    /// Softens a failure of the upstreams where that is wished.
    pub fn soften(&self, refusal: Refusal, stale: Option<Expired>, live: &Live, trail: &mut Trail) -> Softened<Found> {
        let wished = degrade::wished(&self.route, &self.client);
        let old = || stale?.served(live, &self.route, &self.wish);
        degrade::soften(refusal, wished, &self.shaped.ask, old, trail)
    }

    /// Finds its answer, or waits for another's, or goes upstream: with others, or alone.
    pub async fn told(mut self, connection: &Connection, trail: &mut Trail) -> Result<Told, End> {
        self.wish.passenger.allotted = self.deadline.saturating_duration_since(trail.began());
        let (recalled, stale) = self.recall(connection, trail).await?;
        let failed = match recalled {
            Recalled::Found(found) => return Ok(self.found(connection, found)),
            Recalled::Landed(landed, body) => return Ok(Told::Shared(landed, body, self.wish.passenger.form)),
            Recalled::Begun(rider, head) => return Ok(Told::Rides(rider, head)),
            Recalled::Leads(rider) => {
                let worker = connection.worker.clone();
                let purges = worker.live.purges.count();
                return Ok(Told::Leads(Box::new(Lead { worker, call: self, stale, rider, purges })));
            }
            Recalled::Failed(refusal) => refusal,
            Recalled::Alone => {
                let seeker = self.seeker(&connection.worker).ok_or_else(internal)?;
                match seeker.seek(&self.shaped, trail).await {
                    Ok(won) => {
                        trail.cache_id = None;
                        let Self { shaped, route, .. } = self;
                        return Ok(Told::Won(Box::new(Answered { won, ask: shaped.ask, route })));
                    }
                    Err(refusal) => refusal,
                }
            }
        };
        match self.soften(failed, stale, &connection.worker.live, trail) {
            Softened::Answer(body) => Ok(Told::Whole(body, Outcome::UpstreamDegraded)),
            Softened::Stale(found) => Ok(Told::Kept(Box::new(found), self.running, self.route)),
            Softened::Error(refusal) => Err(refusal.into()),
        }
    }

    /// Looks for its answer: to the very call, and where there is none, to the same question in other words.
    async fn recall(
        &mut self,
        connection: &Connection,
        trail: &mut Trail,
    ) -> Result<(Recalled, Option<Expired>), Refusal> {
        let Self { running, route, client, deadline, wish, asked, .. } = self;
        let (request_id, trace) = (trail.request_id.clone(), trail.tries.parent.clone());
        let (worker, owner, kb_version) = (&connection.worker, wish.owner.as_ref(), &wish.kb_version);
        let (request_id, trace) = (&request_id, trace.as_deref());
        let (deadline, tells_near) = (*deadline, trail.content.is_some());
        let consult = Consult { worker, running, client, owner, kb_version, request_id, trace, deadline, tells_near };
        // Boxed, and begun only where nothing else is found.
        let by_meaning =
            asked.as_mut().map(|asked| -> ByMeaning<'_> { Box::pin(consult::look(&consult, route, asked)) });
        recall::recall(&worker.live, wish, by_meaning, deadline, trail).await
    }

    /// Looks whether its answer is there, and goes no further.
    pub async fn looked_up(mut self, connection: &Connection, trail: &mut Trail) -> Result<Told, End> {
        self.wish.names.replay = None;
        let Self { running, route, client, deadline, wish, asked, .. } = &mut self;
        let (request_id, trace) = (trail.request_id.clone(), trail.tries.parent.clone());
        let (worker, owner, kb_version) = (&connection.worker, wish.owner.as_ref(), &wish.kb_version);
        let (request_id, trace) = (&request_id, trace.as_deref());
        let (deadline, tells_near) = (*deadline, trail.content.is_some());
        let consult = Consult { worker, running, client, owner, kb_version, request_id, trace, deadline, tells_near };
        let by_meaning =
            asked.as_mut().map(|asked| -> ByMeaning<'_> { Box::pin(consult::look(&consult, route, asked)) });
        match recall::lookup(&worker.live, wish, by_meaning, trail).await {
            Some(found) => Ok(self.found(connection, found)),
            None => Err(miss(route).into()),
        }
    }

    /// Its answer is there.
    pub fn found(self, connection: &Connection, found: Found) -> Told {
        if let (Some(promise), true) = (&self.wish.names.replay, found.how != base::Cached::Replay) {
            keep::served(&connection.worker.live, &self.route, promise, &found);
        }
        Told::Kept(Box::new(found), self.running, self.route)
    }
}
