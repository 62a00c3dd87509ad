//! How upstreams are asked for the answer to a call, once that is understood.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Instant;

use base::{Decision, Refusal};
use config::Client;
use dialect::Ask;

use super::Errands;
use crate::mirror::Copy;
use crate::pursue::{Call, Won, pursue};
use crate::running::OnRoute;
use crate::shape::Shaped;
use crate::trail::Trail;
use crate::worker::Worker;
use crate::{batch, mirror, plan, stake};

/// On whose behalf upstreams are asked, and how: the same whatever part of a call is sent.
#[derive(Clone, Copy)]
pub struct Seeker<'a> {
    pub worker: &'a Arc<Worker>,
    pub on: OnRoute<'a>,
    pub client: &'a Client,
    pub errands: &'a Errands,
    pub deadline: Instant,
}

impl Seeker<'_> {
    /// An upstream's answer to a call, for which nothing has been put aside so far.
    pub async fn seek_upstream(&self, shaped: &Shaped, trail: &mut Trail) -> Result<Won, Refusal> {
        let parts = batch::parts(&shaped.ask, self.on.route)?;
        let sent = if parts.is_empty() { from_ref(&shaped.ask) } else { &parts };
        stake::stake(self.on, self.client, self.errands.first, sent, trail).await?;
        self.ask_upstream(shaped, &parts, trail).await
    }

    /// Asks upstreams for a call for which everything has been put aside, whole or in parts.
    pub async fn ask_upstream(&self, shaped: &Shaped, parts: &[Ask], trail: &mut Trail) -> Result<Won, Refusal> {
        let Self { worker, on, client, errands, deadline } = *self;
        let Shaped { ask, too_small } = shaped;
        let request_id = trail.request_id.clone();
        let Errands { is_idempotent, first, .. } = *errands;
        let errand = errands.errand(ask, &request_id);
        let permit = trail.permit.as_ref();
        let call = Call { worker, client, permit, on, errand, is_idempotent, first, deadline };
        if let Some(mirror) = plan::mirror(on.route, client, is_idempotent, &worker.dice).filter(|_| parts.is_empty()) {
            let to = on.route.upstreams.get(mirror.to);
            let (worker, running, route) = (worker.clone(), on.running.clone(), on.route.clone());
            let (ask, request_id, passed) = (ask.clone(), request_id.clone(), errands.passed.clone());
            let copy = Copy { worker, running, route, ask, request_id, passed };
            trail.tries.note_to(Decision::Mirrored, to.filter(|_| mirror::send(copy, mirror)));
        }
        if parts.is_empty() {
            let plan = plan::plan(on, first, too_small, worker.live.clock.now(), &worker.dice);
            return pursue(&call, plan, &mut trail.tries).await;
        }
        Box::pin(batch::pursue_parts(&call, parts, &mut trail.tries)).await
    }
}
