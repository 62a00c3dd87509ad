//! Question words: what a question asks, where that word stands, and whether it asks for the subject or the object
//! (谁批准张三 / 张三批准谁, who replaced Maria / who did Maria replace).

use crate::guards::lexicon::function_words::{Case, Person, QuestionType, SemanticRole};
use crate::guards::lexicon::verb_forms_en;
use crate::guards::question::term::{Term, WordClass};
use crate::guards::question::{Mention, WhPosition, bit};
use crate::guards::reading::ellipsis::CONTACTS;
use crate::guards::reading::reader::Reader;
use crate::guards::token::{Script, Token};

impl<'a> Reader<'a> {
    /// What is asked; in English also whether the one who does it follows.
    pub(super) fn ask(&mut self, kind: QuestionType, at: usize, taken: usize) {
        // «How do I» is one word to the lists, and says who does it all the same.
        if (at + 1..at + taken).any(|at| matches!(self.text(at), "i" | "we")) {
            let place = self.question.terms.len();
            self.question.roles.persons.push(Mention { person: Person::First, case: Case::Subject, role: None, place });
        }
        if kind == QuestionType::When && !self.question.chinese && self.is_conjunction(at, taken) {
            self.next.in_time_clause = true;
            return;
        }
        let is_copula = matches!(self.text(at + taken), "is" | "are" | "was" | "were");
        let kind = match kind {
            QuestionType::What if is_copula && matches!(self.text(at + taken + 1), "a" | "an") => QuestionType::Define,
            QuestionType::What if is_copula => QuestionType::WhatIs,
            QuestionType::Amount if is_copula => QuestionType::AmountIs,
            QuestionType::Amount if self.question.chinese && at + taken == self.tokens.len() => QuestionType::AmountIs,
            kind => kind,
        };
        let kind = if kind == QuestionType::Duration && self.ends(at + taken) { QuestionType::Wait } else { kind };
        if matches!(kind, QuestionType::Who | QuestionType::What) && !self.question.chinese {
            self.question.asked.for_object |= (at + taken..at + taken + 3).any(|at| self.asks_for_object(at));
        }
        if kind == QuestionType::Who && !self.question.chinese {
            self.question.asked.for_patient |= self.undergoes(at + taken) || self.is_stranded(at + taken);
        }
        if kind == QuestionType::Who && self.question.chinese {
            self.question.asked.for_object |= self.is_object(at, taken);
        }
        if matches!(kind, QuestionType::What | QuestionType::WhatIs) && self.question.chinese {
            self.question.asked.wh_position = Some(self.wh_position(at, taken));
        }
        if self.next.role.take() == Some(SemanticRole::Agent) {
            self.question.roles.passive = true;
        }
        self.question.asked.types |= bit(kind);
    }

