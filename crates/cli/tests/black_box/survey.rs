//! The first commands of a new user: a brief survey, and the findings of doctor.

use serde_json::Value;

use crate::bench::Bench;
use crate::raw::Raw;

#[test]
fn survey_runs_built_in_plans() {
    let bench = Bench::new();
    let forecast = bench.run("run survey --dry-run").exits(0);
    forecast.prints(&[
        "buffer-size: which sizes",
        "pipe-sizes: which sizes for pipes",
        "tcp-echo",
        "relay-copy: how to relay a stream",
        "relay-calls: how to relay messages",
        "ring-nop",
        "as `bytegauge run NAME` measures it",
    ]);
    assert!(!bench.store().exists());
    // A part without time is reported, and the rest continues.
    let ran = bench.run("run survey --only udp-echo,buffer-size --time 10s --seed 1 -q").exits(0);
    let ran = ran.prints(&["1/2 buffer-size", "its part of the time is too short", "2/2 udp-echo: ", "(session 1)"]);
    let ran = ran.prints(&["bytegauge report 1 --html survey.html", "bytegauge doctor"]);
    assert!(ran.stdout.lines().count() <= 35, "{ran}");
    // Nothing is cut off where no screen is, and what is to be typed is a line of its own.
    assert!(ran.stdout.lines().all(|line| !line.ends_with('…')), "{ran}");
    let reports = ran.stdout.lines().filter(|line| line.contains(" report 1") && !line.contains(" more: "));
    let reports: Vec<bool> = reports.map(|line| line.matches("bytegauge").count() == 1).collect();
    assert!(reports.len() >= 2 && reports.iter().all(|one| *one), "{ran}");
    assert!(!Raw::of(&bench, 1).confirmed().is_empty());
    bench.run("report").exits(0).prints(&["bytegauge udp-echo"]);
}

#[test]
fn a_survey_of_nothing_is_refused() {
    let bench = Bench::new();
    let ran = bench.run("run survey --only buffer-size --time 1s -q").exits(2);
    ran.complains(&["nothing of the survey can be measured: buffer-size: its part of the time is too short"]);
    bench
        .run("run survey --only buffer-sise")
        .exits(2)
        .complains(&["`buffer-sise` is not a part of the survey: use buffer-size, "]);
}

#[test]
fn a_survey_has_few_options() {
    let bench = Bench::new();
    bench.run("run survey --transport tcp").exits(2).complains(&["--transport does not work with run survey"]);
    bench.run("run survey --full").exits(2).complains(&["--full does not work"]);
    bench.run("run buffer-size --only tcp-echo").exits(2).complains(&["--only names plans of `bytegauge run survey`"]);
}

#[test]
fn doctor_shows_fixes() {
    let bench = Bench::new();
    let text = bench
        .run("doctor")
        .exits(0)
        .prints(&["bytegauge doctor · Linux", "governor", "open files", "buffers", "page + 16"])
        .stdout;
    assert!(text.lines().count() <= 35, "{text}");
    let found = bench.run("doctor --time 200ms --format json").exits(0).json();
    for symptom in found.as_array().expect("symptoms") {
        let is_bad = symptom["state"] == "fix";
        let has_advice = symptom["found"].as_str().is_some_and(|found| found.contains("the owner of the host"));
        assert_eq!(symptom.get("command").is_some_and(Value::is_string) || has_advice, is_bad, "{symptom}");
    }
    assert!(found.to_string().contains("in these 200 ms"), "{found}");
    bench.run("doctor --time 1ms").exits(2).complains(&["--time: 1 ms is out of range", "such as 10s"]);
}

#[test]
fn help_lists_what_means_something_there() {
    let bench = Bench::new();
    for command in ["tune", "ab"] {
        let help = bench.run(&format!("{command} --help")).exits(0).stdout;
        for flag in ["--verify", "--ends", "--long-trials", "--fit-max"] {
            assert!(!help.contains(flag), "{command}: {flag}");
        }
        assert!(help.contains("--metric") && help.contains("--time"));
    }
}
