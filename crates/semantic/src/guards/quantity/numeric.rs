//! Numeric expressions: digits and words, Arabic and Chinese, with their units and currencies. 五千元 is 5000元, two weeks
//! are 14 days, 10k is 10,000.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::FixedState;

use crate::guards::quantity::temporal;
use crate::guards::quantity::{Quantity, QuantityKind, chinese_number, is_numeral};
use crate::guards::token::{Script, Token};

/// The quantities that are written from here on, and how many tokens they take.
pub fn read(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?;
    if let Some(found) = temporal::read(tokens) {
        return Some(found);
    }
    match first.script {
        Script::Sign => currency_first(tokens),
        Script::Number => digits(tokens),
        Script::Latin => version(tokens).or_else(|| spelled(tokens)),
        Script::Han => chinese(tokens),
        Script::Stop => None,
    }
}

/// `$500`, `¥ 5,000`
fn currency_first(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let unit = currency(tokens.first()?.text.as_str())?;
    let (value, rest) = plain(tokens.get(1)?)?;
    if !rest.is_empty() {
        return None;
    }
    let (value, taken) = multiplied(value, tokens.get(2..).unwrap_or_default());
    Some((2 + taken, vec![Quantity::new(QuantityKind::Amount, unit, value)]))
}

/// A token of digits: its value, with what is written on to it.
fn plain(token: &Token) -> Option<(f64, &str)> {
    if token.script != Script::Number {
        return None;
    }
    let (number, rest) = parted(&token.text);
    let number = number.replace(',', "");
    let value = number.parse::<f64>().ok()?;
    match rest {
        "k" => Some((value * 1e3, "")),
        "m" | "mn" => Some((value * 1e6, "")),
        "bn" => Some((value * 1e9, "")),
        rest => Some((value, rest)),
    }
}

/// Digits, and the letters behind them.
fn parted(text: &str) -> (&str, &str) {
    let at = text.char_indices().find(|(_, sign)| sign.is_ascii_alphabetic()).map_or(text.len(), |(at, _)| at);
    text.split_at_checked(at).unwrap_or((text, ""))
}

fn digits(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?;
    let Some((value, rest)) = plain(first) else {
        let (number, _) = parted(&first.text);
        let kind = if number.contains('.') { QuantityKind::Version } else { QuantityKind::Number };
        return Some((1, vec![Quantity::written(kind, &first.text)]));
    };
    if matches!(rest, "st" | "nd" | "rd" | "th") {
        return Some(ordinal(value, tokens.get(1..).unwrap_or_default(), 1));
    }
    if !rest.is_empty() {
        let measured = unit(rest).map(|(kind, name, factor)| Quantity::new(kind, name, value * factor));
        return Some((1, vec![measured.unwrap_or_else(|| Quantity::written(QuantityKind::Number, &first.text))]));
    }
    let found = with_unit(value, tokens, 1);
    // A decimal that counts nothing may be a version: 3.10 is not 3.1.
    let is_bare = found.0 == 1 && found.1.first().is_some_and(|quantity| quantity.kind == QuantityKind::Number);
    if is_bare && first.text.contains('.') {
        return Some((1, vec![Quantity::written(QuantityKind::Version, &first.text.replace(',', ""))]));
    }
    Some(found)
}

/// `v1.2`, `version 2`, `release 3.1`
fn version(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?.text.as_str();
    let is_version = |text: &str| text.chars().next().is_some_and(|sign| sign.is_ascii_digit());
    if let Some(rest) = first.strip_prefix('v').filter(|rest| is_version(rest)) {
        return Some((1, vec![Quantity::written(QuantityKind::Version, rest)]));
    }
    if matches!(first, "version" | "v" | "ver" | "release")
        && let Some(next) = tokens.get(1).filter(|next| next.script == Script::Number)
    {
        return Some((2, vec![Quantity::written(QuantityKind::Version, &next.text)]));
    }
    if let Some(quarter) = first.strip_prefix('q')
        && let Ok(quarter @ 1..=4) = quarter.parse::<u8>()
    {
        return Some((1, vec![Quantity::new(QuantityKind::Quarter, "quarter", f64::from(quarter))]));
    }
    None
}

