//! A block being written. It is on the way of every request, off the workers: some tens of numbers each.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use base::{Attempt, Fact, Noted, Record};
use foldhash::HashMap;

use super::Content;
use super::block::{Block, FULL, print, put_number, put_text, role};

/// Of a text that somebody else has written, bytes that are kept at most.
const LONGEST: usize = 256;

/// Records that come to one block.
#[derive(Debug)]
pub struct Writing {
    block: Block,
    names: Names,
    statuses: Vec<u16>,
}

/// The words and names of a block, by where they lie in memory: mostly they are few, and each stands in thousands of
/// records. What is new there is looked for by its letters: each of many clients may come but once in a block.
#[derive(Debug, Default)]
struct Names {
    by_place: HashMap<(usize, usize), u32>,
    by_letters: HashMap<Name, u32>,
    /// Each with its roles.
    all: Vec<(u8, Name)>,
    /// What holds the memory of names that lie at several places.
    held: Vec<Arc<str>>,
}

#[derive(Clone, Debug)]
enum Name {
    Word(&'static str),
    Name(Arc<str>),
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Name {
    fn as_str(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Name(name) => name,
        }
    }
}

impl Names {
    fn word(&mut self, word: &'static str, role: u8) -> u64 {
        match self.known(word, role) {
            Some(number) => number,
            None => self.add(word, role, || Name::Word(word)),
        }
    }

    fn name(&mut self, name: &Arc<str>, role: u8) -> u64 {
        if let Some(number) = self.known(name, role) {
            return number;
        }
        // As long as it is held nothing else can lie there.
        self.held.push(name.clone());
        self.add(name, role, || Name::Name(name.clone()))
    }

    fn known(&mut self, text: &str, role: u8) -> Option<u64> {
        let at = *self.by_place.get(&place(text))?;
        if let Some((roles, _)) = self.all.get_mut(at as usize) {
            *roles |= role;
        }
        Some(at.into())
    }

    fn add(&mut self, text: &str, role: u8, new: impl FnOnce() -> Name) -> u64 {
        let known = self.by_letters.get(text).copied();
        let at = known.unwrap_or_else(|| {
            let (at, name) = (u32::try_from(self.all.len()).unwrap_or(u32::MAX), new());
            self.by_letters.insert(name.clone(), at);
            self.all.push((0, name));
            at
        });
        if let Some((roles, _)) = self.all.get_mut(at as usize) {
            *roles |= role;
        }
        self.by_place.insert(place(text), at);
        at.into()
    }
}

fn place(text: &str) -> (usize, usize) {
    (text.as_ptr().addr(), text.len())
}

/// A number that says `None` too.
const fn or_none(number: Option<u64>) -> u64 {
    match number {
        Some(number) => number.saturating_add(1),
        None => 0,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Which of the facts that a record may lack are there.
pub(super) mod has {
    pub const CODE: u64 = 1;
    pub const TOKENS: u64 = 2;
    pub const COST: u64 = 4;
    pub const FIRST_CONTENT: u64 = 8;
    pub const TRUNCATED: u64 = 16;
    pub const DEGRADED: u64 = 32;
    pub const MATCHED: u64 = 64;
    pub const TRACE: u64 = 128;
}

/// How a fact's value is written.
pub(super) mod kind {
    pub const NAME: u8 = 0;
    pub const TEXT: u8 = 1;
    pub const NUMBER: u8 = 2;
    pub const TIME: u8 = 3;
    pub const RATIO: u8 = 4;
    pub const YES: u8 = 5;
}

impl Writing {
    /// An empty block, whose records come after those of all lesser ids.
    #[must_use]
    pub fn new(id: u64) -> Self {
        let block = Block { id, body: Vec::with_capacity(FULL + FULL / 8), ..Block::default() };
        Self { block, names: Names::default(), statuses: Vec::new() }
    }

    /// Its place among others.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.block.id
    }

    /// Gives it another place among others.
    pub const fn renumber(&mut self, id: u64) {
        self.block.id = id;
    }

    /// Records in it.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.block.count
    }

    /// Whether it is large enough for a block.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.block.body.len() >= FULL
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        let began = self.begin(record.time, &record.request_id);
        self.facts(record);
        let out = &mut self.block.body;
        put_number(out, record.attempts.len() as u64);
        for Attempt { upstream, outcome, status, at, took, is_anothers, is_drill, span: _ } in &record.attempts {
            put_number(out, self.names.name(upstream, role::UPSTREAM));
            put_number(out, self.names.word(outcome.as_str(), 0));
            put_number(out, or_none(status.map(u64::from)));
            put_number(out, micros(*at));
            put_number(out, micros(*took));
            out.push(u8::from(*is_anothers) | u8::from(*is_drill) << 1);
        }
        put_number(out, record.decisions.len() as u64);
        for noted in &record.decisions {
            step(out, &mut self.names, noted);
        }
        self.end(began);
    }

    /// Adds a text.
    pub fn add_content(&mut self, content: &Content) {
        let began = self.begin(content.time, &content.request_id);
        let out = &mut self.block.body;
        put_number(out, micros(content.time));
        put_text(out, &content.request_id);
        out.push(u8::from(content.is_cut));
        put_text(out, &content.prompt);
        put_text(out, &content.answer);
        // At the end, where a reader who does not know it does not look.
        if let Some(near) = &content.near {
            put_text(out, &near.question);
            put_text(out, &near.known);
            put_text(out, &near.answer);
            out.extend_from_slice(&near.similarity.to_le_bytes());
            put_text(out, near.withheld.as_deref().unwrap_or_default());
        }
        self.end(began);
    }

