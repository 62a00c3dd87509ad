//! `params`: what callers may ask of the model.

use rules::params::{ANSWER_LIMITS, OLLAMA_NAMES, Policy, Rule, Setting};

use super::Compiler;
use crate::node::{Core, Node, Scalar, Style, Value};
use crate::view::View;

/// The policy of a route or a client.
pub(super) fn policy(compiler: &mut Compiler<'_>, params: &View<'_>) -> Policy {
    let mut policy = Policy::default();
    let entries = ["default", "max", "min", "force"].map(|rule| params.at(rule).entries().len());
    if params.at("deny").items().len() + entries.iter().sum::<usize>() > MOST_RULES {
        compiler.report(params, format!("holds more than {MOST_RULES} rules; every call is held against them all"));
        return policy;
    }
    for item in params.at("deny").items() {
        let Some(path) = item.text() else { continue };
        if is_path(compiler, &item, path) {
            policy.add(path, Rule { deny: true, ..Rule::default() });
        }
    }
    for (path, view) in params.at("default").entries() {
        let default = setting(compiler, &view, path);
        policy.add(path, Rule { default, ..Rule::default() });
    }
    for (path, view) in params.at("max").entries() {
        let max = setting(compiler, &view, path);
        policy.add(path, Rule { max, ..Rule::default() });
    }
    for (path, view) in params.at("min").entries() {
        let min = setting(compiler, &view, path);
        policy.add(path, Rule { min, ..Rule::default() });
    }
    for (path, view) in params.at("force").entries() {
        let force = setting(compiler, &view, path);
        policy.add(path, Rule { force, ..Rule::default() });
    }
    check(compiler, params);
    policy
}

/// A value as JSON text, where its path is one.
fn setting(compiler: &mut Compiler<'_>, view: &View<'_>, path: &str) -> Option<Setting> {
    if !is_path(compiler, view, path) {
        return None;
    }
    let json = json(view.node()?);
    if json.is_none() {
        compiler.report(view, "holds a number that JSON cannot say");
    }
    json.map(Setting::new)
}

/// Rules of one policy at most.
const MOST_RULES: usize = 500;

/// Names in a path at most: the scanner of bodies takes no nesting without end.
const DEEPEST: usize = 32;

/// What callers ask, as against how it is to be answered: a policy over it would fail every call.
const ASKED: [&str; 5] = ["messages", "prompt", "input", "query", "documents"];

fn is_path(compiler: &mut Compiler<'_>, view: &View<'_>, path: &str) -> bool {
    if path.split('.').any(str::is_empty) {
        compiler.report(view, "is no path of a field; write names with a dot between them");
        return false;
    }
    // The name by which the route is found, and what the upstream's own name takes the place of.
    if path == "model" || path.starts_with("model.") {
        compiler.report(view, "is about `model`, which routes and their upstreams decide");
        return false;
    }
    if path.split('.').count() > DEEPEST {
        compiler.report(view, format!("is deeper than {DEEPEST} names"));
        return false;
    }
    let (first, below) = path.split_once('.').map_or((path, None), |(first, below)| (first, Some(below)));
    if ASKED.contains(&first) {
        compiler.report(view, format!("is about `{first}`, which is what callers ask and no parameter; remove it"));
        return false;
    }
    // A limit of the answer's tokens is a number, by whichever of its names.
    if below.is_some() && ANSWER_LIMITS.contains(&first) {
        compiler.report(view, format!("is a field of `{first}`, which is a number; write `{first}` alone"));
        return false;
    }
    true
}

/// Ollama's limit of an answer's tokens (its API reference, `options`): -1 is without a limit, -2 fills the window.
const OLLAMA_LIMIT: &str = "options.num_predict";

fn check(compiler: &mut Compiler<'_>, params: &View<'_>) {
    for rule in ["default", "max", "min", "force"] {
        for (field, view) in params.at(rule).entries() {
            let number = view.scalar().and_then(Scalar::as_number);
            let is_bound = matches!(rule, "max" | "min");
            let is_count = ANSWER_LIMITS.contains(&field) || (is_bound && field == OLLAMA_LIMIT);
            if !is_count || number.is_none_or(|number| number >= 1.0) {
                continue;
            }
            let instead = if is_bound { "remove it to set no bound" } else { "write `null` to leave the field out" };
            compiler.report(&view, format!("counts tokens of an answer; write 1 or more, or {instead}"));
        }
    }
    let most = params.at("max").entries();
    for (field, least) in params.at("min").entries() {
        let Some(number) = least.scalar().and_then(Scalar::as_number) else { continue };
        let is_below = |most: &View<'_>| most.scalar().and_then(Scalar::as_number).is_some_and(|most| number > most);
        if let Some((name, _)) = most.iter().find(|(name, most)| is_one_field(field, name) && is_below(most)) {
            compiler.report(&least, format!("is above `params.max.{name}`"));
        }
    }
}

/// Whether both names are of one field. Those of rerank are not looked at: `top_k` is another field elsewhere.
fn is_one_field(one: &str, other: &str) -> bool {
    let is_limit = |name: &str| ANSWER_LIMITS.contains(&name) || name == OLLAMA_LIMIT;
    let are_both = |names: &[&str]| names.contains(&one) && names.contains(&other);
    one == other || (is_limit(one) && is_limit(other)) || OLLAMA_NAMES.iter().any(|names| are_both(names))
}

/// A written value as JSON text; none where it holds what JSON has no word for.
fn json(node: &Node) -> Option<String> {
    match &node.value {
        Value::Scalar(scalar) => scalar_json(scalar),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(json).collect::<Option<_>>()?;
            Some(format!("[{}]", items.join(",")))
        }
        Value::Map(entries) => {
            let member = |(key, entry): (&String, &crate::node::Entry)| {
                Some(format!("{}:{}", serde_json::Value::from(key.as_str()), json(&entry.node)?))
            };
            let members: Vec<String> = entries.iter().map(member).collect::<Option<_>>()?;
            Some(format!("{{{}}}", members.join(",")))
        }
    }
}

fn scalar_json(scalar: &Scalar) -> Option<String> {
    // What comes from a variable is read as if it stood there.
    let style = if scalar.style == Style::Variable { Style::Plain } else { scalar.style };
    let bare = Scalar { text: scalar.text.clone(), style };
    Some(match bare.core() {
        Core::Null => "null".to_owned(),
        Core::Bool(value) => value.to_string(),
        Core::Text => serde_json::Value::from(bare.text.as_str()).to_string(),
        // Its digits stay where they are JSON's too.
        Core::Integer | Core::Float if serde_json::from_str::<serde_json::Number>(&bare.text).is_ok() => bare.text,
        Core::Integer | Core::Float => bare.as_number()?.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_json_and_keep_their_digits() {
        let json = |text: &str, style| scalar_json(&Scalar { text: text.into(), style });
        for (written, said) in [
            ("0.20", Some("0.20")),
            ("12345678901234567890123", Some("12345678901234567890123")),
            ("007", Some("7")),
            ("+5", Some("5")),
            ("0x10", Some("16")),
            (".5", Some("0.5")),
            ("1.", Some("1")),
            ("1e3", Some("1e3")),
            (".inf", None),
            ("~", Some("null")),
            ("True", Some("true")),
            ("tru\"e", Some(r#""tru\"e""#)),
        ] {
            assert_eq!(json(written, Style::Plain).as_deref(), said, "{written}");
            assert_eq!(json(written, Style::Variable).as_deref(), said, "{written}");
        }
        assert_eq!(json("0.20", Style::Quoted).as_deref(), Some(r#""0.20""#));
    }
}
