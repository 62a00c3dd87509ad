//! A block being searched.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use base::{Matched, TraceId, Truncated};

use super::block::{Block, Bytes, Summary, places, print, role};
use super::writing::{has, kind};
use super::{Content, Near, Place, Request, Search, Step, Tried, Value};

/// What a search asks of the records of one block, in that block's numbers.
#[derive(Debug)]
pub struct Reader {
    summary: Summary,
}

/// The numbers of what is searched for; see [`Search`].
#[derive(Debug, Default)]
struct Wanted {
    client: Option<u64>,
    route: Option<u64>,
    upstream: Option<u64>,
    outcome: Option<u64>,
    cache: Option<u64>,
}

/// What stands in front of a record.
struct Head<'a> {
    time: Duration,
    status: u16,
    client: Option<u64>,
    route: Option<u64>,
    upstream: Option<u64>,
    model: Option<u64>,
    outcome: u64,
    cache: Option<u64>,
    endpoint: Option<u64>,
    request_id: &'a str,
}

/// How a block's search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searched {
    /// All of it was looked at.
    Whole,
    /// There is no room for more; it goes on before this place.
    Cut(u32),
    /// The bytes are not what was written.
    Damaged,
}

impl Reader {
    /// Of a block with this summary; `None` where that is none.
    #[must_use]
    pub fn of(summary: &[u8]) -> Option<Self> {
        Some(Self { summary: Summary::read(summary)? })
    }

    /// Whether a record of the block may be one that is asked for, apart from its time and its id.
    #[must_use]
    pub fn may_have(&self, search: &Search) -> bool {
        self.wanted(search).is_some()
    }

    /// `None` where nothing in the block can be such.
    fn wanted(&self, search: &Search) -> Option<Wanted> {
        let number = |name: &Option<Box<str>>, role| match name {
            None => Some(None),
            Some(name) => self.summary.number(role, name).map(Some),
        };
        if let Some((least, most)) = search.status
            && !self.summary.statuses.iter().any(|status| (least..=most).contains(status))
        {
            return None;
        }
        if search.is_shadow && !self.summary.names.iter().any(|(_, name)| **name == *Matched::SHADOW) {
            return None;
        }
        Some(Wanted {
            client: number(&search.client, role::CLIENT)?,
            route: number(&search.route, role::ROUTE)?,
            upstream: number(&search.upstream, role::UPSTREAM)?,
            outcome: number(&search.outcome, role::OUTCOME)?,
            cache: number(&search.cache, role::CACHE)?,
        })
    }

    /// Adds those that are asked for to `found`, the last one first, of the block's records before a place.
    pub fn search(&self, body: &[u8], search: &Search, before: Option<u32>, found: &mut Vec<Request>) -> Searched {
        let Some(wanted) = self.wanted(search) else { return Searched::Whole };
        let Some(records) = records(body) else { return Searched::Damaged };
        let end = before.map_or(records.len(), |before| records.len().min(before as usize));
        for (at, record) in records.iter().enumerate().take(end).rev() {
            match self.look((search, &wanted), record, found) {
                None => return Searched::Damaged,
                Some(ControlFlow::Break(())) => return Searched::Cut(u32::try_from(at + 1).unwrap_or(u32::MAX)),
                Some(ControlFlow::Continue(())) => {}
            }
        }
        Searched::Whole
    }

    fn look(
        &self,
        (search, wanted): (&Search, &Wanted),
        record: &[u8],
        found: &mut Vec<Request>,
    ) -> Option<ControlFlow<()>> {
        let mut bytes = Bytes(record);
        let head = Head::read(&mut bytes)?;
        if !head.is_such(search, wanted) {
            return Some(ControlFlow::Continue(()));
        }
        let request = self.request(&head, bytes)?;
        if let (Some(name), Some(upstream)) = (&search.upstream, wanted.upstream) {
            let was_tried = || request.attempts.iter().any(|attempt| *attempt.upstream == **name);
            if head.upstream != Some(upstream) && !was_tried() {
                return Some(ControlFlow::Continue(()));
            }
        }
        if search.is_shadow && !request.decisions.iter().any(is_shadow) {
            return Some(ControlFlow::Continue(()));
        }
        if found.len() >= search.limit {
            return Some(ControlFlow::Break(()));
        }
        found.push(request);
        Some(ControlFlow::Continue(()))
    }

