//! Text that fits: cut and wrapped by the columns that it takes on a terminal, never by bytes or characters.
//!
//! Every layout of the program uses these functions. Hidden characters are escaped before a line is measured, so that text
//! from outside has the width that a reader sees.

use bytegauge_model::escape;
use unicode_width::UnicodeWidthChar;

/// Columns of a text on a terminal.
pub fn text_width(text: &str) -> usize {
    text.chars().map(of_char).sum()
}

/// A text with spaces up to `width` columns, behind it or, if it is to be aligned right, in front of it.
pub fn padded(text: &str, width: usize, right: bool) -> String {
    let spaces = " ".repeat(width.saturating_sub(text_width(text)));
    if right { spaces + text } else { text.to_owned() + &spaces }
}

/// A text of at most `width` columns; a longer one ends after the last whole word that fits, with `…`.
pub fn cut(text: &str, width: usize) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    whole_words(text, width.saturating_sub(1)).trim_end_matches([',', ':', ';']).to_owned() + "…"
}

/// A text of at most `width` columns; a longer one ends with `mark`, perhaps within a word.
pub fn cut_anywhere(text: &str, width: usize, mark: &str) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let fits = &text[..fitting(text, width.saturating_sub(text_width(mark)))];
    let cut = format!("{}{mark}", fits.trim_end());
    cut[..fitting(&cut, width)].to_owned()
}

/// As many of a text's words as fit.
pub fn whole_words(text: &str, width: usize) -> String {
    let (fits, rest) = text.split_at(fitting(text, width));
    let is_whole = rest.is_empty() || rest.starts_with(' ');
    let words = if is_whole { fits } else { fits.rsplit_once(' ').map_or(fits, |(words, _)| words) };
    words.trim_end().to_owned()
}

/// Bytes of a text that take at most `width` columns.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    let is_beyond = |(_, c): &(usize, char)| {
        used += of_char(*c);
        used > width
    };
    text.char_indices().find(is_beyond).map_or(text.len(), |(at, _)| at)
}

fn of_char(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Greedy lines of at most `width` columns; a wider word gets its own line. A number stays with its unit. Any white space
/// separates words, and hidden characters are escaped.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in bound(text) {
        match lines.last_mut() {
            Some(line) if text_width(line) + 1 + text_width(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    if lines.is_empty() { vec![String::new()] } else { lines }
}

/// The words of a text, of which a number and its unit, and both sides of `≤`, are one.
fn bound(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut previous = "";
    for word in text.split_whitespace() {
        let unit = previous.ends_with(|c: char| c.is_ascii_digit())
            && word.starts_with(['%', '×', 'K', 'M', 'G', 'B', 'T', 'k', 'n', 'µ', 's', 'm'])
            && word.len() <= 7;
        let shown = escape::line(word);
        match out.last_mut() {
            Some(last) if unit || [previous, word].contains(&"≤") => *last += &format!(" {shown}"),
            _ => out.push(shown.into_owned()),
        }
        previous = word;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_cut_ends_with_a_whole_word() {
        let check = |width: usize, expected: &str| assert_eq!(whole_words("wake-ups: g3, g4", width), expected);
        check(20, "wake-ups: g3, g4");
        check(16, "wake-ups: g3, g4");
        check(15, "wake-ups: g3,");
        check(13, "wake-ups: g3,");
        check(12, "wake-ups:");
        check(4, "wake");
    }

    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(cut("read 4K 125–210 % above the best", 20), "read 4K 125–210 %…");
    }

    #[test]
    fn lines_keep_numbers_and_units_together() {
        let check = |text: &str, width, expected: &[&str]| assert_eq!(wrap(text, width), expected, "{text}");
        check("it is up to 200 k calls/s", 16, &["it is up to", "200 k calls/s"]);
        check("it is up to 18.4 ms", 15, &["it is up to", "18.4 ms"]);
        check("512 B, p99 ≤ 2ms", 12, &["512 B,", "p99 ≤ 2ms"]);
        check("in 14 trials", 9, &["in 14", "trials"]);
        check("aaaaaaaaaaaaaaa b", 5, &["aaaaaaaaaaaaaaa", "b"]);
        check("", 5, &[""]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let check = |line: &str, width, expected: &str| assert_eq!(cut_anywhere(line, width, "…"), expected);
        check("Read from TCP", 13, "Read from TCP");
        check("Read from TCP", 12, "Read from T…");
        check("Read from TCP", 11, "Read from…");
        check("読み込み", 8, "読み込み");
        check("読み込み", 7, "読み込…");
        check("読み込み", 6, "読み…");
        check("anything", 0, "");
        assert_eq!(wrap("読み 込み", 5), ["読み", "込み"]);
        assert_eq!(cut("読み 込み", 8), "読み…");
    }

    proptest! {
        #[test]
        fn any_text_fits_and_is_visible(text in any::<String>(), width in 0usize..100) {
            let shown = escape::line(&text);
            for cut in [cut(&shown, width), cut_anywhere(&shown, width, "...")] {
                // Even without room `…` shows that something is missing.
                prop_assert!(text_width(&cut) <= width.max(1), "{cut:?}");
            }
            let lines = wrap(&text, width);
            for line in &lines {
                prop_assert!(!line.contains(escape::is_hidden), "{line:?}");
                let is_word = bound(line).len() == 1;
                prop_assert!(text_width(line) <= width || is_word, "{line:?}");
            }
            let words = |text: &str| text.split_whitespace().map(|word| escape::line(word).into_owned()).collect::<Vec<_>>();
            prop_assert_eq!(words(&lines.join(" ")), words(&text));
        }
    }
}
