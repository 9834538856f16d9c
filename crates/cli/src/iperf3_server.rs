//! `bytegauge serve iperf3`: a server for iperf3 clients, until it is interrupted.
//!
//! Its address and the tests that ended go to standard output, refused connections to standard error.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::unit::{about_bytes, byte_rate, counted, significant};
use bytegauge_model::{Bytes, Level, Nanos, Place, escape, factor};
use bytegauge_serve::iperf3::{Iperf3Interval, Iperf3Limits, Iperf3Notice, Iperf3Server, Iperf3Test};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::exit_code::{DONE, Failure};
use crate::{args, interrupt, terminal};

/// How often the server looks for an interruption.
const CHECK: Duration = Duration::from_millis(50);

/// A server looks at its counts ten times a second.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Tests at the same time at most: each has a thread for each connection.
const CLIENTS_MAX: usize = 256;

/// The subcommand.
pub fn command() -> Command {
    let valued = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("iperf3")
        .about("Serve iperf3 clients, many at once (docs/iperf3.md)")
        .arg(valued("listen", "HOST:PORT", "Address for TCP and UDP").default_value("0.0.0.0:5201"))
        .arg(
            Arg::new("exclusive")
                .long("exclusive")
                .action(ArgAction::SetTrue)
                .help("Run one test at a time; further clients wait"),
        )
        .arg(valued("max-clients", "N", "Tests at the same time").default_value("16"))
        .arg(valued("max-time", "TIME", "Longest test").default_value("60m"))
        .arg(valued("max-bytes", "SIZE", "Bytes of a test; a test that reaches it is ended"))
        .arg(valued("max-rate", "RATE", "Highest rate of a test, such as 100Mbit"))
        .arg(valued("interval", "TIME", "Print the bytes of each test in steps, such as 1s"))
        .arg(
            valued("format", "FORMAT", "text, or json: a line for each test")
                .value_parser(["text", "json"])
                .default_value("text"),
        )
}

/// Serves until SIGINT or SIGTERM.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let place: Place = args::parsed(matches, "listen")?
        .ok_or_else(|| Failure::usage("--listen is missing: give HOST:PORT, such as 127.0.0.1:5201"))?;
    if !matches!(place, Place::Ip(_) | Place::Named { .. }) {
        return Err(Failure::usage(format!("--listen: {place} has no port: give HOST:PORT, such as 0.0.0.0:5201")));
    }
    let limits = limits(matches)?;
    let is_json = args::text(matches, "format") == Some("json");
    let stop = interrupt::stop_on_signals()?;
    let log = Box::new(move |notice| report(&notice, is_json));
    let server = Iperf3Server::start(&place, limits, log).map_err(|fault| Failure::failed(fault.to_string()))?;
    terminal::print(&format!("listening on {}\n", server.place()));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(CHECK);
    }
    server.stop();
    Ok(DONE)
}

fn limits(matches: &ArgMatches) -> Result<Iperf3Limits, Failure> {
    let clients: usize = args::parsed(matches, "max-clients")?.unwrap_or(1);
    if !(1..=CLIENTS_MAX).contains(&clients) {
        return Err(Failure::usage(format!("--max-clients: {clients} is out of range: use 1 to {CLIENTS_MAX}")));
    }
    let Nanos(time_ns) = args::parsed(matches, "max-time")?.unwrap_or(Nanos(0));
    if time_ns < 1_000_000_000 {
        return Err(Failure::usage("--max-time: iperf3 counts in seconds: use 1s or more"));
    }
    Ok(Iperf3Limits {
        clients,
        exclusive: matches.get_flag("exclusive"),
        time: Duration::from_nanos(time_ns),
        bytes: args::parsed(matches, "max-bytes")?.map(|Bytes(bytes)| bytes),
        rate: args::text(matches, "max-rate").map(rate).transpose()?,
        interval: interval(matches)?,
    })
}

/// The time between two lines of a test.
fn interval(matches: &ArgMatches) -> Result<Option<Duration>, Failure> {
    let Some(Nanos(ns)) = args::parsed(matches, "interval")? else { return Ok(None) };
    let interval = Duration::from_nanos(ns);
    match interval < INTERVAL_MIN {
        true => Err(Failure::usage("--interval: use 100ms or more")),
        false => Ok(Some(interval)),
    }
}

