//! `--host`, `--relay-host` and `--key-file`: opens a session at every agent before anything is measured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytegauge_agent::AgentLink;
use bytegauge_harness::RunOptions;
use bytegauge_model::{Place, Spec};
use bytegauge_plan::Plan;
use bytegauge_traffic::RemoteHost;
use bytegauge_wire::Key;
use clap::ArgMatches;

use crate::args;
use crate::exit_code::{Failure, usage};

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
