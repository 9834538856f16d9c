//! The display while a session is measured: a line for its progress. Options that lead so far are not shown: they often do not in
//! the end.
//!
//! It is drawn while nothing is measured, and by no thread of its own, which would take a CPU from the trial. A terminal shows
//! it in place. Elsewhere it is a line for a log at the start of a stage and every ten seconds.
//!
//! Also JSON lines of the events of a session, for programs that watch it.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use bytegauge_harness::{Event, Observer};
use bytegauge_model::session::Stage;
use bytegauge_model::unit::{counted, forecast};
use bytegauge_model::{AnalysisProgress, WORKLOADS, escape};
use bytegauge_report::words::fit::{cut_anywhere, text_width};
use serde_json::{Value, json};

use crate::terminal;

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
}

impl Display {
    /// A display in place on a terminal that can do that, else as lines of a log.
    pub fn new() -> Display {
        Display { standing: SessionProgress::default(), line: Line::on_terminal(), last: Instant::now() }
    }

    /// Removes the display from the terminal.
    fn clear(&mut self) {
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
}

impl Drop for Display {
    fn drop(&mut self) {
        self.clear();
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
                // If the store cannot be read, the session reports it.
                let tests = store.groups(*session).map_or(0, |groups| groups.len());
                let standing = &mut self.standing;
                (standing.stage, standing.blocks, standing.blocks_done, standing.tests) =
                    (Some(*stage), *blocks, 0, tests);
                if *blocks > 0 {
                    self.draw();
                }
            }
            Event::Trial { left_ns, .. } => {
                self.standing.left_ns = *left_ns;
                self.refresh();
            }
            Event::Block(block) => {
                self.standing.blocks_done += u64::from(block.complete);
                // The last state of a stage is shown, however short the stage was.
                if self.line.is_some() && self.standing.blocks_done >= self.standing.blocks {
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
        (std::io::stderr().is_terminal() && !terminal::is_dumb()).then(Line::default)
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

// The state of a running session as a line of text. Pure: has no clock and no terminal.

/// The state of a session.
#[derive(Debug, Default)]
struct SessionProgress {
    stage: Option<Stage>,
    blocks_done: u64,
    blocks: u64,
    /// Time until the end of this analysis, once it is known.
    left_ns: u64,
    tests: usize,
}

impl SessionProgress {
    /// The line. The least important part is the last: a terminal cuts what does not fit.
    fn progress(&self) -> String {
        let stage = self.stage.map_or("start", stage_name);
        let of_tests = if self.tests > 1 { format!(" of {} tests", self.tests) } else { String::new() };
        // A block that failed was repeated beyond the plan.
        let per_cent = 100 * self.blocks_done / self.blocks.max(self.blocks_done).max(1);
        let is_shown = self.left_ns >= LEFT_MIN_NS;
        let left = if is_shown { format!(", {} left", forecast(self.left_ns)) } else { String::new() };
        format!("{stage}: {per_cent} %{of_tests}{left}")
    }
}

/// A shorter time is not shown: blocks that are left may take longer than those before.
const LEFT_MIN_NS: u64 = 1_000_000_000;

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Calibrate => "calibration",
        Stage::Screen => "screening",
        Stage::Narrow => "second screening",
        Stage::Confirm => "confirmation",
        Stage::Audit => "long-trial check",
    }
}

// `--json-stream`: a line for every event, for programs that watch.

/// Writes a JSON object a line to standard output. A line that cannot be written ends no session: the store has it all.
pub struct JsonLines;

impl Observer for JsonLines {
    fn hear(&mut self, event: &Event<'_>) {
        terminal::print_json_line(&describe(event));
    }
}

fn describe(event: &Event<'_>) -> Value {
    match event {
        Event::Began { session, resumed } => json!({"event": "session", "session": session.0, "resumed": resumed}),
        Event::Stage { stage, trials, blocks, .. } => {
            json!({"event": "stage", "stage": stage.name(), "trials": trials, "blocks": blocks})
        }
        Event::Block(block) => json!({
            "event": "block",
            "group": block.group,
            "stage": block.stage.name(),
            "block": block.index,
            "complete": block.complete,
            "steal_share": block.surroundings.steal_share,
            "foreign_cpus": block.surroundings.foreign_cpus,
        }),
        Event::Trial { cell, trial, elapsed_ns, left_ns } => {
            let mut line = json!({
                "event": "trial",
                "cell": cell.id,
                "group": cell.group,
                "stage": trial.stage.name(),
                "block": trial.block,
                "outcome": trial.outcome.name(),
                "reason": trial.outcome.reason(),
                "bytes": trial.bytes,
                "wall_ns": trial.wall_ns,
                "calls": trial.calls,
                "elapsed_ns": elapsed_ns,
                "left_ns": left_ns,
            });
            for row in WORKLOADS {
                line[row.unit.per_second] = json!(trial.rate().filter(|_| trial.workload == row.value));
            }
            line
        }
        Event::Analysed { analysis, of, progress, next_ns } => json!({
            "event": "analysis",
            "analysis": analysis,
            "of": of,
            "groups": progress.tests,
            "decided": progress.decided,
            "settled": progress.settled,
            "next_ns": next_ns,
        }),
        Event::Note(text) => json!({"event": "note", "text": text}),
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

#[cfg(test)]
mod state_line_tests {
    use super::*;

    #[test]
    fn progress_states_stage_blocks_and_time() {
        let mut standing = SessionProgress { stage: Some(Stage::Confirm), blocks: 40, ..SessionProgress::default() };
        assert_eq!(standing.progress(), "confirmation: 0 %");
        (standing.left_ns, standing.blocks_done, standing.tests) = (57_900_000_000, 1, 3);
        assert_eq!(standing.progress(), "confirmation: 2 % of 3 tests, 58 s left");
        standing.left_ns = 900_000_000;
        assert_eq!(standing.progress(), "confirmation: 2 % of 3 tests");
    }
}
