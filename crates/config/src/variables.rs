//! `${VAR}`, `${VAR:-default}` and `$${` inside the strings of a configuration.

use crate::check::MOST_PROBLEMS;
use crate::node::{Node, Scalar, Style, Value, item_path, join};
use crate::problem::{Place, Problem};

/// Bytes of one string at most once its variables are filled in.
const LONGEST: usize = 64 << 10;

/// What stands in the place of a variable, given what is written between `${` and `}`; or why nothing does.
type Fill<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Fills in every variable below `node`; what cannot be filled in is a problem with its place.
pub(crate) fn fill(node: &mut Node, path: &str, env: &dyn Fn(&str) -> Option<String>, problems: &mut Vec<Problem>) {
    fill_by(node, path, &|inside| value(inside, env), problems);
}

/// The same where no variable is read: each is a problem with its place.
pub(crate) fn refuse(node: &mut Node, path: &str, problems: &mut Vec<Problem>) {
    let refusal = "holds a variable (`${…}`), and the gateway's environment is not read through the admin API; write \
                   the value itself, or `$${` for a literal `${`";
    fill_by(node, path, &|_| Err(refusal.to_owned()), problems);
}

fn fill_by(node: &mut Node, path: &str, by: Fill<'_>, problems: &mut Vec<Problem>) {
    let place = &node.place;
    match &mut node.value {
        Value::Scalar(scalar) => {
            if let Err(text) = fill_scalar(scalar, by) {
                report(problems, place, path, text);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let path = item_path(path, item, index);
                fill_by(item, &path, by, problems);
            }
        }
        Value::Map(entries) => {
            for (key, entry) in entries {
                fill_by(&mut entry.node, &join(path, key), by, problems);
            }
        }
    }
}

/// An alias repeats its anchor's text; its problem is told once.
fn report(problems: &mut Vec<Problem>, place: &Place, path: &str, text: String) {
    if problems.len() <= MOST_PROBLEMS && !problems.iter().any(|known| known.place == *place) {
        problems.push(Problem::new(place, path, text));
    }
}

fn fill_scalar(scalar: &mut Scalar, by: Fill<'_>) -> Result<(), String> {
    if !scalar.text.contains("${") {
        return Ok(());
    }
    let mut filled = String::new();
    let mut has_variable = false;
    let mut rest = scalar.text.as_str();
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = after;
            continue;
        }
        filled.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            return Err("`${` has no `}`; write `$${` for a literal `${`".into());
        };
        filled.push_str(&by(inside)?);
        if filled.len() > LONGEST {
            return Err("is longer than 64 KiB with its variables filled in".into());
        }
        has_variable = true;
        rest = after;
    }
    filled.push_str(rest);
    scalar.text = filled;
    if has_variable {
        scalar.style = Style::Variable;
    }
    Ok(())
}

/// What stands between `${` and `}`. As in a shell, `:-` also replaces an empty variable.
fn value(inside: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (name, fallback) = inside.split_once(":-").map_or((inside, None), |(name, fallback)| (name, Some(fallback)));
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        // Not repeated: people put the secret itself there.
        return Err(
            "what stands between `${` and `}` is not a variable's name (letters, digits, `_`); write `${NAME}`, \
                    or `$${` for a literal `${`"
                .into(),
        );
    }
    match (env(name), fallback) {
        (_, Some(fallback)) if fallback.contains("${") => {
            Err(format!("the default of `${{{name}}}` holds another variable; defaults are plain text"))
        }
        (Some(found), _) if !found.is_empty() => Ok(found),
        (_, Some(fallback)) => Ok(fallback.to_owned()),
        (Some(empty), None) => Ok(empty),
        (None, None) => Err(format!("the variable {name} is not set; set it, or write `${{{name}:-default}}`")),
    }
}
