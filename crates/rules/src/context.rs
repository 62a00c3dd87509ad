//! Which parts of a prompt a token budget keeps.
//!
//! Kept always: what the system says, the last message of the user, and the last step of what follows
//! it. The rest goes in this order, no more of it than must: retrieved passages beyond their share;
//! then the conversation from its oldest turn; then further passages; then the older steps behind the
//! user's last message. A turn goes as a whole, from one message of the user to the next, and with it
//! whatever answers its tool calls, so that what is left is a conversation that any model takes. A step
//! is an assistant's message with the results of its calls.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

/// `context` of a route, as far as it bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Tokens of the prompt at most.
    pub budget: u64,
    /// The share of the budget that retrieved passages get, above 0, at most 1.
    pub retrieval_share: f64,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The system, or the developer.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool: the result of a call.
    Tool,
    /// Somebody else.
    Other,
}

/// One message of a prompt.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Who speaks.
    pub role: Role,
    /// Its tokens, those of its passages apart.
    pub tokens: u64,
    /// The ids of its tool calls.
    pub calls: Vec<&'a str>,
    /// The id of the call that it is the result of.
    pub answers: Option<&'a str>,
    /// It is a retrieved passage as a whole, and may go alone.
    pub is_passage: bool,
    /// Tokens of each retrieved passage inside it, which may go without it.
    pub passages: Vec<u64>,
}

/// What is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Indexes of messages, ascending.
    pub messages: Vec<usize>,
    /// Passages inside messages that stay: the message's index, and which of its passages.
    pub passages: Vec<(usize, usize)>,
    /// Messages of the conversation among those left out.
    pub history: usize,
    /// Passages left out, as messages or inside of some.
    pub retrieval: usize,
    /// Tokens saved.
    pub tokens: u64,
}

/// The prompt does not fit, whatever is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// Tokens of what has to stay.
    pub needed: u64,
}

/// What to leave out of a prompt so that it keeps to its terms; none where it does already. `fixed` are
/// the tokens of what is no message.
///
/// # Errors
/// Where what has to stay is too much.
pub fn fit(terms: Terms, fixed: u64, messages: &[Message<'_>]) -> Result<Option<Cut>, Overflow> {
    let mut draft = Draft::new(fixed, messages);
    let share = (terms.budget as f64 * terms.retrieval_share) as u64;
    if draft.total <= terms.budget && draft.passages <= share {
        return Ok(None);
    }
    let ranking = draft.ranking();
    let mut least = ranking.iter().rev();
    while draft.passages > share {
        match least.next() {
            Some(passage) => draft.drop_passage(*passage),
            None => break,
        }
    }
    let (turns, steps) = draft.parts.chains();
    for turn in turns {
        if draft.total <= terms.budget {
            break;
        }
        draft.drop_chain(turn);
    }
    for passage in least {
        if draft.total <= terms.budget {
            break;
        }
        draft.drop_passage(*passage);
    }
    for step in steps {
        if draft.total <= terms.budget {
            break;
        }
        draft.drop_chain(step);
    }
    if draft.total > terms.budget { Err(Overflow { needed: draft.total }) } else { Ok(Some(draft.cut())) }
}

/// A passage: the message that it is or stands in, and which one in there.
type Passage = (usize, Option<usize>);

/// A prompt while it is cut.
struct Draft<'m> {
    messages: &'m [Message<'m>],
    parts: Parts,
    is_gone: Vec<bool>,
    /// Passages that are gone from messages.
    cut_out: HashSet<(usize, usize)>,
    before: u64,
    total: u64,
    /// Tokens of the passages that are left.
    passages: u64,
}

