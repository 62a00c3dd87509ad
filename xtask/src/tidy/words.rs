//! Words that mean something only to who wrote them, and so do not stand in the project.

use super::Findings;
use crate::tree::Tree;

/// What must not stand anywhere, without regard to case, and what to write instead.
const WORDS: [(&str, &str); 3] = [
    ("issue #", "say what is to be done or why it is so, not where it was discussed"),
    ("/home/", "no path of one machine"),
    ("/root/", "no path of one machine"),
];

/// This file must name them.
const HERE: &str = "xtask/src/tidy/words.rs";

pub fn check(tree: &Tree, found: &mut Findings) {
    for file in tree.files.iter().filter(|file| file.path != HERE && !file.path.ends_with(".lock")) {
        let lower = file.text.to_ascii_lowercase();
        for (word, instead) in WORDS {
            for (at, _) in lower.match_indices(word) {
                found.add(&file.path, file.line(at), format!("`{}`: {instead}", word.trim()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::told;

    #[test]
    fn a_word_of_the_workshop_is_found_in_code_and_prose() {
        assert_eq!(told(check, &[("a.md", "see\nIssue #3")]).len(), 1);
        assert_eq!(told(check, &[("a.rs", "// see /home/me/notes")]).len(), 1);
        assert!(told(check, &[("a.rs", "let issue = 3; // number of the issue")]).is_empty());
    }
}
