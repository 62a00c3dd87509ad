//! Temporal expressions: calendar days, weekdays, hours, and times named from now. 下周五, next month, Q1, 7 pm.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::FixedState;

use crate::guards::quantity::{Quantity, QuantityKind, chinese_number};
use crate::guards::token::{Script, Token};

/// Words by their text.
type Words<V> = HashMap<&'static str, V, FixedState>;

/// Units of time in Chinese, with their one name.
const UNITS: [(&str, &str); 12] = [
    ("年", "year"),
    ("年度", "year"),
    ("季度", "quarter"),
    ("月", "month"),
    ("月份", "month"),
    ("周", "week"),
    ("星期", "week"),
    ("礼拜", "week"),
    ("周末", "weekend"),
    ("天", "day"),
    ("日", "day"),
    ("学期", "term"),
];

/// Chinese phrases of time that are one word each.
pub fn chinese_phrases() -> impl Iterator<Item = String> {
    let named = RELATIVE.iter().flat_map(|(phrase, _)| phrase.chars().next().map(|_| (*phrase).to_owned()));
    let parts = DAY_PARTS.iter().flat_map(|(names, _)| names.iter().map(|name| (*name).to_owned()));
    let weekdays = ["周", "星期", "礼拜"]
        .into_iter()
        .flat_map(|head| "一二三四五六日天".chars().map(move |day| format!("{head}{day}")));
    let rates = UNITS.iter().flat_map(|(unit, _)| ["每", "每个", "每一"].map(|head| format!("{head}{unit}")));
    named
        .chain(parts)
        .chain(weekdays)
        .chain(rates)
        .chain(HALVES.iter().map(|(name, _)| (*name).to_owned()))
        .chain([SINGLE_DAY.to_owned()])
        .filter(|phrase| !phrase.is_ascii())
}

/// Times named from now.
const RELATIVE: [(&str, (&str, i8)); 60] = [
    ("今天", ("day", 0)),
    ("今日", ("day", 0)),
    ("明天", ("day", 1)),
    ("明日", ("day", 1)),
    ("后天", ("day", 2)),
    ("昨天", ("day", -1)),
    ("昨日", ("day", -1)),
    ("前天", ("day", -2)),
    ("今晚", ("night", 0)),
    ("明晚", ("night", 1)),
    ("昨晚", ("night", -1)),
    ("今年", ("year", 0)),
    ("本年", ("year", 0)),
    ("本年度", ("year", 0)),
    ("今年度", ("year", 0)),
    ("明年", ("year", 1)),
    ("下一年", ("year", 1)),
    ("下年", ("year", 1)),
    ("下年度", ("year", 1)),
    ("后年", ("year", 2)),
    ("去年", ("year", -1)),
    ("上一年", ("year", -1)),
    ("上年度", ("year", -1)),
    ("前年", ("year", -2)),
    ("本季度", ("quarter", 0)),
    ("这个季度", ("quarter", 0)),
    ("下季度", ("quarter", 1)),
    ("下个季度", ("quarter", 1)),
    ("上季度", ("quarter", -1)),
    ("上个季度", ("quarter", -1)),
    ("本月", ("month", 0)),
    ("这个月", ("month", 0)),
    ("当月", ("month", 0)),
    ("下月", ("month", 1)),
    ("下个月", ("month", 1)),
    ("上月", ("month", -1)),
    ("上个月", ("month", -1)),
    ("本周", ("week", 0)),
    ("这周", ("week", 0)),
    ("这星期", ("week", 0)),
    ("这个星期", ("week", 0)),
    ("下周", ("week", 1)),
    ("下星期", ("week", 1)),
    ("下个星期", ("week", 1)),
    ("下礼拜", ("week", 1)),
    ("上周", ("week", -1)),
    ("上星期", ("week", -1)),
    ("上个星期", ("week", -1)),
    ("上礼拜", ("week", -1)),
    ("本周末", ("weekend", 0)),
    ("这周末", ("weekend", 0)),
    ("下周末", ("weekend", 1)),
    ("本学期", ("term", 0)),
    ("这学期", ("term", 0)),
    ("下学期", ("term", 1)),
    ("上学期", ("term", -1)),
    ("today", ("day", 0)),
    ("tomorrow", ("day", 1)),
    ("yesterday", ("day", -1)),
    ("tonight", ("night", 0)),
];

