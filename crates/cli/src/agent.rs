//! `bytegauge agent`: runs one end, or the relay, of sessions of other hosts that have its key, until it is interrupted.
//!
//! Prints its address to standard output, for programs that started it, and a log of measurements to standard error.

use std::path::PathBuf;
use std::time::Duration;

use bytegauge_agent::{Agent, AgentSetup, Limits};
use bytegauge_harness::this_machine;
use bytegauge_model::{Bytes, Nanos, Place, escape};
use bytegauge_wire::Key;
use clap::{ArgAction, ArgGroup, ArgMatches, Command, value_parser};

use crate::command_line::option::{switch, valued};
use crate::exit_code::{DONE, Failure, usage};
use crate::{agent_sessions, args, interrupt, measure, terminal};

/// Sessions at a time at most: each has a thread and an end of its own.
const SESSIONS_MAX: u64 = 32;

/// Connections of a trial at most.
const FLOWS_MAX: u64 = 65_536;

/// The subcommand.
pub fn command() -> Command {
    Command::new("agent")
        .about("Run ends and relays for other hosts (docs/far-host.md)")
        .arg(switch("init", "Create --key-file with a new key, and exit"))
        .arg(valued("listen", "ADDRESS:PORT", "Address to listen on; port 0: a free port"))
        .group(ArgGroup::new("what").args(["init", "listen"]).required(true))
        .arg(
            valued("key-file", "FILE", "Key of both hosts, readable by its owner only")
                .value_parser(value_parser!(PathBuf))
                .required(true),
        )
        .next_help_heading("Limits")
        .arg(valued("max-sessions", "N", "Sessions at a time; two disturb each other").default_value("1"))
        .arg(valued("max-flows", "N", "Connections of a trial, with idle ones").default_value("2048"))
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

/// Makes a key, or serves until SIGINT or SIGTERM.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    if matches.get_flag("init") {
        return init(matches);
    }
    let Some(place) = args::parsed::<Place>(matches, "listen")? else {
        return usage("--listen needs an address: give ADDRESS:PORT");
    };
    let limits = limits(matches)?;
    let key = agent_sessions::read(matches)?;
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
    let Some(file) = matches.get_one::<PathBuf>("key-file") else {
        return usage("--init needs --key-file FILE, the file to create");
    };
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
    let count = |name: &str, max: u64| -> Result<usize, Failure> {
        let count: u64 = args::needed(matches, name)?;
        match (1..=max).contains(&count) {
            true => Ok(count as usize),
            false => usage(format!("--{name}: {count} is out of range: use 1 to {max}")),
        }
    };
    let size = |name: &str| args::needed(matches, name).map(|Bytes(bytes)| bytes);
    let Nanos(duration_ns) = args::needed(matches, "max-duration")?;
    if duration_ns == 0 {
        return usage("--max-duration: a session needs time: give for example 10m");
    }
    Ok(Limits {
        sessions: count("max-sessions", SESSIONS_MAX)?,
        flows: count("max-flows", FLOWS_MAX)?,
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
