//! From the flags to the settings of a mesh: the options are those that `stream` and `call` would measure.
//!
//! Also the forecast of a mesh, and the limits on it.

use std::collections::BTreeMap;

use bytegauge_mesh::schedule::{MeshSchedule, SLOTS_MAX};
use bytegauge_mesh::settings::FORMAT;
use bytegauge_mesh::{MeshCell, MeshPattern, MeshSettings, files};
use bytegauge_model::unit::{about_bytes, counted};
use bytegauge_model::{Bytes, CellKind, Ends, Nanos, Place, Spec, Workload, factor};
use bytegauge_plan::{PlanSpec, resolve};
use bytegauge_wire::random;
use clap::ArgMatches;

use super::flags::MeshFlags;
use crate::exit_code::{Failure, usage};
use crate::{args, measure};

/// The far host of the plan, which each visit replaces: an address for documentation (RFC 5737).
const PLACEHOLDER: &str = "192.0.2.1:9";

/// Length of a trial unless the user gives another, nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;

/// Most ranks of a mesh whose pattern is repeated. A larger mesh is measured once, and suspects are repeated.
const REPEATED_UP_TO: u32 = 16;

/// The most clients of an agent at the same time; it hears 64 callers.
const CLIENTS_MAX: u32 = 60;

/// Levels that a mesh has unless the user gives others: it looks for slow hosts, not for the best buffer.
fn usual(workload: Workload, by_datagrams: bool) -> &'static [(&'static str, &'static str)] {
    match (workload, by_datagrams) {
        (Workload::Call, true) => &[("server_engine", "plain"), ("client_engine", "plain"), ("flows", "1")],
        (Workload::Call, false) => {
            &[("server_engine", "epoll"), ("read_size", "64K"), ("flows", "1"), ("idle_flows", "0")]
        }
        // A datagram of an Ethernet frame.
        (_, true) => &[("read_size", "64K"), ("write_size", "1472"), ("engine", "plain")],
        (_, false) => &[("read_size", "128K"), ("write_size", "128K"), ("engine", "blocking")],
    }
}

/// The settings that the flags ask for.
///
/// # Errors
/// [`Failure`] of wrong usage.
pub fn settings(matches: &ArgMatches, flags: &MeshFlags) -> Result<MeshSettings, Failure> {
    let ranks = flags.place.size;
    let pattern = pattern(matches, flags)?;
    let usual_replicates = if ranks <= REPEATED_UP_TO { 3 } else { 1 };
    let replicates = matches.get_one::<u32>("replicates").copied().unwrap_or(usual_replicates);
    let slots = MeshSchedule::slot_count(ranks, pattern, replicates);
    if slots > SLOTS_MAX {
        return usage(format!(
            "{slots} tests are out of range: use fewer --replicates, or --pattern matchings:K (at most {SLOTS_MAX} tests)"
        ));
    }
    let workload = args::needed(matches, "workload")?;
    let mut given = args::factors(matches, workload)?;
    let external = flags.server.as_ref();
    given.retain(|(factor, _)| factor.name != "connect");
    let is_ours =
        |name: &str| factor::find(name).is_some_and(|factor| factor.is_of_server(workload, &Spec::of(workload)));
    let by_datagrams = given.iter().any(|(factor, level)| factor.name == "transport" && level.starts_with("udp"));
    for (name, level) in usual(workload, by_datagrams).iter().filter(|(name, _)| !(external.is_some() && is_ours(name)))
    {
        add(&mut given, name, level);
    }
    if let Some(place) = external {
        add(&mut given, "connect", &place.to_string());
    } else {
        refuse_directions(&given, pattern)?;
        add_far_host(&mut given, workload, pattern);
    }
    let mut spec = PlanSpec::named("mesh", workload);
    spec.set_all(&given)?;
    spec.ends = args::parsed(matches, "ends")?.unwrap_or(Ends::Threads);
    let seed = earlier_seed(matches, flags).unwrap_or_else(|| args::seed(matches));
    let plan = resolve(&spec, &measure::catalog(&spec), seed)?;
    let cells = plan.cells.into_iter().filter(|cell| cell.kind == CellKind::Candidate && cell.twin_of.is_none());
    let run = random().map(|bytes: [u8; 8]| u64::from_le_bytes(bytes)).unwrap_or(seed);
    let Nanos(warmup_ns) = args::needed(matches, "warmup")?;
    let mut settings = MeshSettings {
        format: FORMAT,
        run,
        ranks,
        pattern,
        server: flags.server.as_ref().map(Place::to_string),
        replicates,
        concurrent: concurrent(matches)?,
        seed,
        workload,
        warmup_ns,
        window_ns: WINDOW_NS,
        ends: spec.ends,
        verify: matches.get_flag("verify"),
        margin: args::share("margin", args::text(matches, "margin").unwrap_or("10%"), 0.0..=0.9)?,
        follow_up: !matches.get_flag("no-follow-up") && !pattern.has_hub(),
        options: Vec::new(),
        cells: Vec::new(),
    };
    settings.set_cells(cells.collect());
    Ok(settings)
}

