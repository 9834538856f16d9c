//! The output of each stream: formats, help, live lines, and no unrequested escape codes.

use std::collections::BTreeSet;
use std::num::NonZero;

use bytegauge_model::{Workload, factor};
use serde_json::Value;

use crate::bench::{BINARY, Bench, QUICK, possible};
use crate::contract::check_document;
use crate::raw::{name, number};

const ESCAPE: char = '\u{1b}';

#[test]
fn alone_it_names_three_commands() {
    let ran = Bench::new().run("").exits(0);
    let ran = ran.prints(&["bytegauge run buffer-size", "bytegauge stream", "bytegauge report", "bytegauge --help"]);
    assert_eq!(ran.stderr, "");
}

#[test]
fn help_is_complete() {
    let bench = Bench::new();
    bench.run("--help").exits(0).prints(&["stream", "call", "run", "report", "doctor"]);
    let help = bench.run("stream --help").exits(0);
    for row in bytegauge_model::WORKLOADS {
        let help = bench.run(&format!("{} --help", row.name)).exits(0);
        for factor in factor::of(row.value) {
            let shown = [' ', '\n'].iter().any(|end| help.stdout.contains(&format!("--{}{end}", factor.flag())));
            assert!(shown, "{} is missing in {help}", factor.name);
        }
    }
    assert!(!help.stdout.contains("--plant"), "faults are planted by tests, not by users");
    for command in ["run", "report", "report list", "report export", "report import", "completions", "man"] {
        let ran = bench.run(&format!("{command} --help")).exits(0).prints(&["Usage: bytegauge"]);
        assert!(!ran.stdout.contains(ESCAPE), "{ran}");
    }
    assert!(bench.run("--version").exits(0).stdout.starts_with("bytegauge "));
}

#[test]
fn columns_set_the_width_in_pipes() {
    let bench = Bench::new();
    bench.run(QUICK).exits(0);
    let report = |before: &str| bench.shell(&format!("{before} \"$BYTEGAUGE\" report")).exits(0).stdout;
    // Commands are not broken.
    let widest = |text: String| {
        let lines = text.lines().filter(|line| !line.contains("bytegauge "));
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    };
    let [narrow, usual, wide] = ["COLUMNS=50", "", "COLUMNS=200"].map(report).map(widest);
    assert!(narrow < usual && usual < wide, "{narrow} {usual} {wide}");
}

#[test]
fn completions_and_the_manual() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        bench.run(&format!("completions {shell}")).exits(0).prints(&["read-size", "report", "dry-run"]);
    }
    if possible("the syntax of completions", "bash", &["-c", "true"]) {
        bench.shell("\"$BYTEGAUGE\" completions bash > done.bash && bash -n done.bash").exits(0);
    }
    let man = bench.run("man").exits(0).prints(&[
        ".TH bytegauge 1",
        "SUBCOMMANDS",
        "BYTEGAUGE REPORT IMPORT",
        "BYTEGAUGE SERVE",
    ]);
    assert_eq!(man.stdout.matches(".TH ").count(), 1);
    // Screens use the word analysis.
    let reported = man.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in ["first look", "further look", "from look", "its look", "next look"] {
        assert!(!reported.contains(word), "{word}");
    }
    for flag in ["read-size", "server-engine", "json-stream", "map", "output"] {
        assert!(man.stdout.contains(&flag.replace('-', "\\-")), "no --{flag} in the manual");
    }
    // Options that -h leaves out have their help, and names of levels their meaning.
    let plain = man.stdout.replace('\\', "");
    for text in ["Set --server-engine and --client-engine", "recv(2) and send(2) with one buffer", "as rpc, with 1000"]
    {
        assert!(plain.contains(text), "no `{text}` in the manual");
    }
    bench.run("call --help").exits(0).prints(&["Relays (", "uring:multishot ", "many-idle "]);
    assert!(!man.stdout.contains("plant"), "faults are planted by tests, not by users");
}