/// `twenty five days`, `half a year`, `third quarter`
fn spelled(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let word = |at: usize| tokens.get(at).map(|token| token.text.as_str());
    if word(0) == Some("half") {
        let skipped = usize::from(matches!(word(1), Some("a" | "an")));
        let (kind, name, factor) = unit(word(1 + skipped)?)?;
        return Some((2 + skipped, vec![Quantity::new(kind, name, factor / 2.0)]));
    }
    if let Some(rank) = word(0).and_then(english_rank) {
        return Some(ordinal(rank, tokens.get(1..).unwrap_or_default(), 1));
    }
    let (mut total, mut part, mut taken) = (0.0, 0.0, 0);
    while let Some(word) = word(taken) {
        match english_number(word) {
            Some(100.0) if part > 0.0 => part *= 100.0,
            Some(value) if value >= 1000.0 && part > 0.0 => {
                total += part * value;
                part = 0.0;
            }
            Some(value) if value < 100.0 && (part == 0.0 || value < 10.0 || part >= 100.0) => part += value,
            _ if word == "and"
                && taken > 0
                && part >= 100.0
                && tokens.get(taken + 1).is_some_and(|next| english_number(&next.text).is_some()) => {}
            _ => break,
        }
        taken += 1;
    }
    total += part;
    if taken == 0 || (taken == 1 && word(0) == Some("one")) && tokens.get(1).and_then(|next| unit(&next.text)).is_none()
    {
        return None;
    }
    Some(with_unit(total, tokens, taken))
}

/// Chinese numerals, with their classifier.
fn chinese(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?.text.as_str();
    if first == "第" || first.starts_with('第') {
        let own: String = first.chars().skip(1).collect();
        let (value, taken) = if own.is_empty() {
            let (value, taken) = numeral(tokens.get(1..)?)?;
            (value, taken + 1)
        } else {
            (chinese_number(&own)?, 1)
        };
        return Some(ordinal(value, tokens.get(taken..).unwrap_or_default(), taken));
    }
    if first == "百分之" {
        let (value, taken) = numeral(tokens.get(1..)?)?;
        return Some((taken + 1, vec![Quantity::new(QuantityKind::Measure, "%", value)]));
    }
    if first == "双倍" {
        return Some((1, vec![Quantity::new(QuantityKind::Number, "", 2.0)]));
    }
    if first == "半" || first == "半个" {
        let (kind, name, factor) = tokens.get(1).and_then(|next| unit(&next.text))?;
        return Some((2, vec![Quantity::new(kind, name, factor / 2.0)]));
    }
    // The dictionary has 一个 as one word.
    if first == "一个" {
        let (kind, name, factor) = tokens.get(1).and_then(|next| unit(&next.text))?;
        return (kind == QuantityKind::Span).then(|| (2, vec![Quantity::new(kind, name, factor)]));
    }
    let (value, taken) = numeral(tokens)?;
    let next = tokens.get(taken);
    let measured = next.and_then(|next| unit(&next.text));
    // «One» before a classifier is an article.
    let ranks = next.is_some_and(|next| RANKS.contains(&next.text.as_str()));
    if value == 1.0 && taken == 1 && first == "一" && measured.is_none() && !ranks {
        let is_article = next.is_none_or(|next| next.tag == "q" || CLASSIFIERS.contains(&next.text.as_str()));
        return Some((if is_article && next.is_some() { 2 } else { 1 }, Vec::new()));
    }
    Some(with_unit(value, tokens, taken))
}

/// Classifiers behind a rank: 一级, 一等.
const RANKS: &[&str] = &["级", "等", "类", "档", "线", "层", "楼", "号", "栋", "期", "批"];

/// Classifiers that the dictionary takes for another word.
const CLASSIFIERS: &[&str] = &["个", "间", "台", "张", "件", "份", "条", "套", "部", "辆", "本", "笔", "封", "家"];

/// Classifiers that are no mere companions of a noun: two boxes are not two bottles.
const BINDING: &[&str] = &[
    "次", "片", "粒", "颗", "瓶", "盒", "箱", "包", "袋", "杯", "碗", "勺", "滴", "支", "层", "楼", "栋", "幢", "级",
    "代", "期", "排", "组", "批", "节", "对", "双", "套",
];

/// A number of digits or numerals, in as many tokens as it takes.
fn numeral(tokens: &[Token]) -> Option<(f64, usize)> {
    let first = tokens.first()?;
    if first.script == Script::Number {
        let (value, rest) = plain(first)?;
        if !rest.is_empty() {
            return None;
        }
        let (value, taken) = multiplied(value, tokens.get(1..).unwrap_or_default());
        return Some((value, taken + 1));
    }
    let mut written = String::new();
    let mut taken = 0;
    while let Some(token) = tokens.get(taken).filter(|token| token.script == Script::Han) {
        if !token.text.chars().all(is_numeral) {
            break;
        }
        written.push_str(&token.text);
        taken += 1;
    }
    Some((chinese_number(&written)?, taken))
}

