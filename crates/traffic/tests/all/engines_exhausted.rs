//! An end without free descriptors neither spins nor hangs. Runs in a process of its own, since it uses all descriptors.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{echo_server, for_all, plain, plain_call};

/// Set in the process that may use all descriptors.
const ALONE: &str = "BYTEGAUGE_TEST_ALONE";

#[test]
fn engine_without_descriptors_waits_and_continues() {
    if std::env::var_os(ALONE).is_some() {
        return for_all(check);
    }
    let name = concat!(module_path!(), "::engine_without_descriptors_waits_and_continues");
    let (_, name) = name.split_once("::").expect("a crate and a path in it");
    // The system's limit can be a billion.
    let mut alone = Command::new("sh");
    alone.args(["-c", "ulimit -Sn 256 && exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    let ran = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let (output, complaint) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && output.contains("1 passed"), "{output}\n{complaint}");
}

fn check(engine: bytegauge_model::Engine) {
    let (server, address) = echo_server(engine, 4096, &[]);
    let mut first = plain(address);
    plain_call(&mut first, 1, 100);
    let mut taken: Vec<File> = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    // Room for the client's descriptor, none for the server's.
    drop(taken.pop());
    let mut second = plain(address);
    let began = Instant::now();
    std::thread::sleep(Duration::from_millis(100));
    drop(taken);
    // A machine that stalls meanwhile gives it time to try again.
    let waited_ms = began.elapsed().as_millis() as u64;
    plain_call(&mut first, 2, 100);
    plain_call(&mut second, 3, 100);
    let outcome = server.tell();
    assert_eq!(outcome.report.accepted, 2);
    let most = 1000 + 10 * waited_ms;
    assert!(outcome.report.system_calls < most, "{} system calls, {most} at most", outcome.report.system_calls);
}
