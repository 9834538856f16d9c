//! kill -9 of bytegauge in every mode that starts processes: nothing of them is left, however hard they try to stay.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bench::{BINARY, Bench, Running, possible, processes, signal};
use crate::far::{LONG, agent, under_way};

/// A hang, not a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// A program that refuses to leave, with a child, and with a grandchild in a session of its own, whose parent has left and
/// whose environment is empty. `$1` is in the arguments of each of them.
const STUBBORN: &str = r#"#!/bin/sh
trap '' TERM INT HUP
(env -i PATH="$PATH" setsid sh -c "trap '' TERM INT HUP; echo > '$1.grandchild'; sleep 3600; : $1" &)
sh -c "trap '' TERM INT HUP; echo > '$1.child'; sleep 3600; : $1" &
wait
"#;

/// A program that leaves its environment as it is, and the processes that it starts.
const ORDINARY: &str = r#"#!/bin/sh
setsid sh -c "echo > '$1.grandchild'; sleep 3600; : $1" &
sh -c "echo > '$1.child'; sleep 3600; : $1" &
wait
"#;

/// A program on a bench, and the mark by which its processes are found.
struct Program {
    mark: String,
}

impl Program {
    fn new(bench: &Bench, script: &str) -> Program {
        let path = bench.path("program");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Program { mark: bench.path("mark").display().to_string() }
    }

    /// Its command line.
    fn command(&self, bench: &Bench) -> String {
        format!("{} {}", bench.path("program").display(), self.mark)
    }

    /// Waits until all of it runs.
    fn until_it_runs(&self, running: &mut Running) {
        let is_there = |part: &str| fs::metadata(format!("{}.{part}", self.mark)).is_ok();
        running.until("its program", |_| is_there("child") && is_there("grandchild"));
    }

    /// Processes with the mark in their arguments.
    fn processes(&self) -> Vec<u32> {
        let has_mark = |id: &u32| {
            let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let text = String::from_utf8_lossy(&words);
            // bytegauge itself has the mark in its arguments, too.
            text.contains(&self.mark) && !text.starts_with(BINARY)
        };
        processes().filter(has_mark).collect()
    }

