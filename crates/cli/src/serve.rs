//! `bytegauge serve`: a server that runs until it is interrupted.
//!
//! Its addresses go to standard output, for programs that start it; its counts go to standard error.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::unit::counted;
use bytegauge_model::{Engine, Nanos, Place, Transport};
use bytegauge_serve::{ServeRole, Served, Server};
use clap::{ArgMatches, Command, value_parser};

use crate::command_line::option::valued;
use crate::exit_code::{DONE, Failure, usage};
use crate::{args, interrupt, terminal};

/// The prefix of an address of datagrams.
const UDP: &str = "udp:";

/// How often the server is looked after.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// More threads than any machine has CPUs for.
const THREADS_MAX: i64 = 1024;

/// The subcommand.
pub fn command() -> Command {
    let role = |name: &'static str, about: &'static str| {
        Command::new(name)
            .about(about)
            .arg(
                valued("engine", "NAME", "How bytes are moved: epoll, blocking, tokio, uring, …")
                    .default_value("epoll"),
            )
            .arg(
                valued("threads", "N", "Threads; blocking has one for each connection")
                    .value_parser(value_parser!(u32).range(1..=THREADS_MAX))
                    .default_value("1"),
            )
            .arg(
                valued("listen", "PLACE", "Address: HOST:PORT, unix:/path, echo also udp:HOST:PORT")
                    .default_value("127.0.0.1:0"),
            )
    };
    Command::new("serve")
        .about("Serve external clients: echo, sink or source")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(role("echo", "Return every byte as it arrives"))
        .subcommand(role("sink", "Read and discard"))
        .subcommand(role("source", "Write as fast as possible"))
}

/// Serves until SIGINT or SIGTERM.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let Some((name, matches)) = matches.subcommand() else {
        return usage("serve needs a role: give echo, sink or source");
    };
    let role = match name {
        "sink" => ServeRole::Sink,
        "source" => ServeRole::Source,
        _ => ServeRole::Echo,
    };
    let engine: Engine = args::needed(matches, "engine")?;
    if engine == Engine::Null {
        return usage("--engine: null moves no bytes and cannot serve: use epoll");
    }
    if !engine.suits(&Transport::Tcp) {
        return usage(format!("--engine: {engine} carries datagrams, not connections: use epoll"));
    }
    let threads = matches.get_one::<u32>("threads").map_or(1, |threads| *threads as usize);
    let datagrams = args::text(matches, "listen").and_then(|place| place.strip_prefix(UDP));
    let place: Place = match datagrams {
        Some(place) => datagram_place(matches, role, place)?,
        None => args::needed(matches, "listen")?,
    };
    if place.is_iperf3() {
        return usage(format!(
            "--listen: {place} is for clients: use HOST:PORT, or start an iperf3 server with: iperf3 -s"
        ));
    }
    let stop = interrupt::stop_on_signals()?;
    let server = match datagrams {
        Some(_) => Server::echo_datagrams(threads, &place),
        None => Server::start(role, engine, threads, &place),
    }?;
    // The program that reads this line can connect.
    terminal::print(&format!("listening on {}\n", server.place()));
    while !stop.load(Ordering::Relaxed) && !server.is_failing() {
        std::thread::sleep(LOOK_AFTER);
    }
    let (served, fault) = server.stop();
    terminal::note(&summary(&served));
    match fault {
        None => Ok(DONE),
        Some(fault) => Err(fault.into()),
    }
}

/// The address of datagrams, if no other flag is about connections.
fn datagram_place(matches: &ArgMatches, role: ServeRole, place: &str) -> Result<Place, Failure> {
    if role != ServeRole::Echo {
        return usage("--listen: udp: is for serve echo");
    }
    if args::is_given(matches, "engine") {
        return usage("--engine does not go with --listen udp:, which takes one datagram a call: leave it out");
    }
    let place = place.parse::<Place>().map_err(args::wrong("listen"))?;
    match place {
        Place::Path(_) | Place::Iperf3(_) => usage("--listen: udp: needs HOST:PORT, such as udp:127.0.0.1:7000"),
        place => Ok(place),
    }
}

fn summary(served: &Served) -> String {
    let Served { connections, datagrams, broken, received_bytes, sent_bytes, cpu_ns } = *served;
    let broken = if broken > 0 { format!(" ({broken} broke)") } else { String::new() };
    let (count, noun) = if datagrams > 0 { (datagrams, "datagram") } else { (connections, "connection") };
    let connections = format!("{}{broken}", counted(count as usize, noun));
    let seconds = Nanos(cpu_ns).seconds();
    format!("served {connections}, {received_bytes} bytes in, {sent_bytes} bytes out, {seconds:.3} CPU seconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts() {
        let served =
            Served { connections: 1, datagrams: 0, broken: 0, received_bytes: 5, sent_bytes: 6, cpu_ns: 7_500_000 };
        assert_eq!(summary(&served), "served 1 connection, 5 bytes in, 6 bytes out, 0.007 CPU seconds");
        let summary = summary(&Served { connections: 3, broken: 2, ..served });
        assert!(summary.starts_with("served 3 connections (2 broke), "), "{summary}");
    }
}