impl<'m> Draft<'m> {
    fn new(fixed: u64, messages: &'m [Message<'m>]) -> Self {
        let inside = |message: &Message<'_>| message.passages.iter().fold(0u64, |sum, one| sum.saturating_add(*one));
        let own = |message: &Message<'_>| if message.is_passage { message.tokens } else { 0 };
        let sum = |of: &dyn Fn(&Message<'_>) -> u64| {
            messages.iter().fold(0u64, |sum, message| sum.saturating_add(of(message)))
        };
        let total = fixed.saturating_add(sum(&|message| message.tokens)).saturating_add(sum(&inside));
        let passages = sum(&inside).saturating_add(sum(&own));
        let parts = Parts::of(messages);
        let is_gone = vec![false; messages.len()];
        Self { messages, parts, is_gone, cut_out: HashSet::new(), before: total, total, passages }
    }

    /// Every passage, the most relevant first: in the order of the prompt, but for those of earlier
    /// turns, which come after those of later ones.
    fn ranking(&self) -> Vec<Passage> {
        let mut ranking: Vec<(usize, Passage)> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            let age = self.parts.ages.get(at).copied().unwrap_or_default();
            if message.is_passage {
                ranking.push((age, (at, None)));
            }
            ranking.extend((0..message.passages.len()).map(|which| (age, (at, Some(which)))));
        }
        ranking.sort_by_key(|(age, _)| *age);
        ranking.into_iter().map(|(_, passage)| passage).collect()
    }

    fn drop_passage(&mut self, (at, which): Passage) {
        let Some(message) = self.messages.get(at) else { return };
        let Some(is_gone) = self.is_gone.get_mut(at).filter(|is_gone| !**is_gone) else { return };
        let saved = match which {
            None => {
                *is_gone = true;
                message.tokens
            }
            Some(which) => {
                self.cut_out.insert((at, which));
                message.passages.get(which).copied().unwrap_or_default()
            }
        };
        self.total = self.total.saturating_sub(saved);
        self.passages = self.passages.saturating_sub(saved);
    }

    /// Drops the messages of a turn or a step with the passages that are still in them.
    fn drop_chain(&mut self, chain: Chain) {
        for at in chain.from..self.messages.len() {
            match self.parts.of.get(at) {
                Some(Part::Group(group)) if *group >= chain.groups.1 => break,
                Some(Part::Group(_)) => {}
                Some(Part::Alone) | None => continue,
            }
            let Some(message) = self.messages.get(at) else { continue };
            let left = message.passages.iter().enumerate().filter(|(which, _)| !self.cut_out.contains(&(at, *which)));
            let passages: u64 = left.map(|(_, tokens)| *tokens).sum();
            self.total = self.total.saturating_sub(message.tokens.saturating_add(passages));
            self.passages = self.passages.saturating_sub(passages);
            if let Some(is_gone) = self.is_gone.get_mut(at) {
                *is_gone = true;
            }
        }
    }

    fn cut(self) -> Cut {
        let is_gone = |at: usize| self.is_gone.get(at).copied().unwrap_or_default();
        let messages: Vec<usize> = (0..self.messages.len()).filter(|at| is_gone(*at)).collect();
        let whole =
            messages.iter().filter(|at| self.messages.get(**at).is_some_and(|message| message.is_passage)).count();
        let mut passages: Vec<(usize, usize)> = self.cut_out.into_iter().filter(|(at, _)| !is_gone(*at)).collect();
        passages.sort_unstable();
        Cut {
            history: messages.len() - whole,
            retrieval: whole + passages.len(),
            messages,
            passages,
            tokens: self.before.saturating_sub(self.total),
        }
    }
}

/// What a message goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Nothing: it stays, or it is a passage that goes alone.
    Alone,
    /// The group of that number: turns first, then steps.
    Group(usize),
}

/// Turns or steps that go together.
#[derive(Clone, Copy, Debug)]
struct Chain {
    /// The groups, the end excluded.
    groups: (usize, usize),
    /// The first message of the first of them.
    from: usize,
}

/// A conversation in turns and steps.
struct Parts {
    of: Vec<Part>,
    /// For each message, how many questions of the user it lies back, at least 1.
    ages: Vec<usize>,
    /// Groups below this number are turns, the others steps.
    first_step: usize,
    groups: usize,
    /// Whether a group goes together with the next one.
    is_joined: Vec<bool>,
    is_kept: Vec<bool>,
}

