//! Keys where none belongs: ids of requests stand in the open, in logs and records.

/// What begins the keys that this gateway makes, and its own request ids.
pub(super) const OURS: &str = "mai-";
/// A key with fewer bytes is a word that any id may hold.
const WORD: usize = 8;

/// Whether an id holds one of the keys that its caller shows, or looks like a key: the gateway blanks the same in texts
/// (`dialect::texts::Mask`). Its own request ids are none, also where another gateway sends them.
pub(super) fn are_told<'a>(id: &str, mut shown: impl Iterator<Item = &'a [u8]>) -> bool {
    let holds = |key: &'a [u8]| match key.len() {
        ..WORD => id.as_bytes() == key,
        length => id.as_bytes().windows(length).any(|part| part == key),
    };
    looks_like_one(id) || shown.any(holds)
}

fn looks_like_one(id: &str) -> bool {
    let is_made = id.strip_prefix(OURS).is_some_and(|rest| rest.len() == 32 && rest.bytes().all(is_lower_hex));
    !is_made && (is_key(id, "sk-", 6) || is_key(id, OURS, 32) || is_bearer(id))
}

/// Whether a blank follows the word somewhere.
fn is_bearer(id: &str) -> bool {
    let mut rest = id;
    while let Some((_, after)) = find(rest, "bearer") {
        if after.starts_with([' ', '\t']) {
            return true;
        }
        rest = after;
    }
    false
}

/// Whether a word of the id begins so and goes on for so many letters of a key.
fn is_key(id: &str, begins: &str, least: usize) -> bool {
    let mut rest = id;
    while let Some((is_word, after)) = find(rest, begins) {
        let length =
            after.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
        if is_word && length >= least {
            return true;
        }
        rest = after;
    }
    false
}

/// What follows the first of these letters, whatever their case, and whether a word begins with them.
fn find<'a>(id: &'a str, what: &str) -> Option<(bool, &'a str)> {
    let at = id.as_bytes().windows(what.len()).position(|part| part.eq_ignore_ascii_case(what.as_bytes()))?;
    let before = at.checked_sub(1).and_then(|before| id.as_bytes().get(before));
    let is_word = before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    id.get(at + what.len()..).map(|rest| (is_word, rest))
}

const fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use dialect::texts::Mask;

    use super::*;

    fn told(id: &str) -> bool {
        are_told(id, std::iter::empty())
    }

    #[test]
    fn what_is_blanked_in_texts_is_no_id_and_everything_else_is() {
        let mask = Mask::default();
        for id in [
            "abc-1",
            "req_0af7651916cd43dd8448eb211c80319c",
            "sk-proj-Ab12_34",
            "job:SK-1234567",
            "task-force-11",
            "ask-me-anything",
            "sk-1",
            "sk-sk-123456",
            "mai-gateway",
            "mai-Xy_-56789abcdef0123456789abcdef01",
            "1/mai-0123456789abcdef0123456789abcdefA",
            "Bearer abcdefgh",
            "bearer-of-news",
            "bearer-auth/Bearer eyJhbGciOi",
            "bearer-auth/bearer-of-news",
            "_sk-1234567",
        ] {
            assert_eq!(told(id), mask.blank(id.to_owned(), std::iter::empty()) != id, "{id}");
        }
        assert!(!told("mai-0123456789abcdef0123456789abcdef"), "it is one that a gateway made");
        assert!(told("mai-0123456789ABCDEF0123456789abcdef"));
    }

    #[test]
    fn a_key_of_the_caller_is_no_id_nor_a_part_of_one() {
        let shown = |id: &str, key: &'static str| are_told(id, std::iter::once(key.as_bytes()));
        assert!(shown("CLIENTKEYfile", "CLIENTKEYfile") && shown("req-CLIENTKEYfile-1", "CLIENTKEYfile"));
        assert!(shown("key", "key") && !shown("monkey", "key"), "a short one is a word");
        assert!(!shown("req-1", "CLIENTKEYfile"));
    }
}
