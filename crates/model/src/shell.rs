//! Values in the command lines of external programs. A value is data: whatever it contains, a shell never runs any of it.
//!
//! A word that no shell reads takes its values as they are. In a script for a shell, a plain value (a number, a name, a path)
//! is written as it is. Any other value becomes a variable of the script, with quotes around it that fit its place: a shell
//! does not parse what a variable contains.

use std::mem;

/// Shells whose third word is a script, after `-c`.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WordPart<'a> {
    /// Text of the command line.
    Text(&'a str),
    /// A value that was filled in.
    Value(String),
}

/// Where a place of a script is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
    Comment,
}

/// The words of a program, each made of the pieces that `pieces` finds in it.
pub(crate) fn filled<E>(
    words: &[String],
    pieces: impl for<'a> Fn(&'a str) -> Result<Vec<WordPart<'a>>, E>,
) -> Result<Vec<String>, E> {
    let has_script = match words {
        [shell, flag, _, ..] => SHELLS.contains(&shell.rsplit('/').next().unwrap_or(shell)) && flag == "-c",
        _ => false,
    };
    let word = |(at, word): (usize, &String)| {
        let pieces = pieces(word)?;
        Ok(if has_script && at == 2 { script(&pieces) } else { plain(&pieces) })
    };
    words.iter().enumerate().map(word).collect()
}

/// The pieces as text, one after another.
pub(crate) fn plain(pieces: &[WordPart<'_>]) -> String {
    let text = |piece: &WordPart<'_>| match piece {
        WordPart::Text(text) => (*text).to_owned(),
        WordPart::Value(value) => value.clone(),
    };
    pieces.iter().map(text).collect()
}

/// Finds the places of a text, from left to right. A value is never searched for places.
pub(crate) fn pieces<'a>(text: &'a str, places: &[(String, String)]) -> Vec<WordPart<'a>> {
    let mut found = Vec::new();
    let mut rest = text;
    let next = |rest: &str| {
        let at = |(place, value): &(String, String)| Some((rest.find(place)?, place.len(), value.clone()));
        places.iter().filter_map(at).min_by_key(|(at, ..)| *at)
    };
    while let Some((at, length, value)) = next(rest) {
        found.extend([WordPart::Text(&rest[..at]), WordPart::Value(value)]);
        rest = &rest[at + length..];
    }
    found.push(WordPart::Text(rest));
    found
}

