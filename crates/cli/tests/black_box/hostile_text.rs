//! Text from outside that tries to act on the terminal, in all that the program prints.

use std::sync::LazyLock;

use bytegauge_model::escape;
use proptest::prelude::*;
use serde_json::Value;

use crate::bench::{BINARY, Bench, QUICK, json_lines, possible};

/// A title, a colour, a bell, a C1 sequence, a reordering, a line separator.
const HOSTILE: &str = "\u{1b}]0;pwned\u{7}\u{1b}[31mEVIL\u{9b}1m\u{202e}\u{2028}";

/// Every output of stored results.
const OUTPUTS: [&str; 10] = [
    "report",
    "report --full",
    "report --format json",
    "report --format csv",
    "report --format markdown",
    "report --format junit",
    "report --format go-bench",
    "report list",
    "report export",
    "report export --format csv",
];

/// A bench with a session under a hostile name.
fn imported() -> Bench {
    let bench = Bench::new();
    bench.run(&format!("--store other.db {QUICK} --quiet")).exits(0);
    bench.run("--store other.db report export --output exported.jsonl").exits(0);
    let imported = bench.run_args(&["report", "import", "exported.jsonl", "--name", HOSTILE]).exits(0);
    check(&imported.stdout, &imported.words);
    bench
}

#[track_caller]
fn check(text: &str, words: &str) {
    // A terminal driver puts a return before each newline.
    let text = text.replace("\r\n", "\n");
    let raw = text.chars().find(|c| escape::is_hidden(*c) && *c != '\n');
    assert_eq!(raw, None, "{words}: {text:?}");
}

#[test]
fn stored_names_are_escaped_in_every_format() {
    let bench = imported();
    for words in OUTPUTS {
        let ran = bench.run(words).exits(0);
        check(&ran.stdout, words);
        check(&ran.stderr, words);
        assert!(!words.starts_with("report --full") || ran.stdout.contains("\\u{1b}[31mEVIL"), "{ran}");
    }
}

#[test]
fn stored_names_are_escaped_on_terminals() {
    if !possible("a terminal", "script", &["-qec", "true", "/dev/null"]) {
        return;
    }
    let bench = imported();
    for words in ["report", "report --full", "report list", "report 7", "report export --format csv"] {
        let ran = bench.shell(&format!("TERM=xterm-256color script -qec '{BINARY} {words}' /dev/null"));
        check(&ran.stdout, words);
    }
}

#[test]
fn wrong_words_are_escaped_in_messages() {
    let bench = Bench::new();
    let path = format!("{HOSTILE}.toml");
    for arguments in [
        vec!["run", &path],
        vec!["run", HOSTILE],
        vec![HOSTILE],
        vec!["report", "--format", HOSTILE],
        vec!["stream", "--read-size", HOSTILE],
        vec!["--store", HOSTILE, "report"],
        vec!["report", "import", HOSTILE],
        vec!["report", "compare", HOSTILE, "1"],
        vec!["observe", "--", HOSTILE],
        vec!["agent", "--listen", "127.0.0.1:0", "--key-file", HOSTILE],
    ] {
        let ran = bench.run_args(&arguments);
        assert_ne!(ran.status.code(), Some(0), "{ran}");
        check(&ran.stderr, &arguments.join(" "));
        check(&ran.stdout, &arguments.join(" "));
    }
}

#[test]
fn printed_words_of_programs_are_escaped() {
    let bench = Bench::new();
    bench.write("fails", "printf '\\033]0;pwned\\007\\033[31m\\302\\2331m\\342\\200\\256' >&2; exit 3\n");
    let ran = bench.run("tune --values 1,2 --time 2s -- sh fails {value}");
    check(&ran.stderr, "check");
    check(&ran.stdout, "check");
    for words in ["report --full", "report --format json", "report export --format csv"] {
        let ran = bench.run(words);
        check(&ran.stdout, words);
    }
}

/// The export of a session about three values of a program, called `name0` to `name2`.
static EXPORT: LazyLock<String> = LazyLock::new(|| {
    let bench = Bench::new();
    bench.run("tune --values name0,name1,name2 --blocks 4 --time 5s --quiet -- true {value}").exits(0);
    bench.run("report export").exits(0).stdout
});

/// Replaces the names of values in a document.
fn rename(document: &mut Value, names: &[String]) {
    match document {
        Value::String(text) => {
            for (at, name) in names.iter().enumerate() {
                *text = text.replace(&format!("name{at}"), name);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, names)),
        _ => {}
    }
}

proptest! {
    // Each case starts the program fourteen times.
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Names of any characters, of any width: no renderer panics, and none prints a character that a reader cannot see.
    #[test]
    fn any_names_are_shown_in_every_format(names in prop::collection::vec(any::<String>(), 3), long in 0usize..400) {
        let bench = Bench::new();
        let wide = "é読\u{301}".repeat(long);
        let names: Vec<String> = names.iter().enumerate().map(|(at, name)| format!("{at} {name} {wide}")).collect();
        let mut lines = json_lines(&EXPORT);
        lines.iter_mut().for_each(|line| rename(line, &names));
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        bench.write("results.jsonl", &lines.join("\n"));
        for words in ["report import results.jsonl"].into_iter().chain(OUTPUTS) {
            let ran = bench.run(words).exits(0);
            check(&ran.stdout, &ran.words);
            check(&ran.stderr, &ran.words);
        }
        bench.run("report --html page.html").exits(0);
    }
}
