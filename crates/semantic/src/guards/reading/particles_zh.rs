//! Chinese particles and adverbs, read by their place: 可以不 permits and 不可以 forbids, 没有都 is not all, 才能 is only then,
//! 给谁 asks for the one who gets it.

use crate::guards::lexicon::Lexicon;
use crate::guards::lexicon::function_words::Effect;
use crate::guards::question::particles_zh::ParticleSenses;
use crate::guards::token::{Script, Token};

/// Reads them.
pub fn read(tokens: &[Token], lexicon: &Lexicon) -> ParticleSenses {
    let words = Words { tokens, lexicon };
    let mut senses = ParticleSenses::default();
    for at in 0..tokens.len() {
        words.denial(at, &mut senses);
        words.adverb(at, &mut senses);
        words.time(at, &mut senses);
        words.question(at, &mut senses);
        words.part(at, &mut senses);
    }
    senses.add(ParticleSenses::PERMITS, senses.has(ParticleSenses::PLAIN) && senses.has(ParticleSenses::MODAL));
    // What is about to be is not done: 要发了.
    if senses.has(ParticleSenses::WILL) && !tokens.iter().any(|token| matches!(token.text.as_str(), "已经" | "已")) {
        senses.0 &= !ParticleSenses::DONE.0;
    }
    senses
}

/// The words of a question.
struct Words<'a> {
    tokens: &'a [Token],
    lexicon: &'a Lexicon,
}