/// The pattern, if agents can serve it.
fn pattern(matches: &ArgMatches, flags: &MeshFlags) -> Result<MeshPattern, Failure> {
    let pattern: MeshPattern = args::needed(matches, "pattern")?;
    let clients = pattern.clients(flags.place.size);
    let refused = match &flags.server {
        Some(_) if !matches!(pattern, MeshPattern::Incast(_)) => format!(
            "--connect does not work with --pattern {pattern}: use --pattern incast:K, with K hosts at a time as its clients"
        ),
        None if clients > CLIENTS_MAX => format!(
            "--pattern {pattern}: an agent serves at most {CLIENTS_MAX} clients at the same time, and this needs {clients}: use \
             incast:{CLIENTS_MAX}, or fewer hosts"
        ),
        _ => return Ok(pattern),
    };
    usage(refused)
}

fn concurrent(matches: &ArgMatches) -> Result<Option<u32>, Failure> {
    match args::text(matches, "concurrent") {
        None | Some("all") => Ok(None),
        Some(text) => text.parse().ok().filter(|count| *count > 0).map(Some).ok_or_else(|| {
            Failure::usage(format!("--concurrent: {text:?} is no number of tests: use 1 or more, or all"))
        }),
    }
}

/// The seed of the results that are continued: without it the schedule would be another one.
fn earlier_seed(matches: &ArgMatches, flags: &MeshFlags) -> Option<u64> {
    if !flags.resume || matches.get_one::<u64>("seed").is_some() {
        return None;
    }
    let path = files::existing(&flags.out, flags.place.rank)?;
    Some(files::header(&path).ok()?.settings.seed)
}

