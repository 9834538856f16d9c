//! The released program with a store, as the studies use it.

use std::path::PathBuf;
use std::process::Command as Process;

use anyhow::{Context, Result, ensure};
use clap::ArgMatches;
use serde_json::Value;
use xtask::{cargo, product};

use crate::group::QuotaGroup;

/// The program and a store of its sessions.
pub struct ProgramWithStore {
    program: PathBuf,
    /// The store's file.
    pub store: PathBuf,
}

impl ProgramWithStore {
    /// The program, built, with the store of `--store` or that of `cargo lab real-life`.
    ///
    /// # Errors
    /// When it does not build.
    pub fn of(matches: &ArgMatches) -> Result<ProgramWithStore> {
        let program = product::built()?;
        let usual = || Ok(cargo::workspace()?.target_directory.join("real-life.db"));
        let store = matches.get_one::<String>("store").map_or_else(usual, |path| anyhow::Ok(PathBuf::from(path)))?;
        Ok(ProgramWithStore { program, store })
    }

    /// The program on its store.
    pub fn command(&self) -> Process {
        let mut command = Process::new(&self.program);
        command.arg("--store").arg(&self.store);
        command
    }

    /// The program on its store, in a control group.
    pub fn command_in(&self, group: &QuotaGroup) -> Process {
        let mut command = group.command(&self.program);
        command.arg("--store").arg(&self.store);
        command
    }

    /// Runs the program and returns its output.
    ///
    /// # Errors
    /// The program's own error output.
    pub fn ask(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command().args(arguments).output().context("running bytegauge")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The document of a session.
    ///
    /// # Errors
    /// When it cannot be reported.
    pub fn report(&self, id: i64) -> Result<Value> {
        Ok(serde_json::from_str(&self.ask(&["report", &id.to_string(), "--format", "json"])?)?)
    }
}

/// The numbers of the sessions on such lines of `bytegauge sessions`, the oldest first.
pub fn ids<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<i64> {
    let mut ids: Vec<i64> = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_found_after_the_heading() {
        assert_eq!(ids("id  plan\n12  mine\n3  other\n\n".lines()), [3, 12]);
    }
}
