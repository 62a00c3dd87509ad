//! `context`: how much of a prompt goes out; and what is known of models' tokens.

use dialect::Encoding;
use dialect::chat::prompt::Retrieval;
use rules::context::Terms;

use super::Compiler;
use crate::snapshot::{Context, Counting};
use crate::view::View;

/// The windows of models by their ids, with date and source.
const WINDOWS: &str = include_str!("../../data/windows.txt");

pub(super) fn context(compiler: &mut Compiler<'_>, view: &View<'_>) -> Option<Context> {
    let budget = view.at("budget");
    let retrieval = retrieval(compiler, &view.at("retrieval"));
    if view.is_empty_mapping() {
        compiler.report(view, "bounds nothing; write `budget`, or remove it");
    }
    if view.at("retrieval_share").is_written() && !budget.is_written() {
        compiler.report(&view.at("retrieval_share"), "is a share of `budget`, which is not written");
    }
    let share = view.at("retrieval_share").number().unwrap_or(1.0);
    let terms = budget.integer().map(|budget| Terms { budget, retrieval_share: share });
    view.is_written().then_some(Context { terms, retrieval })
}

fn retrieval(compiler: &mut Compiler<'_>, view: &View<'_>) -> Option<Retrieval> {
    let (tag, role, name) = (view.at("tag"), view.at("role"), view.at("name"));
    let written = [&tag, &role, &name].into_iter().filter(|key| key.is_written()).count();
    if view.is_written() && written != 1 {
        compiler.report(view, "must hold exactly one of `tag`, `role` and `name`");
    }
    if tag.text().is_some_and(|text| text.contains(['<', '>', '/', '"', '\\']) || text.contains(char::is_whitespace)) {
        compiler.report(&tag, "is no tag's name; write it without brackets");
    }
    if role.text().is_some_and(|text| matches!(text, "system" | "developer" | "user" | "assistant")) {
        compiler.report(&role, "is a role of the conversation itself; mark passages by another role, `tag` or `name`");
    }
    let text = |view: &View<'_>| view.text().map(str::to_owned);
    text(&tag).map(Retrieval::Tag).or(text(&role).map(Retrieval::Role)).or(text(&name).map(Retrieval::Name))
}

/// The window of an upstream: as written, else as its model is known.
pub(super) fn window(view: &View<'_>, model: &str) -> Option<u64> {
    view.integer().or_else(|| known_window(model))
}

/// Models are known by their ids, with or without a vendor's name in front and a date behind.
pub(super) fn known_window(model: &str) -> Option<u64> {
    let of = |id: &str| {
        let mut rows = WINDOWS.lines().filter_map(|line| line.split_once(' '));
        rows.find(|(known, _)| *known == id).and_then(|(_, window)| window.parse().ok())
    };
    let bare = model.rsplit_once('/').map_or(model, |(_, bare)| bare);
    of(model).or_else(|| of(bare)).or_else(|| of(undated(bare)?))
}

/// A model's id without `-2024-08-06` at its end.
fn undated(id: &str) -> Option<&str> {
    let (head, date) = id.split_at_checked(id.len().checked_sub(11)?)?;
    let is_date = date.char_indices().all(|(at, letter)| match at {
        0 | 5 | 8 => letter == '-',
        _ => letter.is_ascii_digit(),
    });
    is_date.then_some(head)
}

pub(super) fn known_tokenizer(model: &str) -> Option<Counting> {
    Encoding::of_model(model).map(Counting::Encoding)
}

/// What counts an upstream's tokens: as written, else as its model is known.
pub(super) fn tokenizer(compiler: &mut Compiler<'_>, view: &View<'_>, model: &str) -> Option<Counting> {
    let Some(text) = view.text() else { return known_tokenizer(model) };
    if let Some(encoding) = Encoding::of_name(text) {
        return Some(Counting::Encoding(encoding));
    }
    if !text.contains(['/', '.', '\\']) {
        let shown = view.shown();
        compiler.report(view, format!("{shown} is no encoding; write `o200k_base`, `cl100k_base` or a file"));
        return None;
    }
    compiler.tokenizer(view).map(Counting::File)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_known_by_the_models_id() {
        assert_eq!(known_window("gpt-4o"), Some(128_000));
        assert_eq!(known_window("openai/gpt-4o-2024-08-06"), Some(128_000));
        assert_eq!(known_window("gpt-4o-mini"), Some(128_000));
        for unknown in ["", "my-model", "gpt-4o-next", "-2024-08-06"] {
            assert_eq!(known_window(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn every_row_of_the_table_is_a_model_and_its_window() {
        for line in WINDOWS.lines().filter(|line| !line.starts_with('#')) {
            let (id, window) = line.split_once(' ').expect("two columns");
            assert!(!id.is_empty() && window.parse::<u64>().is_ok_and(|window| window >= 1000), "{line}");
        }
    }
}