    /// The record at a place, where it has this id.
    #[must_use]
    pub fn find(&self, body: &[u8], at: u32, request_id: &str) -> Option<Request> {
        let mut bytes = Bytes(records(body)?.get(at as usize)?);
        let head = Head::read(&mut bytes)?;
        (head.request_id == request_id).then(|| self.request(&head, bytes))?
    }

    fn name(&self, number: u64) -> Option<Arc<str>> {
        let (_, name) = self.summary.names.get(usize::try_from(number).ok()?)?;
        Some(name.clone())
    }

    fn request(&self, head: &Head<'_>, mut bytes: Bytes<'_>) -> Option<Request> {
        let name = |number: Option<u64>| match number {
            None => Some(None),
            Some(number) => self.name(number).map(Some),
        };
        let mut request = Request {
            time: head.time,
            request_id: head.request_id.into(),
            client: name(head.client)?,
            route: name(head.route)?,
            endpoint: name(head.endpoint)?,
            upstream: name(head.upstream)?,
            model: name(head.model)?,
            status: head.status,
            outcome: self.name(head.outcome)?,
            cache: name(head.cache)?,
            took: bytes.time()?,
            overhead: bytes.time()?,
            queued: bytes.time()?,
            ..Request::default()
        };
        self.extras(&mut request, &mut bytes)?;
        for _ in 0..bytes.number()? {
            let mut tried = Tried {
                upstream: self.name(bytes.number()?)?,
                outcome: self.name(bytes.number()?)?,
                status: bytes.number()?.checked_sub(1).and_then(|status| u16::try_from(status).ok()),
                at: bytes.time()?,
                took: bytes.time()?,
                ..Tried::default()
            };
            let flags = bytes.byte()?;
            (tried.is_anothers, tried.is_drill) = (flags & 1 != 0, flags & 2 != 0);
            request.attempts.push(tried);
        }
        for _ in 0..bytes.number()? {
            request.decisions.push(self.step(&mut bytes)?);
        }
        Some(request)
    }

    fn extras(&self, request: &mut Request, bytes: &mut Bytes<'_>) -> Option<()> {
        let flags = bytes.number()?;
        let has = |flag| flags & flag != 0;
        if has(has::CODE) {
            request.code = Some(bytes.text()?.into());
        }
        if has(has::TOKENS) {
            request.tokens = Some((bytes.number()?, bytes.number()?));
        }
        if has(has::COST) {
            request.cost = Some(bytes.number()?);
            request.currency = Some(self.name(bytes.number()?)?);
        }
        if has(has::FIRST_CONTENT) {
            request.first_content = Some(bytes.time()?);
        }
        if has(has::TRUNCATED) {
            let (history, retrieval, tokens) = (bytes.number()?, bytes.number()?, bytes.number()?);
            request.truncated = Some(Truncated { history, retrieval, tokens });
        }
        if has(has::DEGRADED) {
            request.degraded = Some(bytes.text()?.into());
        }
        if has(has::MATCHED) {
            request.matched = Some((bytes.text()?.into(), ratio(bytes)?));
        }
        if has(has::TRACE) {
            request.trace = Some(trace(bytes)?);
        }
        Some(())
    }

    fn step(&self, bytes: &mut Bytes<'_>) -> Option<Step> {
        let mut step = Step { at: bytes.time()?, what: self.name(bytes.number()?)?, facts: Vec::new() };
        for _ in 0..bytes.byte()? {
            let name = self.name(bytes.number()?)?;
            let value = match bytes.byte()? {
                kind::NAME => Value::Text(self.name(bytes.number()?)?),
                kind::TEXT => Value::Text(bytes.text()?.into()),
                kind::NUMBER => Value::Number(bytes.number()?),
                kind::TIME => Value::Time(bytes.time()?),
                kind::RATIO => Value::Ratio(ratio(bytes)?),
                kind::YES => Value::Yes,
                _ => return None,
            };
            step.facts.push((name, value));
        }
        Some(step)
    }
}

/// Whether a decision is that of a match which was only noted.
fn is_shadow(step: &Step) -> bool {
    step.facts.iter().any(|(name, value)| **name == *Matched::SHADOW && *value == Value::Yes)
}

/// The text at a place of a block of texts, where it has this id.
#[must_use]
pub fn content(body: &[u8], at: u32, request_id: &str) -> Option<Content> {
    let mut bytes = Bytes(records(body)?.get(at as usize)?);
    let (time, id, is_cut) = (bytes.time()?, bytes.text()?, bytes.byte()? != 0);
    if id != request_id {
        return None;
    }
    let (prompt, answer) = (bytes.text()?.into(), bytes.text()?.into());
    let near = if bytes.0.is_empty() { None } else { Some(Box::new(near(&mut bytes)?)) };
    Some(Content { request_id: id.into(), time, prompt, answer, is_cut, near })
}

