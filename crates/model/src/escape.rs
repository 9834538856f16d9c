//! Shows characters that would act on a terminal, or that no reader can see, as their code points.
//!
//! Stores, imports, agents, external programs, names and file names bring text from outside. Each output format escapes it
//! once, where the format is written, by a function of this module. Nothing is removed: a reader sees `\u{1b}` where the text
//! has an escape character.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character acts on its surroundings instead of being shown: controls, line and paragraph separators, and
/// invisible format characters, among them those that reorder text (Unicode Technical Report 36, section 3.1).
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' // soft hyphen
            | '\u{61c}' // Arabic letter mark
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
            | '\u{180e}' // Mongolian vowel separator
            | '\u{200b}'..='\u{200f}' // zero width, marks of direction
            | '\u{2028}'..='\u{202e}' // separators, embeddings and overrides of direction
            | '\u{2060}'..='\u{206f}' // word joiner, invisible operators, isolates
            | '\u{feff}' // byte order mark
            | '\u{fff9}'..='\u{fffb}' // annotations
            | '\u{fdd0}'..='\u{fdef}' // noncharacters
            | '\u{e0000}'..='\u{e007f}' // tags
        )
        // Noncharacters, the last two of each plane, which XML refuses.
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Text from outside without the part beyond `max` bytes.
pub fn cut(mut text: String, max: usize) -> String {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text.shrink_to_fit();
    text
}

/// Text of several lines: every hidden character but the newline as its code point.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && c != '\n', by_code_point)
}

/// Text of one line: newlines are escaped as well.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, by_code_point)
}

/// JSON text whose strings hold the same characters as before, each hidden one as `\uXXXX` (RFC 8259, section 7). Serialisers
/// escape the controls below U+0020 alone.
pub fn json(text: &str) -> Cow<'_, str> {
    // Outside of strings JSON has no characters beyond ASCII, and of controls white space alone.
    let is_escaped = |c: char| c > '\u{7e}' && is_hidden(c);
    escaped(text, is_escaped, |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// A field of a table for spreadsheets, in one line. Spreadsheets take a field that begins with one of `= + - @` for a formula
/// and may run it; an apostrophe before it makes it text (OWASP, "CSV Injection"). Numbers stay numbers.
pub fn csv_field(text: &str) -> Cow<'_, str> {
    let field = line(text);
    let is_formula = field.starts_with(['=', '+', '-', '@']) && !is_number(&field);
    if is_formula || text.starts_with(['\t', '\r']) { Cow::Owned(format!("'{field}")) } else { field }
}

/// Digits with a sign, a point, an exponent. `inf` and `nan` are words.
fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok() && text.contains(|c: char| c.is_ascii_digit())
}

fn by_code_point(out: &mut String, c: char) {
    out.extend(c.escape_default());
}

/// A text with some characters escaped, each by `add`.
fn escaped(text: &str, is_escaped: impl Fn(char) -> bool + Copy, add: fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) { add(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_show_their_code_points() {
        let check = |text: &str, expected: &str| assert_eq!(line(text), expected);
        check("plain é ─ ✓ 日本", "plain é ─ ✓ 日本");
        check("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}");
        check("a\u{9b}b\u{202e}c\u{2066}d\u{7f}e\u{feff}", "a\\u{9b}b\\u{202e}c\\u{2066}d\\u{7f}e\\u{feff}");
        check("a\nb\tc\rd\u{2028}\u{200b}", "a\\nb\\tc\\rd\\u{2028}\\u{200b}");
        assert_eq!(lines("a\nb\r"), "a\nb\\r");
        assert!(matches!(lines("a\nb"), Cow::Borrowed(_)));
    }

    #[test]
    fn spreadsheets_get_no_formula() {
        let check = |text: &str, expected: &str| assert_eq!(csv_field(text), expected);
        check("=HYPERLINK(\"http://x\")", "'=HYPERLINK(\"http://x\")");
        check("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0");
        check("@SUM(1)", "'@SUM(1)");
        check("-inf", "'-inf");
        check("\t=1", "'\\t=1");
        check("-1.5e-3", "-1.5e-3");
        check("+5", "+5");
        check("plain, \"quoted\"", "plain, \"quoted\"");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = "\u{1b}\u{7f}\u{9b}\u{202e}\u{feff}\u{e0041}é\n\"\\";
        let text = serde_json::to_string(value).unwrap();
        let shown = json(&text);
        assert!(!shown.contains(is_hidden), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), value);
    }
}
