//! Labelled pairs of questions: one JSON object a line.

use std::path::Path;

use serde_json::Value;

use crate::files;

/// A file of pairs larger than this is none.
const LARGEST: u64 = 64 << 20;
/// More pairs than these are not measured.
const MOST: usize = 20_000;

/// Two questions, and whether one answer serves both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// `zh`, `en`, or what the file says.
    pub lang: String,
    pub a: String,
    pub b: String,
    pub same: bool,
}

/// Pairs, and how many more there were of which nobody says whether they are the same.
#[derive(Debug)]
pub struct Pairs {
    pub all: Vec<Pair>,
    pub unlabelled: usize,
}

/// The pairs of a file; `-` is standard input.
///
/// # Errors
/// A sentence that names the line.
pub fn read(path: &Path) -> Result<Pairs, String> {
    let text = files::text(path, LARGEST)?;
    parse(&text).map_err(|message| format!("{}: {message}", files::name(path)))
}

fn parse(text: &str) -> Result<Pairs, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read: Vec<Option<Pair>> = lines
        .map(|(at, line)| pair(line).map_err(|what| format!("line {}: {what}", at + 1)))
        .collect::<Result<_, _>>()?;
    if read.is_empty() {
        return Err(SHAPE.to_owned());
    }
    let many = read.len();
    let all: Vec<Pair> = read.into_iter().flatten().collect();
    balanced(&all)?;
    Ok(Pairs { unlabelled: many - all.len(), all })
}

/// Whether pairs can be measured.
///
/// # Errors
/// A sentence that says what they lack.
pub fn balanced(pairs: &[Pair]) -> Result<(), String> {
    let same = pairs.iter().filter(|pair| pair.same).count();
    match (same, pairs.len()) {
        (_, many) if many > MOST => Err(format!("{many} pairs; at most {MOST} are measured")),
        (0, _) => Err("no pair is labelled `\"same\": true`; recall cannot be measured".to_owned()),
        (same, all) if same == all => {
            Err("every pair is labelled `\"same\": true`; without pairs that differ, every threshold looks safe"
                .to_owned())
        }
        _ => Ok(()),
    }
}

const SHAPE: &str = "no pairs; write one JSON object a line: {\"a\": \"…\", \"b\": \"…\", \"same\": true, \"lang\": \"en\", \"kind\": \"…\"}";

/// The pair of a line; `None` where nobody says yet whether both are the same.
fn pair(line: &str) -> Result<Option<Pair>, String> {
    let row: Value = serde_json::from_str(line).map_err(|error| format!("no JSON: {error}"))?;
    let text = |name: &str| {
        let found = row.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        found.map(str::to_owned).ok_or_else(|| format!("needs `{name}`, a question"))
    };
    let (a, b) = (text("a")?, text("b")?);
    let same = row.get("same").ok_or("needs `same`: true, false, or null where nobody knows yet")?;
    if same.is_null() {
        return Ok(None);
    }
    let same = same.as_bool().ok_or("needs `same`: true, false, or null where nobody knows yet")?;
    let lang = row.get("lang").and_then(Value::as_str).map_or_else(|| language(&a, &b), str::to_owned);
    Ok(Some(Pair { lang, a, b, same }))
}

/// The language of a pair that does not tell.
pub fn language(a: &str, b: &str) -> String {
    let is_han = |sign: char| matches!(sign, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}');
    if a.chars().chain(b.chars()).any(is_han) { "zh" } else { "en" }.to_owned()
}

/// The languages, in the order of the file.
pub fn languages(pairs: &[Pair]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for pair in pairs {
        if !found.contains(&pair.lang) {
            found.push(pair.lang.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{languages, parse};

    #[test]
    fn a_pair_tells_its_language_or_shows_it() {
        let pairs = parse(concat!(
            r#"{"a": "报销流程", "b": "怎么报销", "same": true}"#,
            "\n\n",
            r#"{"lang": "fr", "a": "où", "b": "quand", "same": false, "kind": "question"}"#,
            "\n",
            r#"{"a": "where", "b": "when", "same": false}"#,
        ))
        .unwrap();
        assert_eq!(languages(&pairs.all), ["zh", "fr", "en"]);
    }

    #[test]
    fn what_nobody_has_labelled_yet_is_left_out_and_counted() {
        let pairs = parse(concat!(
            r#"{"a": "where", "b": "whither", "same": true, "similarity": 0.9}"#,
            "\n",
            r#"{"a": "where", "b": "there", "same": null}"#,
            "\n",
            r#"{"a": "where", "b": "when", "same": false}"#,
        ));
        let pairs = pairs.unwrap();
        assert_eq!((pairs.all.len(), pairs.unlabelled), (2, 1));
        assert!(parse(r#"{"a": "where", "b": "there", "same": null}"#).unwrap_err().contains("no pair is labelled"));
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = r#"{"a": "x", "b": "y", "same": true}"#;
        for (line, told) in [
            ("{", "line 2: no JSON"),
            (r#"{"a": "x", "same": true}"#, "line 2: needs `b`"),
            (r#"{"a": "x", "b": "y", "same": "yes"}"#, "line 2: needs `same`"),
        ] {
            let error = parse(&format!("{good}\n{line}")).unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
        assert!(parse("\n").unwrap_err().contains("one JSON object a line"));
        assert!(parse(good).unwrap_err().contains("every pair"));
    }
}
