//! Echo servers over loopback TCP, each alone on a CPU, all driven by the same client on another.
//!
//! Ours are `bytegauge serve echo`; the others are programs that do nothing else. A server's CPU time is read from
//! outside for all of them, its submission thread's included, and divided by all calls that it answered.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bytegauge_stats::quantile::median;
use bytegauge_stats::rng::Stream;

use super::bench::{Bench, Cpus};
use super::compare::{self, Aim, Arm, interval, ratio};
use super::foreign::{self, EPOLL_ECHO, URING_ECHO};
use super::machine;
use super::process::Server;
use crate::cargo;
use crate::markdown::table;

const CONNECTIONS: [u64; 2] = [50, 500];
const MESSAGE_BYTES: u64 = 512;
const CLIENT_ENGINE: &str = "epoll";

/// What a round measures, in slices so short that servers that are compared meet the machine in the same state.
const PLAN: &str = "xtask/peers/echo.toml";
/// Blocks of a round.
const BLOCKS: u64 = 6;

/// Engines of ours that serve.
const ENGINES: &[&str] = &["epoll", "uring:multishot", "uring:plain", "tokio", "blocking"];

const RATE: Aim = Aim { text: "our best engine within 3 % of the best foreign server, in calls/s", at_least: 0.97 };
const PER_CPU: Aim = Aim { text: "the same in calls per CPU second of the server", at_least: 0.97 };

/// A server that returns what it receives.
#[derive(Clone, Debug)]
pub struct EchoServer {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    is_ours: bool,
}

impl fmt::Display for EchoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl EchoServer {
    /// Ours by an engine.
    pub fn ours(bench: &Bench, engine: &str) -> EchoServer {
        EchoServer {
            name: format!("bytegauge {engine}"),
            program: bench.ours.program().to_owned(),
            args: ["serve", "echo", "--engine", engine].map(str::to_owned).to_vec(),
            is_ours: true,
        }
    }

    /// One that is not ours.
    pub fn foreign(name: &str, program: PathBuf) -> EchoServer {
        EchoServer { name: name.to_owned(), program, args: Vec::new(), is_ours: false }
    }

    /// Starts it on a CPU.
    ///
    /// # Errors
    /// When it cannot serve here.
    pub fn start(&self, cpu: usize) -> Result<Server> {
        Server::start(Command::new(&self.program).args(&self.args), cpu, "listening on")
    }
}

/// Compares, and makes the document's part.
///
/// # Errors
/// When nothing can be compared, or a run fails.
pub fn compared(bench: &Bench, random: &mut Stream) -> Result<String> {
    let (servers, left_out) = servers(bench)?;
    let quick = bench.effort.quick;
    let mut text = head(bench);
    for connections in &CONNECTIONS[..if quick { 1 } else { CONNECTIONS.len() }] {
        let measure = |cpus, seed| measured(bench, &servers, *connections, cpus, seed);
        let arms = compare::together(bench, &servers, random, measure)?;
        let part = panel(&servers, &arms);
        println!("{connections} connections\n{part}");
        text.push_str(&format!("### {connections} connections, {MESSAGE_BYTES} B\n\n{part}\n"));
    }
    for reason in &left_out {
        text.push_str(&format!("Left out: {reason}.\n"));
    }
    text.push_str(&format!("\n{}\n\n{}", machine::line(&bench.ours.environment()?, &bench.topology), method(bench)));
    Ok(text)
}

/// All servers that serve here, and why the others do not.
fn servers(bench: &Bench) -> Result<(Vec<EchoServer>, Vec<String>)> {
    let mut left_out = Vec::new();
    let mut servers: Vec<EchoServer> = ENGINES.iter().map(|engine| EchoServer::ours(bench, engine)).collect();
    servers.push(EchoServer::foreign("C, epoll", EPOLL_ECHO.built()?));
    match foreign::prepare_uring() {
        Ok(()) => servers.push(EchoServer::foreign("C, liburing", URING_ECHO.built()?)),
        Err(reason) => left_out.push(format!("C, liburing: {reason}")),
    }
    servers.push(EchoServer::foreign("Rust, Tokio", foreign::built_tokio_echo()?));
    let cpu = bench.topology.cpus.first().map_or(0, |place| place.cpu);
    servers.retain(|server| match server.start(cpu) {
        Ok(_) => true,
        Err(error) => {
            left_out.push(format!("{server}: {error:#}"));
            false
        }
    });
    ensure!(servers.iter().any(|server| server.is_ours), "none of our servers serves: {}", left_out.join("; "));
    ensure!(servers.iter().any(|server| !server.is_ours), "no foreign server serves: {}", left_out.join("; "));
    Ok((servers, left_out))
}

/// One round: all servers are started on one CPU, where those that are not called sleep, and one session calls them in
/// randomised blocks.
fn measured(bench: &Bench, servers: &[EchoServer], connections: u64, cpus: Cpus, seed: u64) -> Result<Vec<(f64, f64)>> {
    let running = servers.iter().map(|server| server.start(cpus.server)).collect::<Result<Vec<_>>>()?;
    let idle_ns = running.iter().map(Server::cpu_ns).collect::<Result<Vec<_>>>()?;
    let places: Vec<&str> = running.iter().map(Server::place).collect();
    let plan = cargo::root().join(PLAN).display().to_string();
    let (listed, flows, blocks, seed) =
        (places.join(","), connections.to_string(), BLOCKS.to_string(), seed.to_string());
    let args = ["run", &plan, "--connect", &listed, "--flows", &flows, "--blocks", &blocks, "--seed", &seed];
    let session = bench.ours.session(&args, Some(cpus.client))?;
    let found = running.iter().zip(idle_ns).zip(servers).map(|((server, idle_ns), named)| {
        let (rates, completed) = session.of_server(server.place());
        let rate = median(&rates).with_context(|| format!("{named}: {}", session.reasons().join("; ")))?;
        Ok((rate, completed as f64 * 1e9 / (server.cpu_ns()? - idle_ns).max(1) as f64))
    });
    found.collect()
}