    /// What a search looks at first, then the rest.
    fn facts(&mut self, record: &Record) {
        let (out, names) = (&mut self.block.body, &mut self.names);
        put_number(out, micros(record.time));
        put_number(out, record.status.into());
        if !self.statuses.contains(&record.status) {
            self.statuses.push(record.status);
        }
        let mut name = |name: &Option<Arc<str>>, role| or_none(name.as_ref().map(|name| names.name(name, role)));
        put_number(out, name(&record.client, role::CLIENT));
        put_number(out, name(&record.route, role::ROUTE));
        put_number(out, name(&record.upstream, role::UPSTREAM));
        put_number(out, name(&record.model, 0));
        put_number(out, names.word(record.outcome.as_str(), role::OUTCOME));
        put_number(out, or_none(record.cache.map(|cache| names.word(cache.as_str(), role::CACHE))));
        put_number(out, or_none(record.endpoint.map(|endpoint| names.word(endpoint.tail(), 0))));
        put_text(out, &record.request_id);
        put_number(out, micros(record.took));
        put_number(out, micros(record.overhead));
        put_number(out, micros(record.queued));
        let flag = |is_there, flag| if is_there { flag } else { 0 };
        let flags = flag(record.code.is_some(), has::CODE)
            | flag(record.usage.is_some(), has::TOKENS)
            | flag(record.cost.is_some(), has::COST)
            | flag(record.first_content.is_some(), has::FIRST_CONTENT)
            | flag(record.truncated.is_some(), has::TRUNCATED)
            | flag(record.degraded.is_some(), has::DEGRADED)
            | flag(record.matched.is_some(), has::MATCHED)
            | flag(record.trace.is_some(), has::TRACE);
        put_number(out, flags);
        if let Some(code) = &record.code {
            put_text(out, bounded(code));
        }
        if let Some(usage) = record.usage {
            put_number(out, usage.prompt);
            put_number(out, usage.completion);
        }
        if let Some(cost) = &record.cost {
            put_number(out, cost.nanos);
            put_number(out, names.name(&cost.currency, 0));
        }
        if let Some(first_content) = record.first_content {
            put_number(out, micros(first_content));
        }
        if let Some(truncated) = record.truncated {
            for count in [truncated.history, truncated.retrieval, truncated.tokens] {
                put_number(out, count);
            }
        }
        if let Some(degraded) = &record.degraded {
            put_text(out, bounded(degraded));
        }
        if let Some(matched) = &record.matched {
            put_text(out, bounded(&matched.id));
            out.extend_from_slice(&matched.similarity.to_le_bytes());
        }
        if let Some(trace) = &record.trace {
            out.extend_from_slice(&trace.own.trace.bytes());
        }
    }

    fn begin(&mut self, time: Duration, request_id: &str) -> usize {
        let block = &mut self.block;
        block.first = if block.count == 0 { time } else { block.first.min(time) };
        block.last = block.last.max(time);
        block.count += 1;
        block.prints.extend_from_slice(&print(request_id));
        let began = block.body.len();
        block.body.extend_from_slice(&[0; 4]);
        began
    }

    fn end(&mut self, began: usize) {
        let length = u32::try_from(self.block.body.len() - began - 4).unwrap_or_default();
        if let Some(place) = self.block.body.get_mut(began..began + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    /// The block as it is so far.
    #[must_use]
    pub fn so_far(&self) -> Block {
        Block { summary: self.summary(), ..self.block.clone() }
    }

    /// The block.
    #[must_use]
    pub fn sealed(self) -> Block {
        Block { summary: self.summary(), ..self.block }
    }

    fn summary(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 << 10);
        put_number(&mut out, self.names.all.len() as u64);
        for (roles, name) in &self.names.all {
            out.push(*roles);
            put_text(&mut out, name.as_str());
        }
        put_number(&mut out, self.statuses.len() as u64);
        self.statuses.iter().for_each(|status| put_number(&mut out, (*status).into()));
        out
    }
}

fn step(out: &mut Vec<u8>, names: &mut Names, Noted { at, decision }: &Noted) {
    put_number(out, micros(*at));
    put_number(out, names.word(decision.what(), 0));
    let facts = decision.facts();
    out.push(u8::try_from(facts.len()).unwrap_or_default());
    for (name, fact) in facts {
        put_number(out, names.word(name, 0));
        match fact {
            Fact::Word(word) => {
                out.push(kind::NAME);
                put_number(out, names.word(word, 0));
            }
            Fact::Name(name) => {
                out.push(kind::NAME);
                put_number(out, names.name(name, 0));
            }
            Fact::Text(text) => {
                out.push(kind::TEXT);
                put_text(out, bounded(text));
            }
            Fact::Number(number) => {
                out.push(kind::NUMBER);
                put_number(out, number);
            }
            Fact::Time(time) => {
                out.push(kind::TIME);
                put_number(out, micros(time));
            }
            Fact::Ratio(ratio) => {
                out.push(kind::RATIO);
                out.extend_from_slice(&ratio.to_le_bytes());
            }
            Fact::Yes => out.push(kind::YES),
        }
    }
}

fn bounded(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_once_wherever_it_lies_and_with_all_its_roles() {
        let mut names = Names::default();
        let client: Arc<str> = "one".into();
        let first = names.name(&client, role::CLIENT);
        assert_eq!(names.name(&client, 0), first);
        assert_eq!(names.name(&Arc::from("one"), role::ROUTE), first, "a reload lays it elsewhere");
        assert_eq!(names.word("one", 0), first);
        assert_ne!(names.name(&Arc::from("two"), 0), first);
        let all: Vec<_> = names.all.iter().map(|(roles, name)| (*roles, name.as_str())).collect();
        assert_eq!(all, [(role::CLIENT | role::ROUTE, "one"), (0, "two")]);
    }
}
