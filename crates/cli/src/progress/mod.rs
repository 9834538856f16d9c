//! The display while a session is measured: a line for its progress. Options that lead so far are not shown: they often do not in
//! the end.
//!
//! It is drawn while nothing is measured, and by no thread of its own, which would take a CPU from the trial. A terminal shows
//! it in place. Elsewhere it is a line for a log at the start of a stage and every ten seconds.

mod state_line;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use bytegauge_harness::{Event, Observer};
use bytegauge_model::session::Stage;
use bytegauge_model::unit::{counted, forecast};
use bytegauge_model::{AnalysisProgress, SessionId, escape};
use bytegauge_report::words::fit::{cut_anywhere, text_width};
use bytegauge_store::Store;

use crate::{print, terminal};
use state_line::SessionProgress;

/// A terminal shows at most four states a second: each takes time between two trials.
const DRAW_PAUSE: Duration = Duration::from_millis(250);

/// A log gets a line in this time.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// Draws the state of a session on standard error.
pub struct Display {
    standing: SessionProgress,
    /// The line on the terminal; `None` where standard error is none.
    line: Option<Line>,
    last: Instant,
    has_waited: bool,
}

impl Display {
    /// A display in place on a terminal that can do that, else as lines of a log.
    pub fn new() -> Display {
        Display {
            standing: SessionProgress::default(),
            line: Line::on_terminal(),
            last: Instant::now(),
            has_waited: false,
        }
    }

    /// Removes the display from the terminal.
    pub fn clear(&mut self) {
        self.line.iter_mut().for_each(Line::remove);
    }

    fn note(&mut self, text: &str) {
        self.clear();
        terminal::note(&noted(text));
        if self.line.is_some() {
            self.draw();
        }
    }

    /// Shows what is known now, if the last time is long enough ago.
    fn refresh(&mut self) {
        let pause = if self.line.is_some() { DRAW_PAUSE } else { LOG_PAUSE };
        if self.last.elapsed() >= pause {
            self.draw();
        }
    }

    fn draw(&mut self) {
        self.last = Instant::now();
        match &mut self.line {
            Some(line) => line.put(&self.standing.progress()),
            None => terminal::note(&self.standing.progress()),
        }
    }

    fn begin(&mut self, stage: Stage, blocks: u64, session: SessionId, store: &Store) {
        // If the store cannot be read, the session reports it.
        self.standing.begin(stage, blocks, store.groups(session).map_or(0, |groups| groups.len()));
    }
}

impl Observer for Display {
    fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::Began { session, resumed } => {
                if self.line.is_none() {
                    terminal::note(&format!("session {session} {}", if *resumed { "resumed" } else { "started" }));
                }
            }
            Event::Stage { stage, blocks, session, store, .. } => {
                self.begin(*stage, *blocks, *session, store);
                if *blocks > 0 {
                    self.draw();
                }
            }
            Event::Trial { left_ns, further_ns, .. } => {
                self.standing.trial(*left_ns, *further_ns);
                self.refresh();
            }
            Event::Block(block) => {
                self.standing.block(block);
                // The last state of a stage is shown, however short the stage was.
                if self.line.is_some() && self.standing.is_stage_complete() {
                    self.draw();
                }
            }
            Event::Analysed { analysis, of, progress, next_ns } => {
                let AnalysisProgress { tests, decided, .. } = progress;
                let next = match progress.is_settled() {
                    true => String::new(),
                    false => format!(", the next result is {} away", forecast(*next_ns)),
                };
                let tests = counted(*tests, "test");
                self.note(&format!("result {analysis} of at most {of}: {decided} of {tests} decided{next}"));
            }
            Event::Waiting { ready, left_ns } => {
                self.standing.wait(ready.to_string(), *left_ns);
                // A log has the first wait at once.
                match std::mem::replace(&mut self.has_waited, true) {
                    true => self.refresh(),
                    false => self.draw(),
                }
            }
            Event::Note(text) => self.note(text),
        }
    }
}

