//! Writes to standard output and standard error. No other file of this program does.
//!
//! A write that fails never panics and never ends a session. A closed pipe (`| head`) ends printing and is no failure. Any
//! other failure of standard output is kept until the program ends, when `main` reports it. Standard error has no place where
//! its failure could be reported.
//!
//! Text for people comes partly from outside: stores, agents, external programs, names, arguments. It is escaped here, so that
//! no byte of it acts on the terminal. Colours are the only control sequences that pass. Text for programs is written as it is;
//! its format has escaped it.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use bytegauge_model::escape;
use bytegauge_report::render::{self, TerminalStyle};
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
