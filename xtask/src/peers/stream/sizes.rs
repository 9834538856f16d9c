//! bytegauge's own streams, as a user starts them: one cell, or its own search for the best sizes.

use anyhow::{Context, Result};
use bytegauge_model::Bytes;
use serde::Deserialize;

use super::setting::Setting;
use crate::peers::ours::Ours;

/// bytegauge's stream under the congestion control that both programs use.
pub struct OurStream<'a> {
    /// The program.
    pub ours: &'a Ours,
    /// The congestion control's name.
    pub congestion: &'a str,
}

/// Bytes of a read and of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Of a read.
    pub read: u64,
    /// Of a write.
    pub write: u64,
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "read {}, write {}", Bytes(self.read), Bytes(self.write))
    }
}

impl OurStream<'_> {
    /// Bytes per second of one trial of one cell, all flows together.
    ///
    /// # Errors
    /// With what the program said.
    pub fn rate(&self, setting: Setting, sizes: Sizes, seconds: u64, seed: u64) -> Result<f64> {
        let (read, write) = (Bytes(sizes.read).compact(), Bytes(sizes.write).compact());
        let design = ["--duration", &format!("{seconds}s"), "--blocks", "1"];
        let report = self.stream(setting, (&read, &write), &design, seed)?;
        fastest(&report).map(|(rate, _)| rate)
    }

    /// The sizes that the program itself finds fastest, by its default design within a budget.
    ///
    /// # Errors
    /// With what the program said.
    pub fn best(&self, setting: Setting, lengths: &str, budget: &str, seed: u64) -> Result<Sizes> {
        let report = self.stream(setting, (lengths, lengths), &["--budget", budget], seed)?;
        fastest(&report).map(|(_, sizes)| sizes)
    }

    fn stream(&self, setting: Setting, sizes: (&str, &str), design: &[&str], seed: u64) -> Result<Report> {
        let (placement, flows, seed) = (setting.placement.to_string(), setting.flows.to_string(), seed.to_string());
        let mut args = vec!["stream", "--transport", "tcp", "--profile", "drain", "--congestion", self.congestion];
        args.extend(["--read-size", sizes.0, "--write-size", sizes.1]);
        args.extend(["--placement", &placement, "--flows", &flows, "--seed", &seed]);
        args.extend(design);
        serde_json::from_value(self.ours.report(&args)?).context("reading bytegauge's JSON")
    }
}

#[derive(Deserialize)]
struct Report {
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    stage: Option<String>,
    reason: Option<String>,
    factors: Factors,
    estimate: Option<Estimate>,
}

#[derive(Deserialize)]
struct Factors {
    engine: String,
    read_size: u64,
    write_size: Option<u64>,
}

#[derive(Deserialize)]
struct Estimate {
    median: Option<f64>,
}

/// The fastest confirmed cell that moves bytes.
fn fastest(report: &Report) -> Result<(f64, Sizes)> {
    let moves_bytes = |cell: &&Cell| cell.factors.engine != "null" && cell.stage.as_deref() == Some("confirm");
    let fastest = report
        .cells
        .iter()
        .filter(moves_bytes)
        .filter_map(|cell| {
            let sizes = Sizes { read: cell.factors.read_size, write: cell.factors.write_size? };
            Some((cell.estimate.as_ref()?.median?, sizes))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    fastest.with_context(|| {
        let reason = report.cells.iter().find_map(|cell| cell.reason.clone()).unwrap_or_default();
        format!("bytegauge confirmed no cell: {reason}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cells: &str, expected: Result<(f64, Sizes), &str>) {
        let report: Report = serde_json::from_str(&format!(r#"{{"cells":[{cells}]}}"#)).unwrap();
        assert_eq!(fastest(&report).map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }

    fn cell(engine: &str, stage: &str, read: u64, median: &str) -> String {
        format!(
            r#"{{"id":"c1","stage":"{stage}","reason":null,"factors":{{"engine":"{engine}","read_size":{read},
                "write_size":65536}},"estimate":{{"median":{median}}}}}"#
        )
    }

    #[test]
    fn only_confirmed_cells_that_move_bytes_count() {
        let cells = [
            cell("blocking", "confirm", 1024, "10.0"),
            cell("blocking", "confirm", 4096, "20.0"),
            cell("blocking", "screen", 8192, "90.0"),
            cell("blocking", "confirm", 2048, "null"),
            cell("null", "confirm", 1, "1e12"),
        ];
        check(&cells.join(","), Ok((20.0, Sizes { read: 4096, write: 65_536 })));
        check(&cells[4], Err("bytegauge confirmed no cell: "));
    }
}
