//! Every command that a screen prints can be copied into a shell: it is run as it is printed.
//!
//! Commands that measure are planned only (`--dry-run`), which finds unknown flags, sessions that are not there and levels that
//! the shell takes apart.

use crate::bench::{Bench, QUICK, Ran};
use crate::far::{agent, stopped};

/// Commands with a plan.
const MEASURING: [&str; 6] = ["stream", "call", "ring", "run", "tune", "ab"];

/// Runs once without an interval, so that every screen has a next step that measures.
const SHORT: &str = "--trial-time 50ms --blocks 2 --long-trials off --seed 1 --time 5s";

/// The commands in a text: lines that begin with the program, with the lines that continue them, and those in backticks.
fn commands(text: &str) -> Vec<String> {
    let joined = text.split("\\\n").map(str::trim).collect::<Vec<_>>().join(" ");
    let lines = joined.lines().map(str::trim);
    let lines = lines.filter_map(|line| {
        let line = ["Next ", "again "].iter().fold(line, |line, lead| line.trim_start_matches(lead)).trim();
        // A time that it takes may follow; a program of the user is a placeholder.
        let command = line.split("  ").next().unwrap_or(line);
        (line.starts_with("bytegauge ") && !line.contains(" ./prog ")).then(|| command.to_owned())
    });
    // A heading names a plan and its session, and an explanation has a placeholder.
    let lines = lines.filter(|line| !line.contains(" #") && !line.contains(" ID "));
    let quoted = joined.split('`').skip(1).step_by(2).filter(|part| part.starts_with("bytegauge ")).map(str::to_owned);
    let mut all: Vec<String> = lines.chain(quoted).collect();
    all.sort();
    all.dedup();
    all
}

/// The command, so that it measures nothing.
fn planned(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_measuring = words.iter().any(|word| MEASURING.contains(word)) && !words.contains(&"--help");
    match command.split_once(" -- ") {
        _ if !is_measuring => command.to_owned(),
        Some((own, program)) => format!("{own} --dry-run -- {program}"),
        None => format!("{command} --dry-run"),
    }
}

/// Runs the commands that a run printed, and counts them.
#[track_caller]
fn check(bench: &Bench, screen: &Ran) -> usize {
    let texts = [screen.stdout.as_str(), &screen.stderr];
    let commands: Vec<String> = texts.into_iter().flat_map(commands).collect();
    for command in &commands {
        // `doctor` looks at the machine for seconds, and its own tests run it.
        if command.ends_with(" doctor") {
            continue;
        }
        let ran = bench.shell(&format!("bytegauge() {{ \"$BYTEGAUGE\" \"$@\"; }}; {}", planned(command)));
        assert!(ran.status.success(), "printed: {command}\n{ran}\n--- by\n{screen}");
    }
    commands.len()
}

#[test]
fn commands_are_found_in_texts() {
    let text = "  Next     bytegauge --store r.db call \\\n      --resume 2  ≤ 170 s\n           bytegauge report 1 --full\n\
                bytegauge call #1  5 s · loopback\nrun `bytegauge doctor`\nagain     bytegauge report 4";
    let expected = [
        "bytegauge --store r.db call --resume 2",
        "bytegauge doctor",
        "bytegauge report 1 --full",
        "bytegauge report 4",
    ];
    assert_eq!(commands(text), expected);
    assert_eq!(planned("bytegauge tune --values 1,2 -- ls"), "bytegauge tune --values 1,2 --dry-run -- ls");
    assert_eq!(planned("bytegauge call --help"), "bytegauge call --help");
}

#[test]
fn commands_on_result_screens_run() {
    let bench = Bench::new();
    let sessions = [
        QUICK.to_owned(),
        format!("call --transport unix,tcp --server-engine epoll,blocking --flows 2 --profile echo {SHORT}"),
        format!("stream --transport unix,tcp --profile drain --read-size 64K --write-size 64K {SHORT}"),
        format!("stream --transport unix --profile drain --read-size 64K --write-size 64K {SHORT}"),
        format!("ring --entries 64,128 {SHORT}"),
        format!("run buffer-size --transport unix --role reader {SHORT}"),
    ];
    let mut run = 0;
    for words in &sessions {
        run += check(&bench, &bench.run(words).exits(0));
    }
    for words in ["report 1", "report 1 --full", "report 2 --full", "report list"] {
        run += check(&bench, &bench.run(words).exits(0));
    }
    // A store with a space in its name.
    let words: Vec<&str> = QUICK.split_whitespace().chain(["--store", "other results.db"]).collect();
    run += check(&bench, &bench.run_args(&words).exits(0));
    assert!(run >= 15, "{run} commands");
}

#[test]
fn commands_on_screens_of_programs_run() {
    let bench = Bench::new();
    let base = ["--blocks", "6", "--seed", "1", "--metric", "time:took (.*)"];
    let screens: [&[&str]; 4] = [
        &["tune", "--values", "2,2.01", "--", "sh", "-c", "echo took {value}"],
        &["tune", "--values", "2,3", "--now", "3", "--", "sh", "-c", "echo \"took {value}\""],
        &["ab", "--a", "cmd:echo took 2", "--b", "cmd:echo took $((1 + 1))"],
        // Sides that differ from run to run are not decided.
        &["ab", "--a", "cmd:echo took 1$(date +%N)", "--b", "cmd:echo took 1$(date +%N)"],
    ];
    let mut run = 0;
    for screen in screens {
        let own = screen.iter().position(|word| *word == "--").unwrap_or(screen.len());
        let words: Vec<&str> = screen[..own].iter().chain(&base).chain(&screen[own..]).copied().collect();
        let ran = bench.run_args(&words);
        // A chance of sides that differ at random: some of their sessions decide nothing.
        assert!(matches!(ran.status.code(), Some(0 | 1 | 3)), "{ran}");
        run += check(&bench, &ran);
    }
    assert!(run >= 4, "{run} commands");
}

#[test]
fn commands_after_an_interruption_run() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --profile sum --read-size 4K,64K --write-size 64K \
                 --trial-time 10ms --blocks 3000 --time 60s --seed 1";
    let running = bench.start(words);
    while !bench.store().exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_secs(2));
    let stopped = running.insist("INT");
    assert!(matches!(stopped.status.code(), Some(130)), "{stopped}");
    let printed =
        check(&bench, &stopped) + check(&bench, &bench.run("report 1")) + check(&bench, &bench.run("report list"));
    assert!(printed >= 2, "{stopped}");
}

#[test]
fn commands_of_a_session_with_another_host_run() {
    let bench = Bench::new();
    let (far, place) = agent(&bench, "");
    let words = format!(
        "stream --transport tcp --profile drain --read-size 4K,64K --write-size 64K --key-file key --host {place} {SHORT}"
    );
    let screen = bench.run(&words).exits(0);
    assert!(check(&bench, &screen) >= 1, "{screen}");
    stopped(far);
}

#[test]
fn commands_begin_as_the_program_was_called() {
    let bench = Bench::new();
    bench.run(&format!("{QUICK} --quiet")).exits(0);
    let report = |called: &str| {
        let script = format!("ln -sf \"$BYTEGAUGE\" bytegauge; PATH=${{BYTEGAUGE%/*}}:$PATH; exec {called} report");
        let all = format!(" {called} report 1 --full\n");
        bench.shell(&script).exits(0).prints(&[&all]);
    };
    ["./bytegauge", "bytegauge"].into_iter().for_each(report);
}
