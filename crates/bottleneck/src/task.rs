//! The limit of a program of the user, as far as it is visible from outside: its CPU, or something that it waits for.

use bytegauge_model::unit::significant;
use bytegauge_model::{EndReport, MachineUse, Trial};
use bytegauge_stats::quantile::median;

use super::{BUSY, CellLimit, UNKNOWN, evidence, limit, percent};

/// Below half of a CPU most of the time is spent waiting.
const WAITS: f64 = 0.5;

/// The names, in their order.
pub const NAMES: [&str; 2] = ["the program's CPU", "waits of the program"];

/// The limit by its runs on a machine with this number of CPUs.
pub fn find(trials: &[&Trial], machine_cpus: Option<u64>) -> CellLimit {
    let ends = || trials.iter().filter_map(|trial| Some((*trial, trial.sink_side()?)));
    // Medians, which the rows show: sums would give slow runs another number next to them.
    let middle = |of: &dyn Fn(&Trial, &EndReport) -> u64| {
        median(&ends().map(|(trial, end)| of(trial, end) as f64).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let server_of = |trial: &Trial| trial.task().and_then(|task| task.server_cpu_ns).unwrap_or(0);
    let (server_ns, system_ns) = (middle(&|trial, _| server_of(trial)), middle(&|_, end| end.system_ns));
    // All that a run needs was asked about: its server's part as well, from when it was ready.
    let cpu_ns = middle(&|trial, end| end.cpu_time_ns().saturating_add(server_of(trial)));
    let wall_ns = middle(&|trial, _| trial.wall_ns);
    if wall_ns <= 0.0 || cpu_ns <= 0.0 {
        return super::without_numbers(UNKNOWN, "CPU time was not recorded");
    }
    let cpus = cpu_ns / wall_ns;
    let mut numbers = vec![("cpus", cpus)];
    let shown = |cpus: f64| {
        let number = significant(cpus, 2);
        format!("{number} {}", if number == "1" { "CPU" } else { "CPUs" })
    };
    let (used, part, rest) = if server_ns > 0.0 {
        let server_cpus = server_ns / wall_ns;
        numbers.push(("server_cpus", server_cpus));
        // How much of a server's time the kernel had is not kept.
        let (command, server) = (shown((cpus - server_cpus).max(0.0)), shown(server_cpus));
        let used = format!("the load command uses {command} and the server {server}");
        (used, String::new(), ", and both wait the rest of the time")
    } else {
        let in_kernel = system_ns / cpu_ns;
        numbers.push(("system_share", in_kernel));
        let part = format!(", {} of that in the kernel", percent(in_kernel));
        (format!("a run uses {}", shown(cpus)), part, " and waits the rest of its time")
    };
    if let Some((busy, all)) = all_busy(trials, machine_cpus).filter(|_| cpus < WAITS) {
        numbers.push(("machine_cpus", busy));
        let sentence = format!(
            "{used}, while {} of the machine's {all} CPUs were busy: it may wait for a CPU that others have",
            significant(busy, 2)
        );
        return limit("other programs", evidence(sentence, numbers));
    }
    let (name, sentence) = match cpus {
        cpus if cpus >= BUSY => (NAMES[0], used + &part),
        cpus if cpus < WAITS => (NAMES[1], used + rest),
        _ => (UNKNOWN, used + &part),
    };
    limit(name, evidence(sentence, numbers))
}

/// CPUs of the machine that were busy, where hardly any was free: a program that waits then may wait for one.
fn all_busy(trials: &[&Trial], machine_cpus: Option<u64>) -> Option<(f64, u64)> {
    let of =
        |read: fn(&MachineUse) -> u64| trials.iter().filter_map(|trial| trial.machine.as_ref()).map(read).sum::<u64>();
    let (busy, wall) = (of(|machine| machine.busy_ns) as f64, of(|machine| machine.wall_ns) as f64);
    let (used, all) = (busy / wall, machine_cpus?);
    (wall > 0.0 && used >= BUSY * all as f64).then_some((used, all))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::session::Stage;
    use bytegauge_model::{CellId, EndCounts, EndRole, Outcome, TaskReport, Workload};

    use super::*;

    fn check(own_ms: u64, server_ms: Option<u64>, name: &str, sentence: &str) {
        let trial = run(own_ms, server_ms, 1_000);
        let found = find(&[&trial, &trial], Some(2));
        assert_eq!((found.name, found.sentence.as_str()), (name, sentence), "{own_ms} {server_ms:?}");
        let cpus = trial.cpu_ns_per_run().unwrap() / 1e9;
        assert!((found.evidence["cpus"] - cpus).abs() < 1e-9, "as the CPU time of a run shows: {found:?}");
    }

    fn run(own_ms: u64, server_ms: Option<u64>, wall_ms: u64) -> Trial {
        let end = EndReport {
            counts: EndCounts { cpu_ns: own_ms * 1_000_000, system_ns: own_ms * 500_000, ..EndCounts::default() },
            task: Some(Box::new(TaskReport {
                server_cpu_ns: server_ms.map(|ms| ms * 1_000_000),
                ..TaskReport::default()
            })),
            ..EndReport::default()
        };
        Trial {
            calls: 1,
            wall_ns: wall_ms * 1_000_000,
            ends: [(EndRole::Command, end)].into_iter().collect(),
            ..Trial::without_numbers(CellId("c1".into()), Workload::Tune, Stage::Confirm, Outcome::Measured)
        }
    }

    #[test]
    fn the_cpu_share_is_of_the_median_run() {
        let (usual, slow) = (run(260, None, 1_000), run(300, None, 9_000));
        assert_eq!(find(&[&usual, &usual, &slow], None).evidence["cpus"], 0.26);
    }

    #[test]
    fn without_free_cpus_other_programs_may_limit() {
        let busy = |busy_ms: u64| {
            let machine = MachineUse { wall_ns: 1_000_000_000, busy_ns: busy_ms * 1_000_000, ..MachineUse::default() };
            let trial = Trial { machine: Some(machine), ..run(320, None, 1_000) };
            let found = find(&[&trial], Some(2));
            (found.name, found.sentence)
        };
        let (name, sentence) = busy(1_950);
        assert!(name == "other programs" && sentence.contains("1.9 of the machine's 2 CPUs were busy"), "{sentence}");
        assert_eq!(busy(900).0, NAMES[1]);
    }

    #[test]
    fn a_server_is_part_of_the_run() {
        check(280, None, NAMES[1], "a run uses 0.28 CPUs and waits the rest of its time");
        check(970, None, NAMES[0], "a run uses 0.97 CPUs, 50 % of that in the kernel");
        check(1000, None, NAMES[0], "a run uses 1 CPU, 50 % of that in the kernel");
        check(280, Some(360), UNKNOWN, "the load command uses 0.28 CPUs and the server 0.36 CPUs");
        check(280, Some(1_000), NAMES[0], "the load command uses 0.28 CPUs and the server 1 CPU");
        check(
            100,
            Some(100),
            NAMES[1],
            "the load command uses 0.1 CPUs and the server 0.1 CPUs, and both wait the rest of the time",
        );
    }
}
