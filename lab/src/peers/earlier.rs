//! Compares this build with an earlier one of the product, to find changes that made it slower.
//!
//! The servers get calls from the same client, this build's. A server is alone on a CPU and is started for every run; its client is on
//! another CPU with all its threads. A loop is a stream over the engine, or the null engine, which moves nothing and is the lower limit
//! of every number. Each build measures itself by its own clock.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::CONGESTION;
use super::arm::{RunPlace, RunResult, seconds, word};
use super::bench::PeerTests;
use super::ours::Ours;
use super::pairs::{Aim, Measure, Player, Rival, Rivalry, Rivals};
use super::programs::ServerProcess;

pub const COMPARISON: Rivalry = Rivalry {
    heading: "Compared with an earlier build",
    measures: &[
        Measure::rate("1000 calls/s", |rate| format!("{:.1}", rate / 1e3)),
        Measure::cost("CPU time a call, ns", |cost_s| format!("{:.0}", cost_s * 1e9)),
    ],
    pairs,
    arms: &[("server", called), ("stream", streamed)],
    method: "- Servers return 512 B, called by one thread of this build's epoll client, and their CPU time is read from outside. A \
             stream has an end a core, and its CPU time is the reader's, over its reads; the null engine makes no system call, \
             so that its loop is the floor below every other number.\n",
};

const NO_SLOWER: Aim = Aim { text: "no slower than the earlier build", at_least: 0.97 };
const NO_MORE_CPU: Aim = Aim { text: "no fewer calls per CPU second than the earlier build", at_least: 0.97 };

const SERVERS: [(&str, u64); 4] = [("epoll", 50), ("epoll", 500), ("uring:multishot", 50), ("uring:multishot", 500)];
/// Engines of a stream, with bytes of a read and of a write.
const STREAMS: [(&str, u64); 5] =
    [("null", 64), ("epoll", 64), ("epoll", 64 << 10), ("uring:plain", 64), ("uring:plain", 64 << 10)];

/// Checks that there is an earlier build.
///
/// # Errors
/// The next step if there is none.
pub fn prepare(bench: &PeerTests) -> Result<(), String> {
    let program =
        bench.earlier.as_ref().ok_or("build an earlier commit for release and give its program with --earlier")?;
    if program.is_file() { Ok(()) } else { Err(format!("--earlier {} is no file", program.display())) }
}

fn pairs(bench: &PeerTests) -> Result<Rivals> {
    let earlier = bench.earlier.as_ref().context("no earlier build was given")?;
    let earlier: PathBuf = earlier.canonicalize().with_context(|| earlier.display().to_string())?;
    let rival = |what: String, words: &dyn Fn(Option<&Path>) -> Vec<String>, arm: &str, engine: &str| Rival {
        what,
        theirs: Player::new(&format!("earlier {engine}"), arm, &words(Some(&earlier))),
        ours: Player::new(&format!("this {engine}"), arm, &words(None)),
        aims: &[Some(NO_SLOWER), Some(NO_MORE_CPU)],
    };
    let seconds = bench.effort.seconds.to_string();
    let servers = SERVERS.iter().map(|(engine, connections)| {
        let words = |build: Option<&Path>| {
            vec![ours_by(engine, build), ours_by(CLIENT_ENGINE, None), connections.to_string(), seconds.clone()]
        };
        rival(format!("server, {connections} connections"), &words, "server", engine)
    });
    let streams = STREAMS.iter().map(|(engine, size)| {
        let words = |build: Option<&Path>| {
            let program = build.unwrap_or(bench.ours.program()).display().to_string();
            vec![program, (*engine).to_owned(), size.to_string(), seconds.clone()]
        };
        rival(format!("stream over TCP, {size} B"), &words, "stream", engine)
    });
    let pairs = servers.chain(streams).take(if bench.effort.quick { 1 } else { usize::MAX }).collect();
    Ok(Rivals { pairs, ..Rivals::default() })
}

