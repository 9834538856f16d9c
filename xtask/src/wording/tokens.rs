//! Splits text into words and comments into paragraphs, each with its line. Knows neither Rust nor Markdown well: no parser.

/// A word in lower case.
pub struct Word {
    pub text: String,
    /// From 1.
    pub line: usize,
    /// Whether a phrase may continue from the previous word to this one: only spaces, `_` or comment marks in between.
    pub continues: bool,
}

/// The words of a text, identifiers split at `_` and at capitals.
pub fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut line, mut continues, mut previous) = (1, false, ' ');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() {
            let starts = !previous.is_alphanumeric() || (c.is_uppercase() && previous.is_lowercase());
            if starts {
                words.push(Word { text: String::new(), line, continues });
                continues = true;
            }
            if let Some(word) = words.last_mut() {
                word.text.extend(c.to_lowercase());
            }
        } else if is_possessive(c, previous, chars.peek().copied()) {
            if let Some(word) = words.last_mut() {
                word.text.push('\'');
            }
        } else {
            continues &= c.is_whitespace() || "/!_\\-`*#".contains(c);
        }
        line += usize::from(c == '\n');
        previous = c;
    }
    words
}

/// The apostrophe of `others' readers`.
fn is_possessive(c: char, previous: char, next: Option<char>) -> bool {
    c == '\'' && previous == 's' && next.is_some_and(char::is_whitespace)
}

/// How a file marks its comments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// `//` as in Rust and TypeScript; strings in `"`.
    Slashes,
    /// `#` as in TOML; strings in `"`.
    Hash,
    /// Text between blank lines, as in Markdown.
    Prose,
}

/// Text that is read as a whole: a comment, a string or a paragraph.
pub struct TextPassage {
    pub text: String,
    /// The line of each byte that starts a line, with its offset in the text.
    lines: Vec<(usize, usize)>,
}

impl TextPassage {
    fn new() -> TextPassage {
        TextPassage { text: String::new(), lines: Vec::new() }
    }

    fn push(&mut self, line: usize, text: &str) {
        self.lines.push((self.text.len(), line));
        self.text.push_str(text);
        self.text.push(' ');
    }

    /// The line of a byte of the text.
    pub fn line_at(&self, offset: usize) -> usize {
        self.lines.iter().rev().find(|(from, _)| *from <= offset).map_or(1, |(_, line)| *line)
    }
}

/// The passages of a file: neighbouring comment lines or lines of prose are one.
pub fn passages(text: &str, syntax: Syntax) -> Vec<TextPassage> {
    let (mut passages, mut present) = (Vec::new(), TextPassage::new());
    let mut in_code_block = false;
    for (index, line) in text.lines().enumerate() {
        let prose = prose_of(line.trim(), syntax, &mut in_code_block);
        if let Some(prose) = prose {
            present.push(index + 1, prose);
            continue;
        }
        if !present.text.is_empty() {
            passages.push(std::mem::replace(&mut present, TextPassage::new()));
        }
        if syntax != Syntax::Prose {
            passages.extend(strings(line).map(|string| {
                let mut passage = TextPassage::new();
                passage.push(index + 1, string);
                passage
            }));
        }
    }
    passages.push(present);
    passages
}

/// The prose of a line, if it continues a passage.
fn prose_of<'a>(line: &'a str, syntax: Syntax, in_code_block: &mut bool) -> Option<&'a str> {
    let line = match syntax {
        Syntax::Slashes => line.strip_prefix("//")?.trim_start_matches(['/', '!']).trim(),
        Syntax::Hash => line.strip_prefix('#')?.trim(),
        Syntax::Prose => line.trim_start_matches(['-', '*', '>', ' ']),
    };
    if line.starts_with("```") {
        *in_code_block = !*in_code_block;
        return None;
    }
    let is_heading = line.starts_with('#') || line.starts_with('|');
    (!line.is_empty() && !*in_code_block && !is_heading).then_some(line)
}

/// The strings that begin in a line of code.
fn strings(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

/// Sentences, clauses after a colon or a semicolon included, each with its offset.
pub fn sentences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    text.match_indices([' ']).filter_map(move |(at, _)| {
        let is_end = text[..at].trim_end_matches(['`', ')', '"', '\'']).ends_with(['.', ':', ';', '?', '!']);
        let sentence = (is_end || text[at..].trim().is_empty()).then(|| (from, text[from..at].trim()))?;
        from = at + 1;
        Some(sentence)
    })
}
