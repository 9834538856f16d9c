//! The display while a session is measured: a line for its progress. Options that lead so far are not shown: they often do not in
//! the end.
//!
//! It is drawn while nothing is measured, and by no thread of its own, which would take a CPU from the trial. A terminal shows
//! it in place. Elsewhere it is a line for a log at the start of a stage and every ten seconds.
//!
//! Also the other ways to watch a session: a line for each interval of a stream, and JSON lines of its events.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_harness::{Event, Observer};
use bytegauge_model::session::Stage;
use bytegauge_model::unit::{about_bytes, byte_rate, counted, forecast, significant};
use bytegauge_model::{AnalysisProgress, BlockRecord, Ends, Nanos, SessionId, WORKLOADS, Workload, escape};
use bytegauge_plan::Plan;
use bytegauge_report::words::fit::{cut_anywhere, text_width};
use bytegauge_store::Store;
use bytegauge_traffic::counter;
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

    fn begin(&mut self, stage: Stage, blocks: u64, session: SessionId, store: &Store) {
        // If the store cannot be read, the session reports it.
        self.standing.begin(stage, blocks, store.groups(session).map_or(0, |groups| groups.len()));
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

/// A smaller share of CPU time is no disturbance.
const STEAL_MIN: f64 = 0.005;

/// Fewer CPUs used by other programs are no disturbance.
const OTHERS_MIN: f64 = 0.05;

/// The state of a session.
#[derive(Debug, Default)]
pub struct SessionProgress {
    stage: Option<Stage>,
    blocks_done: u64,
    blocks: u64,
    left_ns: Option<u64>,
    /// The sign of a program's server that is not ready, and the rest of its time, nanoseconds.
    waiting: Option<(String, u64)>,
    further_ns: u64,
    surroundings: Disturbances,
    tests: usize,
}

/// The disturbance of the blocks of this session, weighted by their lengths.
#[derive(Debug, Default)]
struct Disturbances {
    wall_ns: f64,
    stolen_ns: f64,
    others_ns: f64,
}

impl SessionProgress {
    /// A stage of a session with this number of tests begins.
    pub fn begin(&mut self, stage: Stage, blocks: u64, tests: usize) {
        (self.stage, self.blocks, self.blocks_done, self.tests) = (Some(stage), blocks, 0, tests);
    }

    /// A trial ended; `left_ns` until the end of this analysis, `further_ns` more for the later ones.
    pub fn trial(&mut self, left_ns: u64, further_ns: u64) {
        (self.left_ns, self.further_ns, self.waiting) = (Some(left_ns), further_ns, None);
    }

    /// The server of a program is not ready; without time left it is.
    pub fn wait(&mut self, ready: String, left_ns: u64) {
        self.waiting = Some((ready, left_ns)).filter(|_| left_ns > 0);
    }

    /// A block ended.
    pub fn block(&mut self, block: &BlockRecord) {
        self.blocks_done += u64::from(block.complete);
        let around = &block.surroundings;
        let wall_ns = around.wall_ns as f64;
        self.surroundings.wall_ns += wall_ns;
        self.surroundings.stolen_ns += around.steal_share.unwrap_or(0.0) * wall_ns;
        self.surroundings.others_ns += around.foreign_cpus.unwrap_or(0.0) * wall_ns;
    }

    /// Whether every block of the stage is complete.
    pub fn is_stage_complete(&self) -> bool {
        self.blocks_done >= self.blocks
    }

    /// The line. The least important part is the last: a terminal cuts what does not fit.
    pub fn progress(&self) -> String {
        let stage = self.stage.map_or("start", stage_name);
        let of_tests = if self.tests > 1 { format!(" of {} tests", self.tests) } else { String::new() };
        // A block that failed was repeated beyond the plan.
        let per_cent = 100 * self.blocks_done / self.blocks.max(self.blocks_done).max(1);
        let mut parts = vec![format!("{stage}: {per_cent} %{of_tests}")];
        if let Some((ready, left_ns)) = &self.waiting {
            let seconds = left_ns.div_ceil(1_000_000_000);
            parts.push(format!("waiting for the server, at most {seconds} s more: {ready}"));
            return parts.join(", ");
        }
        if let Some(left_ns) = self.left_ns.filter(|ns| *ns >= LEFT_MIN_NS) {
            parts.push(format!("{} left", forecast(left_ns)));
        }
        let share = |ns: f64| ns / self.surroundings.wall_ns.max(1.0);
        let (steal, others) = (share(self.surroundings.stolen_ns), share(self.surroundings.others_ns));
        if steal >= STEAL_MIN {
            parts.push(format!("steal {} %", significant(steal * 100.0, 2)));
        }
        if others >= OTHERS_MIN {
            parts.push(format!("other load {} CPUs", significant(others, 2)));
        }
        if let Some(left_ns) = self.left_ns.filter(|_| self.further_ns > 0) {
            parts.push(format!("{} if undecided", forecast(left_ns.saturating_add(self.further_ns))));
        }
        parts.join(", ")
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

// `--interval` while a stream is measured: a line for each interval, as iperf3 prints them, in place of the live display.
//
// Its thread wakes once an interval and reads the counts that meters store anyway. Bytes of warm-ups count as well.

/// A listing that is printed until it is dropped.
pub struct Listing(Option<(Sender<()>, JoinHandle<()>)>);

impl Listing {
    /// Starts a listing of a session. `None`: its ends do not count in this process, or no thread can be had.
    pub fn start(interval: Nanos, plan: &Plan) -> Option<Listing> {
        if plan.workload != Workload::Stream || plan.ends != Ends::Threads {
            terminal::note(
                "note: --interval lists intervals while a stream runs with --ends threads; here they follow at the end",
            );
            return None;
        }
        counter::switch_on();
        let (ends, ended) = mpsc::channel::<()>();
        let list = move || {
            terminal::note("interval                transfer         rate");
            let (began, mut last) = (Instant::now(), (Duration::ZERO, counter::total()));
            for count in 1.. {
                let due = Duration::from_nanos(interval.0.saturating_mul(count));
                match ended.recv_timeout(due.saturating_sub(began.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
                let now = (began.elapsed(), counter::total());
                terminal::note(&line(last, now));
                last = now;
            }
        };
        let thread = std::thread::Builder::new().name("listing".into()).spawn(list).ok()?;
        Some(Listing(Some((ends, thread))))
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.0.take() {
            // Ends the thread.
            drop(ends);
            // A thread that panicked has printed why.
            let _ = thread.join();
        }
    }
}

/// The line of an interval between two moments with their bytes.
fn line((from, before): (Duration, u64), (to, after): (Duration, u64)) -> String {
    let bytes = after.saturating_sub(before);
    let rate = byte_rate(bytes as f64 / (to - from).as_secs_f64().max(1e-9));
    let (from, to, moved) = (from.as_secs_f64(), to.as_secs_f64(), about_bytes(bytes));
    format!("{from:>8.2}-{to:<8.2} s   {moved:>10}   {rate:>12}")
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
        Event::Trial { cell, trial, elapsed_ns, left_ns, further_ns } => {
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
                "further_ns": further_ns,
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
        Event::Waiting { ready, left_ns } => {
            json!({"event": "waiting", "ready": ready.to_string(), "left_ns": left_ns})
        }
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
    use bytegauge_model::GroupId;
    use bytegauge_model::session::Surroundings;

    use super::*;

    fn block(steal_share: f64, foreign_cpus: f64, complete: bool) -> BlockRecord {
        let (steal_share, foreign_cpus) = (Some(steal_share), Some(foreign_cpus));
        BlockRecord {
            index: 0,
            group: GroupId("g1".into()),
            stage: Stage::Confirm,
            started_unix_ns: 0,
            complete,
            surroundings: Surroundings { wall_ns: 100, steal_share, foreign_cpus, ..Surroundings::default() },
        }
    }

    #[test]
    fn progress_states_stage_blocks_time_and_disturbances() {
        let mut standing = SessionProgress::default();
        standing.begin(Stage::Confirm, 40, 1);
        assert_eq!(standing.progress(), "confirmation: 0 %");
        standing.trial(57_900_000_000, 0);
        standing.block(&block(0.0, 0.0, true));
        assert_eq!(standing.progress(), "confirmation: 2 %, 58 s left");
        standing.trial(5_000_000_000, 115_000_000_000);
        standing.block(&block(0.1, 0.5, false));
        let line = "confirmation: 2 %, 5 s left, steal 5 %, other load 0.25 CPUs, 120 s if undecided";
        assert_eq!(standing.progress(), line);
        standing.trial(900_000_000, 0);
        assert_eq!(standing.progress(), "confirmation: 2 %, steal 5 %, other load 0.25 CPUs");
    }

    #[test]
    fn a_wait_for_a_server_is_shown() {
        let mut standing = SessionProgress::default();
        standing.begin(Stage::Calibrate, 4, 2);
        standing.wait("tcp:7007".into(), 28_400_000_000);
        assert_eq!(
            standing.progress(),
            "calibration: 0 % of 2 tests, waiting for the server, at most 29 s more: tcp:7007"
        );
        standing.wait("tcp:7007".into(), 0);
        assert_eq!(standing.progress(), "calibration: 0 % of 2 tests");
        standing.wait("tcp:7007".into(), 1);
        standing.trial(0, 0);
        assert_eq!(standing.progress(), "calibration: 0 % of 2 tests");
    }
}

#[cfg(test)]
mod interval_lines_tests {
    use super::*;

    #[test]
    fn line_has_interval_bytes_and_rate() {
        let text = line((Duration::from_secs(1), 5), (Duration::from_secs(3), 5 + (2 << 30)));
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["1.00-3.00", "s", "2", "GiB", "1", "GiB/s"], "{text}");
    }
}
