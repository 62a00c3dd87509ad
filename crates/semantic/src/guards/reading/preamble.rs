//! A question from its text; and the story that some callers tell before they ask, which counts for nothing where it decides
//! nothing: 我刚买了房，怎么提取公积金; I lost my badge yesterday, how do I replace a badge?

use crate::guards::lexicon::function_words::Mark;
use crate::guards::lexicon::{Lexicon, lexicon};
use crate::guards::quantity::QuantityKind;
use crate::guards::question::Question;
use crate::guards::question::term::WordClass;
use crate::guards::reading::reader::{Reading, read};
use crate::guards::text::disambiguate;
use crate::guards::text::normalize::{self, LONGEST};
use crate::guards::text::separable_verbs;
use crate::guards::text::symbols;
use crate::guards::token::{Script, Token, is_among};

impl Question {
    /// Takes a question apart. What is longer than [`LONGEST`] characters is never the same as another.
    #[must_use]
    pub fn read(text: &str) -> Self {
        if text.chars().nth(LONGEST).is_some() {
            return Self::default();
        }
        let lexicon = lexicon();
        let folded = normalize::fold(text, lexicon);
        let mut tokens = normalize::tokens(&folded, lexicon);
        disambiguate::read(&mut tokens);
        separable_verbs::rejoin(&mut tokens, lexicon);
        let Reading { mut question, asking } = read(&tokens, lexicon);
        question.symbols = symbols::read(&folded);
        question.core = core(&tokens, asking, lexicon).map(Box::new);
        question
    }
}

/// The question without the story before it, where there is one that decides nothing: it tells what happened or
/// what somebody is about to do, not who they are, what they have, where, how many, or in which case.
fn core(tokens: &[Token], asking: Option<usize>, lexicon: &'static Lexicon) -> Option<Question> {
    let ends = |token: &Token| matches!(token.text.as_str(), "," | "." | ";" | "!" | "?" | "。" | ":");
    let clauses = tokens.iter().enumerate().filter(|(_, token)| token.script == Script::Stop && ends(token));
    let mut places: Vec<usize> = clauses.map(|(at, _)| at + 1).collect();
    places.extend(asking);
    places.extend(wish(tokens));
    places.retain(|at| *at < tokens.len());
    places.sort_unstable();
    places.dedup();
    // Where no story can end before some place, none that ends earlier needs to be looked for.
    let earliest = places.iter().position(|at| tokens.get(..*at).is_some_and(may_be_told))?;
    let found = places.into_iter().skip(earliest).rev().find_map(|at| {
        let (story, rest) = tokens.split_at_checked(at).filter(|(_, rest)| !rest.iter().any(points_back))?;
        let question = read(rest, lexicon).question;
        stands_alone(&question, rest).then_some((story, question))
    });
    let (story, question) = found?;
    decides_nothing(&read(story, lexicon).question, story).then_some(question)
}

/// Where somebody says what they want, and asks no more than how to: 想补办驾照，咋弄.
fn wish(tokens: &[Token]) -> Option<usize> {
    let at = tokens.iter().rposition(|token| matches!(token.text.as_str(), "想" | "想要" | "打算"))?;
    let is_bare = |token: &Token| token.script == Script::Stop || matches!(token.text.as_str(), "啊" | "呢" | "呀");
    let mut last = tokens.iter().rev().skip_while(|token| is_bare(token));
    (at > 0 && last.next().is_some_and(|token| REMEDIES.iter().any(|end| token.text.ends_with(end)))).then_some(at)
}

/// How a question ends that asks how to do what was said before it.
const REMEDIES: [&str; 7] = ["怎么办", "咋办", "咋弄", "怎么弄", "咋整", "怎么操作", "咋操作"];

/// Whether a word stands for what was spoken of before.
fn points_back(token: &Token) -> bool {
    matches!(
        token.text.as_str(),
        "it" | "this"
            | "that"
            | "these"
            | "those"
            | "them"
            | "they"
            | "one"
            | "there"
            | "它"
            | "这"
            | "那"
            | "这个"
            | "那个"
            | "其"
            | "该"
            | "此"
            | "这种"
            | "这样"
            | "这里"
            | "那里"
    )
}

/// Whether it asks something about something that it names.
fn stands_alone(question: &Question, tokens: &[Token]) -> bool {
    let named = question.terms.iter().filter(|term| !term.optional).count() + usize::from(question.asked.by_noun);
    // What somebody wants to be done is a whole, be it one word: 想缓考.
    let wished = tokens.first().is_some_and(|token| matches!(token.text.as_str(), "想" | "想要" | "打算"))
        && question.terms.iter().all(|term| term.class == WordClass::Noun || !term.is_character());
    question.asked.types != 0
        && (named > 1 || (named == 1 && wished))
        && (wished || question.asked.by_noun || question.terms.iter().any(|term| term.class == WordClass::Noun))
}

/// Whether these words may tell a story that decides nothing, as far as can be seen without reading them as a question.
fn may_be_told(tokens: &[Token]) -> bool {
    let has = |words: &[&str]| tokens.iter().any(|token| is_among(&token.text, words));
    !has(DECIDES)
        && !tokens.iter().any(|token| token.upper)
        && (!tokens.iter().any(|token| token.script == Script::Han) || has(TOLD_IN_CHINESE))
}

/// Whether a story tells what happened, or what somebody is about to do, and nothing else.
fn decides_nothing(story: &Question, tokens: &[Token]) -> bool {
    let tells = |token: &Token| is_among(&token.text, TOLD) || token.text.ends_with("ed");
    let is_time = |class: QuantityKind| {
        matches!(class, QuantityKind::Relative | QuantityKind::DayPart | QuantityKind::Clock | QuantityKind::Weekday)
    };
    may_be_told(tokens)
        && (story.chinese || story.tense.past || tokens.iter().any(tells))
        && story.asked.types == 0
        && story.quantities.sorted.iter().all(|quantity| is_time(quantity.kind))
        && story.scope.marks.iter().all(|mark| mark.is_time() || *mark == Mark::Some)
}

/// Chinese words by which a story is told.
const TOLD_IN_CHINESE: &[&str] = &["了", "过", "刚", "刚刚", "想", "要", "打算", "来", "去", "有事"];

/// English verbs that tell a story.
const TOLD: &[&str] = &[
    "want", "wanted", "planning", "leaving", "going", "got", "went", "left", "bought", "lost", "was", "were", "forgot",
    "wanna", "gonna", "moving", "looking", "trying",
];

/// Words by which a story says who asks, what they have, or in which case.
const DECIDES: &[&str] = &[
    "如果", "若", "要是", "假如", "倘若", "作为", "对于", "属于", "是", "有", "没有", "在", "为", "因为", "按", "根据",
    "只", "已经", "if", "when", "unless", "as", "am a", "have", "has", "with", "without", "because", "for", "in", "at",
    "under", "over", "only", "a member", "being",
];