impl<'a> Words<'a> {
    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    fn before(&self, at: usize) -> &'a str {
        at.checked_sub(1).map_or("", |before| self.text(before))
    }

    fn is_verb(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.tag.starts_with('v'))
    }

    fn denies(&self, at: usize) -> bool {
        let parts = self.lexicon.closed(self.text(at));
        parts.is_some_and(|parts| parts.iter().any(|part| matches!(part, Effect::Not)))
    }

    fn ends(&self, at: usize) -> bool {
        self.tokens.get(at).is_none_or(|token| token.script == Script::Stop)
    }

    /// What a negator denies, and what a modal verb allows.
    fn denial(&self, at: usize, senses: &mut ParticleSenses) {
        let (word, next) = (self.text(at), self.text(at + 1));
        senses.add(ParticleSenses::MODAL, MODALS.contains(&word));
        senses.add(ParticleSenses::NONE, matches!(word, "没人" | "无人"));
        senses.add(ParticleSenses::ONLY_NOT, matches!(word, "只" | "仅" | "只是") && self.denies(at + 1));
        // 来不来: neither the one nor the other.
        let doubled = at > 0 && !next.is_empty() && next.starts_with(self.before(at));
        if !self.denies(at) || doubled || self.ends(at + 1) {
            return;
        }
        senses.add(ParticleSenses::FORBIDS, FORBIDDING.contains(&word));
        senses.add(ParticleSenses::SPARES, SPARING.contains(&word));
        senses.add(ParticleSenses::PLAIN, matches!(word, "不" | "没" | "没有" | "未" | "别"));
        senses.add(ParticleSenses::NOT_ALL, WHOLES.contains(&next));
        senses.add(ParticleSenses::NOT_ONLY, matches!(next, "只" | "仅" | "光" | "仅仅"));
        let one = next == "1" && self.text(at + 2) == "个";
        let nobody = one || matches!(next, "人" | "任何" | "任何人" | "一个");
        senses.add(ParticleSenses::NONE, nobody && matches!(word, "没" | "没有" | "无"));
    }

    /// What an adverb adds.
    fn adverb(&self, at: usize, senses: &mut ParticleSenses) {
        let (word, next) = (self.text(at), self.text(at + 1));
        senses.add(ParticleSenses::ONLY_IF, matches!(word, "才" | "才能" | "才可以" | "才会" | "方可" | "方能"));
        senses.add(ParticleSenses::SUFFICES, matches!(word, "就" | "便") && !matches!(next, "是" | "要"));
        senses.add(ParticleSenses::AGAIN, word == "再");
        senses.add(ParticleSenses::ANEW, word == "又");
        let towards = matches!(self.before(at), "给" | "替" | "帮" | "为" | "对" | "向");
        senses.add(ParticleSenses::REFLEXIVE, word == "自己" && towards);
    }

    /// Whether it is done, or will be.
    fn time(&self, at: usize, senses: &mut ParticleSenses) {
        let word = self.text(at);
        let behind_verb =
            matches!(self.before(at), "去" | "来") || at.checked_sub(1).is_some_and(|at| self.is_verb(at));
        senses.add(ParticleSenses::EXPERIENCED, word == "过" && behind_verb);
        let last = self.ends(at + 1) || matches!(self.text(at + 1), "吗" | "没" | "没有" | "么" | "没有吗");
        senses.add(ParticleSenses::DONE, matches!(word, "已经" | "已" | "了没" | "了没有") || (word == "了" && last));
        let about = matches!(word, "会" | "将" | "将会" | "将要" | "即将" | "快要" | "就要") && !self.ends(at + 1);
        let wants = matches!(word, "要" | "打算" | "准备") && self.is_verb(at + 1);
        senses.add(ParticleSenses::WILL, about || wants);
    }

    /// What the words beside a word that asks make of it.
    fn question(&self, at: usize, senses: &mut ParticleSenses) {
        let (word, before, next) = (self.text(at), self.before(at), self.text(at + 1));
        let goes = (matches!(word, "到" | "往" | "去") && PLACES.contains(&next))
            || matches!(word, "到哪里" | "到哪儿" | "到哪" | "到什么地方" | "去哪" | "去哪里" | "去哪儿" | "去何处");
        senses.add(ParticleSenses::WHITHER, goes && at.checked_sub(1).is_some_and(|at| self.is_verb(at)));
        let comes = (matches!(word, "从" | "由" | "自") && PLACES.contains(&next))
            || matches!(word, "从哪里" | "从哪儿" | "从什么地方");
        senses.add(ParticleSenses::WHENCE, comes);
        let is_who = matches!(word, "谁" | "哪位" | "什么人" | "哪个人" | "何人" | "哪些人" | "哪个部门" | "什么部门");
        let led = matches!(before, "给" | "替" | "帮" | "为" | "向" | "对" | "跟" | "和" | "与" | "从" | "让" | "把");
        senses.add(ParticleSenses::WHOM, is_who && led);
        let is_what = matches!(word, "什么" | "啥" | "什么时候" | "何时" | "哪个" | "哪种" | "哪天");
        let indefinite = (is_who && word != "哪些人") || is_what || PLACES.contains(&word);
        let whoever = (indefinite && matches!(next, "都" | "也")) || matches!(word, "谁都" | "谁也");
        senses.add(ParticleSenses::WHOEVER, whoever);
    }

    /// Who does it, and who has it done.
    fn part(&self, at: usize, senses: &mut ParticleSenses) {
        let (word, next) = (self.text(at), self.text(at + 1));
        let moves = |word: &str| matches!(word, "借" | "租" | "贷" | "出借");
        let lends = (moves(word) && next == "给") || matches!(word, "借给" | "租给" | "贷给" | "出租给");
        senses.add(ParticleSenses::LENDS, lends);
        let behind = (at + 1..at + 5).any(|at| moves(self.text(at)) && self.text(at + 1) != "给");
        senses.add(ParticleSenses::BORROWS, matches!(word, "向" | "从" | "跟" | "找" | "问") && behind);
        senses.add(ParticleSenses::CAUSES, matches!(word, "让" | "使" | "令" | "叫"));
        senses.add(ParticleSenses::GIVES, word == "给");
        senses
            .add(ParticleSenses::PATIENT_SUBJECT, word == "被" && (self.is_verb(at + 1) || self.text(at + 2) == "了"));
    }
}

/// Verbs of leave and duty, and what asks for leave.
const MODALS: [&str; 16] = [
    "可以",
    "能",
    "能够",
    "可",
    "允许",
    "应该",
    "应当",
    "应",
    "可不可以",
    "能不能",
    "能否",
    "可否",
    "是否可以",
    "是否能",
    "行",
    "行不行",
];

/// What is all of something, or always so.
const WHOLES: [&str; 10] = ["都", "全", "全都", "全部", "所有", "每", "每个", "一定", "总", "总是"];

/// Words that ask for a place.
const PLACES: [&str; 7] = ["哪里", "哪儿", "哪", "什么地方", "哪个地方", "何处", "哪家"];

/// Negators that forbid.
const FORBIDDING: [&str; 14] = [
    "不能",
    "不可以",
    "不可",
    "不得",
    "不许",
    "不准",
    "不让",
    "不该",
    "不应该",
    "不应",
    "无法",
    "没法",
    "没办法",
    "勿",
];

/// Negators that say that it need not be.
const SPARING: [&str; 7] = ["不用", "不需要", "无需", "无须", "不必", "毋须", "免于"];
