//! What prints without measuring: the welcome, completions, the manual page.

use std::io::Write as _;

use clap::ArgMatches;

use crate::exit::Failure;
use crate::{command_line, stored};

/// `bytegauge` alone: the four commands a newcomer needs.
pub fn welcome() -> Result<u8, Failure> {
    stored::print(
        "bytegauge measures how bytes move on this machine and says what to use, with proof.

  bytegauge survey               the questions below in small, in five minutes
  bytegauge run buffer-size      which read and write sizes? a minute, Unix and TCP sockets
  bytegauge stream --help        every factor as a flag: lists, ranges, conditions
  bytegauge report               the latest result again

All commands: bytegauge --help
",
    )
}

/// Completions for a shell.
pub fn completions(matches: &ArgMatches) -> Result<u8, Failure> {
    // Made in memory first: a reader that leaves early is no panic.
    let mut script = Vec::new();
    if let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") {
        clap_complete::generate(*shell, &mut command_line::command(), "bytegauge", &mut script);
    }
    stored::print(&String::from_utf8_lossy(&script))
}

/// The manual page, in roff.
pub fn man() -> Result<u8, Failure> {
    let mut page = Vec::new();
    let written = |error| Failure::failed(format!("writing the manual page: {error}"));
    let command = command_line::command();
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut page).map_err(written)?;
    // One page for all, as `bytegauge --help` is one: a section for each command that has flags of its own.
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let _ = writeln!(page, ".SH \"BYTEGAUGE {}\"", name.to_uppercase());
        let own = clap_mangen::Man::new(command.clone().bin_name(format!("bytegauge {name}")));
        let mut section = Vec::new();
        own.render_description_section(&mut section)
            .and_then(|()| own.render_synopsis_section(&mut section))
            .and_then(|()| own.render_options_section(&mut section))
            .map_err(written)?;
        // Sections of a page are subsections here.
        page.extend(String::from_utf8_lossy(&section).replace(".SH ", ".SS ").bytes());
    }
    stored::print(&String::from_utf8_lossy(&page))
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
