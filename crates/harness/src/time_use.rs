//! The use of the time of an analysis that ran out of time.

use std::collections::BTreeMap;
use std::fmt;

use bytegauge_model::forecast::forecast;
use bytegauge_model::{GroupId, Nanos, Stage};
use bytegauge_sys::clock::monotonic_ns;

use crate::confirm::ConfirmedGroup;
use crate::run::Run;

/// Blocks count as slower than forecast above this multiple of the forecast: less is noise.
const SLOWER: f64 = 1.1;

/// The state when an analysis began, or was resumed.
pub(crate) struct TimeUse {
    /// When it was, from the session's begin, nanoseconds.
    before_ns: u64,
    /// Whether blocks of the same analysis were measured before.
    resumed: bool,
    /// A block of each group by forecast, nanoseconds, and the time and number of those that were complete.
    groups: BTreeMap<GroupId, (f64, (u64, u64))>,
}

/// The main use of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UsedUpBy {
    /// Blocks took this time, longer than the forecast, nanoseconds.
    SlowBlocks { took_ns: u64, forecast_ns: u64, resumed: bool },
    /// Broken blocks, and cells that failed in them, took this time, nanoseconds.
    Broken(u64),
    /// Blocks took the forecast time, which exceeds the budget.
    AsForecast,
    /// This time had passed before the analysis began, nanoseconds.
    Before(u64),
}

impl TimeUse {
    /// The present state, with the forecast of the analysis's blocks.
    pub(crate) fn begin(run: &Run<'_>, groups: &[ConfirmedGroup]) -> TimeUse {
        let known = |confirmed: &ConfirmedGroup| {
            let complete = run.block_times_ns.get(&confirmed.group).copied().unwrap_or_default();
            (confirmed.group.clone(), (run.forecast_ns(confirmed), complete))
        };
        let earlier = |group: &GroupId| if run.look > 1 { run.target(group, run.look - 1) } else { 0 };
        let goes_on = |one: &ConfirmedGroup| run.visits(&one.group, Stage::Confirm) > earlier(&one.group);
        TimeUse {
            before_ns: monotonic_ns() - run.began_ns,
            resumed: groups.iter().any(goes_on),
            groups: groups.iter().map(known).collect(),
        }
    }

    /// Compares the state at the begin with the present one.
    pub(crate) fn used_up_by(&self, run: &Run<'_>) -> UsedUpBy {
        let (mut forecast_ns, mut complete_ns) = (0.0, 0);
        for (group, (block_ns, (ns, blocks))) in &self.groups {
            let (ns_now, blocks_now) = run.block_times_ns.get(group).copied().unwrap_or_default();
            forecast_ns += (blocks_now - blocks) as f64 * block_ns;
            complete_ns += ns_now - ns;
        }
        let in_look_ns = (monotonic_ns() - run.began_ns).saturating_sub(self.before_ns);
        let broken_ns = in_look_ns.saturating_sub(complete_ns);
        used_up_by(self.before_ns, forecast_ns, complete_ns, broken_ns, self.resumed)
    }
}

fn used_up_by(before_ns: u64, forecast_ns: f64, complete_ns: u64, broken_ns: u64, resumed: bool) -> UsedUpBy {
    let beyond_ns = complete_ns as f64 - forecast_ns;
    let is_slow = complete_ns as f64 > SLOWER * forecast_ns;
    if is_slow && beyond_ns >= broken_ns as f64 {
        UsedUpBy::SlowBlocks { took_ns: complete_ns, forecast_ns: forecast_ns as u64, resumed }
    } else if broken_ns > before_ns {
        UsedUpBy::Broken(broken_ns)
    } else if before_ns >= complete_ns {
        UsedUpBy::Before(before_ns)
    } else {
        UsedUpBy::AsForecast
    }
}

impl fmt::Display for UsedUpBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |ns: u64| Nanos(ns / 10_000_000 * 10_000_000);
        match *self {
            UsedUpBy::SlowBlocks { took_ns, forecast_ns, resumed } => {
                let which = if resumed { "those since it was resumed" } else { "those" };
                write!(f, "{which} took {}, but {} were forecast", forecast(took_ns), forecast(forecast_ns))
            }
            UsedUpBy::Broken(ns) => write!(f, "blocks in which a cell failed took {}", shown(ns)),
            UsedUpBy::AsForecast => f.write_str("the blocks need more time, as forecast"),
            UsedUpBy::Before(ns) => write!(f, "earlier steps took {}", shown(ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn check(before_s: u64, forecast_s: u64, complete_s: u64, broken_s: u64, expected: &str) {
        let forecast_ns = (forecast_s * SECOND) as f64;
        let why = used_up_by(before_s * SECOND, forecast_ns, complete_s * SECOND, broken_s * SECOND, false);
        assert_eq!(why.to_string(), expected, "{before_s} {forecast_s} {complete_s} {broken_s}");
    }

    #[test]
    fn the_main_use_of_time_is_named() {
        check(1, 10, 15, 0, "those took 15 s, but 10 s were forecast");
        check(12, 10, 15, 0, "those took 15 s, but 10 s were forecast");
        let resumed = used_up_by(SECOND, 10.0 * SECOND as f64, 15 * SECOND, 0, true).to_string();
        assert_eq!(resumed, "those since it was resumed took 15 s, but 10 s were forecast");
        check(12, 0, 0, 0, "earlier steps took 12 s");
        check(12, 3, 3, 1, "earlier steps took 12 s");
        check(1, 0, 0, 11, "blocks in which a cell failed took 11 s");
        check(1, 10, 10, 0, "the blocks need more time, as forecast");
        check(1, 5, 6, 4, "blocks in which a cell failed took 4 s");
    }
}
