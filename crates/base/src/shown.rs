//! Makes text from outside safe for terminals and logs.
//!
//! A name of a file, a client or a host may hold characters that a terminal obeys (C0 and C1
//! controls), or that reverse or hide the text around them (the marks of directions, separators of
//! lines, characters without width). Each such character is shown as JSON writes the character,
//! `\u202e`: a person sees the escape, and in a line of JSON the escape still means the character.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns true if a terminal interprets the character instead of displaying it.
#[must_use]
pub const fn acts(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Escapes the control characters of a text of several lines, except line ends and tabs.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    let is_kept = |character: char| matches!(character, '\n' | '\t') || !acts(character);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_kept(character) {
            plain.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string never fails.
            let _ = write!(plain, "\\u{unit:04x}");
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_json_escapes() {
        assert_eq!(shown("a\u{1b}[31m\u{9b}b\u{202e}c\r"), "a\\u001b[31m\\u009bb\\u202ec\\u000d");
        assert_eq!(shown("\u{e0041}"), "\\udb40\\udc41");
        assert_eq!(shown("\u{200f}\u{2066}\u{feff}\u{7f}"), "\\u200f\\u2066\\ufeff\\u007f");
    }

    #[test]
    fn plain_text_stays_unchanged() {
        let text = "one\ttwo\n\u{e4}\u{4e2d}\u{1f600} \"q\" \\u202e";
        assert!(matches!(shown(text), Cow::Borrowed(same) if same == text));
    }
}
