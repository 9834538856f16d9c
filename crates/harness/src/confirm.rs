//! The last stage: the finalists, a twin of the leader and the harness's floor, in complete blocks.
//!
//! Everything that is reported comes from here. How many blocks there are is fixed before the first of
//! them, from the time that is left; a block that breaks is repeated whole.

use bytegauge_model::session::Stage;
use bytegauge_model::{Cell, CellId, CellKind, GroupId, Level, Nanos, Workload};
use bytegauge_plan::{order, search};
use bytegauge_sys::clock::monotonic_ns;
use serde_json::json;

use crate::block::{BlockEnd, BlockTask};
use crate::event::Event;
use crate::run::{Run, RunError};

/// Trials are shortened to no less than this share of their length to keep within a budget.
const SHORTEST_SHARE: f64 = 0.25;

/// A session may take this much longer than its budget before it stops short: the machine may slow down,
/// and stopping by the clock does not depend on what was measured.
const OVERTIME: f64 = 1.5;

/// A group with everything that is visited in its blocks.
struct Confirmed {
    group: GroupId,
    /// Finalists, twin and floor.
    cells: Vec<Cell>,
    /// Length of a trial, nanoseconds.
    window_ns: u64,
    /// Whether it gets fewer blocks.
    aside: bool,
}

impl Run<'_> {
    /// Confirms the finalists of every group. `false` if interrupted.
    pub(crate) fn confirm(&mut self) -> Result<bool, RunError> {
        let mut groups = self.confirmed_groups()?;
        if groups.is_empty() {
            // Every cell has left its group, and each said why.
            return Ok(true);
        }
        let blocks = self.fix_blocks(&mut groups)?;
        let aside_blocks = self.plan.design.aside_blocks(blocks);
        let trials =
            |confirmed: &Confirmed| confirmed.cells.len() as u64 * if confirmed.aside { aside_blocks } else { blocks };
        self.observer.hear(&Event::Stage { stage: Stage::Confirm, trials: groups.iter().map(trials).sum() });
        for number in 0..blocks {
            for turn in order::order(groups.len(), !self.plan.seed, number) {
                let Confirmed { group, cells, window_ns, aside } = &groups[turn];
                // Blocks on the side are spread evenly over the whole time, not bunched at an end of it.
                let due = if *aside { (number + 1) * aside_blocks / blocks } else { number + 1 };
                while self.visits(group, Stage::Confirm) < due && !self.overtime() {
                    let live: Vec<Cell> = cells.iter().filter(|cell| self.lives(cell)).cloned().collect();
                    if !live.iter().any(|cell| cell.kind == CellKind::Candidate) {
                        break;
                    }
                    let task = BlockTask {
                        stage: Stage::Confirm,
                        group,
                        cells: &live,
                        warmup_ns: self.warmup(group),
                        window_ns: *window_ns,
                        series: false,
                    };
                    match self.block(&task)? {
                        BlockEnd::Interrupted => return Ok(false),
                        BlockEnd::Complete => *self.visited.entry((group.clone(), Stage::Confirm)).or_default() += 1,
                        BlockEnd::Broken => {}
                    }
                }
            }
            if self.overtime() {
                let note = format!(
                    "stopped after {} of {blocks} blocks: the machine became slower than the budget allowed for",
                    number + 1
                );
                self.store.add_note(self.session, &note)?;
                self.observer.hear(&Event::Note(note));
                break;
            }
        }
        Ok(true)
    }

    /// Whether a session with a budget has taken far more than it was given.
    fn overtime(&self) -> bool {
        let spent_ns = monotonic_ns() - self.began_ns;
        self.plan.blocks.is_none() && spent_ns as f64 > self.plan.budget_ns as f64 * OVERTIME
    }

    /// A twin goes with the cell it repeats.
    fn lives(&self, cell: &Cell) -> bool {
        let gone = |id: &CellId| self.left.contains(id);
        !gone(&cell.id) && !cell.twin_of.as_ref().is_some_and(gone)
    }

    /// Every group with its finalists, twin and floor, and the length of its trials.
    fn confirmed_groups(&mut self) -> Result<Vec<Confirmed>, RunError> {
        let mut groups = Vec::new();
        for family in self.plan.families.clone() {
            for group in &family.groups {
                let ids = self.finalists.get(group).cloned().unwrap_or_default();
                let mut cells: Vec<Cell> =
                    self.live_cells(group).filter(|cell| ids.contains(&cell.id)).cloned().collect();
                // The screening leader; where nothing was screened the middle of the grid, which is no extreme.
                let named = if family.is_screened() { ids.first() } else { ids.get(ids.len() / 2) };
                let leader = named.and_then(|id| cells.iter().find(|cell| cell.id == *id).cloned());
                let Some(leader) = leader.or_else(|| cells.first().cloned()) else { continue };
                let extra = if cells.len() > 1 { vec![twin(&leader), floor(&leader)] } else { vec![floor(&leader)] };
                let beside: Vec<Cell> = self.plan.artefacts_of(group).cloned().collect();
                let extra: Vec<Cell> = extra.into_iter().chain(beside).collect();
                self.store.add_cells(self.session, &extra)?;
                cells.extend(extra);
                groups.push(Confirmed {
                    group: group.clone(),
                    cells,
                    window_ns: self.shortened.get(group).copied().unwrap_or(family.trial_ns),
                    aside: family.aside.contains(group),
                });
            }
        }
        Ok(groups)
    }

    /// How many blocks the time that is left allows; as decided before, when a session is resumed. If it
    /// allows fewer than the fewest useful ones, trials become shorter.
    fn fix_blocks(&mut self, groups: &mut [Confirmed]) -> Result<u64, RunError> {
        let design = self.plan.design;
        let fixed = self.fixed_blocks.or(self.plan.blocks);
        let spent_ns = monotonic_ns() - self.began_ns;
        let left_ns = (self.plan.budget_ns as f64 * (1.0 - design.reserve) - spent_ns as f64).max(0.0);
        let fewest = design.blocks_min as f64;
        let (windows_ns, rest_ns) = self.round_ns(groups, None);
        if fixed.is_none() && windows_ns > 0.0 && left_ns < fewest * (windows_ns + rest_ns) {
            let share = (left_ns / fewest - rest_ns) / windows_ns;
            for confirmed in groups.iter_mut() {
                let shortened_ns = (confirmed.window_ns as f64 * share.clamp(SHORTEST_SHARE, 1.0)) as u64;
                // A trial in which no call is completed is worth nothing, however well it fits the budget.
                let shortest_ns = design.shortest_confirm_ns(self.conditions(&confirmed.group));
                confirmed.window_ns = shortened_ns.max(shortest_ns.min(confirmed.window_ns));
                let ns = json!(confirmed.window_ns);
                self.store.set_group_fact(self.session, &confirmed.group, "trial_ns", &ns)?;
            }
        }
        let [main_ns, aside_ns] = [false, true].map(|aside| {
            let (windows_ns, rest_ns) = self.round_ns(groups, Some(aside));
            windows_ns + rest_ns
        });
        let blocks = fixed.unwrap_or_else(|| design.fitting_blocks(left_ns, main_ns, aside_ns));
        let aside_blocks = design.aside_blocks(blocks);
        self.confirm_ns = blocks * main_ns as u64 + aside_blocks * aside_ns as u64;
        self.confirm_began_ns = monotonic_ns();
        if self.fixed_blocks.is_none() {
            self.fixed_blocks = Some(blocks);
            if let Some(first) = groups.first() {
                self.store.set_group_fact(self.session, &first.group, "blocks_fixed", &json!(blocks))?;
            }
            let time = Nanos(self.confirm_ns);
            self.observer.hear(&Event::Note(format!("{blocks} confirmation blocks, about {time}")));
        }
        Ok(blocks)
    }

    /// Time of one block of every group (of one kind): windows that may be shortened, and everything else,
    /// nanoseconds.
    fn round_ns(&self, groups: &[Confirmed], aside: Option<bool>) -> (f64, f64) {
        let overhead_ns = self.overhead_ns();
        let (mut windows_ns, mut rest_ns) = (0, 0);
        for confirmed in groups.iter().filter(|confirmed| aside.is_none_or(|aside| confirmed.aside == aside)) {
            for cell in &confirmed.cells {
                if cell.kind == CellKind::Floor {
                    rest_ns += self.plan.design.floor_ns + overhead_ns / 2;
                    continue;
                }
                let explicit_ns = cell.factors.get("duration").number();
                let window_ns = explicit_ns.unwrap_or_else(|| self.lengthened_ns(cell, confirmed.window_ns));
                let each_ns = self.warmup(&confirmed.group) + overhead_ns;
                let trial_ns = search::trial_ns(&cell.factors, window_ns, each_ns, self.pace(&confirmed.group));
                // Windows of a search are as long as its percentile needs.
                let shortens = explicit_ns.is_none() && cell.factors.slo().is_none();
                windows_ns += if shortens { window_ns } else { 0 };
                rest_ns += if shortens { each_ns } else { trial_ns };
            }
        }
        (windows_ns as f64, rest_ns as f64)
    }
}