/// `5` `万`, `3` `million`
fn multiplied(value: f64, rest: &[Token]) -> (f64, usize) {
    let factor = match rest.first().map(|token| token.text.as_str()) {
        Some("千" | "thousand") => 1e3,
        Some("万") => 1e4,
        Some("百万" | "million") => 1e6,
        Some("千万") => 1e7,
        Some("亿") => 1e8,
        Some("billion") => 1e9,
        _ => return (value, 0),
    };
    (value * factor, 1)
}

/// A number of `taken` tokens with the unit behind it.
fn with_unit(value: f64, tokens: &[Token], taken: usize) -> (usize, Vec<Quantity>) {
    let (value, more) = multiplied(value, tokens.get(taken..).unwrap_or_default());
    let taken = taken + more;
    let rest = tokens.get(taken..).unwrap_or_default();
    let text = |at: usize| rest.get(at).map_or("", |token| token.text.as_str());
    let skipped = usize::from(text(0) == "个" || text(0) == "-");
    if let Some((kind, name, factor)) = unit(text(skipped)) {
        let half = if kind == QuantityKind::Span && text(skipped + 1) == "半" { 0.5 } else { 0.0 };
        return (
            taken + skipped + 1 + usize::from(half > 0.0),
            vec![Quantity::new(kind, name, (value + half) * factor)],
        );
    }
    if let Some(token) = rest.first().filter(|token| {
        token.tag == "q" || token.text == "个" || token.text == "位" || token.text == "名" || token.text == "倍"
    }) {
        // What tells no more than that things are counted goes without saying; what counts times or parts does not.
        let counted = if token.text == "回" { "次" } else { token.text.as_str() };
        let counted = if BINDING.contains(&counted) { counted } else { "" };
        return (taken + 1, vec![Quantity { text: counted.into(), ..Quantity::new(QuantityKind::Number, "", value) }]);
    }
    (taken, vec![Quantity::new(QuantityKind::Number, "", value)])
}

/// A rank with what it is a rank of.
fn ordinal(value: f64, rest: &[Token], taken: usize) -> (usize, Vec<Quantity>) {
    match rest.first().map(|token| token.text.as_str()) {
        Some("季度" | "季" | "quarter") => (taken + 1, vec![Quantity::new(QuantityKind::Quarter, "quarter", value)]),
        Some("个" | "条" | "名" | "位" | "次" | "款" | "项") => {
            (taken + 1, vec![Quantity::new(QuantityKind::Ordinal, "", value)])
        }
        _ => (taken, vec![Quantity::new(QuantityKind::Ordinal, "", value)]),
    }
}

/// What a unit counts, its one name, and how many of that it is.
pub fn unit(word: &str) -> Option<(QuantityKind, &'static str, f64)> {
    if let Some(currency) = currency(word) {
        return Some((QuantityKind::Amount, currency, 1.0));
    }
    let singular = word.strip_suffix('s').filter(|stem| stem.chars().count() > 2 && word.is_ascii()).unwrap_or(word);
    let at = [word, singular].iter().filter_map(|name| UNIT_ROWS.get(name)).min()?;
    UNITS.get(*at).map(|(_, kind, name, factor)| (*kind, *name, *factor))
}

/// Words by their text.
type Words<V> = HashMap<&'static str, V, FixedState>;

/// The rows of names, of which the first counts.
fn rows(lists: impl Iterator<Item = &'static str>) -> Words<usize> {
    let mut rows = Words::default();
    for (at, names) in lists.enumerate() {
        names.split(' ').for_each(|name| _ = rows.entry(name).or_insert(at));
    }
    rows
}

static UNIT_ROWS: LazyLock<Words<usize>> = LazyLock::new(|| rows(UNITS.iter().map(|row| row.0)));
static CURRENCY_ROWS: LazyLock<Words<usize>> = LazyLock::new(|| rows(CURRENCIES.iter().map(|row| row.0)));

fn currency(word: &str) -> Option<&'static str> {
    let singular = word.strip_suffix('s').filter(|_| word.is_ascii()).unwrap_or(word);
    let at = [word, singular].iter().filter_map(|name| CURRENCY_ROWS.get(name)).min()?;
    CURRENCIES.get(*at).map(|(_, name)| *name)
}

