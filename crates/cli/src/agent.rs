//! `bytegauge agent`: runs one end, or the relay, of sessions of other hosts that have its key, until it is interrupted.
//!
//! Prints its address to standard output, for programs that started it, and a log of measurements to standard error.
//!
//! Also the other side, `--host` and `--relay-host`: sessions at agents of other hosts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytegauge_agent::{Agent, AgentLink, AgentSetup, Limits};
use bytegauge_harness::{RunOptions, this_machine};
use bytegauge_model::{Bytes, Nanos, Place, Spec, escape};
use bytegauge_plan::Plan;
use bytegauge_traffic::RemoteHost;
use bytegauge_wire::Key;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};

use crate::command_line::option::{path, switch, valued};
use crate::exit_code::{DONE, Failure, usage};
use crate::{args, interrupt, measure, terminal};

/// Sessions at a time at most: each has a thread and an end of its own.
const SESSIONS_MAX: i64 = 32;

/// Connections of a trial at most.
const FLOWS_MAX: i64 = 65_536;

/// The subcommand.
pub fn command() -> Command {
    Command::new("agent")
        .about("Run ends and relays for other hosts (docs/far-host.md)")
        .arg(switch("init", "Create --key-file with a new key, and exit"))
        .arg(valued("listen", "ADDRESS:PORT", "Address to listen on; port 0: a free port"))
        .group(ArgGroup::new("what").args(["init", "listen"]).required(true))
        .arg(path("key-file", "FILE", "Key of both hosts, readable by its owner only").required(true))
        .next_help_heading("Limits")
        .arg(count("max-sessions", SESSIONS_MAX, "Sessions at a time; two disturb each other").default_value("1"))
        .arg(count("max-flows", FLOWS_MAX, "Connections of a trial, with idle ones").default_value("2048"))
        .arg(valued("max-duration", "TIME", "Time of a session, and of each trial").default_value("60m"))
        .arg(
            valued("max-bytes", "SIZE", "Bytes of a session; a trial that reaches it is ended").default_value("16384G"),
        )
        .arg(valued("max-memory", "SIZE", "Memory of a trial").default_value("2G"))
        .arg(
            valued("relay-to", "ADDRESS[:PORT]", "Another address that ends may connect to; repeatable")
                .action(ArgAction::Append),
        )
        .arg(valued("max-rate", "SIZE", "Bytes per second: sessions need a --rate up to it"))
}

fn count(name: &'static str, max: i64, help: &'static str) -> Arg {
    valued(name, "N", help).value_parser(value_parser!(u32).range(1..=max))
}

/// Makes a key, or serves until SIGINT or SIGTERM.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    if matches.get_flag("init") {
        return init(matches);
    }
    let place: Place = args::needed(matches, "listen")?;
    let limits = limits(matches)?;
    let key = read(matches)?;
    let program = measure::own_program()?;
    let stop = interrupt::stop_on_signals()?;
    measure::remove_leftovers(false);
    let agent = Agent::listen(&place, AgentSetup { key, limits, program, machine: this_machine, log })?;
    // A closed standard output does not stop the agent.
    terminal::print(&format!("listening on {}\n", agent.place()?));
    agent.serve(&stop);
    Ok(DONE)
}

fn init(matches: &ArgMatches) -> Result<u8, Failure> {
    let Some(file) = matches.get_one::<PathBuf>("key-file") else { return usage("--init needs --key-file FILE") };
    Key::create(file).map_err(args::wrong("key-file"))?;
    terminal::note(&format!(
        "made the key {0}: copy it to the other host, where only its owner may read it (scp -p), and start the agent there \
         with --listen ADDRESS:PORT --key-file {0}",
        file.display()
    ));
    Ok(DONE)
}

/// Writes a line of the log. A closed standard error does not stop the agent.
fn log(line: &str) {
    terminal::note(&format!("agent: {}", escape::line(line)));
}

fn limits(matches: &ArgMatches) -> Result<Limits, Failure> {
    let count = |name: &str| matches.get_one::<u32>(name).map_or(1, |count| *count as usize);
    let size = |name: &str| args::needed(matches, name).map(|Bytes(bytes)| bytes);
    let Nanos(duration_ns) = args::needed(matches, "max-duration")?;
    if duration_ns == 0 {
        return usage("--max-duration: a session needs time: give for example 10m");
    }
    Ok(Limits {
        sessions: count("max-sessions"),
        flows: count("max-flows"),
        duration: Duration::from_nanos(duration_ns),
        bytes: size("max-bytes")?,
        memory: size("max-memory")?,
        rate: args::parsed(matches, "max-rate")?.map(|Bytes(bytes)| bytes),
        relay_to: args::texts(matches, "relay-to")
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(args::wrong("relay-to"))?,
    })
}