fn script(pieces: &[WordPart<'_>]) -> String {
    let (mut variables, mut script) = (String::new(), String::new());
    let (mut quotes, mut number) = (Quotes::None, 0);
    for piece in pieces {
        let value = match piece {
            WordPart::Text(text) => {
                quotes = after(quotes, &script, text);
                script.push_str(text);
                continue;
            }
            WordPart::Value(value) => value,
        };
        // Only a zero byte cannot be quoted, and no word of a program can contain one.
        let quoted = shlex::try_quote(value).unwrap_or_default();
        if quoted == value.as_str() {
            script.push_str(value);
            continue;
        }
        number += 1;
        let name = format!("bytegauge_{number}");
        variables.push_str(&format!("{name}={quoted}\n"));
        script.push_str(&match quotes {
            Quotes::None | Quotes::Comment => format!("\"${{{name}}}\""),
            Quotes::Double => format!("${{{name}}}"),
            Quotes::Single => format!("'\"${{{name}}}\"'"),
        });
    }
    variables + &script
}

/// The quotes that are open after a text (sh(1), "Quoting"). An error of this reading costs a literal quote, and never runs
/// a value.
fn after(mut quotes: Quotes, before: &str, text: &str) -> Quotes {
    let mut last = before.chars().next_back().unwrap_or('\n');
    let mut is_escaped = false;
    for character in text.chars() {
        let was_escaped = mem::take(&mut is_escaped);
        quotes = match (quotes, character) {
            (Quotes::Comment, '\n') | (Quotes::Single, '\'') => Quotes::None,
            (Quotes::Comment | Quotes::Single, _) => quotes,
            _ if was_escaped => quotes,
            (_, '\\') => {
                is_escaped = true;
                quotes
            }
            (Quotes::Double, '"') => Quotes::None,
            (Quotes::None, '"') => Quotes::Double,
            (Quotes::None, '\'') => Quotes::Single,
            (Quotes::None, '#') if last.is_whitespace() || ";|&()".contains(last) => Quotes::Comment,
            _ => quotes,
        };
        last = character;
    }
    quotes
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn words(words: &[&str], value: &str) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let places = [("{value}", value), ("{other}", "x")].map(|(place, value)| (place.to_owned(), value.to_owned()));
        filled(&words, |word| Ok::<_, Infallible>(pieces(word, &places))).unwrap()
    }

    /// The output of a script that runs in an empty folder, and the number of files that it made there.
    fn printed(script: &str, value: &str) -> (Vec<u8>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let words = words(&["/bin/sh", "-c", script], value);
        let output = Command::new(&words[0]).args(&words[1..]).current_dir(folder.path()).output().unwrap();
        (output.stdout, std::fs::read_dir(folder.path()).unwrap().count())
    }

    const HOSTILE: [&str; 10] = [
        "$(touch canary)",
        "`touch canary`",
        "; touch canary; ",
        "'; touch canary; '",
        "\"; touch canary; \"",
        "'\"; touch canary; \"'",
        "a & touch canary",
        "x\ntouch canary\n",
        "*",
        "\\",
    ];

    /// Scripts that print the value, in different places.
    const EXACT: [&str; 4] =
        ["printf %s {value}", "printf %s \"{value}\"", "printf %s '{value}'", "# don't\nprintf %s \"\"{value}''"];

    /// Scripts in which a value may be printed otherwise, and still must not run.
    const NESTED: [&str; 4] = [
        "printf %s \"$(printf %s {value})\"",
        "printf %s \"$(printf %s \"{value}\")\"",
        "printf %s `printf %s '{value}'`",
        "cat <<END\n{value} don't\nEND",
    ];

    #[test]
    fn hostile_values_are_printed_and_never_run() {
        for value in HOSTILE {
            for script in EXACT {
                assert_eq!(printed(script, value), (value.as_bytes().to_vec(), 0), "{script} with {value:?}");
            }
            for script in NESTED {
                assert_eq!(printed(script, value).1, 0, "{script} with {value:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn any_value_reaches_the_program(value in "[^\0]{0,30}", at in 0..4usize) {
            prop_assert_eq!(printed(EXACT[at], &value), (value.clone().into_bytes(), 0));
        }
    }

    #[test]
    fn plain_values_are_written_as_they_are() {
        let check = |script: &str, value: &str, expected: &str| {
            assert_eq!(words(&["sh", "-c", script, "{value}"], value), ["sh", "-c", expected, value]);
        };
        check("dd bs={value} count=1", "4096", "dd bs=4096 count=1");
        check("x {value}{other}", "127.0.0.1:80", "x 127.0.0.1:80x");
        check("x {value}", "a b", "bytegauge_1='a b'\nx \"${bytegauge_1}\"");
        check(
            "x '{value}' \"{value}\"",
            "a b",
            "bytegauge_1='a b'\nbytegauge_2='a b'\nx ''\"${bytegauge_1}\"'' \"${bytegauge_2}\"",
        );
    }

    #[test]
    fn words_without_a_shell_keep_values_unchanged() {
        assert_eq!(words(&["echo", "-c", "{value}"], "$(x) 'y'"), ["echo", "-c", "$(x) 'y'"]);
    }

    #[test]
    fn value_is_not_searched_for_places() {
        assert_eq!(words(&["echo", "{value}"], "{other}{value}"), ["echo", "{other}{value}"]);
    }
}
