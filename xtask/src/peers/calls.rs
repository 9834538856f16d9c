//! Who answers calls over loopback TCP, and who makes them: ours beside plain programs in C and Rust.
//!
//! A server is alone on a CPU and started anew for every run, its client on another, all its threads together. Servers meet the
//! same client, ours; clients the same server, the plain one in C, so that no client is at home.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bytegauge_model::EndRole;

use super::arm::{Found, GRACE_SECONDS, Place, numbers, seconds, word};
use super::bench::Bench;
use super::compare::Aim;
use super::foreign::{self, EPOLL_ECHO, THREAD_CLIENT, URING_ECHO};
use super::pairs::{Measure, Player, Rival, Rivalry, Rivals};
use super::process::{self, Server};

const MESSAGE_BYTES: u64 = 512;
const CONNECTIONS: [u64; 2] = [50, 500];
/// Who calls the servers that are compared.
pub const CLIENT_ENGINE: &str = "epoll";

/// What is ours among the programs of an arm's words, by its engine.
const OURS: &str = "ours:";
/// What stands before the program of another build.
const BUILD: char = '@';

const RATE: Measure = Measure::rate("1000 calls/s", |rate| format!("{:.1}", rate / 1e3));

pub const SERVERS: Rivalry = Rivalry {
    heading: "TCP echo servers",
    measures: &[RATE, Measure::cost("CPU time of the server a call, µs", |cost_s| format!("{:.2}", cost_s * 1e6))],
    pairs: servers,
    arms: &[("server", |place, words| called(place, words, true))],
    method: "- Requests of 512 B that are returned, on persistent connections; one thread of `bytegauge call --connect \
             --client-engine epoll` calls. Each of our engines meets the program that is made like it. A server's CPU time is \
             read from outside, its submission thread's included, over all calls that it answered; what soft interrupts do on \
             the other CPU is in nobody's account.\n\
             - The foreign servers are in `xtask/peers`: C with epoll, C with liburing (multishot accept and receive, provided \
             buffers), and Rust with Tokio on one thread.\n",
};

pub const CLIENTS: Rivalry = Rivalry {
    heading: "Load generators",
    measures: &[RATE, Measure::cost("CPU time of the client a call, µs", |cost_s| format!("{:.2}", cost_s * 1e6))],
    pairs: clients,
    arms: &[("client", |place, words| called(place, words, false))],
    method: "- 50 connections to the server in C with epoll, 512 B; a call waits for the last one's reply. Ours times every call \
             and keeps three histograms; the other client only counts. CPU time is that of the calling threads while they are \
             measured.\n",
};

const SERVES: Aim = Aim { text: "our server answers at least 0.97 of the calls", at_least: 0.97 };
const SERVES_CHEAPLY: Aim = Aim { text: "the same of calls a CPU second of the server", at_least: 0.97 };
const CALLS: Aim = Aim { text: "our client makes 1.5 times the calls of a thread per connection", at_least: 1.5 };
const CALLS_CHEAPLY: Aim = Aim { text: "and that at less CPU time a call", at_least: 1.0 };

fn servers(bench: &Bench) -> Result<Rivals> {
    let mut found = Rivals::default();
    let mut rivals = vec![("C, epoll", EPOLL_ECHO.built()?, "epoll")];
    if !bench.effort.quick {
        match foreign::prepare_uring() {
            Ok(()) => rivals.push(("C, liburing", URING_ECHO.built()?, "uring:multishot")),
            Err(reason) => found.left_out.push(format!("C, liburing: {reason}")),
        }
        rivals.push(("Rust, Tokio", foreign::built_tokio_echo()?, "tokio"));
    }
    for connections in &CONNECTIONS[..if bench.effort.quick { 1 } else { CONNECTIONS.len() }] {
        for (name, program, engine) in &rivals {
            let side = |name: &str, server: String| {
                let client = ours_by(CLIENT_ENGINE, None);
                Player::new(
                    name,
                    "server",
                    &[server, client, connections.to_string(), bench.effort.seconds.to_string()],
                )
            };
            found.pairs.push(Rival {
                what: format!("{connections} connections"),
                theirs: side(name, program.display().to_string()),
                ours: side(&format!("bytegauge {engine}"), ours_by(engine, None)),
                aims: &[Some(SERVES), Some(SERVES_CHEAPLY)],
            });
        }
    }
    Ok(found)
}