    /// The word that opens the question; behind a clause that says when, or in which case, that is an auxiliary with its
    /// subject: after surgery can I drive.
    pub(super) fn opener(&self) -> &'a str {
        let first = self.tokens.iter().position(|token| token.script != Script::Stop).unwrap_or(0);
        let is_led = matches!(
            self.text(first),
            "after"
                | "before"
                | "if"
                | "when"
                | "once"
                | "while"
                | "during"
                | "since"
                | "until"
                | "unless"
                | "following"
        );
        let inverted = (first..self.tokens.len()).find(|at| is_led && self.inverts(*at));
        self.text(inverted.unwrap_or(first))
    }

    /// Whether the passive of a verb stands here: «is paid», «will be paid».
    fn undergoes(&self, at: usize) -> bool {
        let auxiliaries = (at..self.tokens.len())
            .take_while(|at| {
                verb_forms_en::PASSIVE_OF_WHO.contains(&self.text(*at))
                    || verb_forms_en::BEFORE_SUBJECT.contains(&self.text(*at))
            })
            .count();
        let verb = at + auxiliaries;
        let is_participle =
            self.tokens.get(verb).is_some_and(|token| verb_forms_en::is_participle(token, self.lexicon));
        (at..verb).any(|at| verb_forms_en::PASSIVE_OF_WHO.contains(&self.text(at)))
            && is_participle
            && !self.is_closed(verb)
    }

    /// Whether a preposition stands last whose noun is asked for: who are they sent to.
    fn is_stranded(&self, at: usize) -> bool {
        let last = self.tokens.iter().rposition(|token| token.script != Script::Stop);
        last.is_some_and(|last| last > at && matches!(self.text(last), "to" | "for" | "from" | "with"))
    }

    /// Whether an auxiliary stands here before its subject.
    pub(super) fn inverts(&self, at: usize) -> bool {
        let subject = self.text(at + 1);
        verb_forms_en::BEFORE_SUBJECT.contains(&self.text(at))
            && matches!(subject, "i" | "we" | "you" | "they" | "he" | "she" | "it" | "the" | "my" | "our" | "there")
    }

    /// Whether a bare 谁 stands behind the verb that is done to it, and has no verb of its own: 张三批准谁的报销.
    fn is_object(&self, at: usize, taken: usize) -> bool {
        let is_bare = matches!(self.text(at), "谁" | "哪位" | "什么人" | "哪个人" | "何人" | "哪些人") && taken == 1;
        let tag = |at: usize| self.tokens.get(at).map_or("", |token| token.tag);
        let before =
            at.checked_sub(1).filter(|before| !matches!(self.text(*before), "了" | "过")).or(at.checked_sub(2));
        let is_verb = before.is_some_and(|before| tag(before).starts_with('v') && !self.is_closed(before));
        let last = self.question.terms.last();
        is_bare
            && is_verb
            && last.is_some_and(|term| term.class == WordClass::Verb && !term.is_one_of(CONTACTS))
            && !tag(at + taken).starts_with('v')
    }

    /// Whether a Chinese verb stands here that happens at one point: 几天到账 asks how long until then.
    fn ends(&self, at: usize) -> bool {
        let at = if matches!(self.text(at), "才" | "就" | "内" | "后") { at + 1 } else { at };
        let is_verb = |token: &Token| token.tag.starts_with('v') || token.text.starts_with('到');
        self.tokens.get(at).is_some_and(|token| is_verb(token) && token.text.ends_with(POINTS))
    }

    /// Where a word that asks what stands: 影响什么, 什么影响.
    fn wh_position(&self, at: usize, taken: usize) -> WhPosition {
        let before = at.checked_sub(1).map_or("", |before| self.text(before));
        let verb = if matches!(before, "了" | "过" | "着") { at.checked_sub(2) } else { at.checked_sub(1) };
        let is_needed = |text: &str| matches!(text, "需要" | "需" | "要" | "要求" | "得");
        let is_verb = |term: &Term| term.class == WordClass::Verb || term.is_action;
        WhPosition {
            place: self.question.terms.len(),
            behind_verb: verb.is_some_and(|verb| !self.is_closed(verb))
                && self.question.terms.last().is_some_and(is_verb),
            needed: is_needed(before),
            needs: (at + taken..at + taken + 3).any(|at| is_needed(self.text(at))),
        }
    }

    /// Whether an auxiliary stands here with the one who does something behind it: «who did Maria replace».
    fn asks_for_object(&self, at: usize) -> bool {
        let next = self.text(at + 1);
        let is_pronoun = matches!(next, "i" | "we" | "you" | "they" | "he" | "she" | "it" | "one");
        let is_noun = !is_pronoun
            && (matches!(next, "the" | "a" | "an" | "my" | "our" | "your")
                || self.tokens.get(at + 1).is_some_and(|token| token.capital));
        match self.text(at) {
            "do" | "does" | "did" => !is_pronoun,
            "can" | "could" | "should" | "must" | "will" | "would" | "may" => is_noun,
            _ => false,
        }
    }

    /// Whether «when» begins a clause inside a question, and asks nothing itself.
    fn is_conjunction(&self, at: usize, taken: usize) -> bool {
        let opens = at == 0 || self.tokens.get(at - 1).is_some_and(|token| token.script == Script::Stop);
        let inverted = verb_forms_en::BEFORE_SUBJECT.contains(&self.text(at + taken));
        let is_led = !opens || verb_forms_en::BEFORE_SUBJECT.contains(&self.opener());
        is_led
            && !inverted
            && self.asking != Some(at)
            && at + taken < self.tokens.len()
            && !matches!(self.text(at.wrapping_sub(1)), "by" | "since" | "and" | "or" | "from" | "until" | "of")
    }

    /// How long it takes until it is done once more is how often it is done: 多久更换一次.
    pub(super) fn repeats(&mut self) {
        let long = bit(QuestionType::Duration) | bit(QuestionType::Wait);
        let once = |at: usize| self.text(at) == "一次" || (self.text(at) == "一" && self.text(at + 1) == "次");
        let is_long = |at: &usize| self.text(*at).starts_with("多久") || self.text(*at).starts_with("多长时间");
        let asked = (0..self.tokens.len()).find(is_long);
        if asked.is_some_and(|asked| (asked + 1..self.tokens.len()).any(once)) && self.question.asked.types & long != 0
        {
            self.question.asked.types = (self.question.asked.types & !long) | bit(QuestionType::Often);
        }
    }

    /// Whether a word stands here, right behind a verb, that says that it was tried in vain: 登录失败.
    pub(super) fn fails(&self, at: usize) -> bool {
        let is_verb = |before: usize| {
            let is_done = self.tokens.get(before).is_some_and(|token| token.tag.starts_with('v'));
            (is_done || self.question.terms.last().is_some_and(|term| term.is_action)) && !self.is_closed(before)
        };
        matches!(self.text(at), "失败" | "不成功" | "没成功" | "未成功" | "没有成功")
            && at.checked_sub(1).is_some_and(is_verb)
            && !self.question.terms.is_empty()
    }

    /// «Can I», «is it», «does the»: an auxiliary that opens the question.
    pub(super) fn maybe_polar(&mut self, at: usize) {
        let opens = at == 0 || self.tokens.get(at - 1).is_some_and(|token| token.script == Script::Stop);
        if opens && !self.question.chinese {
            self.question.asked.types |= bit(QuestionType::Polar);
        }
    }

    /// Whether «help me» and its like stand here behind somebody who does it, and ask nothing: how does my mother help me.
    pub(super) fn is_told(&self, at: usize) -> bool {
        let before = at.checked_sub(1);
        matches!(self.text(at), "help" | "tell" | "show" | "give" | "remind" | "advise" | "let")
            && self.text(at + 1) == "me"
            && before.is_some_and(|before| {
                self.tokens.get(before).is_some_and(|token| token.script == Script::Latin)
                    && !self.is_closed(before)
                    && !matches!(self.text(before), "someone" | "anyone" | "somebody" | "anybody" | "pls" | "just")
            })
    }
}

/// How Chinese verbs end that happen at one point.
const POINTS: [char; 8] = ['到', '好', '完', '达', '回', '账', '货', '效'];
