//! Rust without its comments and the insides of its strings, so that rules can look for words and
//! braces without a parser.

/// `text` with comments and the insides of strings and characters blanked, byte for byte.
#[must_use]
pub fn bare(text: &str) -> String {
    let mut reader = Reader { text: text.as_bytes(), at: 0, out: Vec::with_capacity(text.len()) };
    while reader.at < reader.text.len() {
        reader.step();
    }
    String::from_utf8(reader.out).unwrap_or_default()
}

/// Where `word` stands with no letter, digit or `_` beside it. A word may hold `::`.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let beside = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = code.as_bytes();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !beside(before) && !beside(bytes.get(at + word.len()))
    })
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn starts(&self, with: &[u8]) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(with))
    }

    fn keep(&mut self, count: usize) {
        let end = (self.at + count).min(self.text.len());
        self.out.extend_from_slice(self.text.get(self.at..end).unwrap_or_default());
        self.at = end;
    }

    fn blank(&mut self, count: usize) {
        let end = (self.at + count).min(self.text.len());
        let blanked = self.text.get(self.at..end).unwrap_or_default();
        self.out.extend(blanked.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        self.at = end;
    }

    fn step(&mut self) {
        match self.peek(0) {
            Some(b'/') if self.starts(b"//") => self.line_comment(),
            Some(b'/') if self.starts(b"/*") => self.block_comment(),
            Some(b'"') => self.string(),
            Some(b'r') if !self.is_inside_word() => self.raw_string(),
            Some(b'\'') => self.quote(),
            _ => self.keep(1),
        }
    }

    fn is_inside_word(&self) -> bool {
        // `br"…"` is a raw string too.
        let before = self.at.checked_sub(1).and_then(|at| self.text.get(at));
        before.is_some_and(|byte| (byte.is_ascii_alphanumeric() && *byte != b'b') || *byte == b'_')
    }

    fn line_comment(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.blank(length);
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            if self.starts(b"/*") {
                depth += 1;
                self.blank(2);
            } else if self.starts(b"*/") {
                depth -= 1;
                self.blank(2);
            } else {
                self.blank(1);
            }
            if depth == 0 || self.at >= self.text.len() {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.keep(1);
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.blank(2),
                b'"' => return self.keep(1),
                _ => self.blank(1),
            }
        }
    }

    fn raw_string(&mut self) {
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        if rest.get(hashes) != Some(&b'"') {
            return self.keep(1);
        }
        self.keep(2 + hashes);
        let mut end = vec![b'"'];
        end.resize(1 + hashes, b'#');
        while self.at < self.text.len() && !self.starts(&end) {
            self.blank(1);
        }
        self.keep(end.len());
    }

    /// A character, or a lifetime.
    fn quote(&mut self) {
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let length = match rest {
            // A backslash, what it escapes, and everything up to the closing quote.
            [b'\\', _, more @ ..] => 2 + more.iter().take_while(|byte| **byte != b'\'').count(),
            [first, ..] => match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
            },
            [] => return self.keep(1),
        };
        self.keep(1);
        if rest.get(length) == Some(&b'\'') {
            self.blank(length);
            self.keep(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{bare, words};

    #[test]
    fn comments_and_the_insides_of_strings_are_blank() {
        assert_eq!(bare("a // b\nc"), "a     \nc");
        assert_eq!(bare("/* a /* b */ c */ d"), "                  d");
        assert_eq!(bare(r#"("a\"{", b'{', '\'', 'ä')"#), r#"("    ", b' ', '  ', '  ')"#);
        assert_eq!(bare("r#\"a\"}\"# br\"}\" raw"), "r#\"   \"# br\" \" raw");
        assert_eq!(bare("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(bare("\"a\nb\""), "\" \n \"");
    }

    #[test]
    fn what_never_ends_is_no_reason_to_fail() {
        for text in ["\"a", "/* a", "r##\"a", "'", "'\\", "/* /* */"] {
            assert_eq!(bare(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn a_word_stands_alone() {
        let found: Vec<usize> = words("base::A, database::B, base_x, rebase, (base)", "base").collect();
        assert_eq!(found, [0, 39]);
    }
}