/// One run. The words: the program, engine, bytes of a read and of a write, seconds.
fn streamed(_: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let (program, engine, size) = (word(words, 0)?, word(words, 1)?, word(words, 2)?);
    let length = format!("{}s", seconds(words, 3)?);
    let mut args = vec!["stream", "--transport", "tcp", "--engine", engine, "--read-size", size, "--write-size", size];
    args.extend(["--placement", "cross-core", "--congestion", CONGESTION, "--profile", "drain"]);
    args.extend(["--trial-time", &length, "--blocks", "1"]);
    let trials = Ours::new(PathBuf::from(program))?.exported(&args)?;
    // Older builds had a pair of ends instead of ends by role.
    let reader =
        |trial: &Value| [&trial["ends"]["sink"], &trial["sink"]].into_iter().find(|end| end.is_object()).cloned();
    // The floor's own trials are far shorter.
    let longest = trials.iter().filter_map(reader).max_by_key(|end| end["window_ns"].as_u64());
    let sink = longest.context("the reader reported nothing")?;
    let number = |name: &str| sink[name].as_f64().filter(|number| *number > 0.0).with_context(|| format!("no {name}"));
    let (calls, window_ns, cpu_ns) = (number("calls")?, number("window_ns")?, number("cpu_ns")?);
    Ok(RunResult { rate: calls / (window_ns / 1e9), cost_s: Some(cpu_ns / calls / 1e9) })
}

const MESSAGE_BYTES: u64 = 512;
/// The engine of the client.
pub const CLIENT_ENGINE: &str = "epoll";

/// Prefix of an argument that selects bytegauge itself, followed by the engine.
const OURS: &str = "ours:";
/// Separates the engine from the program of another build.
const BUILD: char = '@';

/// The argument for a bytegauge server by an engine, of another build if that is given.
pub fn ours_by(engine: &str, build: Option<&Path>) -> String {
    let build = build.map(|program| format!("{BUILD}{}", program.display()));
    format!("{OURS}{engine}{}", build.unwrap_or_default())
}

/// Starts a server that returns what it receives, ours by an engine or a program, on a CPU.
///
/// # Errors
/// When it cannot serve here.
pub fn serve(place: &RunPlace, server: &str, cpu: usize) -> Result<ServerProcess> {
    let mut command = match server.strip_prefix(OURS) {
        Some(engine) => {
            let (engine, build) =
                engine.split_once(BUILD).map_or((engine, None), |(engine, build)| (engine, Some(build)));
            let mut command = Command::new(build.map_or(place.ours.program(), Path::new));
            command.args(["serve", "echo", "--engine", engine]);
            command
        }
        None => Command::new(PathBuf::from(server)),
    };
    ServerProcess::start(&mut command, Some(cpu), "listening on")
}

/// One run, with the server's CPU time for a call. The words: server, client, connections, seconds.
///
/// # Errors
/// When nothing was measured.
pub fn called(place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let cpus = place.cpus()?;
    let (client, connections, seconds) = (word(words, 1)?, word(words, 2)?, seconds(words, 3)?);
    let server = serve(place, word(words, 0)?, cpus.server)?;
    let before_ns = server.cpu_ns()?;
    let engine = client.strip_prefix(OURS).context("the client is not ours")?;
    let (request, length) = (MESSAGE_BYTES.to_string(), format!("{seconds}s"));
    let mut args = vec!["call", "--connect", server.place(), "--flows", connections, "--request", &request];
    args.extend(["--client-engine", engine, "--trial-time", &length, "--blocks", "1"]);
    let session = place.ours.session(&args, Some(cpus.client))?;
    let cost_ns = (server.cpu_ns()? - before_ns) as f64 / session.calls().max(1) as f64;
    Ok(RunResult { rate: session.rate()?, cost_s: Some(cost_ns / 1e9) })
}
