//! Banned phrases in text and identifiers, and the form of commit subjects.
//!
//! Reads Rust, TypeScript, Markdown and TOML as text. A person reads the rest: no program judges names and sentences.

use std::fs;

use anyhow::{Context, Result};

use xtask::cargo;

/// Characters of a commit's subject.
const SUBJECT_MAX: usize = 60;

/// Banned phrases and what to write instead.
///
/// A phrase is a sequence of words; `|` separates alternatives for one word. Case does not count, and identifiers are
/// split into words: `is_told` and `IsTold` contain `told`.
const BANNED: &[(&str, &str)] = &[
    ("nobody|whoever|somebody|someone|everybody|anybody", "name the actor: the reader, the server, the user"),
    ("he|him|his|himself", "it, its; or name the person: the user"),
    ("beside", "next to, in addition to, compared with"),
    ("dearer|dearest", "slower (rates), uses more CPU (CPU time)"),
    ("told", "reported, shown, given; significantly different (told apart)"),
    ("say|says|said", "reports, shows, states, contains"),
    ("speak|speaks|spoke|spoken", "reports, shows, uses (a protocol), supports (a claim)"),
    ("so many|much", "the number, the quantity, up to N"),
    ("foreign", "external, third-party"),
    ("others'", "name the owner: other processes, other engines"),
    ("of ours|theirs|his", "name the owner, or delete it"),
    ("mend|mends|mended|heal|heals|healed", "fix, fixes, fixed"),
    ("stand|stands|stood", "is in, is at, appears in"),
    ("lie|lies", "is in, is between"),
    ("but for", "except"),
    ("want of", "without, lack of"),
    ("in words", "as text"),
    ("in vain", "without effect, unsuccessfully"),
    ("in small", "briefly, at a small scale"),
    ("anew", "again"),
    ("the like of", "similar to"),
    ("turn|turns|turned round", "reverse, reverses"),
    ("know|knows|known|knew of", "name the actor and the fact: has, accepts, uses"),
    ("hang|hangs|hung on", "depends on"),
    ("heed|heeds|heeded", "respects, follows, uses"),
    ("send|sends|sent home", "stops all"),
    ("go|goes|gone|went home", "is cancelled, stops"),
    ("see|sees|seen|saw off", "shuts down"),
    ("life imposes", "environment; the peer's setting"),
    ("the|a|its|every|each|healthy twin", "A/A control; stored names stay: `twin_of`, `twin`"),
    ("twins", "A/A controls"),
    ("leash|leashes", "transfer limit"),
    ("astray", "unclaimed"),
    ("stranger|strangers", "unauthenticated connection"),
    ("guest|guests", "admitted peer; for virtual machines: VM"),
    ("hatch", "handoff"),
    ("soiled", "needs a new socket"),
    ("labour", "work"),
    ("clerk|clerks", "responder"),
];

/// Phrases that are allowed although their first word is banned, each with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("foreign key|keys", "the term of SQL"),
    ("stand|stands|stood for", "to represent"),
    ("in words of", "a size in machine words"),
    ("guest nice", "a column of /proc/stat"),
    ("told drops", "a stored name: drops reported by SO_RXQ_OVFL"),
    ("foreign cpus", "a stored name: CPU use of other programs"),
    ("spoken against", "a key of the JSON document"),
];

/// Paths that are never checked, each with the reason.
const SKIPPED: &[(&str, &str)] = &[
    ("crates/store/src/schema.rs", "steps of the migration that were released never change, comments included"),
    ("xtask/src/words.rs", "contains the banned phrases"),
];