/// A note in one line. Notes may hold words of another host.
fn noted(text: &str) -> String {
    format!("note: {}", escape::line(text))
}

/// A line that is drawn over the one before, by cursor movements that every terminal since the VT100 knows. Holds the width of the
/// line that is shown, if one is: the cursor is then at the start of the row below it.
#[derive(Debug, Default)]
pub struct Line(Option<usize>);

impl Line {
    /// A line on standard error; `None` if that is no terminal that can draw lines over others.
    pub fn on_terminal() -> Option<Line> {
        (std::io::stderr().is_terminal() && !print::terminal_is_dumb()).then(Line::default)
    }

    /// Shows a line in place of the one before, as far as it fits. One that fills its row makes some terminals begin another one.
    pub fn put(&mut self, line: &str) {
        let columns = terminal::error_width();
        let line = cut_anywhere(line, columns.saturating_sub(1), "…");
        terminal::draw(&self.draw(&line, columns));
    }

    /// Removes the line from the terminal.
    pub fn remove(&mut self) {
        terminal::draw(&self.clear(terminal::error_width()));
    }

    /// Replaces the line, on a terminal of this width.
    fn draw(&mut self, line: &str, columns: usize) -> String {
        // Erases the rest of the row instead of everything beforehand: the display does not flicker.
        let text = format!("{}{line}\x1b[K\n\x1b[J", self.to_first_row(columns));
        self.0 = Some(text_width(line));
        text
    }

    /// Removes the line.
    fn clear(&mut self, columns: usize) -> String {
        let text = self.to_first_row(columns);
        if self.0.take().is_some() { text + "\x1b[J" } else { text }
    }

    /// Moves the cursor to the start of the line. A terminal that became narrower has wrapped a long one.
    fn to_first_row(&self, columns: usize) -> String {
        let rows = |width: usize| format!("\r\x1b[{}A", width.div_ceil(columns.max(1)).max(1));
        self.0.map_or_else(String::new, rows)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    #[test]
    fn notes_cannot_act_on_the_terminal() {
        let text = noted("slow\u{1b}]0;title\u{7}\nbytegauge: done\u{9b}2J\u{202e}");
        assert_eq!(text, "note: slow\\u{1b}]0;title\\u{7}\\nbytegauge: done\\u{9b}2J\\u{202e}");
    }

    /// A terminal as it is after some output. The kernel turns each newline into a carriage return and a newline.
    fn shown(columns: u16, output: &[String]) -> String {
        let of = |size| NonZero::new(size).expect("a size");
        let mut terminal = vt100::Parser::new(of(8), of(columns), 0);
        output.iter().for_each(|text| terminal.process(text.replace('\n', "\r\n").as_bytes()));
        terminal.screen().contents()
    }

    #[test]
    fn a_line_replaces_the_one_before() {
        let mut redraw = Line::default();
        let first = redraw.draw("confirmation: 1 of 9 blocks", 40);
        let second = redraw.draw("screening: 2", 40);
        let start = "$ bytegauge run\n".to_owned();
        let expected = "$ bytegauge run\nscreening: 2";
        assert_eq!(shown(40, &[start.clone(), first.clone(), second.clone()]), expected);
        let cleared = redraw.clear(40);
        assert_eq!(shown(40, &[start, first, second, cleared, "done\n".into()]), "$ bytegauge run\ndone");
        assert_eq!(redraw.clear(40), "");
    }

    #[test]
    fn a_wrapped_line_is_replaced_whole() {
        let mut redraw = Line::default();
        // On 40 columns the line is one row; a terminal of 20 columns that wraps it shows two.
        let first = redraw.draw("a line of thirty columns ......", 40);
        let second = redraw.draw("short", 20);
        assert_eq!(shown(20, &["$\n".into(), first, second]), "$\nshort");
    }
}
