//! The word that somebody probably meant: for hints about names that are not known.

/// Letters of a word that are compared, at most.
const LONGEST: usize = 128;

/// The word of `known` that `written` was probably meant to be: the same but for case and
/// hyphens, or a few letters away. None where all are further away.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = fold(written);
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(&written, &fold(word)), word))
        .filter(|(distance, word)| *distance <= (word.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Lower case without the separators that people mix up, of bounded length.
fn fold(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).flat_map(char::to_lowercase).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_word_is_near_by_a_few_letters_or_the_way_it_is_written() {
        let known = ["kb_version", "query", "ttl"];
        for (written, meant) in [
            ("qurey", Some("query")),
            ("QUERY", Some("query")),
            ("kb-version", Some("kb_version")),
            ("kbVersoin", Some("kb_version")),
            ("question", None),
            ("tt", Some("ttl")),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
    }
}
