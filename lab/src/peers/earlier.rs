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

use super::programs::{self, ServerProcess};
use super::{CONGESTION, Cpus, PeerTests, TrialRates, interval};

/// Engines of servers, with the connections of their clients.
const SERVERS: [(&str, u64); 4] = [("epoll", 50), ("epoll", 500), ("uring:multishot", 50), ("uring:multishot", 500)];

/// Engines of streams, with the bytes of a read and of a write.
const STREAMS: [(&str, u64); 5] =
    [("null", 64), ("epoll", 64), ("epoll", 64 << 10), ("uring:plain", 64), ("uring:plain", 64 << 10)];

/// Bytes of a request.
const MESSAGE_BYTES: u64 = 512;

/// Measures a build's rates.
type RowTrial = fn(&PeerTests, &Path, &str, u64, Cpus) -> Result<TrialRates>;

/// Measures the rows that are asked for: a table of ratios, this build over the earlier one.
///
/// # Errors
/// When no row is asked for.
pub fn compared(bench: &mut PeerTests, earlier: &Path) -> Result<String> {
    let servers = SERVERS.map(|(engine, connections)| {
        (format!("server {engine}, {connections} connections"), called as RowTrial, engine, connections)
    });
    let streams =
        STREAMS.map(|(engine, size)| (format!("stream {engine}, {size} B"), streamed as RowTrial, engine, size));
    let mut rows = Vec::new();
    for (name, trial, engine, number) in servers.into_iter().chain(streams) {
        if !bench.is_asked(&name) {
            continue;
        }
        let found = bench.measured(std::slice::from_ref(&name), |bench, _, program, cpus| {
            trial(bench, [&bench.program, earlier][program], engine, number, cpus)
        });
        let ratios = found.iter().flat_map(|pair| pair.ratios().map(|ratio| interval(&ratio)));
        rows.push([name].into_iter().chain(ratios).collect());
    }
    ensure!(!rows.is_empty(), "no row is asked for: check --rows");
    Ok(table(&["this build over the earlier one (95 %)", "rate", "calls per CPU second"], rows))
}

/// A stream: calls of its reader, and their CPU time.
fn streamed(bench: &PeerTests, build: &Path, engine: &str, size: u64, _: Cpus) -> Result<TrialRates> {
    let args = format!(
        "stream --transport tcp --engine {engine} --read-size {size} --write-size {size} --placement cross-core \
         --congestion {CONGESTION} --profile drain"
    );
    let trials = exported(bench, build, &args, &[])?;
    // The floor's own trials are far shorter.
    let sinks = trials.iter().filter(|trial| trial["stage"] == "confirm").map(|trial| &trial["ends"]["sink"]);
    let sink = sinks.max_by_key(|sink| sink["window_ns"].as_u64()).context("the reader reported nothing")?;
    let number = |name: &str| sink[name].as_f64().filter(|number| *number > 0.0).with_context(|| format!("no {name}"));
    let (calls, window_ns, cpu_ns) = (number("calls")?, number("window_ns")?, number("cpu_ns")?);
    Ok([calls * 1e9 / window_ns, calls * 1e9 / cpu_ns])
}

/// Calls to a server of a build, by this build's client, with the server's CPU time as read from outside.
fn called(bench: &PeerTests, build: &Path, engine: &str, connections: u64, cpus: Cpus) -> Result<TrialRates> {
    let mut server = Command::new(build);
    let server = ServerProcess::listening(server.args(["serve", "echo", "--engine", engine]), cpus.measured)?;
    let before_ns = programs::cpu_ns(server.id())?;
    let place = server.place();
    let args = format!("call --connect {place} --flows {connections} --request {MESSAGE_BYTES} --client-engine epoll");
    let trials = exported(bench, &bench.program, &args, &[cpus.others])?;
    let trials: Vec<Trial> = trials.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    let calls: u64 = trials.iter().filter_map(Trial::client).map(|call| call.completed).sum();
    let cpu_ns = programs::cpu_ns(server.id())? - before_ns;
    let confirmed = trials.iter().filter(|trial| trial.stage == Stage::Confirm);
    let rate = median(&confirmed.filter_map(Trial::rate).collect::<Vec<_>>()).context("no call was measured")?;
    Ok([rate, calls as f64 * 1e9 / cpu_ns as f64])
}

/// Measures one block by a build, on these CPUs or any, and returns its trials as exported.
fn exported(bench: &PeerTests, build: &Path, args: &str, cpus: &[usize]) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir().context("making a temporary folder: check TMPDIR")?;
    let store = folder.path().join("peers.db");
    let window = format!("{}ms", bench.window.as_millis());
    let mut measure = Command::new(build);
    measure.args(args.split(' ')).args(["--trial-time", &window, "--blocks", "1", "--quiet", "--store"]).arg(&store);
    let measured = programs::output(&mut measure, cpus)?;
    let complaint = || format!("bytegauge {args}: {}", String::from_utf8_lossy(&measured.stderr).trim());
    let exported = programs::output(Command::new(build).args(["report", "export", "--store"]).arg(&store), &[])?;
    ensure!(exported.status.success(), "{}", complaint());
    let lines = serde_json::Deserializer::from_slice(&exported.stdout).into_iter::<Value>();
    let lines = lines.collect::<Result<Vec<_>, _>>().with_context(complaint)?;
    Ok(lines.into_iter().filter(|line| line["kind"] == "trial").map(|mut line| line["trial"].take()).collect())
}