/// A rate as `--rate` takes it, bytes per second.
fn rate(text: &str) -> Result<u64, Failure> {
    let parsed = factor::find("rate").map(|factor| factor.kind.parse(text));
    match parsed {
        Some(Ok(Level::Number(rate))) if rate > 0 => Ok(rate),
        Some(Err(error)) => Err(Failure::usage(format!("--max-rate: {error}"))),
        _ => {
            Err(Failure::usage(format!("--max-rate: {text} is no limit: give a rate such as 100Mbit, or leave it out")))
        }
    }
}

fn report(notice: &Iperf3Notice, is_json: bool) {
    match notice {
        Iperf3Notice::Refused { client, why } => {
            terminal::note(&format!("{client} was refused: {}", escape::line(why)));
        }
        Iperf3Notice::LeftOut(count) => {
            terminal::note(&format!("{} had no line of their own", counted(*count as usize, "refused connection")));
        }
        // Numbers always have a JSON text.
        Iperf3Notice::Ended(test) if is_json => {
            terminal::print(&format!("{}\n", serde_json::to_string(&**test).unwrap_or_default()));
        }
        Iperf3Notice::Interval(interval) if is_json => {
            terminal::print(&format!("{}\n", serde_json::to_string(interval).unwrap_or_default()));
        }
        Iperf3Notice::Interval(Iperf3Interval { client, from_seconds, to_seconds, bytes }) => {
            let rate = byte_rate(*bytes as f64 / (to_seconds - from_seconds).max(1e-9));
            let bytes = about_bytes(*bytes);
            terminal::print(&format!("{client} {from_seconds:>8.2}-{to_seconds:<8.2} s {bytes:>10} {rate:>12}\n"));
        }
        Iperf3Notice::Ended(test) => terminal::print(&format!("{}\n", line(test))),
    }
}

/// One test in a line.
fn line(test: &Iperf3Test) -> String {
    let Iperf3Test { client, server_writes, bytes, seconds, connections, .. } = test;
    let did = if *server_writes { "read" } else { "wrote" };
    let rate = byte_rate(*bytes as f64 / seconds.max(1e-9));
    let transport = test.transport.to_uppercase();
    let mut parts = vec![format!(
        "{client} {did} {} in {} s: {rate}, {transport}, {}",
        about_bytes(*bytes),
        significant(*seconds, 3),
        counted(*connections, "connection")
    )];
    parts.extend(test.retransmits.map(|count| counted(count as usize, "retransmission")));
    if let (Some(lost), Some(datagrams)) = (test.lost, test.datagrams) {
        let share = lost as f64 * 100.0 / datagrams.max(1) as f64;
        parts.push(format!("{lost} of {datagrams} datagrams lost ({} %)", significant(share, 2)));
    }
    parts.extend(test.jitter_seconds.map(|jitter| format!("jitter {} ms", significant(jitter * 1e3, 3))));
    parts.extend(test.problem.as_ref().map(|problem| format!("ended early: {}", escape::line(problem))));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test() -> Iperf3Test {
        Iperf3Test {
            client: ([192, 0, 2, 7], 4711).into(),
            version: None,
            transport: "udp",
            server_writes: false,
            connections: 1,
            bytes: 1 << 20,
            client_bytes: None,
            seconds: 2.0,
            retransmits: None,
            datagrams: Some(1000),
            lost: Some(10),
            jitter_seconds: Some(0.0005),
            problem: None,
        }
    }

    #[test]
    fn line_has_all_numbers() {
        let text = line(&test());
        for part in
            ["192.0.2.7:4711 wrote ", " in 2", "UDP, 1 connection", "10 of 1000 datagrams lost (1", "jitter 0.5"]
        {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
        let text = line(&Iperf3Test { server_writes: true, problem: Some("it\u{1b}[31m".into()), ..test() });
        assert!(text.contains(" read ") && text.contains("ended early: ") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn rates_are_limits() {
        assert_eq!(rate("8Mbit").unwrap(), 1_000_000);
        assert!(rate("max").is_err() && rate("0").is_err() && rate("fast").is_err());
    }
}