/// Refuses several directions of a pattern whose hosts are measured together: each client has its own order of trials, so that
/// some would send while others receive.
fn refuse_directions(given: &[(&'static factor::Factor, String)], pattern: MeshPattern) -> Result<(), Failure> {
    match given.iter().find(|(factor, level)| factor.name == "direction" && level.contains(',')) {
        Some((_, level)) if pattern.has_hub() => usage(format!(
            "--direction {level}: all clients of --pattern {pattern} are measured together: use one of to, from or both"
        )),
        _ => Ok(()),
    }
}

/// Adds the levels of a test between two hosts.
fn add_far_host(given: &mut Vec<(&'static factor::Factor, String)>, workload: Workload, pattern: MeshPattern) {
    if !given.iter().any(|(factor, _)| ["work", "working_set", "idle_flows", "profile"].contains(&factor.name)) {
        add(given, "profile", if workload == Workload::Stream { "drain" } else { "rpc" });
    }
    add(given, "host", PLACEHOLDER);
    // A client of an incast only sends; a host that sends to all only sends.
    let directions = match pattern {
        MeshPattern::OneToAll => "from",
        pattern if !pattern.has_hub() => "to,from",
        _ => "to",
    };
    add(given, "direction", directions);
}

/// Adds a level unless the user has given one.
fn add(given: &mut Vec<(&'static factor::Factor, String)>, name: &str, level: &str) {
    let Some(factor) = factor::find(name) else { return };
    if given.iter().all(|(known, _)| known.name != name) {
        given.push((factor, level.to_owned()));
    }
}

// Forecast of a mesh: rounds, time, bytes and concurrent connections; and the limits on them.

/// Time above which a mesh needs `--yes`, nanoseconds: an hour.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// Bytes above which a mesh needs `--yes`: 1 PiB.
const BYTES_MAX: u64 = 1 << 50;

/// The assumed rate of a host without `--rate`, bytes per second: 100 Gbit/s.
const RATE: u64 = 12_500_000_000;

/// The expected size of a mesh.
pub struct MeshForecast {
    time_ns: u64,
    bytes: u64,
    /// Rounds, time, bytes and concurrent connections, with the last line ended.
    pub text: String,
}

impl MeshForecast {
    /// The expected size of these settings.
    pub fn of(settings: &MeshSettings) -> MeshForecast {
        let schedule = settings.schedule();
        let mut in_round = BTreeMap::<u32, u64>::new();
        let (mut parts, mut most_clients) = (0, 1);
        for (_, slot) in schedule.slots() {
            *in_round.entry(slot.round).or_default() += 1;
            parts += slot.clients.len();
            most_clients = most_clients.max(slot.clients.len());
        }
        let most = settings.concurrent.map_or(u64::MAX, u64::from);
        let waves: u64 = in_round.values().map(|tests| tests.div_ceil(most)).sum();
        let at_once = in_round.values().copied().max().unwrap_or(0).min(most) as usize;
        let flows = settings.cells.iter().filter_map(|cell| cell.cell.factors.flows()).max().unwrap_or(1);
        let rates = settings.cells.iter().map(|cell| cell.cell.factors.rate());
        let is_paced = rates.clone().all(|rate| rate.is_some());
        let moved = |(cell, rate): (&MeshCell, Option<u64>)| {
            settings.trial_ns(cell) as f64 / 1e9 * cell.rows() as f64 * rate.unwrap_or(RATE) as f64
        };
        let each: f64 = settings.cells.iter().zip(rates).map(moved).sum();
        // Clients of one server share its link.
        let senders = if is_paced { parts } else { schedule.len() };
        let (time_ns, bytes) = (waves.saturating_mul(settings.slot_ns()), (each * senders as f64) as u64);
        let assumed = if is_paced { "" } else { ", if each host reaches 100 Gbit/s" };
        let repeated = if settings.follow_up { "; pairs that look slow are repeated after it" } else { "" };
        let text = format!(
            "Mesh of {} ranks, pattern {}, {}: {} in {}, {} trials\nTime: {}{repeated}\nBytes: at most {}{assumed}\nAt the same \
             time: {}, {}\n",
            settings.ranks,
            settings.pattern,
            counted(settings.options.len(), "option"),
            counted(schedule.len(), "test"),
            counted(schedule.rounds() as usize, "round"),
            parts * settings.cells.len(),
            Nanos(time_ns),
            about_bytes(bytes),
            counted(at_once, "test"),
            counted(at_once * most_clients * flows as usize, "connection"),
        );
        MeshForecast { time_ns, bytes, text }
    }

    /// Refuses a mesh beyond its limits unless the user agrees.
    ///
    /// # Errors
    /// [`Failure`] of wrong usage, with the flags that allow it.
    pub fn check(&self, matches: &ArgMatches) -> Result<(), Failure> {
        if matches.get_flag("yes") {
            return Ok(());
        }
        let time_ns = args::parsed(matches, "max-time")?.map_or(TIME_MAX_NS, |Nanos(ns)| ns);
        let bytes = args::parsed(matches, "max-bytes")?.map_or(BYTES_MAX, |Bytes(bytes)| bytes);
        if self.time_ns > time_ns {
            return usage(format!(
                "this mesh takes about {}, more than {}: use fewer --replicates, --pattern matchings:K, a larger --max-time, or --yes",
                Nanos(self.time_ns),
                Nanos(time_ns)
            ));
        }
        if self.bytes > bytes {
            return usage(format!(
                "this mesh may move {}, more than {}: use a --rate, fewer --replicates, a larger --max-bytes, or --yes",
                about_bytes(self.bytes),
                about_bytes(bytes)
            ));
        }
        Ok(())
    }
}