/// The table of one number of connections, and what it says about the aims.
fn panel(servers: &[EchoServer], arms: &[Arm]) -> String {
    let best = |is_ours: bool, chosen: fn(&Arm) -> f64| {
        let side = servers.iter().zip(arms).filter(|(server, _)| server.is_ours == is_ours).map(|(_, arm)| arm);
        side.max_by(|a, b| chosen(a).total_cmp(&chosen(b)))
    };
    let (Some(ours), Some(theirs)) = (best(true, Arm::chosen_rate), best(false, Arm::chosen_rate)) else {
        return String::new();
    };
    let (Some(frugal), Some(their_frugal)) = (best(true, Arm::chosen_per_cpu), best(false, Arm::chosen_per_cpu)) else {
        return String::new();
    };
    let rows = arms.iter().map(|arm| {
        vec![
            arm.name.clone(),
            compare::thousands(&arm.rates),
            interval(&ratio(&arm.rates, &theirs.rates)),
            compare::thousands(&arm.per_cpu_second),
            interval(&ratio(&arm.per_cpu_second, &their_frugal.per_cpu_second)),
        ]
    });
    let headings = [
        "server",
        "1000 calls/s",
        &format!("over {} (95 %)", theirs.name),
        "1000 calls per CPU second of the server",
        &format!("over {} (95 %)", their_frugal.name),
    ];
    let beside = |one: &Arm, other: &Arm| format!("{} beside {}", one.name, other.name);
    format!(
        "{}\n{}\n\n{}\n{}",
        table(&headings, rows),
        RATE.verdict(&ratio(&ours.rates, &theirs.rates), &beside(ours, theirs)),
        PER_CPU.verdict(&ratio(&frugal.per_cpu_second, &their_frugal.per_cpu_second), &beside(frugal, their_frugal)),
        compare::raw(arms),
    )
}

fn head(bench: &Bench) -> String {
    format!(
        "## TCP echo servers\n\nMade by `cargo xtask peers echo {} --seed {}` on {}. Above 1, the server of that row is \
         the better one.\n\n",
        bench.effort.flags(),
        bench.seed,
        bench.date
    )
}

fn method(bench: &Bench) -> String {
    let (choosing, rounds) = (bench.effort.choosing_rounds(), bench.effort.rounds);
    format!(
        "- A round starts all servers anew on one CPU; `bytegauge call --connect` with all their places and \
         `--client-engine {CLIENT_ENGINE}` calls them with one thread from another, in {BLOCKS} randomised blocks of \
         100 ms a server (`{PLAN}`). A server that is not called sleeps. A coin deals the two CPUs every round.\n\
         - {choosing} rounds choose the best server of either side, {rounds} later rounds judge it. A server's rate in a \
         round is the median of its blocks.\n\
         - A ratio is the median over rounds of two rates of the same round, with its sign interval at 95 % or more.\n\
         - CPU time is that of the server's process, threads included that the kernel runs for it, over the round; it is \
         divided by all calls that the client completed with it. What soft interrupts do on the other CPU is in \
         nobody's account.\n\
         - The foreign servers are in `xtask/peers`: C with epoll, C with liburing (multishot accept and receive, \
         provided buffers), and Rust with Tokio on one thread.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_what_the_document_says() {
        let text = std::fs::read_to_string(cargo::root().join(PLAN)).unwrap();
        let spec = bytegauge_plan::file::parse(PLAN, &text).unwrap();
        let level = |name: &str| spec.parts[0].levels[name][0].to_string();
        assert_eq!((level("client_engine").as_str(), level("request").as_str()), (CLIENT_ENGINE, "512"));
        assert_eq!(MESSAGE_BYTES, 512);
        assert!(text.contains("trial = \"100ms\""));
    }

    #[test]
    fn the_best_of_each_side_meet() {
        let server =
            |name: &str, is_ours| EchoServer { name: name.into(), program: PathBuf::new(), args: Vec::new(), is_ours };
        let servers = [server("a", true), server("b", true), server("c", false)];
        let arm = |name: &str, chosen: f64, rate: f64| Arm {
            name: name.into(),
            chosen: vec![(chosen, chosen)],
            rates: vec![rate * 1e3; 6],
            per_cpu_second: vec![rate * 1e3; 6],
        };
        // `b` was lucky in the rounds that judge, but `a` was chosen.
        let text = panel(&servers, &[arm("a", 9.0, 90.0), arm("b", 8.0, 200.0), arm("c", 9.0, 100.0)]);
        assert!(text.contains("**missed**, 0.900 (0.900 to 0.900) (a beside c)."), "{text}");
        assert!(text.contains("| b | 200.0 ± 0 % |"), "{text}");
    }
}
