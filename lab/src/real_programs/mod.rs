//! `cargo lab real-programs`: do bytegauge's recommendations hold in widely used programs?
//!
//! For each program of [`cases`] a session of `bytegauge stream` runs the matching test, and a session of `bytegauge tune` tries the
//! program with the recommendation among all other sizes, in random order within blocks. This module measures and judges nothing: both
//! sessions are the product's, and the table contains the results of their documents. A measured case is kept in a file, so the table
//! can be made in portions.

mod cases;
mod table;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};
use xtask::cargo;

use crate::peers::programs;
use cases::{CASES, ProgramCase, VALUES};

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
        .arg(
            Arg::new("case")
                .value_name("CASE")
                .num_args(0..)
                .value_parser(names)
                .help("Cases to measure again [default: all that were not measured yet]"),
        )
        .arg(time("question", "20s", "Budget of a test"))
        .arg(time("budget", "40s", "Budget of a program"))
}

/// Measures the cases and prints the table of all that were measured so far.
///
/// # Errors
/// When bytegauge or a peer cannot be built, or a result cannot be kept. Failed cases are listed.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let named: Vec<&String> = matches.get_many("case").into_iter().flatten().collect();
    let time = |name: &str| matches.get_one::<String>(name).cloned().with_context(|| format!("--{name} has a default"));
    let kept = cargo::workspace()?.target_directory.join("real-programs");
    fs::create_dir_all(&kept).with_context(|| format!("making {}", kept.display()))?;
    let bench = ProgramTests::new(time("question")?, time("budget")?)?;
    let (mut measured, mut missing) = (Vec::new(), Vec::new());
    for case in CASES {
        let file = kept.join(case.name).with_extension("json");
        let is_named = named.iter().any(|name| *name == case.name);
        if is_named || named.is_empty() && !file.exists() {
            eprintln!("{}: {}", case.name, case.setting);
            // The other cases do not depend on it.
            match bench.measured(case) {
                Ok(found) => fs::write(&file, found.to_string()).context("keeping what was measured")?,
                Err(error) => missing.push(format!("{}: {error:#}", case.name)),
            }
        }
        measured.extend(programs::kept(&file)?.map(|documents: Value| (case, documents)));
    }
    println!("{}", table::text(&measured, &missing));
    Ok(())
}

/// Where the cases run: the product, its store, files that programs read, and the peers.
struct ProgramTests {
    program: PathBuf,
    question_time: String,
    program_time: String,
    folder: tempfile::TempDir,
    ends: PathBuf,
}

impl ProgramTests {
    fn new(question_time: String, program_time: String) -> Result<ProgramTests> {
        let folder = tempfile::tempdir().context("making a temporary folder: check TMPDIR")?;
        let files = folder.path().join("files");
        fs::create_dir(&files).context("making a folder to serve files from")?;
        // A sparse file: read from the page cache, without disk blocks.
        fs::File::create(files.join("zeros")).and_then(|file| file.set_len(FILE_BYTES)).context("making a file")?;
        let (program, ends) = (cargo::release_build()?, programs::built_in_c("stream_ends", &[])?);
        Ok(ProgramTests { program, question_time, program_time, folder, ends })
    }

    /// The documents of both sessions: of the test and of the program.
    fn measured(&self, case: &ProgramCase) -> Result<Value> {
        let fill = self.fill(case)?;
        let placement: Vec<&str> =
            if case.placement.is_empty() { Vec::new() } else { vec!["--placement", case.placement] };
        let test = fill(case.test);
        let mut question = vec!["stream", "--time", &self.question_time];
        question.extend(test.split(' '));
        if !placement.is_empty() {
            question.extend(["--ends", "processes"]);
        }
        let question = self.document(&[question, placement.clone()].concat())?;
        let session = question["session"].as_i64().context("the question has no session")?.to_string();
        let (start, load) = (case.start.map(|(start, ready)| [fill(start), fill(ready)]), fill(case.load));
        let mut check = vec!["tune", "--values", VALUES, "--now", case.default, "--metric", case.metric];
        check.extend(["--time", &self.program_time, "--recommendation", &session]);
        if let Some([start, ready]) = &start {
            check.extend(["--start", start, "--ready", ready]);
        }
        check.extend(["--load", &load]);
        Ok(json!({"question": question, "check": self.document(&[check, placement].concat())?}))
    }

    /// Replaces the words in braces of a case's texts, and makes the files that it needs.
    fn fill(&self, case: &ProgramCase) -> Result<impl Fn(&str) -> String> {
        let program = cargo::on_path(case.program())?;
        // Ports that have no listener now.
        let mut free =
            PORTS.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).map(|port| port.to_string());
        let (port, back) = free.next().zip(free.next()).context("no port is free")?;
        let sources = programs::source();
        for name in ["haproxy.cfg", "nginx.conf", "nginx-stream.conf"] {
            let text = fs::read_to_string(sources.join("conf").join(name)).with_context(|| name)?;
            let text = text.replace("@PORT@", &port).replace("@BACK@", &back);
            fs::write(self.folder.path().join(name), text).with_context(|| name)?;
        }
        let go = if case.load.contains("{go}") { programs::built_go_sink()? } else { PathBuf::new() };
        let path = |path: &Path| path.display().to_string();
        let words = [
            ("{sizes}", VALUES.to_owned()),
            ("{port}", port),
            ("{back}", back),
            ("{dir}", path(self.folder.path())),
            ("{ends}", path(&self.ends)),
            ("{go}", path(&go)),
            ("{sinks}", path(&sources.join("sinks"))),
            ("{sources}", path(&sources.join("sources"))),
            ("{program}", path(&program)),
            ("{zeros}", "dd if=/dev/zero bs=64K count=2048 status=none".to_owned()),
            ("{drain}", "dd of=/dev/null bs=64K status=none".to_owned()),
        ];
        Ok(move |text: &str| words.iter().fold(text.to_owned(), |text, (word, with)| text.replace(word, with)))
    }

    /// The document of a session.
    fn document(&self, args: &[&str]) -> Result<Value> {
        let mut command = Process::new(&self.program);
        command.args(args).args(["--quiet", "--format", "json", "--store"]).arg(self.folder.path().join("results.db"));
        let output = command.output().context("running bytegauge")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "bytegauge {}: {}: {}", args.join(" "), output.status, complaint.trim());
        serde_json::from_slice(&output.stdout).context("reading bytegauge's JSON")
    }
}
