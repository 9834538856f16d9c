//! How long runs of a program take, and the advice to make them longer.

use bytegauge_model::CellKind;

use crate::view::numbers::View;
use crate::words::number::time;

/// A run of a program that takes this long is hardly affected by the program's start, nanoseconds.
const RUN_LONG_NS: f64 = 50e6;

/// The shortest median time of a run of a program, nanoseconds.
pub fn shortest_run_ns(view: &View) -> Option<f64> {
    let candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    candidates.filter_map(|cell| cell.median("ns_per_run")).reduce(f64::min)
}

/// The advice to make runs of a program longer, by how long they take.
pub fn more_work(run_ns: Option<f64>) -> String {
    let Some(run_ns) = run_ns else { return "give each run more work".into() };
    match (RUN_LONG_NS / run_ns).ceil() {
        times if times > 1.0 => {
            let [now, then] = [run_ns, RUN_LONG_NS].map(time);
            format!("give each run {times}× the work or more, to take at least {then} (the shortest takes {now})")
        }
        _ => format!("give each run more work (the shortest takes {})", time(run_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_get_the_missing_work() {
        assert_eq!(
            more_work(Some(3.1e6)),
            "give each run 17× the work or more, to take at least 50 ms (the shortest takes 3.1 ms)"
        );
        assert_eq!(more_work(Some(215e6)), "give each run more work (the shortest takes 215 ms)");
    }
}
