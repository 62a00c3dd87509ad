//! Negation: which word a negator belongs to. 没有转正 denies 转正; 去不去 and a last 没有 deny nothing and ask whether;
//! 非去不可 is an obligation; 登录不上 denies the verb before it.

use crate::guards::lexicon::function_words::QuestionType;
use crate::guards::question::bit;
use crate::guards::reading::reader::Reader;
use crate::guards::token::Script;

impl Reader<'_> {
    pub(super) fn negate(&mut self, at: usize, taken: usize) {
        let text: String = self.tokens.iter().skip(at).take(taken).map(|token| token.text.as_str()).collect();
        let ends = at + taken >= self.tokens.len()
            || self.tokens.get(at + taken).is_some_and(|token| token.script == Script::Stop);
        if matches!(text.as_str(), "没有" | "没" | "不") && ends && at > 0 {
            self.question.asked.types |= bit(QuestionType::Polar);
            return;
        }
        // 非……不可: it must be.
        if matches!(text.as_str(), "不可" | "不行") && self.tokens.iter().take(at).any(|token| token.text == "非")
        {
            self.negate_last();
            self.question.modality.must = true;
            return;
        }
        let before = self.tokens.get(at.wrapping_sub(1)).filter(|_| at > 0);
        let after = self.tokens.get(at + 1);
        // 来不来: neither the one nor the other.
        if matches!(text.as_str(), "不" | "没")
            && before.zip(after).is_some_and(|(before, after)| after.text.starts_with(before.text.as_str()))
        {
            self.question.asked.types |= bit(QuestionType::Polar);
            self.question.terms.pop();
            return;
        }
        let is_complement =
            matches!(text.as_str(), "不了" | "不到" | "不上" | "不出来" | "不进去" | "不起来" | "不出去" | "不下来");
        let is_done = at > 0
            && !self.is_closed(at - 1)
            && self.question.terms.last().is_some_and(|term| term.is_action || term.is_character());
        let follows_verb = is_done || before.is_some_and(|token| token.tag.starts_with('v'));
        if is_complement && follows_verb {
            self.negate_last();
            return;
        }
        self.next.negated = !self.next.negated;
        self.next.not_attempted = matches!(
            text.as_str(),
            "不" | "没"
                | "没有"
                | "未"
                | "别"
                | "不要"
                | "不用"
                | "不需要"
                | "无需"
                | "无须"
                | "不必"
                | "从不"
                | "从未"
        );
    }

    pub(super) fn negate_last(&mut self) {
        match self.question.terms.last_mut() {
            Some(term) => term.negated = !term.negated,
            None => self.question.negated = !self.question.negated,
        }
        self.next.negated = false;
    }
}
