//! What limits a program of the user's, as far as it can be told from outside: its CPU, or what it waits for.

use bytegauge_model::unit::significant;
use bytegauge_model::{EndReport, Trial};

use super::{BUSY, Finding, UNKNOWN, percent, view};
use crate::view::document::LimitView;

/// Below half of a CPU most of the time is spent waiting.
const WAITS: f64 = 0.5;

/// The names, in their order.
pub const NAMES: [&str; 2] = ["the program's CPU", "what the program waits for"];

/// What its runs show.
pub fn find(trials: &[&Trial]) -> LimitView {
    let ends = || trials.iter().filter_map(|trial| Some((*trial, trial.sink_side()?)));
    let sum = |of: &dyn Fn(&Trial, &EndReport) -> u64| ends().map(|(trial, end)| of(trial, end)).sum::<u64>() as f64;
    let (own_ns, system_ns) = (sum(&|_, end| end.cpu_time_ns()), sum(&|_, end| end.system_ns));
    // All that a run needs was asked about: its server's part as well, from its start to its end.
    let server_ns = sum(&|trial, _| trial.task().and_then(|task| task.server_cpu_ns).unwrap_or(0));
    let (cpu_ns, wall_ns) = (own_ns + server_ns, sum(&|trial, _| trial.wall_ns));
    if wall_ns <= 0.0 || cpu_ns <= 0.0 {
        return view(UNKNOWN, Finding { sentence: "CPU time was not recorded".into(), evidence: Vec::new() });
    }
    let cpus = cpu_ns / wall_ns;
    let mut evidence = vec![("cpus", cpus)];
    let (who, part) = if server_ns > 0.0 {
        let server_cpus = server_ns / wall_ns;
        evidence.push(("server_cpus", server_cpus));
        // How much of a server's time the kernel had is not kept.
        ("a run and its server use", format!("{} of that the server", significant(server_cpus, 2)))
    } else {
        let in_kernel = system_ns / cpu_ns;
        evidence.push(("system_share", in_kernel));
        ("a run uses", format!("{} of that in the kernel", percent(in_kernel)))
    };
    let used = format!("{who} {} CPUs", significant(cpus, 2));
    let (name, sentence) = match cpus {
        cpus if cpus >= BUSY => (NAMES[0], format!("{used}, {part}")),
        cpus if cpus < WAITS && server_ns > 0.0 => (NAMES[1], format!("{used}, {part}, and wait the rest of the time")),
        cpus if cpus < WAITS => (NAMES[1], format!("{used} and waits the rest of its time")),
        _ => (UNKNOWN, format!("{used}, {part}")),
    };
    view(name, Finding { sentence, evidence })
}

#[cfg(test)]
mod tests {
    use bytegauge_model::session::Stage;
    use bytegauge_model::{CellId, EndRole, Outcome, TaskReport, Workload};

    use super::*;

    fn check(own_ms: u64, server_ms: Option<u64>, name: &str, sentence: &str) {
        let end = EndReport {
            cpu_ns: own_ms * 1_000_000,
            system_ns: own_ms * 500_000,
            task: Some(TaskReport { server_cpu_ns: server_ms.map(|ms| ms * 1_000_000), ..TaskReport::default() }),
            ..EndReport::default()
        };
        let trial = Trial {
            cell: CellId("c1".into()),
            workload: Workload::Check,
            stage: Stage::Confirm,
            block: 0,
            position: 0,
            started_unix_ns: 0,
            outcome: Outcome::Measured,
            bytes: 0,
            calls: 1,
            wall_ns: 1_000_000_000,
            warmup_ns: 0,
            cpus: Default::default(),
            ends: [(EndRole::Command, end)].into_iter().collect(),
            machine: None,
        };
        let found = find(&[&trial, &trial]);
        assert_eq!((found.name, found.sentence.as_str()), (name, sentence), "{own_ms} {server_ms:?}");
        let cpus = trial.cpu_ns_per_run().unwrap() / 1e9;
        assert!((found.evidence["cpus"] - cpus).abs() < 1e-9, "as the CPU time of a run says: {found:?}");
    }

    #[test]
    fn a_server_counts_as_a_part_of_the_run() {
        check(280, None, NAMES[1], "a run uses 0.28 CPUs and waits the rest of its time");
        check(970, None, NAMES[0], "a run uses 0.97 CPUs, 50 % of that in the kernel");
        check(280, Some(360), UNKNOWN, "a run and its server use 0.64 CPUs, 0.36 of that the server");
        check(280, Some(1_000), NAMES[0], "a run and its server use 1.3 CPUs, 1 of that the server");
        check(
            100,
            Some(100),
            NAMES[1],
            "a run and its server use 0.2 CPUs, 0.1 of that the server, and wait the rest of the time",
        );
    }
}
