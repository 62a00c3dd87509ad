//! Whether another model finds that two questions are the same: said already on somebody else's behalf, or asked for.
//!
//! Callers whose questions and matches are the same share one call. It runs in a task of its worker's own, for it is no one
//! caller's: who leaves takes nobody's verdict along.

use std::time::Instant;

use base::{Endpoint, Refusal};
use config::Verify;
use rules::cache_key::KeyBuilder;
use rules::shares::Priority;
use state::answers::Key;

use super::verify::{put, said};
use super::{Consult, MOST_ROUNDS, Own, had_the_time, shaped, unfit};
use crate::cache::shared_call::CallerGuard;
use crate::semantic_cache::questions::Asked;
use crate::semantic_cache::verdicts::{Bearer, Word};
use crate::worker::set_off;

impl Consult<'_> {
    /// Whether another model finds that what is asked is the `known` question. `patience` is when nobody who begins now waits
    /// for it any more.
    pub(super) async fn verdict(
        &self,
        verify: &Verify,
        asked: &mut Asked,
        known: &str,
        patience: Instant,
    ) -> Result<bool, Refusal> {
        let live = &self.worker.live;
        let key = self.verdict_key(verify, &asked.text, known);
        let allotted = patience.saturating_duration_since(live.clock.now());
        for round in 1..=MOST_ROUNDS {
            let (mut rider, own) = live.verdicts.attend(key, patience, allotted, round == MOST_ROUNDS);
            let is_own = own.is_some();
            if let Some(bearer) = own {
                Own::of(self, patience).bear(bearer, verify, &asked.text, known);
            }
            asked.awaited = Some(rider.awaited());
            match rider.word().await {
                Word::Said(is_same) => {
                    asked.awaited = None;
                    return Ok(is_same);
                }
                // Who has waited for two calls in vain asks for no third.
                Word::Refused { refusal, ends } if is_own || round > 1 || had_the_time(&refusal, ends, patience) => {
                    return Err((*refusal).clone());
                }
                Word::Refused { .. } | Word::PassedOn => {}
            }
        }
        Err(unfit())
    }

    /// All that decides a verdict, and how soon it comes: a call of `batch` waits longer for its place at an upstream.
    fn verdict_key(&self, verify: &Verify, question: &str, known: &str) -> Key {
        let builder = KeyBuilder::new("verdict")
            .part(verify.route.as_bytes())
            .part(&verify.min_score.to_le_bytes())
            .option(self.owner.map(|owner| owner.as_bytes()))
            .part(&[u8::from(self.client.priority == Priority::Batch)]);
        Key(builder.part(question.as_bytes()).part(known.as_bytes()).finish())
    }

    /// Asks for it.
    async fn verified(&self, verify: &Verify, asked: &str, known: &str, until: Instant) -> Result<bool, Refusal> {
        let route = self.route(&verify.route)?;
        let endpoint = if route.endpoints.contains(&Endpoint::Rerank) { Endpoint::Rerank } else { Endpoint::Chat };
        let ask = shaped(route, endpoint, put(endpoint, &route.model, asked, known).to_string())?;
        let (answer, _) = self.send(route, &ask, until).await?;
        let said = said(endpoint, &answer.body).ok_or_else(unfit)?;
        Ok(said.is_same(verify.min_score))
    }
}

impl Own {
    /// Sends the call on its way, which goes on while anybody waits for it.
    fn bear(self, bearer: Bearer, verify: &Verify, asked: &str, known: &str) {
        let (shared_call, verify) = (bearer.shared_call(), verify.clone());
        let (asked, known) = (asked.to_owned(), known.to_owned());
        // It has no caller of its own: everybody who waits has a seat.
        drop(CallerGuard(shared_call.clone()));
        set_off(async move {
            let said = async {
                bearer.bring(self.consult().verified(&verify, &asked, &known, self.deadline).await);
            };
            tokio::select! {
                // A model that does not answer in time is to be known for it, also by the last who leaves.
                biased;
                () = said => {}
                () = shared_call.abandoned() => {}
            }
        });
    }
}
