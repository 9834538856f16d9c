//! Output for other programs, read by these programs where they are installed.

use crate::bench::{Bench, possible};

/// A session of two values, of which nothing but what is printed decides.
fn session(bench: &Bench) {
    let words = ["tune", "--blocks", "6", "--analyses", "1", "--seed", "1", "--values", "1,2", "--quiet", "--metric"];
    let words: Vec<&str> = words.into_iter().chain(["time:took (.*)", "--", "echo", "took", "{value}"]).collect();
    bench.run_args(&words).exits(0);
}

#[test]
fn benchstat_reads_our_lines() {
    let why = "install it with `go install golang.org/x/perf/cmd/benchstat@latest`";
    if !possible(why, "benchstat", &["-h"]) {
        return;
    }
    let bench = Bench::new();
    session(&bench);
    let lines = bench.run("report --format go-bench").exits(0).stdout;
    let (base, head) = (bench.write("base.txt", &lines), bench.write("head.txt", &lines));
    let read = bench.shell(&format!("benchstat {base} {head}")).exits(0);
    read.prints(&["Check/value=1", "Check/value=2", "sec/op", "cpu-sec/op", "vs base"]);
}
