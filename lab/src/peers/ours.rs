//! Runs of bytegauge itself, as a user starts it.
//!
//! Reads its JSON and its raw trials, nothing else. Results go to a store of their own, which is thrown away.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use bytegauge_model::{Cell, CellId, CellKind, Outcome, Stage, Trial};
use bytegauge_stats::quantile::median;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use super::programs;

/// The program, and where its results go meanwhile.
pub struct Ours {
    program: PathBuf,
    folder: TempDir,
}

/// The raw trials of a session.
pub struct SessionTrials {
    cells: BTreeMap<CellId, Cell>,
    /// Reasons of cells that were never tried.
    outcomes: Vec<Outcome>,
    trials: Vec<Trial>,
}

impl Ours {
    /// A program with an empty store.
    ///
    /// # Errors
    /// When there is no room for temporary files.
    pub fn new(program: PathBuf) -> Result<Ours> {
        let folder = tempfile::tempdir().context("making a temporary folder: check TMPDIR")?;
        Ok(Ours { program, folder })
    }

    /// The program's file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A file of this name next to its store.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The comparison of a session of two, or why it could not compare them.
    ///
    /// # Errors
    /// The program's own error output, if no session began.
    pub fn versus(&self, args: &[&str]) -> Result<Value> {
        let args: Vec<&str> = ["ab"].iter().chain(args).copied().collect();
        let output = self.run(&args, None)?;
        // Its exit code contains the result as well; the document contains all of it.
        let document: Value = serde_json::from_slice(&output.stdout).with_context(|| complaint(&args, &output))?;
        ensure!(document["versus"].is_object(), "{}", complaint(&args, &output));
        Ok(document["versus"].clone())
    }

    /// Measures, on one CPU if that is given, and returns the raw trials, whether all of them went well or not.
    ///
    /// # Errors
    /// The program's own error output.
    pub fn session<S: AsRef<OsStr>>(&self, args: &[S], cpu: Option<usize>) -> Result<SessionTrials> {
        // Results of an earlier run would be read if this run never began.
        let _ = fs::remove_file(self.store());
        let output = self.run(args, cpu)?;
        let stored = self.stored(&["report", "export"]).with_context(|| complaint(args, &output))?;
        SessionTrials::read(&stored.stdout)
    }

    /// Measures, and returns the trials of confirmation as exported: those of an older build have another shape.
    ///
    /// # Errors
    /// The program's own error output.
    pub fn exported(&self, args: &[&str]) -> Result<Vec<Value>> {
        let output = self.run(args, None)?;
        // Earlier builds have a command of its own for it.
        let stored = self.stored(&["report", "export"]).or_else(|_| self.stored(&["export"]));
        let stored = stored.with_context(|| complaint(args, &output))?;
        let lines = serde_json::Deserializer::from_slice(&stored.stdout).into_iter::<Value>();
        let lines = lines.collect::<Result<Vec<_>, _>>().context("reading bytegauge's export")?;
        let trials = lines.into_iter().filter(|line| line["kind"] == "trial").map(|mut line| line["trial"].take());
        Ok(trials.filter(|trial| trial["stage"] == "confirm").collect())
    }

    /// The program's description of the machine in its latest session.
    ///
    /// # Errors
    /// When nothing was measured yet.
    pub fn environment(&self) -> Result<Value> {
        let output = self.stored(&["report", "--format", "json"])?;
        let mut document: Value = serde_json::from_slice(&output.stdout).context("reading bytegauge's JSON")?;
        Ok(document["environment"].take())
    }

    fn run<S: AsRef<OsStr>>(&self, args: &[S], cpu: Option<usize>) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(args).args(["--quiet", "--format", "json", "--store"]).arg(self.store());
        programs::output(&mut command, cpu)
    }

    fn stored(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        let output = programs::output(command.args(args).arg("--store").arg(self.store()), None)?;
        ensure!(output.status.success(), "{}", complaint(args, &output));
        Ok(output)
    }

    fn store(&self) -> PathBuf {
        self.file("peers.db")
    }
}

/// The error of a run that failed.
fn complaint<S: AsRef<OsStr>>(args: &[S], output: &Output) -> String {
    let args: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    format!("bytegauge {}: {}: {}", args.join(" "), output.status, String::from_utf8_lossy(&output.stderr).trim())
}

/// The parts of an export's lines that are used here.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum ExportLine {
    Cell {
        cell: Box<Cell>,
        outcome: Option<Outcome>,
    },
    Trial {
        trial: Box<Trial>,
    },
    #[serde(other)]
    Other,
}

impl SessionTrials {
    fn read(lines: &[u8]) -> Result<SessionTrials> {
        let (mut cells, mut outcomes, mut trials) = (BTreeMap::new(), Vec::new(), Vec::new());
        for line in serde_json::Deserializer::from_slice(lines).into_iter() {
            match line.context("reading bytegauge's export")? {
                ExportLine::Cell { cell, outcome } => {
                    outcomes.extend(outcome);
                    cells.insert(cell.id.clone(), *cell);
                }
                ExportLine::Trial { trial } => trials.push(*trial),
                ExportLine::Other => {}
            }
        }
        Ok(SessionTrials { cells, outcomes, trials })
    }

    /// The trials of confirmation that moved bytes, with their cells, in the order of measurement. An A/A control
    /// counts as no cell of its own.
    pub fn confirmed(&self) -> impl Iterator<Item = (&Cell, &Trial)> {
        let measured = |trial: &&Trial| trial.stage == Stage::Confirm && trial.outcome == Outcome::Measured;
        self.trials.iter().filter(measured).filter_map(|trial| {
            let cell = self.cells.get(&trial.cell).filter(|cell| cell.kind == CellKind::Candidate)?;
            Some((cell, trial))
        })
    }

    /// Units per second of the only cell that was confirmed.
    ///
    /// # Errors
    /// When there is none.
    pub fn rate(&self) -> Result<f64> {
        let rates: Vec<f64> = self.confirmed().filter_map(|(_, trial)| trial.rate()).collect();
        median(&rates).with_context(|| format!("bytegauge measured nothing: {}", self.reasons().join("; ")))
    }

    /// Calls that were completed, from the first to the last.
    pub fn calls(&self) -> u64 {
        self.trials.iter().filter_map(Trial::client).map(|call| call.completed).sum()
    }

    /// Why cells were not measured, each reason once.
    pub fn reasons(&self) -> Vec<String> {
        let outcomes = self.trials.iter().map(|trial| &trial.outcome).chain(&self.outcomes);
        let reasons: BTreeSet<String> = outcomes.filter_map(|outcome| outcome.reason().map(str::to_owned)).collect();
        reasons.into_iter().collect()
    }
}
