//! Load generators: our client's engines beside a client with a thread for every connection, on the same server.
//!
//! The server is the plain one in C, so that no client is at home. A client's CPU time is its own account of its
//! calling threads; that of the server limits all of them alike.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bytegauge_model::EndRole;
use bytegauge_stats::rng::Stream;

use super::bench::{Bench, Cpus};
use super::compare::{self, Aim, Arm, interval, ratio};
use super::echo::EchoServer;
use super::foreign::{EPOLL_ECHO, THREAD_CLIENT};
use super::process;
use super::{machine, process::Server};
use crate::markdown::table;

const CONNECTIONS: u64 = 50;
const MESSAGE_BYTES: u64 = 512;

/// Engines of ours that call.
const ENGINES: &[&str] = &["epoll", "uring:multishot", "uring:plain", "tokio", "blocking"];

/// What a run of the foreign client may take beside its measured seconds.
const GRACE_SECONDS: u64 = 30;

const RATE: Aim = Aim { text: "our best client makes 1.5 times the calls of a thread per connection", at_least: 1.5 };
const PER_CPU: Aim = Aim { text: "and that at less CPU time a call", at_least: 1.0 };

/// A client that calls and waits for the reply.
enum Client {
    /// Ours by an engine.
    Ours(&'static str),
    /// A thread for every connection.
    Threads(PathBuf),
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Client::Ours(engine) => write!(f, "bytegauge {engine}"),
            Client::Threads(_) => f.write_str("C, a thread per connection"),
        }
    }
}

/// Compares, and makes the document's part.
///
/// # Errors
/// When nothing can be compared, or a run fails.
pub fn compared(bench: &Bench, random: &mut Stream) -> Result<String> {
    let server = EchoServer::foreign("C, epoll", EPOLL_ECHO.built()?);
    let mut clients: Vec<Client> = ENGINES.iter().map(|engine| Client::Ours(engine)).collect();
    clients.push(Client::Threads(THREAD_CLIENT.built()?));
    let mut left_out = Vec::new();
    let cpus = bench.cpus(random)?;
    clients.retain(|client| match measured(bench, &server, client, cpus, 1) {
        Ok(_) => true,
        Err(error) => {
            left_out.push(format!("{client}: {error:#}"));
            false
        }
    });
    let measure = |client: &Client, cpus, seed| measured(bench, &server, client, cpus, seed);
    let arms = compare::arms(bench, &clients, random, measure)?;
    let (ours, theirs): (Vec<_>, Vec<_>) =
        clients.iter().zip(&arms).partition(|(client, _)| matches!(client, Client::Ours(_)));
    let best = ours.into_iter().map(|(_, arm)| arm).max_by(|a, b| a.chosen_rate().total_cmp(&b.chosen_rate()));
    let (best, threads) = (best.context("none of our clients calls here")?, theirs.first().map(|(_, arm)| *arm));
    let part = panel(&arms, best, threads.with_context(|| left_out.join("; "))?);
    println!("{part}");
    let environment = bench.ours.environment()?;
    let left_out: String = left_out.iter().map(|reason| format!("Left out: {reason}.\n")).collect();
    Ok(format!(
        "{}{part}{left_out}\n{}\n\n{}",
        head(bench),
        machine::line(&environment, &bench.topology),
        method(bench)
    ))
}

/// Calls per second, and per CPU second of the client.
fn measured(bench: &Bench, server: &EchoServer, client: &Client, cpus: Cpus, seed: u64) -> Result<(f64, f64)> {
    let running = server.start(cpus.server)?;
    match client {
        Client::Ours(engine) => our_calls(bench, &running, engine, cpus, seed),
        Client::Threads(program) => {
            let seconds = bench.effort.seconds;
            let port = running.place().rsplit(':').next().context("the server named no port")?;
            let mut command = process::bounded(program, seconds + GRACE_SECONDS);
            command.arg(port).args([CONNECTIONS, MESSAGE_BYTES, seconds].map(|number| number.to_string()));
            let output = process::output(&mut command, Some(cpus.client))?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{}: {}", output.status, said.trim());
            of_threads(&String::from_utf8_lossy(&output.stdout))
        }
    }
}

