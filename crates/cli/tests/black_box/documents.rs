//! The commands in the documents: every flag exists, and every plan can be made.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bench::Bench;

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents that show commands to users, by path.
fn documents() -> Vec<PathBuf> {
    let mut paths = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/research", "docs/research/case-studies"] {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    paths.sort();
    paths
}

/// The arguments of each `bytegauge` command in the blocks of code of a document.
fn commands(document: &str) -> Vec<Vec<String>> {
    let blocks = document.split("```").skip(1).step_by(2);
    let joined = blocks.map(|block| block.replace("\\\n", " ")).collect::<Vec<_>>().join("\n");
    let lines = joined.lines().map(|line| line.trim_start().trim_start_matches("$ "));
    let commands = lines.filter_map(|line| line.strip_prefix("bytegauge "));
    // A screen begins with the name of the program too, and separates its parts by `·`.
    commands.filter(|line| !line.contains(['…', '·'])).map(words).collect()
}

/// The words of a command, up to a pipe, a redirection or the next command of the shell.
fn words(line: &str) -> Vec<String> {
    let line = line.replace("$(pgrep -o nginx)", "1").replace("$!", "1").replace("$PWD", ".");
    let ends = |word: &String| ["|", "&", "&&", ">", "<"].contains(&word.as_str());
    let mut words = shlex::split(&line).unwrap_or_else(|| panic!("quotes: {line}"));
    if let Some(end) = words.iter().position(ends) {
        words.truncate(end);
    }
    if let Some(last) = words.iter().position(|word| word.ends_with(';')) {
        words.truncate(last + 1);
        words[last].pop();
    }
    words
}

/// A command with its place, for a message.
fn each_command(mut check: impl FnMut(&str, &[String])) {
    let mut count = 0;
    for path in documents() {
        for words in commands(&fs::read_to_string(&path).unwrap()) {
            let place = format!("{}: bytegauge {}", path.file_name().unwrap().display(), words.join(" "));
            check(&place, &words);
            count += 1;
        }
    }
    assert!(count > 100, "{count} commands were found");
}

#[test]
fn documented_flags_exist() {
    let bench = Bench::new();
    each_command(|place, words| {
        // The command's own words end where those of a program begin. Words before `--help` are checked first.
        let own = words.iter().take_while(|word| *word != "--").map(String::as_str);
        let arguments: Vec<&str> = own.chain(["--help"]).collect();
        let ran = bench.run_args(&arguments);
        assert!(ran.status.success(), "{place}\n{ran}");
    });
}

#[test]
fn documented_plans_can_be_made() {
    let bench = Bench::new();
    bench.run("agent --init --key-file bytegauge.key").exits(0);
    bench.write("data.bin", "some bytes");
    let measuring = ["stream", "call", "relay", "ring", "run"];
    // These need a session, a server or a file that only their reader has.
    let others = ["--resume", "--against", "--flamegraph", "addr:", "PLAN.toml", "{config:"];
    each_command(|place, words| {
        let is_plan = measuring.contains(&words[0].as_str());
        if !is_plan || words.iter().any(|word| others.iter().any(|other| word.contains(other))) {
            return;
        }
        let words = words.iter().map(String::as_str).filter(|word| *word != "--dry-run");
        let arguments: Vec<&str> = words.chain(["--dry-run"]).collect();
        let ran = bench.run_args(&arguments);
        assert!(ran.status.code() != Some(2), "{place}\n{ran}");
    });
}