fn near(bytes: &mut Bytes<'_>) -> Option<Near> {
    let (question, known, answer) = (bytes.text()?.into(), bytes.text()?.into(), bytes.text()?.into());
    let (similarity, withheld) = (ratio(bytes)?, bytes.text()?);
    let withheld = Some(withheld).filter(|by| !by.is_empty()).map(Into::into);
    Some(Near { question, known, answer, similarity, withheld })
}

fn ratio(bytes: &mut Bytes<'_>) -> Option<f32> {
    let (ratio, rest) = bytes.0.split_first_chunk::<4>()?;
    bytes.0 = rest;
    Some(f32::from_le_bytes(*ratio))
}

fn trace(bytes: &mut Bytes<'_>) -> Option<TraceId> {
    let (trace, rest) = bytes.0.split_first_chunk::<16>()?;
    bytes.0 = rest;
    Some(TraceId::of(*trace))
}

/// Each record's bytes, in order; `None` where the body is none.
fn records(body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut bytes = Bytes(body);
    let mut records = Vec::with_capacity(body.len() / 128);
    while !bytes.0.is_empty() {
        records.push(bytes.record()?);
    }
    Some(records)
}

impl<'a> Head<'a> {
    fn read(bytes: &mut Bytes<'a>) -> Option<Self> {
        Some(Self {
            time: bytes.time()?,
            status: u16::try_from(bytes.number()?).ok()?,
            client: bytes.number()?.checked_sub(1),
            route: bytes.number()?.checked_sub(1),
            upstream: bytes.number()?.checked_sub(1),
            model: bytes.number()?.checked_sub(1),
            outcome: bytes.number()?,
            cache: bytes.number()?.checked_sub(1),
            endpoint: bytes.number()?.checked_sub(1),
            request_id: bytes.text()?,
        })
    }

    /// Whether it is asked for, as far as the head says.
    fn is_such(&self, search: &Search, wanted: &Wanted) -> bool {
        let is = |wanted: Option<u64>, found: Option<u64>| wanted.is_none() || wanted == found;
        is(wanted.client, self.client)
            && is(wanted.route, self.route)
            && is(wanted.outcome, Some(self.outcome))
            && is(wanted.cache, self.cache)
            && search.status.is_none_or(|(least, most)| (least..=most).contains(&self.status))
            && search.since.is_none_or(|since| self.time >= since)
            && search.until.is_none_or(|until| self.time < until)
            && search.request_id.as_ref().is_none_or(|wanted| **wanted == *self.request_id)
    }
}

/// The request of this id in a block that ended last.
#[must_use]
pub fn find(block: &Block, request_id: &str) -> Option<Request> {
    let reader = Reader::of(&block.summary)?;
    places(&block.prints, &print(request_id)).find_map(|at| reader.find(&block.body, at, request_id))
}

/// The text of this id in a block that came last.
#[must_use]
pub fn find_content(block: &Block, request_id: &str) -> Option<Content> {
    places(&block.prints, &print(request_id)).find_map(|at| content(&block.body, at, request_id))
}

/// Adds what is asked for of a block; where there is no room for more of it, says where it goes on. What is damaged
/// is passed over.
pub fn search(block: &Block, search: &Search, found: &mut Vec<Request>) -> Option<Place> {
    let is_there = |id| places(&block.prints, &print(id)).next().is_some();
    if !may_be_in(search, block.id, (block.first, block.last)) || !search.request_id.as_deref().is_none_or(is_there) {
        return None;
    }
    let before = search.after.filter(|after| after.block == block.id).map(|after| after.at);
    match Reader::of(&block.summary)?.search(&block.body, search, before, found) {
        Searched::Cut(at) => Some(Place { block: block.id, at }),
        Searched::Whole | Searched::Damaged => None,
    }
}

/// Whether a block of this id and these times is to be looked at.
#[must_use]
pub fn may_be_in(search: &Search, id: u64, (first, last): (Duration, Duration)) -> bool {
    search.after.is_none_or(|after| id <= after.block)
        && search.since.is_none_or(|since| last >= since)
        && search.until.is_none_or(|until| first < until)
}