#[test]
fn the_report_on_a_terminal_that_is_none() {
    let bench = Bench::new();
    // On a busy machine an end may get no CPU in the short trials of other tests.
    let longer = QUICK.replace("--trial-time 5ms", "--trial-time 50ms");
    let ran = bench.run(&longer).exits(0);
    let ran = ran.prints(&["Unix", "Next ", "bytegauge report 1 --full"]);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80 || line.contains("  bytegauge ")), "{ran}");
    let full = bench.run("report --full").exits(0);
    full.prints(&["Unix sockets", " a read", "Bottleneck: ", "harness", "machine", "4K", "64K", "Findings"]);
    bench.run("report --group g1").exits(0).prints(&["Bottleneck: "]);
    let known = Bench::with_known_session();
    known.run("report").exits(0).prints(&["the best (95 %)", "Next "]);
    known.run("report --group g1").exits(0).prints(&["CPU s/GiB", "Bottleneck: "]);
    bench.run("report --group g9").exits(2).complains(&["--group g9", "has g1"]);
    let ran = ran.complains(&["plan stream: 2 options in 1 test", "confirmation: "]);
    assert!(!ran.stdout.contains(ESCAPE) && !ran.stderr.contains(ESCAPE), "{ran}");
    let quiet = bench.run(&format!("{longer} --quiet")).exits(0);
    assert_eq!(quiet.stderr, "", "quiet is quiet");
    for variable in ["NO_COLOR=1", "TERM=dumb"] {
        let ran = bench.shell(&format!("{variable} exec \"$BYTEGAUGE\" report")).exits(0);
        assert!(!ran.stdout.contains(ESCAPE), "{ran}");
    }
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    if !possible("a terminal", "script", &["-qec", "true", "/dev/null"]) {
        return;
    }
    let bench = Bench::new();
    bench.run(&format!("{QUICK} --quiet")).exits(0);
    let on_terminal = |before: &str| {
        let script = format!("{before} script -qec '{BINARY} report' /dev/null");
        bench.shell(&script).exits(0).stdout
    };
    assert!(on_terminal("TERM=xterm-256color").contains("\u{1b}["));
    assert!(!on_terminal("TERM=xterm-256color NO_COLOR=1").contains("\u{1b}["));
    for dumb in ["TERM=dumb", "CI=true TERM=dumb"] {
        assert!(!on_terminal(dumb).contains("\u{1b}["), "{dumb}");
    }
}

#[test]
fn progress_is_drawn_on_terminals_and_cleared() {
    if !possible("a terminal", "script", &["-qec", "true", "/dev/null"]) {
        return;
    }
    let bench = Bench::new();
    let is_progress = |line: &str| ["calibration: ", "confirmation: "].iter().any(|stage| line.starts_with(stage));
    for (columns, rows) in [(80, 24), (40, 5), (20, 3), (200, 50)] {
        let command = format!("stty cols {columns} rows {rows}; exec \\\"$BYTEGAUGE\\\" {QUICK} --store new.db");
        let script = format!("rm -f new.db; TERM=xterm script -qec \"{command}\" /dev/null");
        let ran = bench.shell(&script).exits(0);
        let of = |size: u16| NonZero::new(size).expect("a size");
        let mut terminal = vt100::Parser::new(of(rows), of(columns), 0);
        // Each state of the display ends by erasing what is below it.
        for state in ran.stdout.split_inclusive("\u{1b}[J") {
            terminal.process(state.as_bytes());
            let screen = terminal.screen().contents();
            let progress: Vec<&str> = screen.lines().filter(|line| is_progress(line)).collect();
            assert!(progress.len() <= 1, "{columns}x{rows}: {screen}");
        }
        assert!(ran.stdout.contains("confirmation: "), "{columns}x{rows}: {ran}");
        let last = terminal.screen().contents();
        assert!(!last.lines().any(is_progress), "{columns}x{rows}: {last}");
    }
}

#[test]
fn log_has_no_control_characters() {
    let bench = Bench::new();
    let in_place = |ran: &crate::bench::Ran| ran.stderr.contains('\u{1b}');
    let ran = bench.run(QUICK).exits(0);
    assert!(ran.stderr.contains("session 1 started") && !in_place(&ran), "{ran}");
    let dumb = bench.shell(&format!("TERM=dumb script -qec \"$BYTEGAUGE {QUICK}\" /dev/null")).exits(0);
    assert!(dumb.stdout.contains("session 2 started") && !dumb.stdout.contains('\u{1b}'), "{dumb}");
}

#[test]
fn csv_is_one_row_a_cell() {
    let bench = Bench::new();
    let ran = bench.run(&format!("{QUICK} --format csv")).exits(0);
    let rows = csv(&ran.stdout);
    let column = |heading: &str| {
        rows[0].iter().position(|name| name == heading).unwrap_or_else(|| panic!("no column {heading}"))
    };
    for factor in factor::of(Workload::Stream) {
        column(factor.name);
    }
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    assert_eq!(rows[0].iter().collect::<BTreeSet<_>>().len(), rows[0].len(), "headings are different");
    let document = bench.run("report --format json").exits(0).json();
    let cells = document["cells"].as_array().expect("cells");
    assert_eq!(rows.len() - 1, cells.len());
    for (row, cell) in rows[1..].iter().zip(cells) {
        assert_eq!(row[column("cell")], name(&cell["id"]));
        assert_eq!(row[column("read_size")], number(&cell["factors"]["read_size"]).to_string());
        assert_eq!(row[column("outcome")], name(&cell["outcome"]));
        let rate: f64 = row[column("median_rate")].parse().expect("a rate");
        assert_eq!(Some(rate), cell["estimate"]["median"].as_f64());
    }
}

/// Fields of a CSV table; quoted fields may hold commas, and quotes as two.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(row.is_empty() && field.is_empty() && !quoted, "the last line ends");
    rows
}

