//! How long tasks have waited for CPU, disk and memory: pressure stall information.
//!
//! Source: Documentation/accounting/psi.rst of the kernel. Reading is fast enough to do before and after a session: the
//! difference of the totals shows whether other processes interfered.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::root::RootFolder;

/// The three resources. `None` where the kernel lacks or hides the file (`psi=0`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Waiting for a CPU.
    pub cpu: Option<Stalls>,
    /// Waiting for a disk.
    pub io: Option<Stalls>,
    /// Waiting for memory.
    pub memory: Option<Stalls>,
}

/// Waiting for one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// At least one task waited.
    pub some: Option<Stall>,
    /// All tasks with work to do waited. Always 0 for `cpu`, and absent before Linux 5.13.
    pub full: Option<Stall>,
}

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Share of the last 10 s, per cent.
    pub avg10_percent: f64,
    /// Since boot, µs.
    pub total_us: u64,
}

impl Pressure {
    /// Reads this machine.
    #[must_use]
    pub fn read() -> Self {
        Self::read_from(&RootFolder::new(Path::new("/")))
    }

    pub(super) fn read_from(root: &RootFolder<'_>) -> Self {
        let stalls = |name: &str| {
            let text = root.text(&format!("proc/pressure/{name}"))?;
            Some(parse(&text))
        };
        Self { cpu: stalls("cpu"), io: stalls("io"), memory: stalls("memory") }
    }
}

fn parse(text: &str) -> Stalls {
    let line = |kind: &str| text.lines().find_map(|line| parse_stall(line.strip_prefix(kind)?));
    Stalls { some: line("some"), full: line("full") }
}

fn parse_stall(fields: &str) -> Option<Stall> {
    let field =
        |name: &str| fields.split_ascii_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Some(Stall { avg10_percent: field("avg10")?.parse().ok()?, total_us: field("total")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_stalls() {
        let text = "\
some avg10=0.50 avg60=0.19 avg300=0.17 total=3303435
full avg10=0.00 avg60=0.00 avg300=0.00 total=7
";
        let stall = |avg10_percent, total_us| Some(Stall { avg10_percent, total_us });
        let expected = Stalls { some: stall(0.5, 3_303_435), full: stall(0.0, 7) };
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn an_old_kernel_has_one_cpu_line() {
        let stalls = parse("some avg10=1.00 avg60=0 avg300=0 total=1\n");
        assert!(stalls.some.is_some() && stalls.full.is_none());
        assert_eq!(parse("nonsense"), Stalls::default());
    }
}