const DAY_PARTS: [(&[&str], f64); 5] = [
    (&["早上", "早晨", "清晨", "上午", "凌晨", "morning"], 1.0),
    (&["中午", "正午", "noon", "midday"], 2.0),
    (&["下午", "午后", "afternoon"], 3.0),
    (&["晚上", "傍晚", "夜间", "夜里", "夜晚", "evening", "night", "nighttime"], 4.0),
    (&["午夜", "半夜", "midnight"], 5.0),
];

static RELATIVE_BY_NAME: LazyLock<Words<(&str, i8)>> = LazyLock::new(|| RELATIVE.into_iter().collect());
static DAY_PARTS_BY_NAME: LazyLock<Words<f64>> =
    LazyLock::new(|| DAY_PARTS.iter().flat_map(|(names, part)| names.iter().map(|name| (*name, *part))).collect());

/// So much a day; 单周 and 单月 are the odd ones, and no rates.
const SINGLE_DAY: &str = "单日";

const HALVES: [(&str, f64); 2] = [("上半年", 1.0), ("下半年", 2.0)];

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// The times that are written from here on, and how many tokens they take.
pub fn read(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?;
    match first.script {
        Script::Number => {
            dated(&first.text).map(|found| (1, found)).or_else(|| calendar(tokens)).or_else(|| hour(tokens))
        }
        Script::Han => chinese(tokens),
        Script::Latin => english(tokens),
        Script::Sign | Script::Stop => None,
    }
}

/// `2024-03-05`, `2024/3/5`, `19:00`, `7:30pm`
fn dated(text: &str) -> Option<Vec<Quantity>> {
    let numbers = |by: char| -> Option<Vec<f64>> { text.split(by).map(|part| part.parse().ok()).collect() };
    for by in ['-', '/', '.'] {
        if let Some(&[year, month, day]) = numbers(by).as_deref()
            && (1900.0..2200.0).contains(&year)
            && (1.0..=12.0).contains(&month)
            && (1.0..=31.0).contains(&day)
        {
            return Some(vec![
                Quantity::new(QuantityKind::Year, "", year),
                Quantity::new(QuantityKind::Month, "", month),
                Quantity::new(QuantityKind::Number, "", day),
            ]);
        }
    }
    let (hours, minutes) = text.split_once(':')?;
    let (minutes, later) = match (minutes.strip_suffix("pm"), minutes.strip_suffix("am")) {
        (Some(minutes), _) => (minutes, 720.0),
        (_, Some(minutes)) => (minutes, 0.0),
        _ => (minutes, 0.0),
    };
    let (hours, minutes) = (hours.parse::<f64>().ok()?, minutes.parse::<f64>().ok()?);
    Some(vec![Quantity::new(QuantityKind::Clock, "", clock(hours, later) + minutes)])
}

/// Minutes since midnight; noon and midnight are twelve.
fn clock(hours: f64, later: f64) -> f64 {
    if later > 0.0 { (hours % 12.0) * 60.0 + later } else { hours * 60.0 }
}

/// `2024年`, `3月`, `3月份`; what has 个 before it is a span.
fn calendar(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let value: f64 = tokens.first()?.text.parse().ok()?;
    match tokens.get(1).map_or("", |token| token.text.as_str()) {
        "年" | "年度" if value >= 1900.0 => Some((2, vec![Quantity::new(QuantityKind::Year, "", value)])),
        "月" | "月份" if (1.0..=12.0).contains(&value) => {
            Some((2, vec![Quantity::new(QuantityKind::Month, "", value)]))
        }
        "号" | "日" if (1.0..=31.0).contains(&value) => Some((2, vec![numbered(value, tokens)])),
        "点" | "点钟" | "时" if (0.0..=24.0).contains(&value) => Some(spoken(value, 0.0, tokens, 2)),
        _ if (1900.0..2100.0).contains(&value) && tokens.get(1).is_none_or(|next| next.script != Script::Han) => {
            Some((1, vec![Quantity::new(QuantityKind::Year, "", value)]))
        }
        _ => None,
    }
}