fn clients(bench: &Bench) -> Result<Rivals> {
    let server = EPOLL_ECHO.built()?.display().to_string();
    let threads = THREAD_CLIENT.built()?.display().to_string();
    let side = |name: &str, client: String| {
        let words = [server.clone(), client, CONNECTIONS[0].to_string(), bench.effort.seconds.to_string()];
        Player::new(name, "client", &words)
    };
    let pair = |engine: &str| Rival {
        what: engine.to_owned(),
        theirs: side("C, a thread per connection", threads.clone()),
        ours: side(&format!("bytegauge {engine}"), ours_by(engine, None)),
        aims: &[Some(CALLS), Some(CALLS_CHEAPLY)],
    };
    let engines = ["epoll", "uring:multishot"];
    let pairs = engines[..if bench.effort.quick { 1 } else { 2 }].iter().map(|engine| pair(engine)).collect();
    Ok(Rivals { pairs, ..Rivals::default() })
}

/// The word for a server of ours by an engine, of another build if that is given.
pub fn ours_by(engine: &str, build: Option<&Path>) -> String {
    let build = build.map(|program| format!("{BUILD}{}", program.display()));
    format!("{OURS}{engine}{}", build.unwrap_or_default())
}

/// Starts a server that returns what it receives, ours by an engine or a program, on a CPU.
///
/// # Errors
/// When it cannot serve here.
pub fn serve(place: &Place, server: &str, cpu: usize) -> Result<Server> {
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
    Server::start(&mut command, Some(cpu), "listening on")
}

/// One run, of which the server or the client is charged. The words: server, client, connections, seconds.
pub fn called(place: &mut Place, words: &[&str], is_server_charged: bool) -> Result<Found> {
    let cpus = place.cpus()?;
    let (client, connections, seconds) = (word(words, 1)?, word(words, 2)?, seconds(words, 3)?);
    let server = serve(place, word(words, 0)?, cpus.server)?;
    let before_ns = server.cpu_ns()?;
    let Some(engine) = client.strip_prefix(OURS) else {
        let port = server.place().rsplit(':').next().context("the server named no port")?;
        let mut command = process::bounded(client, seconds + GRACE_SECONDS);
        command.args([port, connections]).args([MESSAGE_BYTES, seconds].map(|number| number.to_string()));
        let output = process::output(&mut command, Some(cpus.client))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}", output.status, said.trim());
        // It prints calls per second, and its CPU time for each, nanoseconds.
        let [rate, cpu_ns] = numbers(&String::from_utf8_lossy(&output.stdout))?;
        return Ok(Found { rate, cost_s: Some(cpu_ns / 1e9) });
    };
    let (request, length) = (MESSAGE_BYTES.to_string(), format!("{seconds}s"));
    let mut args = vec!["call", "--connect", server.place(), "--flows", connections, "--request", &request];
    args.extend(["--client-engine", engine, "--duration", &length, "--blocks", "1"]);
    let session = place.ours.session(&args, Some(cpus.client))?;
    let cost_ns = if is_server_charged {
        (server.cpu_ns()? - before_ns) as f64 / session.calls().max(1) as f64
    } else {
        let client = session.confirmed().find_map(|(_, trial)| trial.end(EndRole::Client));
        let client = client.filter(|client| client.calls > 0).context("the client reported nothing")?;
        client.cpu_and_kernel_threads_ns() as f64 / client.calls as f64
    };
    Ok(Found { rate: session.rate()?, cost_s: Some(cost_ns / 1e9) })
}
