//! The words of two questions, compared: what must agree before one answer may serve both.
//!
//! A question is read once: `text` makes tokens of it, `reading` a [`Question`] of these, with what `lexicon` and `quantity`
//! know. [`compare`] then asks the `checks`, in this order, and the first that finds a difference names the guard:
//!
//! | file in `checks` | holds apart | guards |
//! | --- | --- | --- |
//! | (`text::symbols`) | symbols that are no words: `<` / `>`, `ls -a` / `ls -A` | `entity` |
//! | `quantities` | numbers, money, versions, dates: 3 天 / 30 天, $500 / €500 | `number`, `amount`, `unit`, `version`, `date`; their order: `direction` |
//! | `scope` | quantifiers, comparatives, «only», before / after, Chinese particles: 至少 / 至多, all / some | `scope`, `comparison`, `date` |
//! | `persons` | who is spoken of, in which case: 我的 / 你的, I call them / they call me | `entity`, `direction` |
//! | `modality` | tense, permission, obligation: 可以 / 必须, was / will be | `mood`; what is denied: `negation` |
//! | `question_type` | what is asked: 什么时候 / 在哪里, how tall / how heavy, who pays / who is paid | `kind`, `direction` |
//! | `content_words`, with `compounds` | other actions and things, what one of them denies or does not say: 提交 / 取消, with / without | `action`, `entity`, `negation`, `scope` |
//! | `employer` | the company or its staff, in English | `entity` |
//! | `direction`, with `direction_en`, `direction_zh`, `direction_prepositions` | the same words in other roles: 从北京到上海 / 从上海到北京, A owes B / B owes A | `direction` |
//!
//! `length` is [`compare`]'s own: questions that are empty or too long to be compared.
//!
//! Modules and fields that concern one language end in `_en` or `_zh`. «One» and «two» are the two questions everywhere;
//! «matched» are pairs of places among their terms that mean the same.

mod checks;
mod compare;
mod guard;
mod lexicon;
mod quantity;
mod question;
mod reading;
mod text;
mod token;

pub use compare::{compare, differences, only_words_differ};
pub use guard::Guard;
pub use question::Question;
pub use text::normalize::LONGEST;

/// Loads what is known of words, if it is not loaded yet: some 200 ms, so not on a thread that serves.
pub fn warm() {
    lexicon::lexicon();
}
