//! Calls whose server or client is killed: no end waits for the lost one, and the counts are kept.

use serde_json::Value;

use crate::bench::{Bench, children, signal};
use crate::raw::{Raw, number};

/// Two different engines; the test of the harness (`call_processes`) uses all. Missing ones are reported.
const SERVERS: [&str; 2] = ["blocking", "uring:plain"];

/// Trials of an hour: an end that waited for one would exceed the two minutes of the bench.
const LONG: &str =
    "call --transport tcp --profile echo --flows 3 --trial-time 3600s --blocks 1 --time 2s --ends processes";

/// Kills one of the two ends whenever there are two, which fails the cell for good after two trials.
fn check_killed(server: &str, dead: &str, left: &str) {
    let bench = Bench::new();
    let words = format!("{LONG} --server-engine {server}");
    let planned = bench.run(&format!("{words} --dry-run"));
    if planned.status.code() == Some(2) {
        eprintln!("SKIPPED: {server}: {}", planned.stderr);
        return;
    }
    let mut running = bench.start(&words);
    running.until("confirmation", |running| running.stderr().contains("confirmation: "));
    let mut killed: Vec<u32> = Vec::new();
    running.until("two killed", |running| {
        let ends = children(running.id());
        // Those who measure use the CPU; before that there is nothing to keep.
        if let (2, Some(victim)) = (ends.len(), ends.iter().find(|end| role(**end) == dead))
            && !killed.contains(victim)
            && ends.iter().all(|end| cpu_ticks(*end) >= BUSY_TICKS)
            && signal(*victim, "KILL")
        {
            killed.push(*victim);
        }
        killed.len() == 2
    });
    let ran = running.wait().exits(5);
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    assert_eq!(bench.processes(), [0; 0], "no process is left");
    let raw = Raw::of(&bench, 1);
    // The floor of the harness has its own cell.
    let long = |trial: &&Value| trial["stage"] == "confirm" && trial["cell"] == "c1";
    let failed: Vec<&Value> = raw.trials.iter().filter(long).collect();
    assert_eq!(failed.len(), 2, "{server}: {failed:?}");
    for trial in failed {
        assert_eq!(trial["outcome"]["kind"], "failed", "{server}: {trial}");
        let reason = trial["outcome"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(&format!("the {dead} died in the middle of a trial")), "{server}: {reason}");
        assert!(reason.contains("signal: 9") && trial["ends"][dead].is_null(), "{server}: {trial}");
        assert!(
            number(&trial["ends"][left]["call"]["completed"]) > 0,
            "{server}: the counts of the {left} are kept: {trial}"
        );
    }
    bench.run("report --full").exits(5).prints(&["failed", "died in the middle of a trial"]);
}

/// CPU time after which an end has surely begun: starting takes a few milliseconds.
const BUSY_TICKS: u64 = 10;

/// The task of an end: the last word of its command line (proc_pid_cmdline(5)).
pub fn role(id: u32) -> String {
    let words = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
    words.trim_end_matches('\0').rsplit('\0').next().unwrap_or_default().to_owned()
}

/// CPU time of a process, in ticks of 10 ms (proc_pid_stat(5), fields 14 and 15).
fn cpu_ticks(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[test]
fn a_server_that_is_killed() {
    for server in SERVERS {
        check_killed(server, "server", "client");
    }
}

#[test]
fn a_client_that_is_killed() {
    for server in SERVERS {
        check_killed(server, "client", "server");
    }
}
