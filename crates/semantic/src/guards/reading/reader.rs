//! The pass over the tokens: each begins a quantity, a phrase of a closed class, or a content word, of which the longest
//! counts. What a word tells of the next one (negated, coordinated, a semantic role) waits in [`Next`].

use smallvec::SmallVec;

use crate::guards::lexicon::function_words::{Effect, Mark, QuestionType, SemanticRole};
use crate::guards::lexicon::verb_forms_en;
use crate::guards::lexicon::{Lexicon, Longest, join, unlinked};
use crate::guards::quantity::Quantity;
use crate::guards::quantity::numeric;
use crate::guards::question::syntax::Syntax;
use crate::guards::question::term::{Term, WordClass};
use crate::guards::question::{Mention, Question, bit};
use crate::guards::reading::particles_zh;
use crate::guards::reading::resolve::{Names, resolve};
use crate::guards::reading::syntax_en;
use crate::guards::reading::tense;
use crate::guards::token::{Script, Token};

/// Reads these tokens as a question.
pub(super) fn read(tokens: &[Token], lexicon: &'static Lexicon) -> Reading {
    let mut words = String::new();
    for token in tokens.iter().filter(|token| token.script != Script::Stop) {
        if !words.is_empty() {
            words.push(' ');
        }
        if token.upper {
            words.push_str(&token.text.to_uppercase());
        } else {
            words.push_str(&token.text);
        }
    }
    let mut reader = Reader {
        tokens,
        lexicon,
        next: Next::default(),
        names: SmallVec::new(),
        asking: None,
        question: Question { words: words.into(), ..Question::default() },
    };
    reader.question.chinese = tokens.iter().any(|token| token.script == Script::Han);
    reader.read();
    Reading { question: reader.question, asking: reader.asking }
}

/// A question, and the place behind the words by which it says that it asks.
pub(super) struct Reading {
    pub question: Question,
    pub asking: Option<usize>,
}

/// What the next term gets.
#[derive(Debug, Default)]
pub(super) struct Next {
    pub(super) negated: bool,
    /// Whether that is since nobody has done it.
    pub(super) not_attempted: bool,
    pub(super) role: Option<SemanticRole>,
    coordinated: bool,
    after_preposition: bool,
    bound: Option<Mark>,
    /// Whether it stands in a clause that says when, or in which case.
    pub(super) in_time_clause: bool,
}

