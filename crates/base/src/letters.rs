//! Letters that nobody sees, or that make a text look like another one: in names they would deceive whoever reads a
//! list or the audit log.

/// What a letter is that nobody sees as what it is; none where there is nothing wrong with it.
///
/// After Unicode 16: what is ignored where it cannot be shown (`Default_Ignorable_Code_Point` of
/// `DerivedCoreProperties.txt`), what separates lines, blanks but the ordinary and the ideographic one, and code points
/// that are no characters.
#[must_use]
pub const fn unseen(letter: char) -> Option<&'static str> {
    Some(match letter {
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => "a control character",
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            "a character that turns the direction of text"
        }
        '\u{a0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200a}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{202f}'
        | '\u{205f}'
        | '\u{2800}' => "a blank of a kind that cannot be told from others",
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => "an invisible character",
        '\u{fdd0}'..='\u{fdef}' => "no character",
        _ if letter as u32 & 0xfffe == 0xfffe => "no character",
        _ => return None,
    })
}

/// What is wrong with the letters of a text that people are to recognise: `holds U+200B, an invisible character`.
#[must_use]
pub fn illegible(text: &str) -> Option<String> {
    let (letter, what) = text.chars().find_map(|letter| Some((letter, unseen(letter)?)))?;
    Some(format!("holds U+{:04X}, {what}", u32::from(letter)))
}

/// Letters of the version of a knowledge base at most.
pub const LONGEST_VERSION: usize = 200;

/// Whether a text can be the version of a knowledge base, wherever it is written: in a file, in the admin API or in a
/// caller's header. All must be able to say the same.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn kb_version(text: &str) -> Result<(), String> {
    if let Some(why) = illegible(text) {
        return Err(format!("{why}; leave it out"));
    }
    if text.trim().is_empty() || text.chars().count() > LONGEST_VERSION {
        return Err(format!("must be a text of 1 to {LONGEST_VERSION} letters"));
    }
    if text.trim() != text {
        return Err("has blanks around it, which a header cannot say; leave them out".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_people_write_are_seen_and_others_are_named() {
        for text in ["问答　一", "rag-chat 1", "Zürich", "naïve café", "チャット", "🙂", "اسم", "한글"]
        {
            assert_eq!(illegible(text), None, "{text}");
        }
        for (text, told) in [
            ("a\nb", "U+000A, a control"),
            ("\u{200b}", "U+200B, an invisible"),
            ("a\u{202e}b", "U+202E, a character that turns"),
            ("\u{feff}a", "U+FEFF, an invisible"),
            ("a\u{a0}b", "U+00A0, a blank"),
            ("a\u{2028}b", "U+2028, a blank"),
            ("\u{e0041}", "U+E0041, an invisible"),
            ("\u{1ffff}", "U+1FFFF, no character"),
            ("\u{85}", "U+0085, a control"),
        ] {
            assert!(illegible(text).is_some_and(|why| why.contains(told)), "{told}: {:?}", illegible(text));
        }
    }

    #[test]
    fn the_version_of_a_knowledge_base_is_a_text_that_can_be_read() {
        for sound in ["2026-11", "版本 7", &"版".repeat(LONGEST_VERSION)] {
            assert_eq!(kb_version(sound), Ok(()));
        }
        for wrong in ["", " ", "\0", "\n", "a\nb", " a", "a ", "\u{200b}", &"a".repeat(LONGEST_VERSION + 1)] {
            assert!(kb_version(wrong).is_err(), "{wrong:?}");
        }
    }
}