// `--host`, `--relay-host` and `--key-file`: opens a session at every agent before anything is measured.

/// Time of a session in addition to its plan: to begin, to analyse, to end.
const BEYOND_NS: u64 = 60_000_000_000;

/// The key, if an end is to run on another host.
pub fn key(plan: &Plan, matches: &ArgMatches) -> Result<Option<Key>, Failure> {
    let is_far = plan.cells.iter().any(|cell| cell.factors.spans_hosts());
    let file = matches!(matches.try_get_one::<PathBuf>("key-file"), Ok(Some(_)));
    match (is_far, file) {
        (false, false) => Ok(None),
        (true, false) => usage(
            "--host, --relay-host: an agent only accepts hosts with its key: use the same --key-file as there (`bytegauge agent \
             --init --key-file FILE` makes one)",
        ),
        (false, true) => {
            usage("--key-file needs --host or --relay-host HOST:PORT: give one of them, or leave out --key-file")
        }
        (true, true) => read(matches).map(Some),
    }
}

/// The key in the file that was named.
pub fn read(matches: &ArgMatches) -> Result<Key, Failure> {
    let Some(file) = matches.get_one::<PathBuf>("key-file") else {
        return usage(
            "--key-file FILE is missing, the same on all hosts. Create one with: bytegauge agent --init --key-file FILE",
        );
    };
    Key::read(file).map_err(args::wrong("key-file"))
}

/// Skips relays that their host's agent cannot run.
pub fn skip_missing(plan: &mut Plan, links: &[Arc<dyn RemoteHost>]) -> Result<(), Failure> {
    let missing = |levels: &Spec| {
        let place = levels.relay_host()?;
        let link = links.iter().find(|link| Place::Ip(link.agent()) == *place)?;
        let facts = link.facts()?;
        let reason = facts.missing_relays.get(&levels.relay()?.to_string())?;
        Some(format!("at {place}: {reason}"))
    };
    plan.skip(missing).map_err(|error| Failure::failed(format!("--relay-host: {error}")))
}

/// Expected time of a session, nanoseconds; 0 if unknown.
pub fn lasts_ns(plan: &Plan, options: &RunOptions) -> u64 {
    let first_ns = plan.schedule().total_ns().max(plan.budget_ns);
    match (options.until_proven, options.until_max_ns) {
        (true, None) => 0,
        (true, Some(most_ns)) => most_ns.max(first_ns).saturating_add(BEYOND_NS),
        (false, _) => first_ns.saturating_add(BEYOND_NS),
    }
}

/// A session at every agent of the plan, and then another one at each whose path is loaded during calls.
pub fn links(plan: &Plan, key: &Key, lasts_ns: u64) -> Result<Vec<Arc<dyn RemoteHost>>, Failure> {
    let mut links: Vec<Arc<dyn RemoteHost>> = Vec::new();
    let hosts = plan.cells.iter().filter_map(|cell| cell.factors.far()).map(|(place, _)| ("host", place));
    let relay_hosts = plan.cells.iter().filter_map(|cell| cell.factors.relay_host()).map(|place| ("relay-host", place));
    for (flag, place) in hosts.chain(relay_hosts) {
        let Place::Ip(agent) = *place else { continue };
        if links.iter().all(|link| link.agent() != agent) {
            let link =
                AgentLink::open(agent, key, lasts_ns).map_err(|error| Failure::failed(format!("--{flag}: {error}")))?;
            links.push(Arc::new(link));
        }
    }
    let mut loaded: Vec<SocketAddr> = Vec::new();
    for cell in plan.cells.iter().filter(|cell| cell.factors.load_flows().is_some_and(|flows| flows > 0)) {
        let Some((Place::Ip(agent), _)) = cell.factors.far() else { continue };
        if !loaded.contains(agent) {
            let link = AgentLink::open(*agent, key, lasts_ns).map_err(|error| {
                Failure::failed(format!("--load-flows needs a second session at the agent (--max-sessions 2): {error}"))
            })?;
            links.push(Arc::new(link));
            loaded.push(*agent);
        }
    }
    Ok(links)
}