pub struct Reader<'a> {
    pub(super) tokens: &'a [Token],
    pub(super) lexicon: &'static Lexicon,
    pub(super) next: Next,
    /// Nouns that may only name what is asked, with where among the terms they would stand.
    names: Names,
    /// Behind the words that say that it asks.
    pub(super) asking: Option<usize>,
    pub(super) question: Question,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            at += self.step(at).max(1);
        }
        if self.next.negated {
            self.negate_last();
        }
        self.repeats();
        let opener = self.opener();
        syntax_en::read(self.tokens, &mut self.question);
        tense::read(self.tokens, &mut self.question, self.lexicon);
        if self.question.chinese {
            self.question.scope.particles = particles_zh::read(self.tokens, self.lexicon);
        }
        resolve(&mut self.question, &self.names, opener, self.lexicon);
    }

    pub(super) fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    /// Reads what begins here; gives how many tokens it took.
    fn step(&mut self, at: usize) -> usize {
        let tokens = self.tokens.get(at..).unwrap_or_default();
        let Some(first) = tokens.first() else { return 1 };
        if first.script == Script::Stop {
            self.next.in_time_clause = false;
            if matches!(first.text.as_str(), "、" | "/" | "&") {
                self.next.coordinated = true;
            } else if self.next.negated {
                // A negator reaches no further than its clause.
                self.negate_last();
            }
            return 1;
        }
        if self.fails(at) {
            self.negate_last();
            self.question.terms.last_mut().into_iter().for_each(|term| term.failed = true);
            return 1;
        }
        let measured = numeric::read(tokens);
        let clause = tokens.iter().take_while(|token| token.script != Script::Stop);
        let Longest { closed, parts, listed } = self.lexicon.longest(clause.map(|token| self.lexicon.canonical(token)));
        let measured_length = measured.as_ref().map_or(0, |(taken, _)| *taken);
        let is_name = (first.upper || self.is_letter(at)) && closed == 1;
        // What the lists have as one word is no number: 2FA.
        let is_word = listed >= measured_length && first.text.chars().any(char::is_alphabetic);
        if let Some((taken, quantities)) = measured.filter(|_| !is_word && measured_length >= closed.max(listed)) {
            self.count(at, taken, quantities);
            // «Within three days» is 三天内.
            if self.text(at + taken) == "内" {
                self.question.scope.marks.push(Mark::Under);
                return taken + 1;
            }
            return taken;
        }
        if closed > 0 && closed >= listed && !is_name && !(closed == 1 && self.is_fragment(at)) && !self.is_told(at) {
            for part in parts {
                self.contribute(*part, at, closed);
            }
            return closed;
        }
        let taken = if self.is_told(at) { 1 } else { listed.max(1) };
        let taken = if taken == 1 { self.phrasal(at) } else { taken };
        self.term(at, taken);
        taken
    }

    /// Whether one capital names something, and is no article: does A depend on B.
    fn is_letter(&self, at: usize) -> bool {
        let is_capital = |at: usize| self.tokens.get(at).is_some_and(|token| token.capital);
        self.text(at) == "a" && is_capital(at) && !is_capital(at + 1)
    }

    /// Takes quantities in; the later of two that are coordinated may stand first.
    fn count(&mut self, at: usize, taken: usize, quantities: Vec<Quantity>) {
        let before = at.checked_sub(1).map_or("", |before| self.text(before));
        let joined =
            matches!(before, "and" | "or" | "和" | "与" | "跟" | "及" | "或" | "或者" | "还是" | "、" | "/" | "&");
        for quantity in quantities {
            if !self.question.chinese {
                self.question.quantities.numbers_en.push((quantity.clone(), at, taken));
            }
            let sequence = &mut self.question.quantities.in_order;
            let place = sequence.len();
            let earlier = place.checked_sub(1).filter(|_| joined);
            let turns = earlier.and_then(|last| sequence.get(last)).is_some_and(|last| quantity < *last);
            sequence.insert(earlier.filter(|_| turns).unwrap_or(place), quantity.clone());
            self.question.quantities.sorted.push(quantity);
        }
    }

    /// A verb with its particle, where WordNet has them as one: two tokens, else one.
    fn phrasal(&self, at: usize) -> usize {
        let is_particle =
            matches!(self.text(at + 1), "up" | "off" | "out" | "down" | "on" | "in" | "over" | "back" | "away");
        let verb = self.tokens.get(at).filter(|token| is_particle && token.script == Script::Latin);
        let lemmas = verb.map_or(&[][..], |verb| self.lexicon.lemmas_in(verb));
        let is_phrasal = |lemma: &str| self.lexicon.is(&format!("{lemma}_{}", self.text(at + 1)), "v");
        if lemmas.iter().any(|lemma| is_phrasal(lemma)) { 2 } else { 1 }
    }

    fn term(&mut self, at: usize, taken: usize) {
        let tokens = self.tokens.get(at..at + taken).unwrap_or_default();
        let phrase = join(tokens.iter().map(|token| self.lexicon.canonical(token)));
        let phrase = if taken > 1 && self.lexicon.groups(&phrase).is_none() {
            unlinked(&phrase).unwrap_or(phrase)
        } else {
            phrase
        };
        let mut term = Term::new(tokens, &phrase, self.lexicon);
        let mut goal_behind = false;
        if term.groups.is_empty() && term.class == WordClass::Verb {
            // 转成, 借给, 调到: a verb with the part that the next noun plays.
            let stem = ["成", "给", "到"]
                .iter()
                .find_map(|ending| phrase.strip_suffix(ending))
                .filter(|stem| stem.chars().count() == 1);
            if let Some(stem) = stem {
                term.forms = SmallVec::from_iter([Box::from(stem)]);
                goal_behind = true;
            }
        }
        if term.class == WordClass::Noun && term.is_action && self.stands_as_verb(at) {
            term.class = WordClass::Verb;
        }
        // What one claims is paid back; a claim is a paper.
        if matches!(phrase.as_str(), "claim" | "expense") && term.class == WordClass::Verb {
            term.groups.extend_from_slice(self.lexicon.groups("claim back").unwrap_or_default());
        }
        let next = std::mem::take(&mut self.next);
        if self.question.chinese {
            self.place(&mut term, next.role, at, taken);
        } else if term.class == WordClass::Verb && self.is_named(at) {
            term.class = WordClass::Noun;
        }
        term.negated = next.negated;
        term.not_attempted = next.negated && next.not_attempted;
        term.role = if term.class == WordClass::Verb { None } else { next.role };
        term.coordinated = next.coordinated;
        term.after_preposition = next.after_preposition;
        term.in_time_clause = next.in_time_clause;
        term.tokens = (at, at + taken);
        self.next.in_time_clause = next.in_time_clause;
        // 从北京出发: the part passes the verb by; «to» before an English verb gives none.
        if term.class == WordClass::Verb && self.question.chinese {
            self.next.role = next.role;
        }
        if goal_behind {
            self.next.role = Some(SemanticRole::Goal);
        }
        term.syntax = Syntax::at(at, taken, next.bound);
        self.question.terms.push(term);
    }

    /// A Chinese word is what its place makes it: a noun behind a preposition, a verb behind «how» and «can».
    fn place(&self, term: &mut Term, role: Option<SemanticRole>, at: usize, taken: usize) {
        let is_verb = |at: usize| self.tokens.get(at).is_some_and(|token| token.tag.starts_with('v'));
        let before = at.checked_sub(1).map_or("", |before| self.text(before));
        let is_name = role.is_some() && (term.is_latin() || matches!(before, "对" | "对于"));
        let is_led =
            is_name || matches!(role, Some(SemanticRole::Source | SemanticRole::Agent | SemanticRole::Standard));
        if is_led && self.lexicon.closed(before).is_some() {
            term.class = WordClass::Noun;
        } else if term.class == WordClass::Noun
            && matches!(before, "怎么" | "如何" | "怎样" | "咋" | "能" | "可以" | "能否" | "可否")
            && !is_verb(at + taken)
        {
            term.class = WordClass::Verb;
        }
    }

    /// Whether an English word that may be noun or verb stands where a verb does; notes the passive voice.
    fn stands_as_verb(&mut self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| self.text(before)) else { return false };
        if self.tokens.get(at).is_some_and(|token| token.capital || token.upper) {
            return false;
        }
        // «To» before a verb stands behind grammar: how to, want to; before a noun it stands behind another.
        if before == "to" && at.checked_sub(2).is_some_and(|earlier| !self.is_closed(earlier)) {
            return false;
        }
        let is_inflected = self.tokens.get(at).is_some_and(|token| verb_forms_en::is_participle(token, self.lexicon));
        if is_inflected && verb_forms_en::is_passive_auxiliary(before) {
            self.question.roles.passive = true;
            return true;
        }
        verb_forms_en::BEFORE_VERB.contains(&before)
    }

    /// A character that elsewhere belongs to grammar, beside another that is no word of the dictionary with it.
    fn is_fragment(&self, at: usize) -> bool {
        let alone = |at: usize| {
            self.tokens.get(at).is_some_and(|token| {
                token.script == Script::Han
                    && token.text.chars().count() == 1
                    && !self.is_closed(at)
                    && numeric::read(std::slice::from_ref(token)).is_none()
            })
        };
        let is_verb = |at: usize| self.tokens.get(at).is_some_and(|token| token.tag.starts_with('v'));
        let ends =
            |at: usize| {
                self.tokens.get(at..).unwrap_or_default().iter().all(|token| {
                    token.script == Script::Stop || matches!(token.text.as_str(), "啊" | "呢" | "呀" | "的")
                })
            };
        // How something is used: 怎么用.
        if self.text(at) == "用" && at > 0 && ends(at + 1) {
            return matches!(self.text(at - 1), "怎么" | "如何" | "怎样" | "咋" | "能" | "可以");
        }
        if self.text(at) == "会" && is_verb(at + 1) {
            return false;
        }
        matches!(
            self.text(at),
            "上" | "下" | "里" | "中" | "内" | "会" | "对" | "用" | "来" | "去" | "过" | "前" | "后"
        ) && (alone(at + 1)
            || (at > 0 && alone(at - 1) && self.text(at) == "会" && !is_verb(at - 1) && !is_verb(at + 1)))
    }

    pub(super) fn is_closed(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| self.lexicon.closed(self.lexicon.canonical(token)).is_some())
    }

    /// A clause that says when may stand before what happens, or behind it: its terms are known by the word for that,
    /// behind them in Chinese, before them in English.
    fn place_in_time(&mut self) {
        if !self.question.chinese {
            self.next.in_time_clause = true;
            return;
        }
        let mut ends = self.question.terms.iter_mut().rev();
        if let Some(last) = ends.next() {
            last.in_time_clause = true;
            let is_object = last.class == WordClass::Noun;
            ends.next()
                .filter(|verb| is_object && verb.class == WordClass::Verb)
                .into_iter()
                .for_each(|verb| verb.in_time_clause = true);
        }
    }

    /// What is asked ends a clause that said when, if no sign has ended it.
    fn leave_clause(&mut self, part: Effect, at: usize) {
        let is_last = self.question.terms.last().is_some_and(|term| term.in_time_clause);
        if self.next.in_time_clause && is_last && (matches!(part, Effect::Asks(_)) || self.inverts(at)) {
            self.next.in_time_clause = false;
        }
    }

    fn contribute(&mut self, part: Effect, at: usize, taken: usize) {
        let phrase = self.text(at);
        if self.question.chinese {
            self.question.roles.coverbs.note(part, phrase, at, taken);
        }
        self.leave_clause(part, at);
        let question = &mut self.question;
        match part {
            Effect::Nothing => self.grammar(at, taken),
            Effect::Neutral => {}
            Effect::Asking => self.asking = Some(at + taken),
            Effect::Not => self.negate(at, taken),
            Effect::Twice | Effect::Must => self.oblige(phrase, at, taken),
            Effect::Asks(kind) => self.ask(kind, at, taken),
            Effect::WhyNot => {
                question.asked.types |= bit(QuestionType::Why);
                self.next.negated = true;
            }
            Effect::Names(kind) => {
                let place = question.terms.len();
                self.term(at, taken);
                self.names.push((kind, place));
            }
            Effect::Mark(mark) => self.mark(mark, phrase),
            // The lists have «did» under its lemma, with «do».
            Effect::Past => question.tense.past |= !matches!(phrase, "do" | "does" | "have" | "has"),
            Effect::Future => question.tense.future = true,
            Effect::May => {
                question.modality.may = true;
                self.maybe_polar(at);
            }
            Effect::AsksMay => {
                question.modality.may = true;
                question.asked.types |= bit(QuestionType::Polar);
            }
            Effect::Alternative => {
                question.asked.types |= bit(QuestionType::Polar);
                question.scope.marks.push(Mark::Or);
                self.next.coordinated = true;
            }
            Effect::Person(person, case) => {
                let role = self.part_of(case);
                let place = self.question.terms.len();
                if let Some(only) = self.question.scope.only_focus.as_mut().filter(|only| only.0 == place) {
                    only.1 = true;
                }
                self.question.roles.persons.push(Mention { person, case, role, place });
            }
            Effect::Role(role) => {
                self.next.role = Some(role);
                self.question.roles.passive |= role == SemanticRole::Agent && self.question.chinese;
            }
        }
    }

    fn mark(&mut self, mark: Mark, phrase: &str) {
        self.next.coordinated |= mark == Mark::Or;
        if mark.is_comparison() {
            self.next.bound = Some(mark);
        }
        if mark == Mark::Than {
            self.next.role = Some(SemanticRole::Standard);
        }
        if mark == Mark::Only {
            self.question.scope.only_focus = Some((self.question.terms.len(), false));
        }
        if matches!(mark, Mark::After | Mark::Before | Mark::During) {
            self.place_in_time();
        }
        // «Under the folder»: what a place is told by, as by «in».
        self.next.after_preposition |= matches!(phrase, "under" | "above" | "below" | "over");
        if mark != Mark::Any {
            self.question.scope.marks.push(mark);
        }
    }

    /// An obligation, which «not» before it takes away.
    fn oblige(&mut self, phrase: &str, at: usize, taken: usize) {
        let denied = self.next.negated || (phrase == "need" && self.text(at + taken) == "not");
        self.question.modality.must = true;
        self.question.modality.needless |=
            !self.question.chinese && denied && verb_forms_en::OBLIGATIONS.contains(&phrase);
    }

    /// What a word of grammar tells of the next term.
    fn grammar(&mut self, at: usize, taken: usize) {
        match self.text(at) {
            "and" | "和" | "与" | "跟" | "及" | "以及" => self.next.coordinated = true,
            "of" | "for" | "in" | "on" | "at" | "with" => self.next.after_preposition = true,
            "to" => self.next.role = Some(SemanticRole::Goal),
            "if" | "once" | "while" => self.next.in_time_clause = true,
            "时" | "时候" | "的时候" | "的话" => self.place_in_time(),
            // 咖啡对睡眠: what it is done to, behind what does it.
            "对" | "对于" if !self.question.terms.is_empty() && !self.is_closed(at + taken) => {
                self.next.role = Some(SemanticRole::Goal);
            }
            // 导出为, 另存为
            "为" if at > 0 && self.tokens.get(at - 1).is_some_and(|token| token.tag.starts_with('v')) => {
                self.next.role = Some(SemanticRole::Goal);
            }
            _ => {}
        }
    }
}
