//! The CPU use charged to a program that relays: that of its process tree, whose clocks are exact, or of its control group if
//! that shows that processes have come and gone, which are in no tree any more.

use bytegauge_sys::clock::kernel_tick_ns;
use bytegauge_sys::control_group::ControlGroup;
use bytegauge_sys::descendants::{self, TreeUse};

use crate::end_error::EndError;

/// The readings before and after a window, and the window's length, nanoseconds.
pub(super) type Used<T> = ([T; 2], u64);

/// The resources used until a moment.
pub(super) struct Reading {
    tree: TreeUse,
    /// Absent without a group.
    group: Option<TreeUse>,
}

/// Reads both.
pub(super) fn reading(group: Option<&ControlGroup>) -> Result<Reading, EndError> {
    let tree = descendants::used().map_err(EndError::io("looking for the processes of a relay"))?;
    Ok(Reading { tree, group: group.and_then(|group| group.used().ok()) })
}

/// The use between two readings, and its source.
pub(super) fn charged(between: Used<Reading>) -> (Used<TreeUse>, String) {
    let ([before, after], window_ns) = between;
    let (charged, by) = settled(&before, &after, window_ns, kernel_tick_ns());
    ((charged, window_ns), by.to_owned())
}

/// A group that is ahead of the tree by more than the kernel's own delay has seen processes that the tree has not. Each thread
/// running at a group's reading is up to a tick behind; the number of such threads follows from the use within the window,
/// however many CPUs there are.
fn settled(before: &Reading, after: &Reading, window_ns: u64, tick_ns: u64) -> ([TreeUse; 2], &'static str) {
    let tree = || [before.tree, after.tree];
    let Some((earlier, later)) = before.group.zip(after.group) else { return (tree(), "its process tree") };
    let by_tree = after.tree.since(&before.tree).cpu_ns;
    let by_group = later.since(&earlier).cpu_ns;
    let delay_ns = by_group.div_ceil(window_ns.max(1)) * tick_ns;
    match by_group > by_tree + delay_ns {
        true => ([earlier, later], "its control group, since processes came and went"),
        false => (tree(), "its process tree, which its control group confirms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(tree_ns: u64, group_ns: Option<u64>) -> Reading {
        let of = |cpu_ns| TreeUse { processes: 1, cpu_ns, user_ns: 0, system_ns: cpu_ns };
        Reading { tree: of(tree_ns), group: group_ns.map(of) }
    }

    #[test]
    fn use_of_short_processes_is_charged() {
        let check = |before: Reading, after: Reading, expected: u64, how: &str| {
            let ([earlier, later], by) = settled(&before, &after, 100, 8);
            assert_eq!((later.since(&earlier).cpu_ns, by.starts_with(how)), (expected, true), "{by}");
        };
        check(reading(10, None), reading(60, None), 50, "its process tree");
        // Within the kernel's delay.
        check(reading(10, Some(100)), reading(60, Some(158)), 50, "its process tree, which");
        check(reading(10, Some(100)), reading(60, Some(120)), 50, "its process tree, which");
        check(reading(10, Some(100)), reading(60, Some(170)), 70, "its control group");
        check(reading(60, Some(100)), reading(0, Some(170)), 70, "its control group");
        // Each of several threads may be late.
        check(reading(0, Some(0)), reading(250, Some(274)), 250, "its process tree, which");
        check(reading(0, Some(0)), reading(250, Some(275)), 275, "its control group");
        // A group that can no longer be read.
        check(reading(10, Some(100)), reading(60, None), 50, "its process tree");
    }

    /// However many CPUs the machine has: short processes used as much as two ticks of one of them.
    #[test]
    fn use_is_charged_on_large_machines() {
        let used_ns = 2 * kernel_tick_ns();
        let (([earlier, later], _), by) = charged(([reading(0, Some(0)), reading(0, Some(used_ns))], 25 * used_ns));
        assert_eq!(later.since(&earlier).cpu_ns, used_ns, "{by}");
    }
}
