//! One run of a server that echoes calls over loopback TCP, called by our client.
//!
//! The server is alone on a CPU and is started for every run; its client is on another CPU with all its threads.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::arm::{RunPlace, RunResult, seconds, word};
use super::process::ServerProcess;

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
