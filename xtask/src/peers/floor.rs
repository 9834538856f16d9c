//! What the harness costs beside a bare loop in C: the same reads and writes between two threads, and nothing else.
//!
//! The floor in a report is that of a loop that moves nothing, so it holds the bookkeeping alone; what else may differ
//! from a program of the user's (how calls are made, caches, threads) is in this ratio.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use bytegauge_model::{Bytes, EndRole};
use bytegauge_stats::quantile::median;
use bytegauge_stats::rng::Stream;

use super::bench::{Bench, Cpus};
use super::compare::{Aim, interval, ratio};
use super::foreign::STREAM_LOOP;
use super::{machine, process};
use crate::markdown::table;

/// Bytes of a read and of a write.
const SIZES: &[u64] = &[64, 1 << 10, 4 << 10, 64 << 10, 1 << 20];

/// What a run of the foreign loop may take beside its measured seconds.
const GRACE_SECONDS: u64 = 30;

const AIM: Aim = Aim { text: "our loop moves at least 0.97 of what the one in C does", at_least: 0.97 };

/// How the two ends are joined, and by how much they read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    transport: &'static str,
    size: u64,
}

/// A setting, and whose loop it is.
struct Arm {
    setting: Setting,
    is_ours: bool,
}

/// What one run found.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    bytes_per_second: f64,
    cpu_ns_per_read: f64,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.transport, Bytes(self.size))
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.setting, if self.is_ours { "bytegauge" } else { "C" })
    }
}

/// Compares, and makes the document's part.
///
/// # Errors
/// When a run fails.
pub fn compared(bench: &Bench, random: &mut Stream) -> Result<String> {
    let program = STREAM_LOOP.built()?;
    let sizes = if bench.effort.quick { &SIZES[2..3] } else { SIZES };
    let setting = |transport| move |size: &u64| Setting { transport, size: *size };
    let settings: Vec<Setting> = ["unix", "tcp"].into_iter().flat_map(|name| sizes.iter().map(setting(name))).collect();
    let arms: Vec<Arm> =
        settings.iter().flat_map(|&setting| [false, true].map(|is_ours| Arm { setting, is_ours })).collect();
    let found = bench.rounds(bench.effort.rounds, &arms, random, |arm, cpus, seed| match arm.is_ours {
        true => ours(bench, arm.setting, seed),
        false => in_c(bench, &program, arm.setting, cpus),
    })?;
    let part = panel(&settings, &found);
    println!("{part}");
    let line = machine::line(&bench.ours.environment()?, &bench.topology);
    Ok(format!("{}{part}\n{line}\n\n{}", head(bench), method(bench)))
}

fn in_c(bench: &Bench, program: &Path, setting: Setting, cpus: Cpus) -> Result<Found> {
    let seconds = bench.effort.seconds;
    let mut command = process::bounded(program, seconds + GRACE_SECONDS);
    command.arg(setting.transport);
    command.args([setting.size, seconds, cpus.client as u64, cpus.server as u64].map(|number| number.to_string()));
    let output = process::output(&mut command, None)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, said.trim());
    of_c(&String::from_utf8_lossy(&output.stdout))
}

/// The foreign loop prints bytes per second, and the reader's CPU time for a read, nanoseconds.
fn of_c(said: &str) -> Result<Found> {
    let mut numbers = said.split_whitespace().map(str::parse::<f64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(bytes_per_second)), Some(Ok(cpu_ns_per_read))) if bytes_per_second > 0.0 && cpu_ns_per_read > 0.0 => {
            Ok(Found { bytes_per_second, cpu_ns_per_read })
        }
        _ => Err(anyhow::anyhow!("the loop said `{}`", said.trim())),
    }
}

fn ours(bench: &Bench, setting: Setting, seed: u64) -> Result<Found> {
    let (size, seconds, seed) = (setting.size.to_string(), format!("{}s", bench.effort.seconds), seed.to_string());
    let mut args = vec!["stream", "--transport", setting.transport, "--read-size", &size, "--write-size", &size];
    args.extend(["--placement", "cross-core", "--profile", "drain", "--duration", &seconds, "--blocks", "1"]);
    args.extend(["--seed", &seed]);
    let session = bench.ours.session(&args, None)?;
    let sink = session.confirmed().find_map(|(_, trial)| trial.end(EndRole::Sink));
    let sink = sink.filter(|sink| sink.calls > 0).context("the reader reported nothing")?;
    Ok(Found { bytes_per_second: session.rate()?, cpu_ns_per_read: sink.cpu_time_ns() as f64 / sink.calls as f64 })
}

fn panel(settings: &[Setting], found: &[Vec<Found>]) -> String {
    let of = |at: usize, read: fn(&Found) -> f64| -> Vec<f64> { found[at].iter().map(read).collect() };
    let mut all = Vec::new();
    let rows = settings.iter().enumerate().map(|(at, setting)| {
        let (theirs, ours) = (2 * at, 2 * at + 1);
        let rates = ratio(&of(ours, |found| found.bytes_per_second), &of(theirs, |found| found.bytes_per_second));
        let cpu = ratio(&of(ours, |found| found.cpu_ns_per_read), &of(theirs, |found| found.cpu_ns_per_read));
        let ns = |at| median(&of(at, |found| found.cpu_ns_per_read)).map(|ns| format!("{ns:.0}")).unwrap_or_default();
        let row = vec![setting.to_string(), interval(&rates), ns(theirs), ns(ours), interval(&cpu)];
        all.push(AIM.verdict(&rates, &setting.to_string()));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let heads =
        ["ends, a read and a write", "our rate over C's (95 %)", "C, CPU ns a read", "ours", "ours over C's (95 %)"];
    format!("{}\n{}\n", table(&heads, rows), all.join("\n"))
}

fn head(bench: &Bench) -> String {
    format!(
        "## A stream, beside the same loop in C\n\nMade by `cargo xtask peers floor {} --seed {}` on {}. One thread writes, \
         one reads, on two cores; both read and write by so many bytes. Above 1 in the second column, ours is faster; in \
         the last one, ours costs more.\n\n",
        bench.effort.flags(),
        bench.seed,
        bench.date
    )
}

fn method(bench: &Bench) -> String {
    format!(
        "- {} rounds; each visits every setting with both programs in random order. A run is {} s after a warm-up; the two \
         CPUs change their parts by a coin, in each program by its own.\n\
         - The C loop looks at the clock every 64 reads; ours once a millisecond. CPU time is that of the reading thread by \
         its own clock, over its reads.\n",
        bench.effort.rounds, bench.effort.seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loop_prints() {
        let found = of_c("1500000000 812.5\n").unwrap();
        assert_eq!(found, Found { bytes_per_second: 1.5e9, cpu_ns_per_read: 812.5 });
        for said in ["", "1", "0 5", "usage"] {
            assert!(of_c(said).unwrap_err().to_string().contains(said));
        }
    }
}
