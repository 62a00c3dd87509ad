//! The table of keys as a page for people.

use std::fmt::Write;

use dialect::Protocol;

use crate::shape::Branch;
use crate::table::{Kind, Preset};

const HEAD: &str = "# Configuration reference

<!-- Generated from the table of keys (crates/config/src/table): change it there. -->

Every key, one table for each part of the file. `[]` stands for each item of a list. A key without a default is
off when it is not written; **required** keys must be written. Keys whose last column names a capability are
checked and accepted, and do nothing before that capability is there: `mai-gateway check` says so too.

- **duration**: `250ms`, `3s`, `5m`, `2h`, `7d`, or a bare whole number of milliseconds.
- **size**: `512KiB`, `10MiB`, `2GB`, or a bare whole number of bytes.
- **text** takes `${VAR}` and `${VAR:-default}` anywhere in it; `$${` is a literal `${`. A value that is nothing
  but a variable may also stand for a number, a truth or a choice.
- **secret**: text that no message, log or page shows.
";

/// The reference page of the configuration, in Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    let root = Branch::root();
    let mut page = HEAD.to_owned();
    part(&mut page, "The process", &root, "", &|name| !matches!(name, "providers" | "routes" | "clients"));
    for (title, name) in [("Providers", "providers"), ("Routes", "routes"), ("Clients", "clients")] {
        let Some(list) = root.child(name) else { continue };
        let Some(item) = &list.item else { continue };
        part(&mut page, title, item, &format!("{name}[]."), &|_| true);
    }
    page
}

fn part(page: &mut String, title: &str, branch: &Branch, prefix: &str, is_shown: &dyn Fn(&str) -> bool) {
    page.push_str(&format!(
        "\n## {title}\n\n| key | value | default | meaning | in force |\n| --- | --- | --- | --- | --- |\n"
    ));
    for child in branch.children.iter().filter(|child| is_shown(child.name)) {
        rows(page, child, prefix, "now");
    }
}

/// One row, and those of the keys below it, which wait for what their table waits for.
fn rows(page: &mut String, branch: &Branch, prefix: &str, force: &str) {
    let Some(key) = branch.key else { return };
    let force = branch.waits_for().unwrap_or(force);
    let path = format!("{prefix}{}", branch.name);
    let default = if key.is_required { "**required**".into() } else { preset_text(key.preset) };
    // Writing to a String cannot fail.
    let _ = writeln!(page, "| `{path}` | {} | {default} | {} | {force} |", form(key.kind), key.text);
    for child in &branch.children {
        rows(page, child, &format!("{path}."), force);
    }
    for child in branch.item.iter().flat_map(|item| &item.children) {
        rows(page, child, &format!("{path}[]."), force);
    }
}

/// A default, in writing.
fn preset_text(preset: Preset) -> String {
    match preset {
        Preset::Nothing => String::new(),
        Preset::Words(words) => words.to_owned(),
        Preset::Is(value) => format!("`{value}`"),
        Preset::By(chat, embeddings, rerank) => {
            format!("`{chat}` chat, `{embeddings}` embeddings, `{rerank}` rerank")
        }
    }
}

/// What to write, in a few words.
fn form(kind: Kind) -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match kind {
        Kind::Text => "text".into(),
        Kind::Name => "name".into(),
        Kind::Secret => "secret".into(),
        Kind::Url(schemes) => format!("address ({})", schemes.join(", ")),
        Kind::Address => "host and port".into(),
        Kind::Pattern(_) => "regular expression".into(),
        Kind::Glob => "name or pattern".into(),
        Kind::Endpoint => "path of an endpoint".into(),
        Kind::File => "file".into(),
        Kind::Folder => "folder".into(),
        Kind::Duration | Kind::Wait => "duration".into(),
        Kind::Size(..) => "size".into(),
        Kind::Integer(least, most) => format!("{least} to {most}"),
        Kind::Above(least, most) => format!("above {least}, up to {most}"),
        Kind::Number(f64::MIN, f64::MAX) => "number".into(),
        Kind::Number(least, most) => format!("{least} to {most}"),
        Kind::Bool => "`true`, `false`".into(),
        Kind::Protocol => words(&Protocol::ALL.map(Protocol::as_str)),
        Kind::Choice(choice) => words(choice),
        Kind::Table => "mapping".into(),
        Kind::List(inner) => format!("list: {}", form(*inner)),
        Kind::Map(inner) => format!("names to values: {}", form(*inner)),
        Kind::Any => "any value".into(),
        Kind::Either(kinds) => kinds.iter().map(|kind| form(*kind)).collect::<Vec<_>>().join(", or "),
    }
}