const CURRENCIES: [(&str, &str); 8] = [
    ("元 块 块钱 圆 人民币 rmb cny yuan ¥ 元人民币", "CNY"),
    ("$ usd dollar buck 美元 美金 刀", "USD"),
    ("€ eur euro 欧元", "EUR"),
    ("£ gbp pound 英镑", "GBP"),
    ("jpy yen 日元", "JPY"),
    ("hkd 港元 港币", "HKD"),
    ("krw won 韩元", "KRW"),
    ("chf franc 瑞士法郎", "CHF"),
];

const UNITS: [(&str, QuantityKind, &str, f64); 33] = [
    ("秒 秒钟 sec second", QuantityKind::Span, "second", 1.0),
    ("分钟 分 min minute mins", QuantityKind::Span, "second", 60.0),
    ("小时 钟头 hour hr hrs h", QuantityKind::Span, "second", 3600.0),
    ("天 日 day", QuantityKind::Span, "second", 86_400.0),
    ("周 星期 礼拜 week wk", QuantityKind::Span, "second", 604_800.0),
    ("fortnight", QuantityKind::Span, "second", 1_209_600.0),
    ("个月 月 month", QuantityKind::Span, "month", 1.0),
    ("季度 quarter", QuantityKind::Span, "month", 3.0),
    ("年 周年 年度 year yr yrs", QuantityKind::Span, "month", 12.0),
    ("岁 周岁", QuantityKind::Measure, "age", 1.0),
    ("% 个百分点 percent pct", QuantityKind::Measure, "%", 1.0),
    ("成", QuantityKind::Measure, "%", 10.0),
    ("‰", QuantityKind::Measure, "%", 0.1),
    ("折", QuantityKind::Measure, "tenth", 1.0),
    ("kb", QuantityKind::Measure, "byte", 1e3),
    ("mb 兆 megabyte", QuantityKind::Measure, "byte", 1e6),
    ("gb gigabyte", QuantityKind::Measure, "byte", 1e9),
    ("tb terabyte", QuantityKind::Measure, "byte", 1e12),
    ("毫米 mm", QuantityKind::Measure, "metre", 1e-3),
    ("厘米 公分 cm centimetre centimeter", QuantityKind::Measure, "metre", 1e-2),
    ("米 metre meter", QuantityKind::Measure, "metre", 1.0),
    ("公里 千米 km kilometre kilometer", QuantityKind::Measure, "metre", 1e3),
    ("里 华里", QuantityKind::Measure, "metre", 500.0),
    ("英里 mile mi", QuantityKind::Measure, "mile", 1.0),
    ("inch inches in 英寸 寸", QuantityKind::Measure, "inch", 1.0),
    ("foot feet ft 英尺", QuantityKind::Measure, "foot", 1.0),
    ("毫克 mg", QuantityKind::Measure, "gram", 1e-3),
    ("克 gram", QuantityKind::Measure, "gram", 1.0),
    ("公斤 千克 kg kilo kilogram", QuantityKind::Measure, "gram", 1e3),
    ("斤", QuantityKind::Measure, "gram", 500.0),
    ("吨 tonne ton", QuantityKind::Measure, "gram", 1e6),
    ("毫升 ml", QuantityKind::Measure, "litre", 1e-3),
    ("平米 平方米 平方 sqm", QuantityKind::Measure, "square metre", 1.0),
];

fn english_number(word: &str) -> Option<f64> {
    let at = NUMBERS.iter().position(|name| *name == word);
    if let Some(at) = at {
        return Some(f64::from(u8::try_from(at).unwrap_or(0)));
    }
    Some(match word {
        "thirty" => 30.0,
        "forty" => 40.0,
        "fifty" => 50.0,
        "sixty" => 60.0,
        "seventy" => 70.0,
        "eighty" => 80.0,
        "ninety" => 90.0,
        "hundred" => 100.0,
        "thousand" => 1e3,
        "million" => 1e6,
        "billion" => 1e9,
        "dozen" => 12.0,
        _ => return None,
    })
}

const NUMBERS: [&str; 21] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

fn english_rank(word: &str) -> Option<f64> {
    let ranks = [
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
        "twelfth",
    ];
    let at = ranks.iter().position(|name| *name == word)?;
    Some(f64::from(u8::try_from(at).unwrap_or(0)) + 1.0)
}
