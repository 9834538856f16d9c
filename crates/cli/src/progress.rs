//! Progress: the stage, the time left, what the host took so far, and a line a question with its leader so far. Drawn
//! between trials only.
//!
//! A leader so far is no answer: whoever looks often enough sees anything lead, and medians alone do not decide. A line above
//! them says so.

use std::collections::BTreeMap;

use bytegauge_harness::{Event, Judgement, Observer};
use bytegauge_model::escape;
use bytegauge_model::factor::Role;
use bytegauge_model::forecast::forecast;
use bytegauge_model::session::Stage;
use bytegauge_model::unit::{significant, significant_up};
use bytegauge_model::{Cell, CellId, CellKind, GroupId, Level, MachineUse};
use bytegauge_stats::interval::sign_interval;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{print, terminal};

/// Draws on standard error, or writes a line a stage where that is no terminal.
pub struct Bar {
    bar: ProgressBar,
    plain: bool,
    stage: Option<Stage>,
    rates: BTreeMap<CellId, Vec<f64>>,
    cells: BTreeMap<CellId, Cell>,
    /// The questions, the latest first.
    groups: Vec<GroupId>,
    host: Host,
}

/// Questions that have a line; the others had theirs a moment ago.
const LINES_MAX: usize = 6;

/// What stands above the leaders.
const LEADERS: &str = "  fastest by the median so far; the answer compares in pairs and may differ:";

/// What the hypervisor took of all CPUs' time in the trials so far.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    stolen_ns: u64,
    wall_ns: u64,
}

impl Host {
    fn hear(&mut self, machine: Option<&MachineUse>) {
        if let Some(machine) = machine {
            self.stolen_ns = self.stolen_ns.saturating_add(machine.steal_ns);
            self.wall_ns = self.wall_ns.saturating_add(machine.wall_ns);
        }
    }

    fn share(self, cpus: usize) -> f64 {
        self.stolen_ns as f64 / (self.wall_ns as f64 * cpus as f64).max(1.0)
    }
}

impl Bar {
    /// A bar; `plain` writes lines instead.
    pub fn new(plain: bool) -> Bar {
        // At most ten drawings a second, and none by a thread of its own: a drawing thread would run while
        // a trial is measured.
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{prefix:>10} [{bar:24}] {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        Bar {
            bar,
            plain,
            stage: None,
            rates: BTreeMap::new(),
            cells: BTreeMap::new(),
            groups: Vec::new(),
            host: Host::default(),
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, text: &str) {
        if self.plain {
            terminal::note(&noted(text));
        } else {
            self.bar.println(noted(text));
        }
    }

    fn stage(&mut self, stage: Stage, trials: u64) {
        // Every look goes on with what the ones before it confirmed.
        if self.stage != Some(stage) {
            self.rates.clear();
            self.cells.clear();
            self.groups.clear();
        }
        self.stage = Some(stage);
        self.bar.reset();
        self.bar.set_length(trials);
        self.bar.set_prefix(stage.name());
        if self.plain && trials > 0 {
            terminal::note(&format!("{}: {trials} trials at most", stage.name()));
        }
    }

    fn leader(&self, group: &GroupId) -> Option<String> {
        let (median, estimate, cell) = self
            .cells
            .values()
            .filter(|cell| cell.group == *group && cell.kind == CellKind::Candidate)
            .filter_map(|cell| {
                let estimate = sign_interval(self.rates.get(&cell.id)?, 0.95);
                Some((estimate.median?, estimate, cell))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        // As far as the farther end, rounded up: an interval is seldom even.
        let reach = |(lower, upper): (f64, f64)| (upper - median).max(median - lower) / median;
        let spread = estimate.lower.zip(estimate.upper).map(reach);
        let spread = spread.map(|share| format!(" ± {} %", significant_up(share * 100.0, 2)));
        let rate = (cell.factors.workload().row().unit.rate)(median);
        Some(format!("  {rate}{} so far: {}", spread.unwrap_or_default(), describe(cell)))
    }

    /// The time left, what the host took, and a line a question.
    fn message(&self, left: &str) -> String {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let share = self.host.share(cpus);
        let host = if share < 0.0005 {
            String::new()
        } else {
            format!("  the host took {} % so far", significant(share * 100.0, 2))
        };
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)).max(20) - 1;
        let lines: Vec<String> = self.groups.iter().take(LINES_MAX).filter_map(|group| self.leader(group)).collect();
        let above = (!lines.is_empty()).then(|| LEADERS.to_owned());
        let lines = above.into_iter().chain(lines).map(|line| print::whole_words(&line, width));
        [format!("{left}{host}")].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }
}

/// What a judgement of twice the blocks brings: bounds fall with the root of their number. It promises no proof, for noise
/// changes.
pub const NARROWS: &str = "brings open bounds to 0.7 of what they are";

impl Observer for Bar {
    fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::Began { session, resumed } => {
                let verb = if *resumed { "resumed" } else { "began" };
                if self.plain {
                    terminal::note(&format!("session {session} {verb}"));
                }
            }
            Event::Stage { stage, trials } => self.stage(*stage, *trials),
            Event::Trial { cell, trial, left_ns, further_ns, .. } => {
                if let Some(rate) = trial.rate() {
                    self.rates.entry(cell.id.clone()).or_default().push(rate);
                    self.cells.entry(cell.id.clone()).or_insert_with(|| (*cell).clone());
                }
                self.host.hear(trial.machine.as_ref());
                self.bar.inc(1);
                if self.plain {
                    return;
                }
                self.groups.retain(|group| *group != cell.group);
                self.groups.insert(0, cell.group.clone());
                self.bar.set_message(escape::lines(&self.message(&left(*left_ns, *further_ns))).into_owned());
            }
            Event::Look { look, of, judgement, next_ns } => {
                let Judgement { groups, settled } = judgement;
                let next = forecast(*next_ns);
                let forecast = match judgement.is_settled() {
                    true => String::new(),
                    false => format!("; the next takes about {next} and likely {NARROWS}"),
                };
                self.say(&format!("judgement {look} of {of}: {settled} of {groups} questions settled{forecast}"));
            }
            Event::Note(text) => self.say(text),
        }
    }
}

