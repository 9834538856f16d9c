//! The progress bar: stage, time left, and the live leader with its interval. Drawn between trials only.

use std::collections::BTreeMap;

use bytegauge_harness::{Event, Judgement, Observer};
use bytegauge_model::factor::Role;
use bytegauge_model::session::Stage;
use bytegauge_model::unit::{byte_rate, call_rate, nop_rate, significant};
use bytegauge_model::{Cell, CellId, CellKind, GroupId, Level, Nanos, Workload};
use bytegauge_stats::interval::sign_interval;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Draws on standard error, or writes a line a stage where that is no terminal.
pub struct Bar {
    bar: ProgressBar,
    plain: bool,
    stage: Option<Stage>,
    rates: BTreeMap<CellId, Vec<f64>>,
    cells: BTreeMap<CellId, Cell>,
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
        Bar { bar, plain, stage: None, rates: BTreeMap::new(), cells: BTreeMap::new() }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, text: &str) {
        if self.plain {
            eprintln!("note: {text}");
        } else {
            self.bar.println(format!("note: {text}"));
        }
    }

    fn stage(&mut self, stage: Stage, trials: u64) {
        // Every look goes on with what the ones before it confirmed.
        if self.stage != Some(stage) {
            self.rates.clear();
            self.cells.clear();
        }
        self.stage = Some(stage);
        self.bar.reset();
        self.bar.set_length(trials);
        self.bar.set_prefix(stage.name());
        if self.plain {
            eprintln!("{}: {trials} trials", stage.name());
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
        let spread = estimate.relative_half_width().map(|share| format!(" ± {} %", significant(share * 100.0, 2)));
        let rate = match cell.factors.workload() {
            Workload::Stream => byte_rate(median),
            Workload::Call => call_rate(median),
            Workload::Ring => nop_rate(median),
        };
        Some(format!("{}: {rate}{}", describe(cell), spread.unwrap_or_default()))
    }
}

impl Observer for Bar {
    fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::Began { session, resumed } => {
                let verb = if *resumed { "resumed" } else { "began" };
                if self.plain {
                    eprintln!("session {session} {verb}");
                }
            }
            Event::Stage { stage, trials } => self.stage(*stage, *trials),
            Event::Trial { cell, trial, left_ns, .. } => {
                if let Some(rate) = trial.rate() {
                    self.rates.entry(cell.id.clone()).or_default().push(rate);
                    self.cells.entry(cell.id.clone()).or_insert_with(|| (*cell).clone());
                }
                self.bar.inc(1);
                let left = Nanos(left_ns / 1_000_000_000 * 1_000_000_000);
                if self.plain {
                    return;
                }
                let leader = self.leader(&cell.group).unwrap_or_default();
                self.bar.set_message(format!("{left} left  {leader}"));
            }
            Event::Look { look, of, judgement, next_ns } => {
                let Judgement { groups, settled, likely } = judgement;
                let next = Nanos(next_ns / 1_000_000_000 * 1_000_000_000);
                let forecast = match judgement.is_settled() {
                    true => String::new(),
                    false => format!("; the next takes about {next} and is likely to settle {likely} more"),
                };
                self.say(&format!("look {look} of {of}: {settled} of {groups} groups settled{forecast}"));
            }
            Event::Note(text) => self.say(text),
        }
    }
}

/// `unix cross-core drain read 32K write 256K`: the transport, then what is not at its neutral level.
fn describe(cell: &Cell) -> String {
    let mut words = Vec::new();
    for (factor, level) in cell.factors.present() {
        let level_text = factor.kind.compact(level);
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
