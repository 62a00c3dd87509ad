//! A number in one form, with its kind (amount, measure, span, date, …) and what it counts.

pub mod numeric;
pub mod temporal;

/// What a number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuantityKind {
    /// How many; or a name made of digits.
    Number,
    /// Which one of a row.
    Ordinal,
    /// Money.
    Amount,
    /// Any other measure.
    Measure,
    /// A span of time.
    Span,
    /// A version: compared as written.
    Version,
    /// A calendar year.
    Year,
    /// A month of the year.
    Month,
    /// A quarter or half of a year.
    Quarter,
    /// A day of the week.
    Weekday,
    /// A time of the day, in minutes.
    Clock,
    /// A part of the day.
    DayPart,
    /// A time named from now, such as next month.
    Relative,
    /// So many times in a span.
    Rate,
}

/// A number with what it counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// What it says.
    pub kind: QuantityKind,
    /// What it counts; empty where that is a word of its own.
    pub unit: &'static str,
    /// In thousandths; saturating.
    pub value: i64,
    /// As written, where that counts.
    pub text: Box<str>,
}

impl Quantity {
    /// Of a kind and unit.
    pub fn new(kind: QuantityKind, unit: &'static str, value: f64) -> Self {
        // A float becomes the nearest integer that there is.
        #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
        let value = (value * 1000.0).round() as i64;
        Self { kind, unit, value, text: Box::default() }
    }

    /// Compared as written.
    pub fn written(kind: QuantityKind, text: &str) -> Self {
        Self { kind, unit: "", value: 0, text: text.into() }
    }
}

/// A number in Chinese numerals: with places, or as a row of digits.
pub fn chinese_number(written: &str) -> Option<f64> {
    if written.is_empty() || !written.chars().all(is_numeral) {
        return None;
    }
    let digit = |sign: char| {
        "零一二三四五六七八九".chars().position(|other| other == sign).or(match sign {
            '〇' => Some(0),
            '两' => Some(2),
            _ => None,
        })
    };
    if written.chars().all(|sign| digit(sign).is_some()) {
        let row: String = written.chars().filter_map(digit).map(|digit| digit.to_string()).collect();
        return row.parse().ok();
    }
    let (mut total, mut section, mut last) = (0.0_f64, 0.0_f64, None::<f64>);
    // What a last digit counts without a word for it: 一百五 is 150, 一百零五 is 105.
    let mut unsaid = 1.0_f64;
    for sign in written.chars() {
        match (sign, digit(sign)) {
            (_, Some(0)) => unsaid = 1.0,
            (_, Some(digit)) => last = Some(f64::from(u8::try_from(digit).unwrap_or(0))),
            ('万' | '亿', _) => {
                let place = if sign == '万' { 1e4 } else { 1e8 };
                total = (total + section + last.take().unwrap_or(0.0)).max(1.0) * place;
                section = 0.0;
                unsaid = place / 10.0;
            }
            (place, _) => {
                let place = match place {
                    '十' => 10.0,
                    '百' => 100.0,
                    _ => 1000.0,
                };
                section += last.take().unwrap_or(1.0) * place;
                unsaid = place / 10.0;
            }
        }
    }
    Some(total + section + last.unwrap_or(0.0) * unsaid)
}

/// Whether a character is a Chinese numeral.
pub fn is_numeral(sign: char) -> bool {
    "零〇一二两三四五六七八九十百千万亿".contains(sign)
}
