//! The scenario at work: counts calls, draws chances, keeps limits, picks the rule.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::{Clock, Dice};

use crate::reply::Reply;
use crate::request::Request;
use crate::scenario::{Limit, Scenario, When};

/// A scenario with what it remembers.
#[derive(Debug)]
pub(crate) struct Playbook {
    pub(crate) scenario: Scenario,
    pub(crate) dice: Dice,
    /// When it began to play.
    began: Instant,
    memory: Mutex<Vec<Memory>>,
}

/// What one rule remembers.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// Calls for which all but the counting held.
    seen: u64,
    /// The bucket's tokens, when last looked at.
    bucket: Option<(f64, Instant)>,
}

/// The rule that takes a call.
pub(crate) struct Pick {
    /// Counted from 1; none for the built-in answer.
    pub(crate) rule: Option<usize>,
    pub(crate) reply: Reply,
}

impl Playbook {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let dice = scenario.seed.map_or_else(Dice::fair, Dice::loaded);
        let memory = Mutex::new(vec![Memory::default(); scenario.rules.len()]);
        Self { scenario, dice, began: Clock.now(), memory }
    }

    /// Whether connections are refused at `now`, and how long until that changes.
    pub(crate) fn refusal(&self, now: Instant) -> (bool, Option<Duration>) {
        let elapsed = now.saturating_duration_since(self.began);
        let refuse = self.scenario.connections.refuse;
        (refuse.is_some_and(|window| window.holds(elapsed)), refuse.and_then(|window| window.turns_in(elapsed)))
    }

    /// The first early rule that takes a call of which only the head has come.
    pub(crate) fn pick_early(&self, head: &Request, now: Instant) -> Option<Pick> {
        let elapsed = now.saturating_duration_since(self.began);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = self.scenario.rules.iter().zip(memory.iter_mut()).enumerate();
        rules.filter(|(_, (rule, _))| rule.reply.early).find_map(|(at, (rule, memory))| {
            let takes = fits(&rule.when, head, elapsed) && self.counts(&rule.when, memory);
            takes.then(|| Pick { rule: Some(at + 1), reply: rule.reply.clone() })
        })
    }

    /// The first rule that takes the call; `in_flight` counts the call itself.
    pub(crate) fn pick(&self, request: &Request, in_flight: usize, now: Instant) -> Pick {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_duration_since(self.began);
        let mut granted: Vec<(String, String)> = Vec::new();
        for (at, (rule, memory)) in self.scenario.rules.iter().zip(memory.iter_mut()).enumerate() {
            if rule.reply.early || !fits(&rule.when, request, elapsed) || !self.counts(&rule.when, memory) {
                continue;
            }
            let mut reply = rule.reply.clone();
            match rule.limit {
                None => reply.headers.extend(granted),
                Some(limit) => {
                    let (refused, headers) = take(limit, memory, in_flight, now);
                    if !refused {
                        granted = headers;
                        continue;
                    }
                    let granted: Vec<_> = headers.into_iter().filter(|(name, _)| !reply.sets(name)).collect();
                    reply.headers.splice(0..0, granted);
                }
            }
            return Pick { rule: Some(at + 1), reply };
        }
        let mut reply =
            self.scenario.improvised.as_ref().map_or_else(Reply::default, |improvised| improvised.0(request));
        reply.headers.extend(granted);
        Pick { rule: None, reply }
    }

    fn counts(&self, when: &When, memory: &mut Memory) -> bool {
        memory.seen += 1;
        let count = memory.seen;
        (when.nth.is_empty() || when.nth.contains(&count))
            && when.first.is_none_or(|first| count <= first)
            && when.after.is_none_or(|after| count > after)
            && when.every.is_none_or(|every| count.is_multiple_of(every))
            && when.chance.is_none_or(|chance| self.dice.unit() < chance)
    }
}

fn fits(when: &When, request: &Request, elapsed: Duration) -> bool {
    when.during.holds(elapsed)
        && when.method.as_ref().is_none_or(|method| method.eq_ignore_ascii_case(&request.method))
        && when.path.as_ref().is_none_or(|path| path.fits(&request.path))
        && when.model.as_ref().is_none_or(|model| model.fits(request.model()))
        && when.stream.is_none_or(|stream| stream == request.is_streaming())
        && when.body.as_ref().is_none_or(|text| String::from_utf8_lossy(&request.body).contains(text.as_str()))
        && when.headers.iter().all(|(name, pattern)| match (pattern, request.header(name)) {
            (Some(pattern), Some(value)) => pattern.fits(value),
            (Some(_), None) => false,
            (None, value) => value.is_none(),
        })
}

/// Whether the limit refuses the call, and the header fields that say how things stand.
fn take(limit: Limit, memory: &mut Memory, in_flight: usize, now: Instant) -> (bool, Vec<(String, String)>) {
    let Some(per) = limit.per else {
        return (in_flight as u64 > limit.calls, Vec::new());
    };
    let most = limit.calls as f64;
    let rate = most / per.as_secs_f64();
    let (tokens, last) = memory.bucket.unwrap_or((most, now));
    let refilled = (tokens + rate * now.saturating_duration_since(last).as_secs_f64()).min(most);
    let refused = refilled < 1.0;
    let left = if refused { refilled } else { refilled - 1.0 };
    memory.bucket = Some((left, now));
    let field = |name: &str, value: String| (name.to_owned(), value);
    let full_again = Duration::from_secs_f64((most - left) / rate);
    let mut headers = vec![
        field("x-ratelimit-limit-requests", limit.calls.to_string()),
        field("x-ratelimit-remaining-requests", format!("{:.0}", left.floor())),
        field("x-ratelimit-reset-requests", format!("{}ms", full_again.as_millis())),
    ];
    if refused {
        let wait = Duration::from_secs_f64((1.0 - left) / rate);
        headers.push(field("retry-after", format!("{:.0}", wait.as_secs_f64().ceil().max(1.0))));
        headers.push(field("retry-after-ms", wait.as_millis().to_string()));
    }
    (refused, headers)
}
