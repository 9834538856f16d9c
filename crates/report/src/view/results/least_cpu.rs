//! The option with the least CPU time, where the rates are undecided: CPU time is steadier than a rate on a busy machine.

use bytegauge_model::unit::{significant, significant_down, significant_up};

use super::super::document::{Compares, OptionResult, OptionStatus, Test, TestState, View};
use super::cpu_estimate;
use crate::phrase;

/// More options than this do not differ much.
const LEAST_MAX: usize = 2;

/// `epoll uses the least CPU time: 13.5 s/M calls (12.4–15.7, 95 %); other undecided options 15.8 or more (95 %)`; `None` where the intervals
/// overlap.
pub fn sentence(view: &View, test: &Test) -> Option<String> {
    if test.state != TestState::Inconclusive || test.compares == Compares::Cpu {
        return None;
    }
    let is_open = |option: &&OptionResult| {
        test.recommended.as_ref() == Some(&option.id)
            || matches!(option.status, OptionStatus::Best | OptionStatus::Tied) && option.slower_upper.is_some()
    };
    let open = test.options.iter().filter(is_open);
    let known = open.map(|option| {
        let (estimate, factor, unit) = cpu_estimate(view.cell(&option.id)?)?;
        let [median, lower, upper] = [estimate.median?, estimate.lower?, estimate.upper?].map(|value| value * factor);
        Some((option, [median, lower, upper], unit))
    });
    // Without a number for each option, none is known to be the least.
    let mut known = known.collect::<Option<Vec<_>>>()?;
    known.sort_by(|a, b| a.1[0].total_cmp(&b.1[0]));
    let (_, [median, lower, upper], unit) = *known.first()?;
    // Those that may use as little.
    let least = known.iter().take_while(|(_, ends, _)| ends[1] <= upper).count();
    let next = known[least..].iter().map(|(_, ends, _)| ends[1]).reduce(f64::min)?;
    let names: Vec<String> = known[..least].iter().map(|(option, ..)| option.label.clone()).collect();
    (least <= LEAST_MAX && next > upper).then(|| {
        format!(
            "{} the least CPU time: {} {unit} ({}–{}, 95 %); other undecided options {} or more (95 %)",
            if least == 1 { format!("{} uses", names[0]) } else { format!("{} use", phrase::join(&names, "and")) },
            significant(median, 3),
            significant_down(lower, 3),
            significant_up(upper, 3),
            significant_down(next, 3)
        )
    })
}
