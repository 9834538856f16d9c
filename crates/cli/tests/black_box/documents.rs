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
    let mut paths = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root().join(name)).to_vec();
    for folder in ["docs", "docs/development", "docs/research"] {
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

/// The targets of the links of a document within the repository: a path, and an anchor if there is one.
fn links(document: &str) -> Vec<(&str, &str)> {
    let targets = document.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let is_local = |target: &&str| !target.contains([' ', '{']) && !target.starts_with("http");
    targets.filter(is_local).map(|target| target.split_once('#').unwrap_or((target, ""))).collect()
}

/// The anchors of a document's headings, as forges make them.
fn anchors(document: &str) -> Vec<String> {
    let headings =
        document.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: char| letter.is_alphanumeric() || "-_ ".contains(letter);
    headings
        .map(|text| text.to_lowercase().chars().filter(|letter| kept(*letter)).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn links_lead_to_headings_that_exist() {
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for (target, anchor) in links(&text) {
            let file = if target.is_empty() { path.clone() } else { path.parent().unwrap().join(target) };
            assert!(file.exists(), "{}: {target} does not exist", path.display());
            if !anchor.is_empty() {
                let found = anchors(&fs::read_to_string(&file).unwrap());
                assert!(found.iter().any(|one| one == anchor), "{}: {target}#{anchor}", path.display());
            }
        }
    }
}

/// The words of the documents of a folder.
fn words_in(folder: &str) -> usize {
    let folder = root().join(folder);
    let pages = documents().into_iter().filter(|path| path.parent() == Some(&folder));
    // A generated table of the product is as long as the product.
    let pages = pages.filter(|path| !path.ends_with("docs/factors.md"));
    // The bars of tables are no words.
    pages.map(|path| fs::read_to_string(path).unwrap().replace('|', " ").split_whitespace().count()).sum()
}

#[test]
fn documents_stay_short() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 120, "README.md has {} lines", readme.lines().count());
    let users = words_in("docs") + readme.replace('|', " ").split_whitespace().count();
    assert!(users <= 13_000, "{users} words for users: link instead of repeating, or move evidence to docs/research");
    let research = words_in("docs/research");
    assert!(research <= 12_000, "{research} words in docs/research: keep what is evidence of a claim that is made");
}