/// The day of a month, or the number that something bears: 三号楼 is not 三楼.
fn numbered(value: f64, tokens: &[Token]) -> Quantity {
    let bears = matches!(
        tokens.get(2).map_or("", |token| token.text.as_str()),
        "楼" | "线"
            | "门"
            | "馆"
            | "厅"
            | "口"
            | "桌"
            | "房"
            | "车厢"
            | "床"
            | "机"
            | "柜"
            | "窗口"
            | "仓"
            | "库"
            | "车"
    );
    Quantity {
        text: if bears { "号".into() } else { Box::default() },
        ..Quantity::new(QuantityKind::Number, "", value)
    }
}

/// `7 am`, `7pm`, `7 o'clock`
fn hour(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?.text.as_str();
    let half = |word: &str| match word {
        "am" | "a.m" => Some(0.0),
        "pm" | "p.m" => Some(720.0),
        _ => None,
    };
    for (ending, later) in [("am", 0.0), ("pm", 720.0)] {
        if let Some(value) = first.strip_suffix(ending).and_then(|value| value.parse::<f64>().ok()) {
            return Some((1, vec![Quantity::new(QuantityKind::Clock, "", clock(value, later))]));
        }
    }
    let later = half(&tokens.get(1)?.text)?;
    let value = first.parse::<f64>().ok()?;
    Some((2, vec![Quantity::new(QuantityKind::Clock, "", clock(value, later))]))
}

/// An hour, with a half or minutes behind it.
fn spoken(hours: f64, later: f64, tokens: &[Token], taken: usize) -> (usize, Vec<Quantity>) {
    let half = tokens.get(taken).is_some_and(|token| token.text == "半");
    let minutes = if half { 30.0 } else { 0.0 };
    (taken + usize::from(half), vec![Quantity::new(QuantityKind::Clock, "", clock(hours, later) + minutes)])
}

fn chinese(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?.text.as_str();
    if let Some(found) = relative(first) {
        return Some((1, vec![found]));
    }
    if let Some((_, half)) = HALVES.iter().find(|(name, _)| *name == first) {
        return Some((1, vec![Quantity::new(QuantityKind::Quarter, "half", *half)]));
    }
    if let Some(found) = day_of_week(tokens) {
        return Some(found);
    }
    if first == SINGLE_DAY {
        return Some((1, vec![Quantity::new(QuantityKind::Rate, "day", 1.0)]));
    }
    if let Some(unit) = ["每个", "每一", "每"].iter().find_map(|head| first.strip_prefix(head)).and_then(unit) {
        return Some((1, vec![Quantity::new(QuantityKind::Rate, unit, 1.0)]));
    }
    if let Some(part) = day_part(first) {
        // «Three in the afternoon» is fifteen o'clock.
        if let Some((value, taken)) = bare_hour(tokens.get(1..).unwrap_or_default()) {
            let later = if part >= 3.0 && value < 12.0 { 720.0 } else { 0.0 };
            return Some(spoken(value, later, tokens, 1 + taken));
        }
        return Some((1, vec![Quantity::new(QuantityKind::DayPart, "", part)]));
    }
    let value = chinese_number(first)?;
    match tokens.get(1).map_or("", |token| token.text.as_str()) {
        "月" | "月份" if (1.0..=12.0).contains(&value) => {
            Some((2, vec![Quantity::new(QuantityKind::Month, "", value)]))
        }
        "年" if value >= 1900.0 => Some((2, vec![Quantity::new(QuantityKind::Year, "", value)])),
        "号" => Some((2, vec![numbered(value, tokens)])),
        "点" | "点钟" if value <= 24.0 => Some(spoken(value, 0.0, tokens, 2)),
        _ => None,
    }
}

/// `周五`, `下周五`, `上上周五`; that of this week needs no word for it.
fn day_of_week(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let step = |token: &Token| match token.text.as_str() {
        "下" | "下个" => Some(1.0),
        "上" | "上个" => Some(-1.0),
        "本" | "这" | "这个" => Some(0.0),
        _ => None,
    };
    let steps: Vec<f64> = tokens.iter().take(2).map_while(step).collect();
    let day = weekday(&tokens.get(steps.len())?.text)?;
    let mut found = vec![Quantity::new(QuantityKind::Weekday, "", day)];
    let weeks: f64 = steps.iter().sum();
    if weeks != 0.0 {
        found.push(Quantity::new(QuantityKind::Relative, "week", weeks));
    }
    Some((steps.len() + 1, found))
}