    /// Waits until nothing is left of it, nor of bytegauge.
    #[track_caller]
    fn is_gone(&self, bench: &Bench) {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = [self.processes(), bench.processes()].concat();
            if left.is_empty() {
                return;
            }
            if Instant::now() > until {
                for id in &left {
                    signal(*id, "KILL");
                }
                panic!("outlived bytegauge: {left:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs bytegauge with words in which `PROGRAM` is the stubborn program, kills it, and looks for what is left.
#[track_caller]
fn check(words: &[&str]) {
    let bench = Bench::new();
    let program = Program::new(&bench, STUBBORN);
    let words: Vec<String> = words.iter().map(|word| word.replace("PROGRAM", &program.command(&bench))).collect();
    let mut command = Command::new(BINARY);
    command.args(&words);
    let mut running = bench.spawn(command, words.join(" "));
    program.until_it_runs(&mut running);
    running.kill();
    program.is_gone(&bench);
}

const STREAM: [&str; 9] =
    ["stream", "--transport", "tcp", "--profile", "drain", "--read-size", "64K", "--write-size", "64K"];

#[test]
fn relay_command_ends_with_us() {
    // It never listens: it runs until the grace is over.
    check(
        &[&STREAM[..], &["--relay", "direct,cmd:PROGRAM {listen} {upstream}", "--grace", "100s", "--quiet"]].concat(),
    );
}

#[test]
fn checked_command_ends_with_us() {
    check(&["tune", "--values", "1,2", "--quiet", "--load", "PROGRAM {value}"]);
}

#[test]
fn preparing_command_ends_with_us() {
    check(&["tune", "--values", "1,2", "--quiet", "--prepare", "PROGRAM", "--", "echo", "{value}"]);
}

#[test]
fn server_ends_with_us() {
    let server = ["--start", "PROGRAM", "--ready", "regex:never", "--", "echo", "{value}"];
    check(&[&["tune", "--values", "1,2", "--quiet"][..], &server].concat());
}

#[test]
fn compared_command_ends_with_us() {
    check(&["ab", "--quiet", "--a", "cmd:PROGRAM", "--b", "cmd:PROGRAM"]);
}

#[test]
fn compared_server_ends_with_us() {
    let sides = ["--a", "start:PROGRAM", "--b", "start:PROGRAM", "--ready", "regex:never", "--", "true"];
    check(&[&["ab", "--quiet"][..], &sides].concat());
}

#[test]
fn observed_command_ends_with_us() {
    let bench = Bench::new();
    let program = Program::new(&bench, STUBBORN);
    let (path, mark) = (bench.path("program").display().to_string(), program.mark.clone());
    let mut command = Command::new(BINARY);
    command.args(["observe", "--time", "100s", "--", &path, &mark]);
    let mut running = bench.spawn(command, "observe".into());
    program.until_it_runs(&mut running);
    running.kill();
    program.is_gone(&bench);
}

/// The first run, which is only watched, is no trial of a session.
#[track_caller]
fn check_first_run(end: impl FnOnce(Running)) {
    let bench = Bench::new();
    let program = Program::new(&bench, STUBBORN);
    let (path, mark) = (bench.path("program").display().to_string(), program.mark.clone());
    let mut command = Command::new(BINARY);
    command.args(["tune", "--quiet", "--", &path, &mark]);
    let mut running = bench.spawn(command, "tune".into());
    program.until_it_runs(&mut running);
    end(running);
    program.is_gone(&bench);
}

#[test]
fn interrupted_first_run_ends_its_program() {
    check_first_run(|running| {
        running.signal("INT");
        running.wait().exits(130).complains(&["interrupted in the first run", "nothing was measured"]);
    });
}

#[test]
fn killed_first_run_ends_its_program() {
    check_first_run(|running| drop(running.kill()));
}

#[test]
fn perf_ends_with_us() {
    let bench = Bench::new();
    let program = Program::new(&bench, STUBBORN);
    // A perf that is a wrapper, as Ubuntu's, and never begins.
    fs::create_dir(bench.path("programs")).unwrap();
    fs::write(bench.path("programs/perf"), format!("#!/bin/sh\n{}\n", program.command(&bench))).unwrap();
    fs::set_permissions(bench.path("programs/perf"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(BINARY);
    let path = format!("{}:{}", bench.path("programs").display(), std::env::var("PATH").unwrap_or_default());
    command.args(STREAM).args(["--relay", "direct,splice", "--flamegraph", "flames", "--quiet"]).env("PATH", path);
    let mut running = bench.spawn(command, "a flame graph".into());
    program.until_it_runs(&mut running);
    running.kill();
    program.is_gone(&bench);
    // The folder for its data stays until the next start.
    let folders = || fs::read_dir(bench.path("flames")).unwrap().count();
    assert_eq!(folders(), 1);
    let words = "stream --transport tcp --profile drain --read-size 64K --write-size 64K --relay direct,splice --trial-time 5ms \
                 --blocks 1 --analyses 1 --time 2s --quiet --flamegraph flames";
    fs::write(bench.path("programs/perf"), "#!/bin/sh\nexit 1\n").unwrap();
    let mut command = Command::new(BINARY);
    let path = format!("{}:{}", bench.path("programs").display(), std::env::var("PATH").unwrap_or_default());
    command.args(words.split_whitespace()).env("PATH", path);
    bench.spawn(command, words.into()).wait().exits(0);
    assert_eq!(folders(), 0);
}

#[test]
fn ready_relay_ends_with_us() {
    if !possible("socat is here", "socat", &["-V"]) {
        return;
    }
    let bench = Bench::new();
    let mut command = Command::new(BINARY);
    command.args(STREAM).args(["--relay", "direct,socat", "--rate", "10M", "--quiet"]);
    let mut running = bench.spawn(command, "socat".into());
    let is_socat =
        |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.starts_with("socat"));
    running.until("socat", |_| bench.processes().iter().any(is_socat));
    running.kill();
    Program { mark: bench.path("no such").display().to_string() }.is_gone(&bench);
}

#[test]
fn ends_of_an_agent_end_with_it() {
    let (here, there) = (Bench::new(), Bench::new());
    let (agent, place) = agent(&there, "");
    fs::copy(there.path("key"), here.path("key")).unwrap();
    let session = under_way(&here, LONG, &place);
    agent.kill();
    Program { mark: there.path("no such").display().to_string() }.is_gone(&there);
    session.insist("INT");
}

/// Kills bytegauge together with the supervisors of its programs.
fn kill_all(bench: &Bench, running: Running) {
    let ends = bench.ends();
    assert!(!ends.is_empty());
    // First they stop, so that none has time to tidy up.
    let all = [&[running.id()][..], &ends].concat();
    for name in ["STOP", "KILL"] {
        all.iter().for_each(|id| assert!(signal(*id, name), "{id} is gone"));
    }
    running.kill();
}

#[test]
fn next_start_ends_what_dead_supervisors_left() {
    let bench = Bench::new();
    let program = Program::new(&bench, ORDINARY);
    let mut command = Command::new(BINARY);
    command.args(["tune", "--values", "1,2", "--quiet", "--load", &format!("{} {{value}}", program.command(&bench))]);
    let mut running = bench.spawn(command, "check".into());
    program.until_it_runs(&mut running);
    kill_all(&bench, running);
    // Any start ends them, that of another test as well: so it is not looked whether they were still there.
    bench.run(crate::bench::QUICK).exits(0);
    program.is_gone(&bench);
}

#[test]
fn next_start_removes_folders_of_dead_owners() {
    let bench = Bench::new();
    let program = Program::new(&bench, ORDINARY);
    let temporary = bench.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let folders = || fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let start = |words: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(words).env("TMPDIR", &temporary);
        bench.spawn(command, words.join(" "))
    };
    let relay = format!("direct,cmd:{} {{listen}} {{upstream}}", program.command(&bench));
    let mut live = start(&[&STREAM[..], &["--relay", &relay, "--grace", "100s", "--quiet"]].concat());
    program.until_it_runs(&mut live);
    let kept = folders();
    fs::remove_file(format!("{}.child", program.mark)).unwrap();
    let mut running =
        start(&[&STREAM[..], &["--relay", &relay, "--grace", "100s", "--quiet", "--store", "2.db"]].concat());
    program.until_it_runs(&mut running);
    let own: Vec<u32> = crate::bench::children(running.id());
    let all = [&[running.id()][..], &own].concat();
    for name in ["STOP", "KILL"] {
        all.iter().for_each(|id| assert!(signal(*id, name)));
    }
    running.kill();
    assert_eq!((kept.len(), folders().len()), (1, 2));
    let words: Vec<&str> = crate::bench::QUICK.split_whitespace().chain(["--store", "3.db"]).collect();
    start(&words).wait().exits(0).complains(&["left behind"]);
    // The live one's stays.
    assert_eq!(folders(), kept);
    live.kill();
    program.is_gone(&bench);
}