/// The leader a second time under another name.
fn twin(leader: &Cell) -> Cell {
    Cell {
        id: CellId(format!("{}t", leader.id)),
        kind: CellKind::Twin,
        twin_of: Some(leader.id.clone()),
        ..leader.clone()
    }
}

/// The leader's loop without anything to move or to do.
fn floor(leader: &Cell) -> Cell {
    let mut factors = leader.factors.clone();
    let null = || Level::Name("null".into());
    if *factors.get("connect") != Level::Absent {
        factors.set("connect", Level::auto());
    }
    // Every workload has a name for it.
    for name in ["engine", "implementation"].into_iter().filter(|name| *leader.factors.get(name) != Level::Absent) {
        factors.set(name, null());
    }
    // Of calls the client alone is left, with one call at a time and as fast as it goes.
    let ones = ["depth", "flows"].map(|name| (name, Level::Number(1)));
    let none = ["idle_flows", "competing_flows", "think"].map(|name| (name, Level::Number(0)));
    let other = [
        ("client_engine", null()),
        ("server_engine", null()),
        ("call_rate", Level::Name("max".into())),
        ("slo", Level::Name("none".into())),
    ];
    if leader.factors.workload() == Workload::Call {
        for (name, level) in ones.into_iter().chain(none).chain(other) {
            factors.set(name, level);
        }
    }
    if leader.factors.workload().has_path() {
        factors.set("work", Level::Name("none".into()));
        factors.set("walk", Level::Number(0));
    }
    Cell {
        id: CellId(format!("{}n", leader.group)),
        group: leader.group.clone(),
        kind: CellKind::Floor,
        twin_of: None,
        factors,
    }
}
