//! A call whose answer may be there already, or be awaited by others.

use std::sync::Arc;
use std::time::Instant;

use base::Outcome;
use config::{Client, Route};

use super::{Answered, Connection, End, Errands, Told, answers, internal, keep, lead, seek};
use crate::degrade::Softened;
use crate::recall::{self, Found, Recalled, Wish};
use crate::running::Running;
use crate::shape::Shaped;
use crate::trail::Trail;

/// All that is known of it.
pub struct Cacheable {
    pub running: Arc<Running>,
    pub route: Arc<Route>,
    pub client: Arc<Client>,
    pub shaped: Shaped,
    pub errands: Errands,
    pub deadline: Instant,
    pub wish: Wish,
}

impl Cacheable {
    /// Finds its answer, or waits for another's, or goes upstream: with others, or alone.
    pub async fn told(mut self, connection: &Connection, trail: &mut Trail) -> Result<Told, End> {
        let live = &connection.worker.live;
        self.wish.passenger.allotted = self.deadline.saturating_duration_since(trail.began());
        let (recalled, stale) = recall::recall(live, &self.wish, self.deadline, trail).await?;
        let owners = (&*self.route, &*self.client);
        let failed = match recalled {
            Recalled::Found(found) => return Ok(self.found(connection, found)),
            Recalled::Landed(landed, body) => return Ok(Told::Shared(landed, body, self.wish.passenger.form)),
            Recalled::Begun(rider, head) => return Ok(Told::Rides(rider, head)),
            Recalled::Leads(rider) => {
                let Self { running, route, client, shaped, errands, deadline, wish } = self;
                let worker = connection.worker.clone();
                let lead = lead::Lead { worker, running, client, route, shaped, errands, deadline, wish, stale, rider };
                return Ok(Told::Leads(Box::new(lead)));
            }
            Recalled::Failed(refusal) => refusal,
            Recalled::Alone => {
                let state = self.running.state(&self.route).ok_or_else(internal)?;
                let caller = (&*self.client, &self.errands, self.deadline);
                let route = (&self.running, &self.route, state);
                match seek(&connection.worker, route, caller, &self.shaped, trail).await {
                    Ok(won) => {
                        let Self { shaped, route, .. } = self;
                        return Ok(Told::Won(Box::new(Answered { won, ask: shaped.ask, route })));
                    }
                    Err(refusal) => refusal,
                }
            }
        };
        let old = (&self.wish, stale);
        match answers::soften(failed, owners, &self.shaped.ask, old, (live, trail)) {
            Softened::Answer(body) => Ok(Told::Whole(body, Outcome::UpstreamDegraded)),
            Softened::Stale(found) => Ok(Told::Kept(Box::new(found), self.running, self.route)),
            Softened::Error(refusal) => Err(refusal.into()),
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
