//! What limits a program of the user's, as far as it can be told from outside: its CPU, or what it waits for.

use bytegauge_model::Trial;
use bytegauge_model::unit::significant;

use super::{BUSY, Finding, UNKNOWN, percent, view};
use crate::view::document::LimitView;

/// Below half of a CPU most of the time is spent waiting.
const WAITS: f64 = 0.5;

/// The names, in their order.
pub const NAMES: [&str; 2] = ["the program's CPU", "what the program waits for"];

/// What its runs show.
pub fn find(trials: &[&Trial]) -> LimitView {
    let sums = trials
        .iter()
        .filter_map(|trial| Some((trial.sink_side()?, trial.wall_ns)))
        .fold((0u64, 0u64, 0u64), |sums, (end, wall_ns)| {
            (sums.0 + end.cpu_time_ns(), sums.1 + end.system_ns, sums.2 + wall_ns)
        });
    let (cpu_ns, system_ns, wall_ns) = (sums.0 as f64, sums.1 as f64, sums.2 as f64);
    if wall_ns <= 0.0 || cpu_ns <= 0.0 {
        return view(UNKNOWN, Finding { sentence: "CPU time was not recorded".into(), evidence: Vec::new() });
    }
    let (cpus, in_kernel) = (cpu_ns / wall_ns, system_ns / cpu_ns);
    let evidence = vec![("cpus", cpus), ("system_share", in_kernel)];
    let (name, sentence) = match cpus {
        cpus if cpus >= BUSY => (
            NAMES[0],
            format!("a run keeps {} CPUs busy, {} of that in the kernel", significant(cpus, 2), percent(in_kernel)),
        ),
        cpus if cpus < WAITS => {
            (NAMES[1], format!("a run keeps {} CPUs busy and waits the rest of its time", significant(cpus, 2)))
        }
        cpus => (
            UNKNOWN,
            format!("a run keeps {} CPUs busy, {} of that in the kernel", significant(cpus, 2), percent(in_kernel)),
        ),
    };
    view(name, Finding { sentence, evidence })
}
