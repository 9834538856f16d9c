//! Flame graphs of relays: from their own trials with a script instead of perf, and the reasons without a graph.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::bench::{BINARY, Bench, Ran, Running};
use crate::raw::Raw;

const WORDS: &str = "stream --transport tcp --profile drain --read-size 64K --write-size 64K --trial-time 100ms --blocks 1 --analyses 1 \
                     --time 3s --seed 1 --quiet --full --relay direct,read-write,splice --flamegraph flames";

/// Begins a command as perf does, when it samples; and writes down how many trials were stored by then.
const PERF: &str = r#"#!/bin/sh
case "$1" in
record)
    case "$*" in
    *tried*) ;;
    *) "$BYTEGAUGE" report export 1 | grep -c '"kind":"trial"' >> "$0.counts" ;;
    esac
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@" ;;
script)
    cat <<'END'
relay  4711  1234.567890:    1003009 cpu-clock:pppH: 
	ffffffff81a2b3c4 tcp_splice_read+0x54 ([kernel.kallsyms])
	    7f2a9c11e2aa splice+0x1a (/usr/lib/x86_64-linux-gnu/libc.so.6)

END
    ;;
esac
"#;

/// Runs the binary with a perf of the test's before all others, or with nothing else.
fn run(bench: &Bench, perf: Option<&str>, words: &str) -> Ran {
    start(bench, perf, words).wait()
}

fn start(bench: &Bench, perf: Option<&str>, words: &str) -> Running {
    let folder = bench.path("programs");
    fs::create_dir_all(&folder).unwrap();
    let mut path = vec![folder.clone()];
    if let Some(script) = perf {
        fs::write(folder.join("perf"), script).unwrap();
        fs::set_permissions(folder.join("perf"), fs::Permissions::from_mode(0o755)).unwrap();
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    }
    let mut command = Command::new(BINARY);
    command.args(words.split_whitespace()).env("PATH", env::join_paths(path).unwrap());
    bench.spawn(command, words.to_owned())
}

fn drawn(bench: &Bench, ending: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(bench.path("flames")).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

#[test]
fn each_measured_relay_is_drawn() {
    let bench = Bench::new();
    let ran = run(&bench, Some(PERF), WORDS).exits(0);
    let (pictures, stacks) = (drawn(&bench, "svg"), drawn(&bench, "folded"));
    assert!(!pictures.is_empty() && pictures.len() == stacks.len(), "{pictures:?} {stacks:?} {ran}");
    for picture in &pictures {
        assert!(ran.stderr.contains(&picture.file_name().unwrap().display().to_string()), "{ran}");
        let text = fs::read_to_string(picture).unwrap();
        assert!(text.contains("<svg") && text.contains("tcp_splice_read"), "{text}");
    }
    let folded = fs::read_to_string(&stacks[0]).unwrap();
    assert_eq!(folded, "relay;splice;tcp_splice_read 1003009\n");
    // Nothing else is left there, and nothing was added to what is judged.
    assert_eq!(fs::read_dir(bench.path("flames")).unwrap().count(), 2 * pictures.len());
    let stored = Raw::of(&bench, 1).trials.len();
    let counts = fs::read_to_string(bench.path("programs/perf.counts")).unwrap();
    assert!(counts.lines().all(|count| count == stored.to_string()), "{stored}: {counts}");
}

#[test]
fn where_perf_cannot_sample_the_session_goes_on() {
    let check = |perf: Option<&str>, expected: &[&str]| {
        let bench = Bench::new();
        let ran = run(&bench, perf, WORDS).exits(0).complains(expected);
        assert!(ran.stderr.contains("the session continues without"), "{ran}");
        assert_eq!(drawn(&bench, "svg"), Vec::<PathBuf>::new());
        assert!(!Raw::of(&bench, 1).trials.is_empty());
    };
    check(None, &["perf is not installed", "linux-perf"]);
    check(
        Some("#!/bin/sh\necho 'Access to performance monitoring is limited: perf_event_paranoid' >&2; exit 255\n"),
        &["perf may not sample here", "run as root", "kernel.perf_event_paranoid=1"],
    );
    check(Some("#!/bin/sh\necho 'bad news' >&2; exit 1\n"), &["bad news"]);
}

#[test]
fn endless_perf_ends_with_the_session() {
    let bench = Bench::new();
    let slow =
        PERF.split("script)").next().unwrap().to_owned() + "script) touch \"$0.reads\"; exec sleep 600 ;;\nesac\n";
    let mut running = start(&bench, Some(&slow), WORDS);
    running.until("perf reads", |_| bench.path("programs/perf.reads").exists());
    running.signal("INT");
    // Long before its own time limit; the measured trials are reported.
    running.wait().exits(0).complains(&["it was interrupted"]);
    assert_eq!(fs::read_dir(bench.path("flames")).unwrap().count(), 0);
}

#[test]
fn relay_without_a_graph_is_reported() {
    let bench = Bench::new();
    let silent = PERF.split("script)").next().unwrap().to_owned() + "script) ;;\nesac\n";
    run(&bench, Some(&silent), WORDS).exits(0).complains(&["no flame graph of", "it has no samples"]);
    assert_eq!(drawn(&bench, "svg"), Vec::<PathBuf>::new());
}

#[test]
fn wrong_words_name_the_next_step() {
    let check = |words: &str, expected: &[&str]| {
        let bench = Bench::new();
        bench.run(words).exits(2).complains(expected);
        assert!(!bench.path("data").exists());
    };
    check("stream --transport unix --flamegraph flames", &["--flamegraph has no effect without --relay METHOD"]);
    check("stream --transport tcp --relay direct --flamegraph flames", &["--flamegraph has no effect without"]);
    check("run relay-copy --flamegraph /dev/null/flames", &["--flamegraph /dev/null/flames", "use a folder"]);
    check(
        "call --profile echo --relay direct,splice --relay-host 127.0.0.1:1 --flamegraph flames --dry-run",
        &["relays on this host only", "--relay-host", "leave one of them out"],
    );
}