fn our_calls(bench: &Bench, server: &Server, engine: &str, cpus: Cpus, seed: u64) -> Result<(f64, f64)> {
    let (flows, seconds) = (CONNECTIONS.to_string(), format!("{}s", bench.effort.seconds));
    let (request, seed) = (MESSAGE_BYTES.to_string(), seed.to_string());
    let mut args = vec!["call", "--connect", server.place(), "--flows", &flows, "--request", &request];
    args.extend(["--client-engine", engine, "--duration", &seconds, "--blocks", "1", "--seed", &seed]);
    let session = bench.ours.session(&args, Some(cpus.client))?;
    let rate = session.rate()?;
    let client = session.confirmed().find_map(|(_, trial)| trial.end(EndRole::Client));
    let client = client.context("the client reported nothing")?;
    Ok((rate, client.calls as f64 * 1e9 / client.cpu_and_kernel_threads_ns() as f64))
}

/// The foreign client prints calls per second, and its CPU time for each, nanoseconds.
fn of_threads(said: &str) -> Result<(f64, f64)> {
    let mut numbers = said.split_whitespace().map(str::parse::<f64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(rate)), Some(Ok(cpu_ns))) if rate > 0.0 && cpu_ns > 0.0 => Ok((rate, 1e9 / cpu_ns)),
        _ => Err(anyhow::anyhow!("the client said `{}`", said.trim())),
    }
}

fn panel(arms: &[Arm], best: &Arm, threads: &Arm) -> String {
    let rows = arms.iter().map(|arm| {
        vec![
            arm.name.clone(),
            compare::thousands(&arm.rates),
            interval(&ratio(&arm.rates, &threads.rates)),
            compare::thousands(&arm.per_cpu_second),
            interval(&ratio(&arm.per_cpu_second, &threads.per_cpu_second)),
        ]
    });
    let over = format!("over {} (95 %)", threads.name);
    format!(
        "{}\n{}\n\n{}\n{}",
        table(&["client", "1000 calls/s", &over, "1000 calls per CPU second of the client", &over], rows),
        RATE.verdict(&ratio(&best.rates, &threads.rates), &best.name),
        PER_CPU.verdict(&ratio(&best.per_cpu_second, &threads.per_cpu_second), &best.name),
        compare::raw(arms),
    )
}

fn head(bench: &Bench) -> String {
    format!(
        "## Load generators\n\nMade by `cargo xtask peers clients {} --seed {}` on {}. {CONNECTIONS} connections, \
         {MESSAGE_BYTES} B, a call waits for the last one's reply. Above 1, the client of that row is the better one.\n\n",
        bench.effort.flags(),
        bench.seed,
        bench.date
    )
}

fn method(bench: &Bench) -> String {
    let (choosing, rounds, seconds) = (bench.effort.choosing_rounds(), bench.effort.rounds, bench.effort.seconds);
    format!(
        "- The server is C with epoll, alone on one CPU and started anew for every run; the client runs on another, all \
         its threads together. A coin deals the two CPUs every round.\n\
         - {choosing} rounds choose our best engine, {rounds} later rounds judge it, each of {seconds} s a client in \
         random order. A ratio is the median over rounds, with its sign interval at 95 % or more.\n\
         - Ours times every call and keeps three histograms; the other client only counts.\n\
         - CPU time is that of the calling threads while they are measured.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_foreign_client_says() {
        assert_eq!(of_threads("125000.0 8000.0\n").unwrap(), (125_000.0, 125_000.0));
        assert_eq!(of_threads("connect: refused").unwrap_err().to_string(), "the client said `connect: refused`");
        assert!(of_threads("0.0 1.0").is_err());
    }
}
