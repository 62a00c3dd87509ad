//! Word senses by place: 还 gives back where nothing is still so, «left» is what remains behind a number, «within» bounds
//! numbers alone.

use crate::guards::quantity::numeric;
use crate::guards::quantity::{self, QuantityKind};
use crate::guards::token::{Script, Token};

/// Puts in their own form what stands for another word in this place.
pub fn read(tokens: &mut Vec<Token>) {
    count_ones(tokens);
    let mut at = 0;
    while at < tokens.len() {
        let (earlier, rest) = tokens.split_at(at.min(tokens.len()));
        match rest.first().map(|token| token.text.as_str()) {
            Some("还") if gives_back(earlier, rest) => {
                tokens.splice(at..=at, [Token { tag: "v", ..Token::new("归还", Script::Han) }]);
            }
            Some("个人") if counts(earlier) => {
                tokens.splice(at..=at, [Token { tag: "n", ..Token::new("人", Script::Han) }]);
            }
            Some("at" | "in" | "on" | "inside" | "within") if at > 0 && own(earlier, rest).is_some() => {
                if let Some((length, place)) = own(earlier, rest) {
                    tokens.splice(at..at + length, place.map(|word| Token::new(word, Script::Latin)));
                }
                continue;
            }
            // Who is about to be one: 准妈妈.
            Some("准") if rest.get(1).is_some_and(|next| next.tag.starts_with('n')) => {
                let text = rest.get(1).map(|next| format!("准{}", next.text)).unwrap_or_default();
                tokens.splice(at..at + 2, [Token { tag: "n", ..Token::new(&text, Script::Han) }]);
            }
            Some("left") if remains(earlier, rest) => {
                tokens.splice(at..=at, [Token::new("remaining", Script::Latin)]);
            }
            // «Found» is what a founder does where a verb stands in its first form; else it is of «find».
            Some(past @ ("found" | "fell" | "saw" | "wound" | "ground")) if is_first_form(earlier) => {
                let text = format!("{past}s");
                tokens.splice(at..=at, [Token::new(&text, Script::Latin)]);
            }
            Some("within") if !bounds(rest) => {
                tokens.splice(at..=at, [Token::new("in", Script::Latin)]);
            }
            Some("新" | "新的") if is_replacement(earlier, rest) => {
                tokens.remove(at);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

/// How many tokens say that it is where the one who asks works, at the end of a clause, and what is left of that: a
/// company may be anywhere, an office is a place.
fn own(earlier: &[Token], rest: &[Token]) -> Option<(usize, Option<&'static str>)> {
    let is_owned = is_one_of(rest.get(1), &["the", "my", "our", "your", "this"]);
    let noun = if is_owned { 2 } else { 1 };
    let ends = rest.get(noun + 1).is_none_or(|token| token.script == Script::Stop)
        || is_one_of(rest.get(noun + 1), &["for", "when", "if", "during", "after", "before", "without", "with"]);
    let place = match rest.get(noun)?.text.as_str() {
        "company" | "firm" | "organization" | "organisation" if is_owned => None,
        "work" if !is_owned && is_one_of(rest.first(), &["at"]) => None,
        "office" | "workplace" | "premises" if is_owned => Some("onsite"),
        _ => return None,
    };
    (ends && !is_one_of(earlier.last(), &["be", "is", "are", "work"])).then_some((noun + 1, place))
}

/// «One» is an article, but a number beside another: 一次吃两片, 买二送一.
fn count_ones(tokens: &mut Vec<Token>) {
    let counted = |at: usize| {
        let found = tokens.get(at..).and_then(numeric::read);
        found.is_some_and(|(_, found)| found.iter().any(|quantity| quantity.kind == QuantityKind::Number))
    };
    let is_han = |token: &Token| token.script == Script::Han;
    let is_one = |token: &Token| matches!(token.text.as_str(), "一" | "一个");
    if !tokens.iter().any(is_one) || !tokens.iter().any(is_han) || !(0..tokens.len()).any(counted) {
        return;
    }
    let mut at = 0;
    while at < tokens.len() {
        let one = || Token { tag: "m", ..Token::new("1", Script::Number) };
        let is_numeral = |token: &Token| token.script == Script::Number || token.text.chars().all(quantity::is_numeral);
        let is_part = at.checked_sub(1).and_then(|before| tokens.get(before)).is_some_and(|before| {
            is_numeral(before) || matches!(before.text.as_str(), "第" | "百分之" | "之" | "分之" | "点")
        });
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("一") if !is_part && !tokens.get(at + 1).is_some_and(is_numeral) => {
                tokens.splice(at..=at, [one()]).for_each(drop)
            }
            Some("一个") => {
                tokens.splice(at..=at, [one(), Token { tag: "q", ..Token::new("个", Script::Han) }]).for_each(drop);
            }
            _ => {}
        }
        at += 1;
    }
}

fn is_one_of(token: Option<&Token>, words: &[&str]) -> bool {
    token.is_some_and(|token| words.contains(&token.text.as_str()))
}

/// Whether what is left is still there: three days are left, how many days do I have left.
fn remains(earlier: &[Token], rest: &[Token]) -> bool {
    if is_one_of(earlier.last(), &["is", "are", "was", "were", "be"]) {
        return true;
    }
    let has = earlier.iter().position(|token| matches!(token.text.as_str(), "have" | "has" | "is" | "are"));
    let behind = has.map_or(0, |has| earlier.len() - has);
    let led = |word: &str| earlier.iter().any(|token| token.text == word);
    let ends = rest.get(1).is_none_or(|token| token.script == Script::Stop);
    // «Do I have left», and «are there any seats left»; not «have they left».
    ends && has.is_some() && (led("do") || led("does") || (behind > 1 && (led("there") || led("any"))))
}

/// Whether an English verb that stands behind these is in its first form.
fn is_first_form(earlier: &[Token]) -> bool {
    let leads: &[&str] =
        &["to", "can", "could", "will", "would", "should", "must", "may", "do", "does", "did", "a", "the"];
    let persons: &[&str] = &["i", "we", "you", "they", "he", "she"];
    is_one_of(earlier.last(), leads)
        || is_one_of(earlier.last(), persons)
            && earlier.len().checked_sub(2).is_some_and(|at| is_one_of(earlier.get(at), leads))
}

/// Whether a number stands last, or a word that asks for one: 几个人 are persons, and no individuals.
fn counts(earlier: &[Token]) -> bool {
    is_one_of(earlier.last(), &["几", "多少"])
        || earlier
            .len()
            .checked_sub(1)
            .and_then(|at| earlier.get(at..))
            .is_some_and(|last| numeric::read(last).is_some())
}

/// Whether nothing of the clause follows but a particle.
fn ends(rest: &[Token]) -> bool {
    rest.first().is_none_or(|token| token.script == Script::Stop)
        || is_one_of(rest.first(), &["呢", "啊", "呀", "吗", "了", "的"])
}

/// Whether 还 is the verb: at the end of its clause, or behind a word that wants a verb and before a noun. Else it is
/// «still».
fn gives_back(earlier: &[Token], rest: &[Token]) -> bool {
    let is_led = earlier.last().is_some_and(|token| LEADS.iter().any(|lead| token.text.ends_with(lead)));
    let next = rest.get(1);
    let is_noun = next.is_some_and(|token| token.script == Script::Han && token.tag.starts_with('n'));
    ends(rest.get(1..).unwrap_or_default()) && !earlier.is_empty() || is_led && is_noun
}

/// How words end behind which a verb stands.
const LEADS: [&str; 9] = ["怎么", "如何", "怎样", "咋", "能", "可以", "能不能", "多久", "提前"];

/// Whether a number, or a span of time, follows on «within».
fn bounds(rest: &[Token]) -> bool {
    (1..=4).any(|at| rest.get(at..).is_some_and(|tokens| numeric::read(tokens).is_some()))
}

/// Whether something new is what it is changed for, and no kind of its own: 换新的, 换台新的.
fn is_replacement(earlier: &[Token], rest: &[Token]) -> bool {
    let is_whole = rest.first().is_some_and(|token| token.text == "新的") || is_one_of(rest.get(1), &["的"]);
    let behind = if is_one_of(rest.get(1), &["的"]) { 2 } else { 1 };
    let is_last = rest.get(behind).is_none_or(|token| token.script == Script::Stop || !token.tag.starts_with('n'));
    let changes = earlier.iter().rev().take(3).any(|token| token.text.starts_with('换') || token.text == "更换");
    is_whole && is_last && changes
}
