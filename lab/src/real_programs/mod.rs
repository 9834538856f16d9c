//! `cargo lab real-programs`: do bytegauge's recommendations hold in widely used programs?
//!
//! For each program of [`cases`] a session of `bytegauge stream` runs the matching test, and a session of `bytegauge
//! check` tries the program with the recommendation among all other sizes, in random order within blocks. This module
//! measures and judges nothing: both sessions are the product's, and the table contains the results of their documents. A
//! measured case is kept in a file, so the table can be made in portions.

mod cases;
mod table;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use crate::peers::programs;
use cases::{CASES, ProgramCase, VALUES};
use xtask::{cargo, setup};

/// Bytes of the file that is served.
const FILE_BYTES: u64 = 64 << 20;

/// Range for free ports: below the kernel's ephemeral ports, which another socket might use by the time that a server
/// binds it.
const PORTS: std::ops::Range<u16> = 21_000..30_000;

/// `cargo lab real-programs`.
pub fn command() -> Command {
    let names = CASES.iter().map(|case| case.name).collect::<Vec<_>>();
    let time = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("TIME").default_value(default).help(help)
    };
    Command::new("real-programs")
        .about("Try recommendations in dd, socat, nginx and others, as in docs/research/verification.md")
        .arg(Arg::new("case").value_name("CASE").num_args(0..).value_parser(names).help("Cases, instead of all"))
        .arg(time("question", "20s", "Budget of a test"))
        .arg(time("budget", "40s", "Budget of a program"))
        .arg(
            Arg::new("resume")
                .long("resume")
                .action(ArgAction::SetTrue)
                .help("Leave out cases that were measured before"),
        )
        .arg(
            Arg::new("report-only")
                .long("report-only")
                .action(ArgAction::SetTrue)
                .help("Measure nothing, make the table of what was measured"),
        )
}

/// Measures the cases and prints their table.
///
/// # Errors
/// When bytegauge or a peer cannot be built, or a result cannot be kept. Failed cases are listed.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let asked: Vec<&String> = matches.get_many("case").into_iter().flatten().collect();
    let time = |name: &str| matches.get_one::<String>(name).with_context(|| format!("--{name} has a default"));
    let target = cargo::workspace()?.target_directory;
    let kept = KeptCases(target.join("real-programs"));
    fs::create_dir_all(&kept.0).with_context(|| format!("making {}", kept.0.display()))?;
    let mut missing = Vec::new();
    if !matches.get_flag("report-only") {
        let program = cargo::release_build()?;
        programs::prepare_c().map_err(anyhow::Error::msg)?;
        let bench = ProgramTests::new(program, [time("question")?, time("budget")?])?;
        for case in CASES.iter().filter(|case| asked.is_empty() || asked.iter().any(|name| *name == case.name)) {
            if matches.get_flag("resume") && kept.file(case).exists() {
                continue;
            }
            match setup::on_path(case.program, case.package) {
                Ok(program) => {
                    eprintln!("{}: {}", case.name, case.setting);
                    match bench.measured(case, &program) {
                        Ok(measured) => write_whole(&kept.file(case), &measured)?,
                        // The other cases do not depend on it.
                        Err(error) => {
                            eprintln!("{}: failed: {error:#}", case.name);
                            missing.push(format!("{} failed", case.name));
                        }
                    }
                }
                Err(reason) => {
                    println!("{}: skipped: {reason}", case.name);
                    missing.push(reason);
                }
            }
        }
    }
    println!("{}", table::text(&kept.all()?, &missing));
    Ok(())
}

/// Results of measured cases. A file that exists is complete.
struct KeptCases(PathBuf);

impl KeptCases {
    fn file(&self, case: &ProgramCase) -> PathBuf {
        self.0.join(format!("{}.json", case.name))
    }

    /// The cases that were measured, in the order of the list.
    fn all(&self) -> Result<Vec<(&'static ProgramCase, Value)>> {
        let there = CASES.iter().filter(|case| self.file(case).exists());
        there.map(|case| Ok((case, read(&self.file(case))?))).collect()
    }
}

/// Writes a file that is complete if it exists.
fn write_whole(file: &Path, document: &Value) -> Result<()> {
    let unfinished = file.with_extension("part");
    fs::write(&unfinished, document.to_string()).context("keeping what was measured")?;
    fs::rename(&unfinished, file).context("keeping what was measured")
}

