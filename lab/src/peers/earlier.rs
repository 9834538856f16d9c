//! Compares this build with an earlier one of the product, to find changes that made it slower.
//!
//! The servers get calls from the same client, this build's. A server is alone on a CPU and is started for every run; its client is on
//! another CPU with all its threads. A loop is a stream over the engine, or the null engine, which moves nothing and is the lower limit
//! of every number. Each build measures itself by its own clock.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bytegauge_model::{Stage, Trial};
use bytegauge_stats::quantile::median;
use serde_json::Value;
use xtask::markdown::table;

use super::engines::is_asked;
use super::programs::{self, ServerProcess};
use super::{CONGESTION, PeerTests};
use crate::peers::{Rates, interval, over};

/// A row of the comparison.
#[derive(Clone, Copy)]
enum Row {
    /// A server's engine, and its connections.
    Server(&'static str, u64),
    /// The engine of a stream, and bytes of a read and of a write.
    Stream(&'static str, u64),
}

const ROWS: [Row; 9] = [
    Row::Server("epoll", 50),
    Row::Server("epoll", 500),
    Row::Server("uring:multishot", 50),
    Row::Server("uring:multishot", 500),
    Row::Stream("null", 64),
    Row::Stream("epoll", 64),
    Row::Stream("epoll", 64 << 10),
    Row::Stream("uring:plain", 64),
    Row::Stream("uring:plain", 64 << 10),
];

const MESSAGE_BYTES: u64 = 512;

impl Row {
    fn name(self) -> String {
        match self {
            Row::Server(engine, connections) => format!("server {engine}, {connections} connections"),
            Row::Stream(engine, size) => format!("stream {engine}, {size} B"),
        }
    }

    /// Calls per second, and calls per CPU second.
    fn measured(self, bench: &mut PeerTests, build: &Path) -> Result<[f64; 2]> {
        match self {
            Row::Server(engine, connections) => called(bench, build, engine, connections),
            Row::Stream(engine, size) => streamed(bench, build, engine, size),
        }
    }
}

/// Measures the rows that are asked for: a table of ratios, this build over the earlier one.
///
/// # Errors
/// When a build cannot be run, or measures nothing.
pub fn compared(bench: &mut PeerTests, earlier: &Path) -> Result<String> {
    let earlier = earlier.canonicalize().with_context(|| earlier.display().to_string())?;
    let this = bench.program.clone();
    let asked: Vec<Row> =
        ROWS.into_iter().filter(|row| is_asked(&row.name().replace(',', ""), bench.rows.as_deref())).collect();
    ensure!(!asked.is_empty(), "no row is asked for: check --rows");
    let mut rows = Vec::new();
    for row in asked {
        // By measure, then by build.
        let mut found: [[Rates; 2]; 2] = Default::default();
        let mut turns = [0, 1];
        for round in 0..bench.rounds {
            bench.random.shuffle(&mut turns);
            for build in turns {
                let measured = row.measured(bench, [&this, &earlier][build]);
                let measured = measured.with_context(|| format!("{}, {}", row.name(), ["this", "earlier"][build]))?;
                measured.into_iter().zip(&mut found).for_each(|(rate, of)| {
                    of[build].insert(round, rate);
                });
            }
        }
        let shown = |[this, earlier]: &[Rates; 2]| interval(&over(this, earlier));
        rows.push(vec![row.name(), shown(&found[0]), shown(&found[1])]);
        eprintln!("{}", rows.last().into_iter().flatten().cloned().collect::<Vec<_>>().join("  "));
    }
    Ok(table(&["this build over the earlier one (95 %)", "rate", "calls per CPU second"], rows))
}

/// A stream: calls of its reader, and their CPU time.
fn streamed(bench: &PeerTests, build: &Path, engine: &str, size: u64) -> Result<[f64; 2]> {
    let size = size.to_string();
    let mut args =
        vec!["stream", "--transport", "tcp", "--engine", engine, "--read-size", &size, "--write-size", &size];
    args.extend(["--placement", "cross-core", "--congestion", CONGESTION, "--profile", "drain"]);
    let trials = exported(bench, build, &args, None)?;
    // The floor's own trials are far shorter.
    let sinks = trials.iter().filter(|trial| trial["stage"] == "confirm").map(|trial| &trial["ends"]["sink"]);
    let sink = sinks.max_by_key(|sink| sink["window_ns"].as_u64()).context("the reader reported nothing")?;
    let number = |name: &str| sink[name].as_f64().filter(|number| *number > 0.0).with_context(|| format!("no {name}"));
    let (calls, window_ns, cpu_ns) = (number("calls")?, number("window_ns")?, number("cpu_ns")?);
    Ok([calls * 1e9 / window_ns, calls * 1e9 / cpu_ns])
}

/// Calls to a server of a build, by this build's client, with the server's CPU time as read from outside.
fn called(bench: &mut PeerTests, build: &Path, engine: &str, connections: u64) -> Result<[f64; 2]> {
    let (server_cpu, client_cpu) = bench.deal();
    let mut server = Command::new(build);
    server.args(["serve", "echo", "--engine", engine]);
    let server = ServerProcess::start(&mut server, Some(server_cpu), "listening on")?;
    let before_ns = server.cpu_ns()?;
    let (connections, request) = (connections.to_string(), MESSAGE_BYTES.to_string());
    let mut args = vec!["call", "--connect", server.place(), "--flows", &connections, "--request", &request];
    args.extend(["--client-engine", "epoll"]);
    let trials = exported(bench, &bench.program, &args, Some(client_cpu))?;
    let trials: Vec<Trial> = trials.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    let calls: u64 = trials.iter().filter_map(Trial::client).map(|call| call.completed).sum();
    let cpu_ns = server.cpu_ns()? - before_ns;
    let confirmed = trials.iter().filter(|trial| trial.stage == Stage::Confirm);
    let rate = median(&confirmed.filter_map(Trial::rate).collect::<Vec<_>>()).context("no call was measured")?;
    Ok([rate, calls as f64 * 1e9 / cpu_ns as f64])
}

/// Measures one block by a build, on one CPU if that is given, and returns its trials as exported.
fn exported(bench: &PeerTests, build: &Path, args: &[&str], cpu: Option<usize>) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir().context("making a temporary folder: check TMPDIR")?;
    let store = folder.path().join("peers.db");
    let window = format!("{}ms", bench.window.as_millis());
    let mut measure = Command::new(build);
    measure.args(args).args(["--trial-time", &window, "--blocks", "1", "--quiet", "--store"]).arg(&store);
    let measured = programs::output(&mut measure, cpu)?;
    let complaint = || format!("bytegauge {}: {}", args.join(" "), String::from_utf8_lossy(&measured.stderr).trim());
    let exported = programs::output(Command::new(build).args(["report", "export", "--store"]).arg(&store), None)?;
    ensure!(exported.status.success(), "{}", complaint());
    let lines = serde_json::Deserializer::from_slice(&exported.stdout).into_iter::<Value>();
    let lines = lines.collect::<Result<Vec<_>, _>>().with_context(complaint)?;
    Ok(lines.into_iter().filter(|line| line["kind"] == "trial").map(|mut line| line["trial"].take()).collect())
}
