//! Writes to standard output and standard error. No other file of this program does.
//!
//! A write that fails never panics and never ends a session. A closed pipe (`| head`) ends printing and is no failure. Any
//! other failure of standard output is kept until the program ends, when `main` reports it. Standard error has no place where
//! its failure could be reported.
//!
//! Text for people comes partly from outside: stores, agents, external programs, names, arguments. It is escaped here, so that
//! no byte of it acts on the terminal. Colours are the only control sequences that pass. Text for programs is written as it is;
//! its format has escaped it.
//!
//! Also the widths of text for people, and the welcome.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use bytegauge_model::escape;
use bytegauge_report::render::{self, TerminalStyle};
use bytegauge_report::words::fit::{text_width, wrap};
use clap::builder::StyledStr;

/// The first failure of standard output that is no closed pipe.
static FAILURE: OnceLock<String> = OnceLock::new();

/// Prints text for people on standard output.
pub fn print(text: &str) {
    finish(anstream::stdout().write_all(escape::lines(text).as_bytes()));
}

/// Prints text for people, made by `text` for a style, in colour where the style asks for it.
pub fn print_styled(style: &TerminalStyle, text: impl Fn(&TerminalStyle) -> String) {
    let text = render::on_terminal(style, text);
    finish(anstream::stdout().write_all(text.as_bytes()));
}

/// Prints text for programs on standard output: JSON, CSV, scripts.
pub fn print_data(text: &str) {
    finish(io::stdout().write_all(text.as_bytes()));
}

/// Prints one JSON document for programs, indented.
pub fn print_json(value: &serde_json::Value) {
    print_data(&format!("{}\n", escape::json(&format!("{value:#}"))));
}

/// Prints one JSON document in a line of its own.
pub fn print_json_line(value: &serde_json::Value) {
    print_data(&format!("{}\n", escape::json(&value.to_string())));
}

/// Tells people something on standard error. The text ends without a newline.
pub fn note(text: &str) {
    // A reader of standard error that has left, or a full disk, must not end a session.
    let _ = writeln!(anstream::stderr(), "{}", escape::lines(text));
}

/// Writes cursor movements and text of the display on standard error, as it is: its format has escaped it.
pub fn draw(text: &str) {
    // As of every note.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Columns of the terminal at standard error; 80 where it does not know its size.
pub fn error_width() -> usize {
    let known = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    known.filter(|columns| *columns > 0).unwrap_or(80)
}

/// Columns of text on standard output: those of the terminal. In a pipe or a file those of COLUMNS, which shells do not export by
/// themselves: a user who did asks for that width. 80 where neither is known.
pub fn width() -> usize {
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    let known = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    asked().filter(|_| !is_output_terminal()).or_else(known).unwrap_or(80)
}

/// Prints help on standard output.
pub fn help(text: &StyledStr) {
    finish(anstream::stdout().write_all(styled(text).as_bytes()));
}

/// Text of clap with its colours, without other control sequences.
fn styled(text: &StyledStr) -> String {
    render::on_terminal(&TerminalStyle { colour: true, ..TerminalStyle::default() }, |style| {
        if style.colour { text.ansi().to_string() } else { text.to_string() }
    })
}

/// Prints help on standard output, or a usage error on standard error, as clap formats them.
pub fn clap_message(error: &clap::Error) {
    let text = error.render();
    match error.use_stderr() {
        // As of every note.
        true => drop(anstream::stderr().write_all(styled(&text).as_bytes())),
        false => help(&text),
    }
}

/// Why standard output is incomplete, if it is. Asked once, at the end.
pub fn output_failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

/// Standard output for data that is written in pieces. Every write succeeds; a failure is kept for [`output_failure`].
pub struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        finish(io::stdout().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether standard output is a terminal.
pub fn is_output_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Flushes standard output and keeps what went wrong: bytes that stay in the buffer would be lost without a word.
fn finish(written: io::Result<()>) {
    match written.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            FAILURE.get_or_init(|| error.to_string());
        }
        _ => {}
    }
}

// The widths of text for people, and the welcome. Writes nothing.

/// Columns of text that is no table of results.
pub const COLUMNS: usize = 80;

/// `bytegauge` alone: the commands a newcomer needs.
pub const WELCOME: &str = "\
bytegauge measures how bytes move on this machine and recommends settings,
with 95 % intervals.

  bytegauge run buffer-size   which read and write sizes? TCP, Unix; 1 minute
  bytegauge run survey        all built-in plans, briefly; 5 minutes
  bytegauge stream -h         one way: sizes, engines, socket options
  bytegauge call -h           requests and replies: servers and clients
  bytegauge tune -h           the settings that make your own program faster
  bytegauge doctor            what disturbs measurements on this machine
  bytegauge report            the latest result again

All commands: bytegauge --help
";

/// Lines in at most `width` columns, hidden characters escaped. A longer line continues under its last column, or
/// indented. A command stays whole, so that it can be copied.
pub fn fitted<'a>(lines: impl IntoIterator<Item = &'a str>, width: usize) -> String {
    let mut out = String::new();
    for line in lines {
        let line = escape::line(line);
        // Columns are two spaces apart.
        let column = line.get(..width / 2).and_then(|head| head.rfind("  ")).map_or(0, |at| at + 2);
        let start = line.bytes().take(width / 2).take_while(|byte| *byte == b' ').count();
        let (head, further) = if column > start { (column, 0) } else { (start, 2) };
        let indent = text_width(&line[..head]) + further;
        if text_width(&line) <= width || line[head..].starts_with("bytegauge ") {
            out.push_str(&line);
            out.push('\n');
            continue;
        }
        for (at, part) in wrap(&line[head..], width.saturating_sub(indent)).iter().enumerate() {
            let before = if at == 0 { line[..head].to_owned() } else { " ".repeat(indent) };
            out.push_str(&format!("{before}{part}\n"));
        }
    }
    out
}

/// Whether `TERM` names a terminal without colours and cursor movement.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_continue_under_their_column() {
        let levels = "1K 2K 4K 8K ".repeat(8);
        let text = format!("short\n     read-size  compared  {levels}\n  {}\n", "note ".repeat(20));
        let lines: Vec<String> = fitted(text.lines(), COLUMNS).lines().map(str::to_owned).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:?}");
        assert!(lines[1].starts_with("     read-size  compared  1K 2K") && lines[2].starts_with(&" ".repeat(26)));
        assert!(lines[lines.len() - 1].starts_with("    note"), "{lines:?}");
    }
}
