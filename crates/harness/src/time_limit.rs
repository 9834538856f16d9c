//! The time limit of a session: when no further block begins, and the note that the time will not suffice.

use bytegauge_model::Nanos;
use bytegauge_model::forecast::forecast;
use bytegauge_model::session::Stage;
use bytegauge_plan::OVERTIME;
use bytegauge_sys::clock::monotonic_ns;

use crate::confirm::ConfirmedGroup;
use crate::event::Event;
use crate::run::Run;

/// The most time of the minimum number of blocks, as a multiple of the budget.
const OVERTIME_FEWEST: f64 = 1.5;

impl Run<'_> {
    /// Time limit of an analysis from the session's begin, nanoseconds: for the first one the budget and a little more, for a
    /// later one the user's limit. `None` if a number of blocks was given.
    pub(crate) fn limit_ns(&self) -> Option<f64> {
        match self.look {
            1 => Some(self.plan.budget_ns as f64 * OVERTIME).filter(|_| self.plan.blocks.is_none()),
            _ => self.options.until_max_ns.map(|cap_ns| cap_ns as f64).filter(|_| self.options.until_proven),
        }
    }

    /// Whether the time is over. Only the clock decides, never the result of a comparison. The minimum number of blocks gets
    /// half of the budget more, and in a session that is resumed for its analysis all the time it needs. The time of a
    /// program's runs may be unknown: one block of it is measured in any case, since a session without a block is useless. No
    /// block begins that would end beyond a limit set by the user, or beyond that of a program's runs. The last block of the
    /// minimum of a program may do so.
    pub(crate) fn is_out_of_time(&self, rounds_done: u64, next: &ConfirmedGroup) -> bool {
        let fewest = self.look == 1 && rounds_done < self.plan.design.blocks_min;
        if fewest && (self.resumed || rounds_done == 0 && self.plan.task.is_some()) {
            return false;
        }
        let spent_ns = (monotonic_ns() - self.began_ns) as f64;
        let patience = if fewest { OVERTIME_FEWEST / OVERTIME } else { 1.0 };
        // Blocks of a program are long compared with the overtime, but the last one without which there is no result is worth it.
        let is_last = rounds_done + 1 == self.plan.design.blocks_min;
        let is_strict = self.look > 1 || (self.plan.task.is_some() && !is_last);
        let next_ns = if is_strict { self.forecast_ns(next) } else { 0.0 };
        self.limit_ns().is_some_and(|limit_ns| spent_ns + next_ns > limit_ns * patience)
    }

    /// Warns before the minimum number of blocks exceeds the time: one timed block of every group gives a forecast.
    pub(crate) fn warn_of_slow_blocks(&mut self, groups: &[ConfirmedGroup]) {
        let Some(limit_ns) = self.limit_ns().filter(|_| self.look == 1) else { return };
        let fewest = |confirmed: &ConfirmedGroup| {
            let target = self.target(&confirmed.group, 1).min(self.plan.design.blocks_min);
            let due = target.saturating_sub(self.visits(&confirmed.group, Stage::Confirm));
            due * self.forecast_ns(confirmed) as u64
        };
        let end_ns = monotonic_ns() - self.began_ns + groups.iter().map(fewest).sum::<u64>();
        if end_ns as f64 > limit_ns {
            self.take_longer(end_ns);
        }
    }

    /// Notes that the minimum number of blocks ends later than planned, and when, and extends the budget: fewer blocks would
    /// give no result. For a program, whose runs may take any time, a stated budget is kept except for its overtime.
    pub(crate) fn take_longer(&mut self, end_ns: u64) {
        let (end, planned) = (forecast(end_ns), Nanos(self.plan.budget_ns));
        let text = self.plan.takes_longer(end, planned) + &self.stops_at(end_ns);
        if self.plan.task.is_none() {
            self.plan.budget_ns = end.0;
        } else if std::mem::replace(&mut self.noted_time, true) && self.plan.budget_is_stated() {
            // The time is kept, whatever the forecast is by now.
            return;
        }
        self.observer.hear(&Event::Note(text));
    }

    /// When a program's session that would end at this time stops, as the end of a note; empty where it does not.
    pub(crate) fn stops_at(&self, end_ns: u64) -> String {
        let last_ns = self.plan.budget_ns as f64 * OVERTIME_FEWEST;
        if self.plan.task.is_none() || end_ns as f64 <= last_ns || self.resumed {
            return String::new();
        }
        let last = Nanos((last_ns / 1e9) as u64 * 1_000_000_000);
        format!("; measuring stops at {last}, and --resume goes on")
    }
}