#[test]
fn markdown_has_a_table_a_group() {
    let bench = Bench::new();
    let ran = bench.run(&format!("{QUICK} --format markdown")).exits(0);
    let ran = ran.prints(&["# bytegauge: stream, session 1", "## Stream over Unix sockets", "| --- |", "## Machine: "]);
    let table: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with('|')).collect();
    let bars = |line: &str| line.matches('|').count() - line.matches("\\|").count();
    assert!(table.len() >= 4 && table.iter().all(|line| bars(line) == bars(table[0])), "{ran}");
}

#[test]
fn live_lines_end_with_the_report() {
    let bench = Bench::new();
    let ran = bench.run(&format!("{QUICK} --json-stream")).exits(0);
    assert!(ran.stdout.ends_with('\n'));
    let lines = ran.json_lines();
    let event = |line: &Value| name(&line["event"]);
    assert_eq!((event(&lines[0]).as_str(), &lines[0]["session"]), ("session", &1.into()));
    let (last, before) = lines.split_last().expect("lines");
    assert_eq!(event(last), "report");
    check_document(&last["report"]);
    assert!(before.iter().all(|line| ["session", "stage", "trial", "block", "note"].contains(&event(line).as_str())));
    let stages: Vec<String> =
        before.iter().filter(|line| event(line) == "stage").map(|line| name(&line["stage"])).collect();
    assert_eq!(stages, ["calibrate", "confirm"]);
    let trials = before.iter().filter(|line| event(line) == "trial").count();
    assert_eq!(trials, crate::raw::Raw::of(&bench, 1).trials.len());
    assert_eq!(last["report"], bench.run("report --format json").exits(0).json());
}

#[test]
fn progress_never_touches_standard_output() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --profile drain --read-size 64K --write-size 64K --trial-time 20ms --blocks 2 \
                 --time 2s --format json";
    let ran = bench.run(words).exits(0).complains(&["calibration: ", "confirmation: "]);
    check_document(&ran.json());
}

#[test]
fn last_line_of_run_names_its_page() {
    let bench = Bench::new();
    let pages = bench.store().with_extension("pages");
    let kept = || -> BTreeSet<String> {
        let entries = std::fs::read_dir(&pages).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().expect("a name")).collect()
    };
    // Without request, and for programs, there is none.
    bench.run(&format!("{QUICK} --no-page")).exits(0);
    bench.run(&format!("{QUICK} --quiet")).exits(0);
    bench.run(&format!("{QUICK} --json-stream")).exits(0);
    assert!(kept().is_empty(), "{:?}", kept());

    std::fs::create_dir_all(&pages).expect("a folder");
    let write = |name: &str| std::fs::write(pages.join(name), "old").expect("a file");
    // Pages of a removed store, and a file of the user.
    (100..130).for_each(|session| write(&format!("{session}.html")));
    write("notes.txt");
    write("4.html");
    let ran = bench.run(QUICK).exits(0);
    let last = ran.stderr.lines().last().unwrap_or_default();
    let path = last.strip_prefix("page: ").unwrap_or_else(|| panic!("{ran}"));
    assert_eq!(path, std::fs::canonicalize(pages.join("4.html")).expect("the page").display().to_string());
    let page = std::fs::read_to_string(path).expect("the page");
    let documents = bytegauge_report::render::page::documents_in(&page).unwrap_or_default();
    assert!(page.starts_with("<!doctype html>") && documents.contains("\"session\":4"), "{page:.300}");
    let kept = kept();
    assert!(kept.contains("notes.txt") && kept.len() == 21, "{kept:?}");
}

#[test]
fn unwritable_page_costs_nothing_else() {
    let bench = Bench::new();
    // Another user may have made a link in a shared folder.
    std::fs::create_dir(bench.path("elsewhere")).expect("a folder");
    std::os::unix::fs::symlink(bench.path("elsewhere"), bench.path("l.pages")).expect("a link");
    let ran = bench.run(&format!("--store l.db {QUICK}")).exits(0);
    ran.complains(&["note: no page in l.pages/1.html", "it is a link"]);
    assert_eq!(std::fs::read_dir(bench.path("elsewhere")).expect("a folder").count(), 0);
    bench.write("r.pages", "a file where the folder would be");
    let ran = bench.run(&format!("{QUICK} --store r.db --format json")).exits(0);
    let ran = ran.complains(&["note: no page in r.pages/1.html", "report --html"]);
    check_document(&ran.json());
}

#[test]
fn a_title_names_the_size_at_the_peer() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --role reader --profile sum --read-size 4K,64K --trial-time 20ms \
                 --blocks 6 --time 3s --quiet --write-size";
    bench.run(&format!("{words} 16K")).exits(0).prints(&["Read from a Unix socket (peer writes 16 KiB"]);
    let both = ["peer writes 16 KiB", "peer writes 64 KiB"];
    bench.run(&format!("{words} 16K,64K")).exits(0).prints(&both);
}