fn read(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: remove it", file.display()))
}

/// Where the cases run: the product, its store, files that programs read, and the peers.
struct ProgramTests {
    program: PathBuf,
    budgets: [String; 2],
    folder: tempfile::TempDir,
    ends: PathBuf,
}

impl ProgramTests {
    fn new(program: PathBuf, budgets: [&String; 2]) -> Result<ProgramTests> {
        let folder = tempfile::tempdir().context("making a temporary folder: check TMPDIR")?;
        let files = folder.path().join("files");
        fs::create_dir(&files).context("making a folder to serve files from")?;
        // A sparse file: read from the page cache, without disk blocks.
        fs::File::create(files.join("zeros")).and_then(|file| file.set_len(FILE_BYTES)).context("making a file")?;
        Ok(ProgramTests { program, budgets: budgets.map(Clone::clone), folder, ends: programs::STREAM_ENDS.built()? })
    }

    /// The documents of both sessions: of the test and of the program.
    fn measured(&self, case: &ProgramCase, program: &Path) -> Result<Value> {
        let filled = self.fill(case, program)?;
        let [for_question, for_program] = &self.budgets;
        let mut check = words(&["tune", "--values", VALUES, "--now", case.default, "--metric", case.metric]);
        check.extend(words(&["--time", for_program]));
        if let Some(placement) = case.placement {
            check.extend(words(&["--placement", placement]));
        }
        let question = self.document(&case.question_words(for_question))?;
        let session = question["session"].as_i64().context("the question has no session")?.to_string();
        check.extend(words(&["--recommendation", &session]));
        if let Some((start, ready)) = case.start {
            check.extend(["--start".to_owned(), filled(start), "--ready".to_owned(), filled(ready)]);
        }
        check.extend(["--load".to_owned(), filled(case.load)]);
        Ok(json!({"question": question, "check": self.document(&check)?}))
    }

    /// Replaces ports and files in a text, and makes the files that a case needs.
    fn fill(&self, case: &ProgramCase, program: &Path) -> Result<impl Fn(&str) -> String> {
        let mut free = free_ports();
        let mut port = || free.next().context("no port is free").map(|port| port.to_string());
        let sources = programs::source();
        let dir = self.folder.path().display().to_string();
        let mut places = vec![
            ("{port}", port()?),
            ("{back}", port()?),
            ("{dir}", dir),
            ("{ends}", self.ends.display().to_string()),
            ("{sinks}", sources.join("sinks").display().to_string()),
            ("{sources}", sources.join("sources").display().to_string()),
            ("{program}", program.display().to_string()),
        ];
        if case.load.contains("{go}") {
            places.push(("{go}", programs::built_go_sink()?.display().to_string()));
        }
        for name in ["haproxy.cfg", "nginx.conf", "nginx-stream.conf"] {
            let text = fs::read_to_string(sources.join("conf").join(name)).with_context(|| name)?;
            let text = text.replace("@PORT@", &places[0].1).replace("@BACK@", &places[1].1);
            fs::write(self.folder.path().join(name), text).with_context(|| name)?;
        }
        Ok(move |text: &str| places.iter().fold(text.to_owned(), |text, (name, place)| text.replace(name, place)))
    }

    fn document(&self, args: &[String]) -> Result<Value> {
        document(&self.program, self.folder.path(), args)
    }
}

impl ProgramCase {
    /// The command line of its question.
    fn question_words(&self, time: &str) -> Vec<String> {
        let mut ask = words(&["stream", "--time", time]);
        ask.extend(words(self.question));
        if let Some(placement) = self.placement {
            ask.extend(words(&["--ends", "processes", "--placement", placement]));
        }
        ask
    }
}

/// The document of a session, which is stored in `folder`.
fn document(program: &Path, folder: &Path, args: &[String]) -> Result<Value> {
    let mut command = Process::new(program);
    command.args(args).args(["--quiet", "--format", "json", "--store"]).arg(folder.join("results.db"));
    let output = command.output().context("running bytegauge")?;
    ensure!(
        output.status.success(),
        "bytegauge {}: {}: {}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("reading bytegauge's JSON")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Ports that have no listener now.
fn free_ports() -> impl Iterator<Item = u16> {
    PORTS.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}
