//! The options by CPU time, where a busy machine leaves a test undecided: CPU time is steadier than rates then.

use super::super::document::{Compares, OptionResult, Test, TestState};
use super::harm;
use crate::interval_rounding::ShareScale;
use crate::phrase;

/// More options than this are no result.
const NAMED_MAX: usize = 3;

/// Removes the comparison by CPU time where time decides, where an option that is compared has none, and where all options may
/// take the least.
pub fn keep_what_tells(test: &mut Test) {
    let is_open =
        matches!(test.state, TestState::Inconclusive | TestState::Unconfirmed) && test.compares == Compares::Time;
    let mut confirmed =
        test.options.iter().filter(|option| option.slower_upper.is_some() || option.more_cpu_upper.is_some());
    let is_known = confirmed.all(|option| option.cpu.is_some() && option.more_cpu_upper.is_some());
    let tells = test.options.iter().any(uses_more);
    if !(is_open && is_known && tells) {
        test.options.iter_mut().for_each(|option| (option.more_cpu_lower, option.more_cpu_upper) = (None, None));
    }
}

/// Whether an option surely takes more CPU time than another.
pub fn uses_more(option: &OptionResult) -> bool {
    option.more_cpu_lower.is_some_and(|lower| lower > 0.0)
}

/// The heading of the intervals.
pub fn heading(scale: ShareScale) -> &'static str {
    if scale.multiples { "CPU / least" } else { "more CPU" }
}

/// The meaning of the numbers under that heading.
pub fn explained(scale: ShareScale) -> String {
    let how = if scale.multiples { "its CPU time divided by" } else { "by how much its CPU time exceeds" };
    format!("{how} that of the option with the least")
}

/// `256K or 1M`: the options of which one takes the least CPU time; `None` where CPU time tells nothing that time does not, where
/// they are many, and where one is harmful.
pub fn least(test: &Test) -> Option<String> {
    let compared = || test.options.iter().filter(|option| option.more_cpu.is_some());
    compared().next()?;
    let least: Vec<&OptionResult> = compared().filter(|option| !uses_more(option)).collect();
    let is_result = least.len() <= NAMED_MAX && !least.iter().any(|option| harm::is_avoided(&option.harm));
    is_result.then(|| phrase::join(&least.iter().map(|option| option.label.clone()).collect::<Vec<_>>(), "or"))
}
