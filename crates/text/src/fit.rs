//! Text that fits: whole lines, parts and words.

/// A text of at most `width` characters; a longer one ends after the last whole word that fits, with `…`.
pub fn cut(text: &str, width: usize) -> String {
    if chars(text) <= width {
        return text.to_owned();
    }
    whole_words(text, width.saturating_sub(1)).trim_end_matches([',', ':', ';']).to_owned() + "…"
}

/// The same of parts behind commas, none of which is broken: `20 competing` without its noun is another number.
pub fn cut_parts(text: &str, width: usize) -> String {
    let mut parts: Vec<&str> = text.split(", ").collect();
    if chars(text) <= width || parts.len() == 1 {
        return cut(text, width);
    }
    // `…` needs room as well.
    while parts.len() > 1 && (parts.join(", ") == text || chars(&parts.join(", ")) >= width) {
        parts.pop();
    }
    cut(&(parts.join(", ") + "…"), width)
}

/// Characters of a text, as columns of a screen.
pub fn chars(text: &str) -> usize {
    text.chars().count()
}

/// As many of a text's words as fit.
pub fn whole_words(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.trim_end().to_owned(),
        Some((end, _)) if text[end..].starts_with(' ') => text[..end].trim_end().to_owned(),
        Some((end, _)) => text[..end].rsplit_once(' ').map_or(&text[..end], |(words, _)| words).trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
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
    fn no_word_and_no_number_is_cut() {
        let question = "TCP, 2 CPUs, 50 flows, 20 competing";
        let check = |width: usize, expected: &str| assert_eq!(cut_parts(question, width), expected);
        check(35, question);
        check(34, "TCP, 2 CPUs, 50 flows…");
        check(25, "TCP, 2 CPUs, 50 flows…");
        check(21, "TCP, 2 CPUs…");
        assert_eq!(cut_parts("one word after another", 12), "one word…");
        assert_eq!(cut("read 4K 125–210 % above the best", 20), "read 4K 125–210 %…");
    }
}
