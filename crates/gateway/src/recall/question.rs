//! What a call asks, where another call may have asked the same in other words.

use std::convert::Infallible;

use base::{Decision, Endpoint, Refusal};
use config::{MultiTurn, Route, Semantic};
use dialect::{Ask, chat};
use http::HeaderMap;
use semantic::index::Partition;

use super::Wish;
use super::known_by::surroundings;
use crate::cache::sources;
use crate::caller::headers;
use crate::consult;
use crate::running::Running;
use crate::semantic_cache::questions::Asked;
use crate::trail::Trail;

/// A call whose question may have been asked before in other words.
#[derive(Clone, Copy, Debug)]
pub struct Comparable<'a> {
    /// The configuration that it goes by.
    pub running: &'a Running,
    /// Its route.
    pub route: &'a Route,
    /// What goes out.
    pub ask: &'a Ask,
    /// The upstream that the route's split has chosen.
    pub first: Option<usize>,
    /// What it wants of the caches.
    pub wish: &'a Wish,
}

impl Comparable<'_> {
    /// What the call asks; `None` where its answer is not shared by meaning: by its route, its caller, or what it is. Notes
    /// in the trail that the question which the caller names stands elsewhere.
    ///
    /// # Errors
    /// `invalid_request` for a header that cannot be read.
    pub fn asked(&self, headers: &HeaderMap, trail: &mut Trail) -> Result<Option<Asked>, Refusal> {
        let Self { route, ask, wish, .. } = *self;
        let query = headers::query(headers)?;
        let Some(terms) = route.cache.semantic.as_deref() else { return Ok(None) };
        // Who asks anew looks for nothing, and yet the new answer takes the place of the old one.
        if wish.names.answer.is_none() || ask.endpoint != Endpoint::Chat {
            return Ok(None);
        }
        let Some(question) = question(route, terms, ask, query.as_deref()) else { return Ok(None) };
        if !question.is_in_message {
            trail.note(Decision::QueryElsewhere);
            trail.is_query_elsewhere = true;
        }
        let is_turned_down = question.has_other_turns && terms.multi_turn == MultiTurn::Bypass;
        let is_free = question.temperature.is_some_and(|temperature| temperature > terms.max_temperature);
        if is_turned_down || is_free {
            return Ok(None);
        }
        let partition = self.partition(terms, &question);
        Ok(partition.map(|partition| Asked::new(partition, &question.text)))
    }

    /// All that decides the answer beside the question, and by what questions are compared.
    fn partition(&self, terms: &Semantic, question: &chat::Question) -> Option<Partition> {
        let Self { running, route, ask, first, wish } = *self;
        let snapshot = &running.snapshot;
        let embedding = snapshot.route_named(&terms.route)?;
        let models: smallvec::SmallVec<[&[u8]; 4]> =
            embedding.upstreams.iter().map(|upstream| upstream.label.as_bytes()).collect();
        // Vectors of two spaces are not to be compared, nor those of questions that are put in two ways: what the route
        // makes of a question (`dimensions`, `input_type`) is in here too.
        let space = embedding.vector_space()?;
        let manner = running.state(embedding)?.manner.get_or_init(|| consult::manner(embedding)).as_deref()?;
        let known = embedding.upstreams.iter().filter(|upstream| !upstream.is_space_written);
        let key = surroundings("question", snapshot.general.environment.as_bytes(), route, wish, first)
            .part(embedding.name.as_bytes())
            .part(space.as_bytes())
            .list(models.into_iter());
        known
            .fold(key, |key, upstream| sources::described(key, upstream, Endpoint::Embeddings))
            .content(|sink| {
                sink(manner);
                Ok::<_, Infallible>(())
            })
            .ok()?
            .content(|sink| ask.around_question(question, sink))
            .ok()
            .map(|builder| Partition(builder.finish()))
    }
}

/// The question of a call on a route that matches by meaning: the one of the header, else what the body tells.
fn question(route: &Route, terms: &Semantic, ask: &Ask, told: Option<&str>) -> Option<chat::Question> {
    let explicit = told.or(ask.query.as_deref());
    let retrieval = route.context.as_ref().and_then(|context| context.retrieval.as_ref());
    chat::question(ask, explicit, terms.question.as_ref(), retrieval).ok()
}

/// Whether the question that a body names stands where it may stand for its message; `None` where it names none, or its
/// route does not match by meaning.
#[must_use]
pub fn is_query_in_message(route: &Route, ask: &Ask) -> Option<bool> {
    let terms = route.cache.semantic.as_deref().filter(|_| ask.endpoint == Endpoint::Chat)?;
    let question = question(route, terms, ask, None)?;
    (question.source == chat::Source::Explicit).then_some(question.is_in_message)
}
