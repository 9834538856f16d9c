//! How text is printed, and the welcome.

use std::io::{self, Write as _};

use crate::exit::{DONE, Failure};

/// `bytegauge` alone: the four commands a newcomer needs.
pub fn welcome() -> Result<u8, Failure> {
    print(
        "bytegauge measures how bytes move on this machine and says what to use, with proof.

  bytegauge survey               the questions below in small, in five minutes
  bytegauge run buffer-size      which read and write sizes? a minute, Unix and TCP sockets
  bytegauge stream --help        every factor as a flag: lists, ranges, conditions
  bytegauge report               the latest result again

All commands: bytegauge --help
",
    )
}

/// Prints to standard output. A reader that has seen enough (`| head`) is no failure.
pub fn print(text: &str) -> Result<u8, Failure> {
    match anstream::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("writing standard output: {error}")))
        }
        _ => Ok(DONE),
    }
}

/// Prints help or what is wrong with the words of a command, as clap does, in the characters of the locale.
pub fn message(error: &clap::Error) {
    let text = in_locale(error.render().ansi().to_string());
    // A reader that has left needs no word of it.
    let _ = if error.use_stderr() {
        anstream::stderr().write_all(text.as_bytes())
    } else {
        anstream::stdout().write_all(text.as_bytes())
    };
}

/// Text for people, in the characters of their locale: ASCII in `C` and `POSIX`. What programs read stays as it is, and
/// so does everything where no locale is set.
pub fn in_locale(text: String) -> String {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
    if set.is_some_and(|locale| locale == "C" || locale == "POSIX") { ascii(&text) } else { text }
}

/// The same text in ASCII. Marks and lines keep their width, so that columns stay where they are, and differ as before.
fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\0'..='\x7f' => plain.push(character),
            '±' => plain.push_str("+-"),
            '–' | '—' | '─' | '−' | '·' => plain.push('-'),
            '│' => plain.push('|'),
            '×' => plain.push('x'),
            'µ' | 'μ' => plain.push('u'),
            '≤' => plain.push_str("<="),
            '≥' => plain.push_str(">="),
            '…' => plain.push_str("..."),
            '²' => plain.push('2'),
            '√' => plain.push_str("sqrt "),
            '●' => plain.push('*'),
            '○' => plain.push('o'),
            '✓' => plain.push('+'),
            '★' => plain.push('!'),
            '◆' => plain.push('#'),
            '◇' => plain.push('%'),
            '→' | '▶' => plain.push('>'),
            '▷' => plain.push(')'),
            '◀' => plain.push('<'),
            '◁' => plain.push('('),
            '↓' => plain.push('v'),
            'α' => plain.push('a'),
            '\u{2580}'..='\u{259f}' => plain.push('#'),
            '“' | '”' => plain.push('"'),
            '‘' | '’' => plain.push('\''),
            _ => plain.push('?'),
        }
    }
    plain
}

/// Whether `TERM` names a terminal without colours and cursor movement.
pub fn terminal_is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