/// A note in one line. Notes may hold words of another host.
fn noted(text: &str) -> String {
    format!("note: {}", escape::line(text))
}

/// `45 s left`, and what may follow.
fn left(left_ns: u64, further_ns: u64) -> String {
    let shown = |ns: u64| match ns {
        0..1_000_000_000 => "less than a second".to_owned(),
        _ => forecast(ns).to_string(),
    };
    match further_ns {
        0 => format!("{} left", shown(left_ns)),
        _ => format!("{} left, then {} more where something stays open", shown(left_ns), shown(further_ns)),
    }
}

/// `unix cross-core drain read 32K write 256K`: the transport, then what is not at its neutral level.
fn describe(cell: &Cell) -> String {
    let mut words = Vec::new();
    for (factor, level) in cell.factors.present() {
        let level_text = factor.kind.compact(&level);
        let neutral = level.is_auto() || matches!(level, Level::Name(name) if name == "none" || name == "max");
        match (factor.name, cell.factors.role_of(factor.name)) {
            ("transport" | "placement" | "profile" | "mode" | "implementation", _) => words.push(level_text),
            (_, Role::Choice) if !neutral && factor.name != "engine" => {
                words.push(format!("{} {level_text}", factor.heading));
            }
            _ => {}
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_tells_of_the_looks_that_may_follow() {
        assert_eq!(left(57_900_000_000, 0), "58 s left");
        assert_eq!(left(57_900_000_000, 115_000_000_000), "58 s left, then 120 s more where something stays open");
        assert_eq!(left(900_000_000, 0), "less than a second left");
    }

    #[test]
    fn notes_cannot_act_on_the_terminal() {
        let said = noted("slow\u{1b}]0;title\u{7}\nbytegauge: done\u{9b}2J\u{202e}");
        assert_eq!(said, "note: slow\\u{1b}]0;title\\u{7}\\nbytegauge: done\\u{9b}2J\\u{202e}");
    }

    #[test]
    fn leaders_are_said_to_be_no_answer_above_them() {
        let mut bar = Bar::new(true);
        assert_eq!(bar.message("1 s left"), "1 s left");
        let factors = [("transport", "tcp"), ("read_size", "64K")];
        let level = |name: &str, text: &str| bytegauge_model::factor::find(name).unwrap().kind.parse(text).unwrap();
        let cell = Cell {
            id: CellId("c1".into()),
            group: GroupId("g1".into()),
            kind: CellKind::Candidate,
            twin_of: None,
            factors: factors.iter().map(|(name, text)| (*name, level(name, text))).collect(),
        };
        bar.groups.push(cell.group.clone());
        bar.rates.insert(cell.id.clone(), vec![1e6]);
        bar.cells.insert(cell.id.clone(), cell);
        let said = bar.message("1 s left");
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[1].contains("so far") && lines[1].contains("may differ"), "{said}");
        assert!(lines[2].contains("so far: tcp read 64K"), "{said}");
    }

    #[test]
    fn what_the_host_took_is_a_share_of_all_cpus() {
        let mut host = Host::default();
        let machine = MachineUse { wall_ns: 100, steal_ns: 20, ..MachineUse::default() };
        host.hear(Some(&machine));
        host.hear(None);
        host.hear(Some(&machine));
        assert!((host.share(2) - 0.1).abs() < 1e-9);
        assert_eq!(Host::default().share(2), 0.0);
    }
}
