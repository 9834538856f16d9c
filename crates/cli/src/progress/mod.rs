//! The display while a session is measured: a line for its progress, and a line per test with the option that leads so far.
//!
//! It is drawn while nothing is measured, and by no thread of its own, which would take a CPU from the trial. A terminal shows
//! it in place. Elsewhere it is a line for a log at the start of a stage and every ten seconds.

mod redraw;
mod state_lines;
mod test_names;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use bytegauge_harness::{AnalysisProgress, Event, Observer};
use bytegauge_model::session::Stage;
use bytegauge_model::{SessionId, escape, forecast::forecast, unit::counted};
use bytegauge_report::words::fit::{columns as columns_of, cut_anywhere};
use bytegauge_store::Store;

use crate::{print, terminal};
use redraw::Redraw;
use state_lines::{Leader, SessionProgress};
use test_names::TestNames;

/// A terminal shows at most four states a second: each takes time between two trials.
const DRAW_PAUSE: Duration = Duration::from_millis(250);

/// Columns for the names of a test and its option, and the spaces around them, before intervals are left out.
const NAMES_MIN: usize = 24;

/// A log gets a line in this time.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// Draws the state of a session on standard error.
pub struct Display {
    standing: SessionProgress,
    /// The lines on the terminal; `None` where standard error is none.
    redraw: Option<Redraw>,
    last: Instant,
    resumed: bool,
    has_waited: bool,
}

impl Display {
    /// A display in place on a terminal that can do that, else as lines of a log.
    pub fn new() -> Display {
        let redraw = in_place().then(Redraw::default);
        Display {
            standing: SessionProgress::default(),
            redraw,
            last: Instant::now(),
            resumed: false,
            has_waited: false,
        }
    }

    /// Removes the display from the terminal.
    pub fn clear(&mut self) {
        if let Some(redraw) = &mut self.redraw {
            terminal::draw(&redraw.clear(terminal::size().0));
        }
    }

    fn note(&mut self, text: &str) {
        self.clear();
        terminal::note(&noted(text));
        if self.redraw.is_some() {
            self.draw();
        }
    }

    /// Shows what is known now, if the last time is long enough ago.
    fn refresh(&mut self) {
        let pause = if self.redraw.is_some() { DRAW_PAUSE } else { LOG_PAUSE };
        if self.last.elapsed() >= pause {
            self.draw();
        }
    }

    fn draw(&mut self) {
        self.last = Instant::now();
        match &mut self.redraw {
            Some(redraw) => {
                let (columns, rows) = terminal::size();
                terminal::draw(&redraw.draw(&screen(&self.standing, columns, rows), columns));
            }
            None => terminal::note(&print::in_locale(self.standing.progress(usize::MAX))),
        }
    }

    fn begin(&mut self, stage: Stage, blocks: u64, session: SessionId, store: &Store) {
        // Without names the display shows the numbers of options; the session goes on.
        let names = TestNames::load(store, session).unwrap_or_default();
        self.standing.begin(stage, blocks, names);
        if std::mem::take(&mut self.resumed) {
            self.add_earlier(stage, session, store);
        }
    }

    /// Adds the trials that a resumed session had before.
    fn add_earlier(&mut self, stage: Stage, session: SessionId, store: &Store) {
        let (Ok(cells), Ok(trials)) = (store.cells(session), store.trials(session)) else { return };
        let cells: std::collections::HashMap<_, _> = cells.iter().map(|row| (&row.cell.id, &row.cell)).collect();
        for trial in trials.iter().filter(|trial| trial.stage == stage) {
            if let Some(cell) = cells.get(&trial.cell) {
                self.standing.add(cell, trial);
            }
        }
    }
}