/// Every place with a banned phrase, and every commit subject that `main` does not have and that breaks a rule.
///
/// # Errors
/// If git or a file cannot be read.
pub fn breaches() -> Result<Vec<String>> {
    let mut breaches: Vec<String> = subjects()?.iter().flat_map(|subject| breaches_of_subject(subject)).collect();
    let listed = cargo::git(&["ls-files", "-z"])?;
    let is_text = |file: &&str| [".rs", ".ts", ".toml", ".md"].iter().any(|end| file.ends_with(end));
    let is_checked = |file: &&str| SKIPPED.iter().all(|(skipped, _)| file != skipped);
    for file in listed.split('\0').filter(is_text).filter(is_checked) {
        let path = cargo::root().join(file);
        // A file that was removed and is still tracked.
        if !path.exists() {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        breaches.extend(banned_in(&text).map(|(line, message)| format!("{file}:{line}: {message}")));
    }
    Ok(breaches)
}

/// Subjects of the commits that `main` does not have. Empty where git has no such branch, as in a shallow clone.
fn subjects() -> Result<Vec<String>> {
    let bases = ["main", "origin/main"];
    let Some(base) = bases.iter().find(|base| cargo::git(&["rev-parse", "--verify", "--quiet", base]).is_ok()) else {
        return Ok(Vec::new());
    };
    let subjects = cargo::git(&["log", "--no-merges", "--format=%s", &format!("{base}..HEAD")])?;
    Ok(subjects.lines().map(str::to_owned).collect())
}

/// Banned phrases with their lines.
fn banned_in(text: &str) -> impl Iterator<Item = (usize, String)> {
    let words = words(text);
    let found = |start: usize| {
        let words = &words[start..];
        let is_allowed = ALLOWED.iter().any(|(phrase, _)| matches_at(words, phrase));
        let (phrase, instead) = BANNED.iter().find(|(phrase, _)| !is_allowed && matches_at(words, phrase))?;
        let phrase: Vec<&str> = words.iter().take(phrase.split(' ').count()).map(|word| word.text.as_str()).collect();
        Some((words[0].line, format!("\"{}\": write {instead}", phrase.join(" "))))
    };
    (0..words.len()).filter_map(found).collect::<Vec<_>>().into_iter()
}

/// Whether words begin with a phrase of the tables.
fn matches_at(words: &[Word], phrase: &str) -> bool {
    phrase.split(' ').enumerate().all(|(index, alternatives)| {
        words.get(index).is_some_and(|word| {
            (index == 0 || word.continues) && alternatives.split('|').any(|alternative| alternative == word.text)
        })
    })
}

/// A word in lower case.
struct Word {
    text: String,
    /// From 1.
    line: usize,
    /// Whether a phrase may continue from the previous word to this one: only spaces, `_` or comment marks in between.
    continues: bool,
}

/// The words of a text, identifiers split at `_` and at capitals.
fn words(text: &str) -> Vec<Word> {
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

/// Breaches of one commit subject.
fn breaches_of_subject(subject: &str) -> Vec<String> {
    let mut found: Vec<String> = banned_in(subject).map(|(_, message)| message).collect();
    let length = subject.chars().count();
    if length > SUBJECT_MAX {
        found.push(format!("has {length} characters: use at most {SUBJECT_MAX}"));
    }
    let is_area =
        |area: &str| !area.is_empty() && area.chars().all(|c| c.is_ascii_lowercase() || "0123456789-/, ".contains(c));
    let has_form = subject
        .split_once(": ")
        .is_some_and(|(area, rest)| is_area(area) && rest.chars().next().is_some_and(char::is_lowercase));
    if !has_form {
        found.push("has no area: write `area: verb object`".to_owned());
    }
    found.into_iter().map(|message| format!("commit subject `{subject}`: {message}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let got: Vec<String> = banned_in(text).map(|(line, message)| format!("{line}: {message}")).collect();
        assert_eq!(got.len(), expected.len(), "{text}: {got:#?}");
        for (got, expected) in got.iter().zip(expected) {
            assert!(got.contains(expected), "{got}");
        }
    }

    #[test]
    fn banned_phrases_are_found_in_each_form() {
        check("// nothing\nfn f() {}\n", &[]);
        check("//! Nobody reads it.\n", &["1: \"nobody\": write name the actor"]);
        check("let is_told = told(IsToldApart);\n", &["told", "told", "told"]);
        check("/// An error is\n/// sent\n/// home.\n", &["2: \"sent home\""]);
        check("(sent, home)\n", &[]);
        check("// others' readers\n", &["others'"]);
        check("help = \"prints so many bytes\"\n", &["so many"]);
        check("PRAGMA foreign_keys, a name that stands for it, foreign bytes\n", &["\"foreign\""]);
    }

    #[test]
    fn commit_subjects_are_short_and_have_an_area() {
        let check = |subject: &str, expected: usize| {
            let got = breaches_of_subject(subject);
            assert_eq!(got.len(), expected, "{got:?}");
        };
        check("report: show the interval of every option", 0);
        check("report, cli: show it", 0);
        check("Show the interval", 1);
        check("report: Show the interval", 1);
        check("report: tell whoever reads", 1);
        check(&format!("report: {}", "x".repeat(SUBJECT_MAX)), 1);
    }
}