fn bare_hour(tokens: &[Token]) -> Option<(f64, usize)> {
    let first = tokens.first()?.text.as_str();
    let value = first.parse().ok().or_else(|| chinese_number(first))?;
    let is_hour = matches!(tokens.get(1).map(|token| token.text.as_str()), Some("点" | "点钟" | "时"));
    is_hour.then_some((value, 2))
}

fn english(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?;
    let word = first.text.as_str();
    let next = tokens.get(1).map_or("", |token| token.text.as_str());
    if let Some(found) = relative(word) {
        return Some((1, vec![found]));
    }
    let step = match word {
        "this" | "current" => Some(0.0),
        "next" | "coming" | "upcoming" | "following" => Some(1.0),
        "last" | "previous" | "past" => Some(-1.0),
        _ => None,
    };
    if let Some(step) = step {
        return english_unit(next).map(|unit| (2, vec![Quantity::new(QuantityKind::Relative, unit, step)]));
    }
    if matches!(word, "per" | "each" | "every" | "a" | "an")
        && let Some(unit) = english_unit(next)
        && !(matches!(word, "a" | "an") && matches!(next, "day" | "term" | "weekend" | "night"))
    {
        return Some((2, vec![Quantity::new(QuantityKind::Rate, unit, 1.0)]));
    }
    let rate = match word {
        "daily" => Some("day"),
        "weekly" => Some("week"),
        "monthly" => Some("month"),
        "quarterly" => Some("quarter"),
        "annual" | "annually" | "yearly" => Some("year"),
        _ => None,
    };
    if let Some(unit) = rate {
        return Some((1, vec![Quantity::new(QuantityKind::Rate, unit, 1.0)]));
    }
    if let Some(part) = day_part(word) {
        return Some((1, vec![Quantity::new(QuantityKind::DayPart, "", part)]));
    }
    let singular = word.strip_suffix('s').unwrap_or(word);
    if let Some(day) = WEEKDAYS
        .iter()
        .position(|day| *day == word || *day == singular || (first.capital && day.starts_with(word) && word.len() == 3))
    {
        return Some((1, vec![Quantity::new(QuantityKind::Weekday, "", ordinal(day))]));
    }
    month(tokens)
}

/// A month's name, with a day behind it. «May» and «march» are months where they cannot be verbs.
fn month(tokens: &[Token]) -> Option<(usize, Vec<Quantity>)> {
    let first = tokens.first()?;
    let word = first.text.as_str();
    let at = MONTHS.iter().position(|month| {
        *month == word || (first.capital && month.starts_with(word) && matches!(word.len(), 3 | 4))
    })?;
    if matches!(word, "may" | "march") && !first.capital {
        return None;
    }
    Some((1, vec![Quantity::new(QuantityKind::Month, "", ordinal(at))]))
}

fn ordinal(at: usize) -> f64 {
    f64::from(u8::try_from(at).unwrap_or(u8::MAX)) + 1.0
}

fn relative(word: &str) -> Option<Quantity> {
    let (unit, step) = RELATIVE_BY_NAME.get(word)?;
    Some(Quantity::new(QuantityKind::Relative, unit, f64::from(*step)))
}

fn weekday(word: &str) -> Option<f64> {
    let day = ["周", "星期", "礼拜"].iter().find_map(|head| word.strip_prefix(head))?;
    let at = "一二三四五六日".chars().position(|sign| day.chars().eq([sign])).or((day == "天").then_some(6))?;
    Some(ordinal(at))
}

fn day_part(word: &str) -> Option<f64> {
    DAY_PARTS_BY_NAME.get(word).copied()
}

fn unit(word: &str) -> Option<&'static str> {
    UNITS.iter().find(|(name, _)| *name == word).map(|(_, name)| *name)
}

fn english_unit(word: &str) -> Option<&'static str> {
    Some(match word {
        "year" => "year",
        "quarter" => "quarter",
        "month" => "month",
        "week" => "week",
        "weekend" => "weekend",
        "day" => "day",
        "night" => "night",
        "term" | "semester" => "term",
        _ => return None,
    })
}