impl Observer for Display {
    fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::Began { session, resumed } => {
                self.resumed = *resumed;
                if self.redraw.is_none() {
                    terminal::note(&format!("session {session} {}", if *resumed { "resumed" } else { "started" }));
                }
            }
            Event::Stage { stage, blocks, session, store, .. } => {
                self.begin(*stage, *blocks, *session, store);
                if *blocks > 0 {
                    self.draw();
                }
            }
            Event::Trial { cell, trial, left_ns, further_ns, .. } => {
                self.standing.trial(cell, trial, *left_ns, *further_ns);
                self.refresh();
            }
            Event::Block(block) => {
                self.standing.block(block);
                // The last state of a stage is shown, however short the stage was.
                if self.redraw.is_some() && self.standing.is_stage_complete() {
                    self.draw();
                }
            }
            Event::Analysed { look, of, progress, next_ns } => {
                let AnalysisProgress { groups, decided, .. } = progress;
                let next = match progress.is_settled() {
                    true => String::new(),
                    false => format!(", the next result is {} away", forecast(*next_ns)),
                };
                let tests = counted(*groups, "test");
                self.note(&format!("result {look} of at most {of}: {decided} of {tests} decided{next}"));
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

/// The steps of a self-test, in a line. Shown on terminals only.
pub struct Steps {
    redraw: Option<Redraw>,
}

impl Steps {
    /// Nothing is shown yet.
    pub fn new() -> Steps {
        Steps { redraw: in_place().then(Redraw::default) }
    }

    /// `done` of `total` steps are done, and the next one is called `what`.
    pub fn show(&mut self, done: u64, total: u64, what: &str) {
        if let Some(redraw) = &mut self.redraw {
            let columns = terminal::size().0;
            let line = print::in_locale(format!("{done} of {total} steps done: {}", escape::line(what)));
            terminal::draw(&redraw.draw(&[cut_anywhere(&line, columns.saturating_sub(1), "")], columns));
        }
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if let Some(redraw) = &mut self.redraw {
            terminal::draw(&redraw.clear(terminal::size().0));
        }
    }
}

/// Whether standard error is a terminal that can draw lines over others.
fn in_place() -> bool {
    std::io::stderr().is_terminal() && !print::terminal_is_dumb()
}

/// The lines for a terminal of this size. The cursor needs the last row.
fn screen(standing: &SessionProgress, columns: usize, rows: usize) -> Vec<String> {
    // A line that fills its row makes some terminals begin another one.
    let columns = columns.saturating_sub(1);
    let mut leaders: Vec<Leader> = standing.leaders(rows.saturating_sub(2)).into_iter().map(escaped).collect();
    let test_width = leaders.iter().map(|leader| columns_of(&leader.test)).max().unwrap_or(0);
    let option_width = leaders.iter().map(|leader| columns_of(&leader.option)).max().unwrap_or(0);
    let rate_width = |leaders: &[Leader]| {
        let widths = leaders.iter().map(|leader| columns_of(&leader.rate) + columns_of(&leader.interval));
        widths.max().unwrap_or(0)
    };
    let mark = print::in_locale("…".into());
    // Names give way to numbers, but intervals to what is left of names.
    if rate_width(&leaders) + NAMES_MIN > columns {
        leaders.iter_mut().for_each(|leader| leader.interval.clear());
    }
    let rate_width = rate_width(&leaders);
    let left = columns.saturating_sub(rate_width + 6);
    let option_width = option_width.min((left / 2).max(left.saturating_sub(test_width)));
    let test_width = test_width.min(left.saturating_sub(option_width));
    let lines = leaders.iter().map(|leader| {
        let (test, option) =
            (cut_anywhere(&leader.test, test_width, &mark), cut_anywhere(&leader.option, option_width, &mark));
        let (after_test, after_option) = (test_width - columns_of(&test) + 2, option_width - columns_of(&option) + 2);
        format!("  {test}{:after_test$}{option}{:after_option$}{}{}", "", "", leader.rate, leader.interval)
    });
    let progress = print::in_locale(standing.progress(columns));
    std::iter::once(progress).chain(lines).map(|line| cut_anywhere(&line, columns, &mark)).collect()
}

/// Names may come from another host, and the locale may be ASCII.
fn escaped(leader: Leader) -> Leader {
    let shown = |text: String| escape::line(&print::in_locale(text)).into_owned();
    Leader {
        test: shown(leader.test),
        option: shown(leader.option),
        rate: shown(leader.rate),
        interval: shown(leader.interval),
    }
}

/// A note in one line. Notes may hold words of another host.
fn noted(text: &str) -> String {
    format!("note: {}", escape::line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_cannot_act_on_the_terminal() {
        let text = noted("slow\u{1b}]0;title\u{7}\nbytegauge: done\u{9b}2J\u{202e}");
        assert_eq!(text, "note: slow\\u{1b}]0;title\\u{7}\\nbytegauge: done\\u{9b}2J\\u{202e}");
    }
}