impl Parts {
    fn of(messages: &[Message<'_>]) -> Self {
        let is_question = |message: &Message<'_>| message.role == Role::User && !message.is_passage;
        let is_speech = |message: &Message<'_>| message.role != Role::System && !message.is_passage;
        // Without a question of the user the conversation's last message stands for it.
        let last = messages.iter().rposition(is_question).or_else(|| messages.iter().rposition(is_speech));
        let last = last.unwrap_or(messages.len());
        let (mut of, mut groups, mut first_step) = (Vec::with_capacity(messages.len()), 0, None);
        for (at, message) in messages.iter().enumerate() {
            if !is_speech(message) || at == last {
                of.push(Part::Alone);
                continue;
            }
            let is_first = groups == 0 || (at > last && first_step.is_none());
            let begins = if at < last { is_question(message) } else { message.role != Role::Tool };
            if is_first || begins {
                groups += 1;
            }
            if at > last {
                first_step.get_or_insert(groups - 1);
            }
            of.push(Part::Group(groups - 1));
        }
        let mut questions = 0;
        let mut ages: Vec<usize> = Vec::with_capacity(messages.len());
        for message in messages.iter().rev() {
            questions += usize::from(is_question(message));
            ages.push(if message.role == Role::System { 1 } else { questions.max(1) });
        }
        ages.reverse();
        let mut parts = Self {
            of,
            ages,
            first_step: first_step.unwrap_or(groups),
            groups,
            is_joined: vec![false; groups],
            is_kept: vec![false; groups],
        };
        parts.join(messages);
        parts
    }

    /// Binds results to their calls where others stand between, and keeps what is bound to what is kept.
    fn join(&mut self, messages: &[Message<'_>]) {
        let group = |at: usize| match self.of.get(at) {
            Some(Part::Group(group)) => Some(*group),
            _ => None,
        };
        let mut callers: HashMap<&str, usize> = HashMap::new();
        // Bonds that begin and end at each group: how many span the gap behind it.
        let mut begins = vec![0usize; self.groups + 1];
        let mut ends = vec![0usize; self.groups + 1];
        let mut kept: Vec<usize> = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            for id in &message.calls {
                callers.insert(id, at);
            }
            let Some(caller) = message.answers.and_then(|id| callers.get(id)) else { continue };
            match (group(*caller), group(at)) {
                (Some(call), Some(result)) if call < result => {
                    if let (Some(begin), Some(end)) = (begins.get_mut(call), ends.get_mut(result)) {
                        (*begin, *end) = (*begin + 1, *end + 1);
                    }
                }
                (Some(bound), None) | (None, Some(bound)) => kept.push(bound),
                _ => {}
            }
        }
        let mut open = 0;
        for (at, is_joined) in self.is_joined.iter_mut().enumerate() {
            open = (open + begins.get(at).copied().unwrap_or_default())
                .saturating_sub(ends.get(at).copied().unwrap_or_default());
            *is_joined = open > 0;
        }
        // The last step is what the model is asked about.
        if self.groups > self.first_step {
            kept.push(self.groups - 1);
        }
        for group in kept {
            if let Some(is_kept) = self.is_kept.get_mut(group) {
                *is_kept = true;
            }
        }
        // What is bound to a kept group is kept, on both sides.
        for at in (1..self.groups).rev() {
            if self.is_joined.get(at - 1) == Some(&true) && self.is_kept.get(at) == Some(&true) {
                self.keep(at - 1);
            }
        }
        for at in 1..self.groups {
            if self.is_joined.get(at - 1) == Some(&true) && self.is_kept.get(at - 1) == Some(&true) {
                self.keep(at);
            }
        }
    }

    fn keep(&mut self, group: usize) {
        if let Some(is_kept) = self.is_kept.get_mut(group) {
            *is_kept = true;
        }
    }

    /// What may go, the oldest first: turns, and steps behind the user's last message.
    fn chains(&self) -> (Vec<Chain>, Vec<Chain>) {
        let mut firsts = vec![0; self.groups];
        for (at, part) in self.of.iter().enumerate().rev() {
            if let Part::Group(group) = part
                && let Some(first) = firsts.get_mut(*group)
            {
                *first = at;
            }
        }
        let (mut turns, mut steps) = (Vec::new(), Vec::new());
        let mut begin = 0;
        for end in 1..=self.groups {
            if end < self.groups && self.is_joined.get(end - 1) == Some(&true) {
                continue;
            }
            if self.is_kept.get(begin) == Some(&false) {
                let from = firsts.get(begin).copied().unwrap_or_default();
                let chain = Chain { groups: (begin, end), from };
                if end <= self.first_step { turns.push(chain) } else { steps.push(chain) }
            }
            begin = end;
        }
        (turns, steps)
    }
}
