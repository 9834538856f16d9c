//! The settings of a mesh: rank 0 sends them to all ranks, and its file keeps them.
//!
//! Also the messages between rank 0 and the other ranks, and which rank a process is.

use std::net::SocketAddr;

use bytegauge_model::escape::cut;
use bytegauge_model::{Cell, Direction, Ends, Level, Outcome, Spec, Workload};
use serde::{Deserialize, Serialize};

use crate::Rank;
use crate::rate_model::RateSample;
use crate::row::SlotPlace;
use crate::schedule::{MeshPattern, MeshSchedule, SLOTS_MAX};

/// The format of the files and of the messages. A rank with another one is refused.
pub const FORMAT: u32 = 1;

/// The most clients of all slots together, twice [`SLOTS_MAX`].
const MEMBERS_MAX: u64 = 2 * SLOTS_MAX;

/// Factors with the place at which a cell is measured; they distinguish no options.
const PLACES: [&str; 3] = ["direction", "host", "connect"];

/// One option in one direction, as seen from the client of a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshCell {
    /// The position of its option in [`MeshSettings::options`].
    pub option: u32,
    /// Whether the client sends or calls (`to` the hub), the hub does (`from`), or both send at once.
    pub direction: Direction,
    /// Its levels. The far host, or the external server, is a placeholder that each visit replaces.
    pub cell: Cell,
}

/// Everything that all ranks of a mesh have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshSettings {
    /// The format, [`FORMAT`].
    pub format: u32,
    /// A random number that distinguishes this run.
    pub run: u64,
    /// The number of ranks.
    pub ranks: u32,
    /// Which ranks measure each other.
    pub pattern: MeshPattern,
    /// The external server that ranks call, as rank 0 names it. Its number is that after the last rank.
    pub server: Option<String>,
    /// Repetitions of the pattern.
    pub replicates: u32,
    /// The most slots at the same time; `None` for all.
    pub concurrent: Option<u32>,
    /// Seed of the schedule and of every random order.
    pub seed: u64,
    /// The kind of traffic.
    pub workload: Workload,
    /// Warm-up of each trial, nanoseconds.
    pub warmup_ns: u64,
    /// Length of each trial, nanoseconds.
    pub window_ns: u64,
    /// Threads or processes.
    pub ends: Ends,
    /// Whether the content of all bytes is checked at the receiver.
    #[serde(default)]
    pub verify: bool,
    /// Differences below this share of the typical rate are never called slow.
    pub margin: f64,
    /// Whether suspects are repeated after the pattern.
    pub follow_up: bool,
    /// The options that are compared, by name.
    pub options: Vec<String>,
    /// Every option in every direction.
    pub cells: Vec<MeshCell>,
}

impl MeshCell {
    /// The rows of a trial: one per direction.
    pub fn rows(&self) -> usize {
        if self.direction == Direction::Both { 2 } else { 1 }
    }
}

impl MeshSettings {
    /// Settings of a mesh of all pairs with one option, for tests of what is made of its results.
    #[cfg(test)]
    pub(crate) fn of_pairs(ranks: u32) -> MeshSettings {
        MeshSettings {
            format: FORMAT,
            run: 1,
            ranks,
            pattern: MeshPattern::Pairs,
            server: None,
            replicates: 1,
            concurrent: None,
            seed: 1,
            workload: Workload::Stream,
            warmup_ns: 1,
            window_ns: 1,
            ends: Ends::Threads,
            verify: false,
            margin: 0.1,
            follow_up: false,
            options: vec!["all".into()],
            cells: Vec::new(),
        }
    }

    /// Checks settings that came from another process or a file: the schedule that they describe has bounded size.
    ///
    /// # Errors
    /// The wrong value.
    pub fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!(
                "format {}, where this version reads {FORMAT}: use one version on all hosts",
                self.format
            ));
        }
        if !(2..=RANKS_MAX).contains(&self.ranks) {
            return Err(format!("{} ranks, out of the range 2 to {RANKS_MAX}", self.ranks));
        }
        // A pattern of many clients has few slots, but each has as many members.
        let slots = MeshSchedule::slot_count(self.ranks, self.pattern, self.replicates);
        let members = slots.saturating_mul(self.pattern.clients(self.ranks).min(self.ranks).into());
        if members > MEMBERS_MAX {
            return Err(format!("{members} parts of tests, more than {MEMBERS_MAX}"));
        }
        if !(0.0..1.0).contains(&self.margin) {
            return Err(format!("a margin of {}, not between 0 and 1", self.margin));
        }
        if let Some(cell) = self.cells.iter().find(|cell| cell.option as usize >= self.options.len()) {
            return Err(format!("option {} of {}", cell.option, self.options.len()));
        }
        Ok(())
    }

    /// The schedule, which is the same at all ranks.
    pub fn schedule(&self) -> MeshSchedule {
        let MeshSettings { ranks, pattern, replicates, seed, .. } = *self;
        match self.server {
            Some(_) => MeshSchedule::of_server(ranks, pattern.clients(ranks), replicates, seed),
            None => MeshSchedule::new(ranks, pattern, replicates, seed),
        }
    }

    /// Numbers of the ranks and, after them, of an external server.
    pub fn parties(&self) -> u32 {
        self.ranks + u32::from(self.server.is_some())
    }

    /// Whether results of both settings may be pooled: everything but the run is the same.
    pub fn is_same_test(&self, other: &MeshSettings) -> bool {
        MeshSettings { run: 0, ..self.clone() } == MeshSettings { run: 0, ..other.clone() }
    }

    /// The expected time of one slot, nanoseconds: its trials, with 150 ms of set-up each.
    pub fn slot_ns(&self) -> u64 {
        const SETUP_NS: u64 = 150_000_000;
        let trials = self.cells.iter().map(|cell| self.trial_ns(cell).saturating_add(SETUP_NS));
        trials.fold(0, u64::saturating_add)
    }

    /// The length of a trial of a cell with its warm-up, nanoseconds.
    pub fn trial_ns(&self, cell: &MeshCell) -> u64 {
        self.warmup_ns.saturating_add(cell.cell.factors.duration().unwrap_or(self.window_ns))
    }

    /// Rows of a part of which every trial was made.
    pub fn rows_of_part(&self) -> usize {
        self.cells.iter().map(MeshCell::rows).sum()
    }

    /// Whether a level distinguishes options. A direction does so if it is both at once: one way and the other are rows of one option.
    pub(crate) fn distinguishes(name: &str, levels: &Spec) -> bool {
        !PLACES.contains(&name) || (name == "direction" && levels.goes_both_ways())
    }

    /// Sets the options from cells of a plan: cells that measure one direction each, and differ in nothing else, are one option.
    pub fn set_cells(&mut self, cells: Vec<Cell>) {
        let (mut levels, mut own): (Vec<Spec>, Vec<MeshCell>) = (Vec::new(), Vec::new());
        for cell in cells {
            let direction = cell.factors.direction().unwrap_or_default();
            let mut option = cell.factors.clone();
            option.retain(|name| Self::distinguishes(name, &cell.factors));
            let at = levels.iter().position(|known| *known == option).unwrap_or_else(|| {
                levels.push(option);
                levels.len() - 1
            });
            own.push(MeshCell { option: at as u32, direction, cell });
        }
        self.options = names(&levels);
        self.cells = own;
    }
}

/// Names of options by the levels in which they differ. A factor that applies to some options only, at the same level, follows
/// from another one.
fn names(options: &[Spec]) -> Vec<String> {
    let differ = |name: &str| {
        let mut levels = options.iter().map(|option| option.get(name)).filter(|level| *level != Level::Absent);
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    let both = options.iter().filter(|option| option.goes_both_ways()).count();
    let name = |option: &Spec| {
        let ways = if option.goes_both_ways() { "both ways at once" } else { "one way" };
        let ways = ((1..options.len()).contains(&both)).then(|| ways.to_owned());
        let levels = option
            .present()
            .filter(|(factor, _)| differ(factor.name))
            .map(|(factor, level)| format!("{} {}", factor.heading, factor.kind.compact(&level)));
        let parts: Vec<String> = ways.into_iter().chain(levels).collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
    };
    options.iter().map(name).collect()
}

// Messages between rank 0 and the other ranks. They travel over an encrypted connection, as JSON.

/// The version of the connection, in the place where an agent has that of its own messages: a rank that connects to an
/// agent by mistake learns so at once.
pub const VERSION: u16 = 0x4d02;

/// The longest message of a rank, bytes.
pub const TO_RANK_0_MAX: usize = 1 << 20;

/// The longest message of rank 0, bytes.
pub const TO_RANK_MAX: usize = 8 << 20;

/// The longest name of a host, a rack or a version, bytes. Names of hosts have up to 253 (RFC 1035, section 2.3.4).
pub const NAME_MAX: usize = 256;

/// The longest reason of another host that is kept, bytes.
const REASON_MAX: usize = 2048;

/// A text of another host without the part beyond 2 KiB.
pub fn shortened(reason: String) -> String {
    cut(reason, REASON_MAX)
}

/// A rank introduces itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankHello {
    /// Its number.
    pub rank: Rank,
    /// The number of ranks that it expects.
    pub size: u32,
    /// The version of its program.
    pub program: String,
    /// The name of its host.
    pub host: String,
    /// Its rack, if it has one.
    pub rack: Option<String>,
    /// Where its agent listens.
    pub agent: SocketAddr,
}

impl RankHello {
    /// The same with names of at most [`NAME_MAX`] bytes: rank 0 keeps and prints them.
    #[must_use]
    pub fn within_caps(self) -> RankHello {
        RankHello {
            program: cut(self.program, NAME_MAX),
            host: cut(self.host, NAME_MAX),
            rack: self.rack.map(|rack| cut(rack, NAME_MAX)),
            ..self
        }
    }
}

/// A message of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToRankZero {
    /// The first message.
    Hello(Box<RankHello>),
    /// Slots of which its file has its part already; the second message, after the welcome.
    Done(Vec<u32>),
    /// It is alive.
    Alive,
    /// Its part of a slot has ended.
    Report {
        /// The slot.
        slot: u32,
        /// How it ended.
        outcome: Outcome,
        /// The rates that it measured, by option.
        rates: Vec<(u32, RateSample)>,
    },
    /// It leaves because of an error.
    Leave(String),
}

/// A message of rank 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToRank {
    /// The answer to a hello.
    Welcome {
        /// The settings of the mesh.
        settings: Box<MeshSettings>,
        /// The clock of rank 0 at this moment, nanoseconds of Unix time: all rows are dated by it.
        unix_ns: u64,
    },
    /// The rank cannot take part, for this reason.
    Refused(String),
    /// Rank 0 is alive.
    Alive,
    /// Measure.
    Start {
        /// The place of the part.
        place: SlotPlace,
        /// The agent of the hub; `None` if the hub is the external server, whose address each rank has from its own user.
        agent: Option<SocketAddr>,
    },
    /// Stop measuring.
    Cancel {
        /// The slot.
        slot: u32,
    },
    /// Everything is over: finish the file and leave.
    Finish,
}

impl ToRank {
    /// The same with a reason of at most 2 KiB: ranks print it.
    #[must_use]
    pub fn within_caps(self) -> ToRank {
        match self {
            ToRank::Refused(reason) => ToRank::Refused(shortened(reason)),
            other => other,
        }
    }
}

// Which rank this process is: from flags, or from the variables of the launcher that started it.
//
// Reads no environment itself: the caller passes a function that looks a variable up.

/// Variables with the rank of a process, and the launchers that set them. The first one that is set counts: `mpirun`
/// within a Slurm job sets its own variables in addition to those of Slurm.
const RANKS: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "Open MPI"),
    ("PMIX_RANK", "PMIx"),
    ("PMI_RANK", "PMI"),
    ("SLURM_PROCID", "Slurm"),
    ("JOB_COMPLETION_INDEX", "a Kubernetes Indexed Job"),
];

/// Variables with the number of processes, in the same order. PMIx and Kubernetes have none.
const SIZES: &[&str] = &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "SLURM_NPROCS"];

/// The place of a host in the switches of a Slurm cluster, such as `s0.s4.node7`, and the kinds of its parts.
const TOPOLOGY: (&str, &str) = ("SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN");

/// The nodes of a step of Slurm in the order of its tasks: rank 0 runs on the first one.
const NODES: &str = "SLURM_STEP_NODELIST";

/// Ports at which rank 0 listens for the ranks of its step: below those that Linux gives to outgoing connections by default.
const PORTS: std::ops::Range<u64> = 16_384..32_768;

/// The most ranks of a mesh. Its schedule of all pairs would have 8 million slots.
pub const RANKS_MAX: u32 = 4_096;

/// The place of a process in a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// Its number, from 0.
    pub rank: Rank,
    /// The number of ranks.
    pub size: u32,
}

/// The error of a process whose rank is unknown.
const NO_RANK: &str = "the rank of this process is unknown: no launcher has set one. Start the command by srun or mpirun, or give \
                       --rank R --size N on each host (pdsh: --rank %n)";

/// The place of this process: from the flags `rank` and `size` where they are given, else from variables.
///
/// # Errors
/// A text with the next step.
pub fn place(
    rank: Option<Rank>,
    size: Option<u32>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<RankPlace, String> {
    let number = |name: &str| -> Result<Option<u32>, String> {
        let Some(value) = variable(name) else { return Ok(None) };
        value
            .trim()
            .parse()
            .map(Some)
            .map_err(|_| format!("{name} is {value:?}, which is not a whole number: give --rank R --size N"))
    };
    let (rank, source) = match rank {
        Some(rank) => (rank, "--rank".to_owned()),
        None => {
            let set = RANKS.iter().find(|(name, _)| variable(name).is_some()).ok_or(NO_RANK)?;
            (number(set.0)?.ok_or(NO_RANK)?, format!("{} ({})", set.1, set.0))
        }
    };
    let size = match size {
        Some(size) => size,
        None => SIZES.iter().find_map(|name| number(name).transpose()).unwrap_or_else(|| {
            Err(format!("the number of processes is unknown: {source} does not set it. Give --size N"))
        })?,
    };
    if !(2..=RANKS_MAX).contains(&size) {
        return Err(format!("{size} ranks are out of range: use --size 2 to {RANKS_MAX}"));
    }
    if rank >= size {
        return Err(format!("rank {rank} is out of range: with --size {size}, ranks are 0 to {}", size - 1));
    }
    Ok(RankPlace { rank, size })
}

/// The rack of this host by the topology of its Slurm cluster: its switches without the node. `None` without a tree.
pub fn slurm_rack(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (address, kinds) = (variable(TOPOLOGY.0)?, variable(TOPOLOGY.1)?);
    let (switches, _node) = address.rsplit_once('.')?;
    let (of_switches, of_node) = kinds.rsplit_once('.')?;
    (of_node == "node" && of_switches.starts_with("switch")).then(|| switches.to_owned())
}

/// Where rank 0 of a step of Slurm listens: its node, and a port that follows from the numbers of the job and the step. `None` if this
/// process is in no step.
pub fn slurm_coordinator(variable: impl Fn(&str) -> Option<String>) -> Option<(String, u16)> {
    let host = first_node(&variable(NODES)?)?;
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
    let (job, step) = (number("SLURM_JOB_ID")?, number("SLURM_STEP_ID")?);
    // Consecutive jobs of one node have different ports, and so have the steps of one job.
    let port = PORTS.start + job.wrapping_mul(61).wrapping_add(step) % (PORTS.end - PORTS.start);
    Some((host, u16::try_from(port).ok()?))
}

/// The first host of a list such as `n[07-10,12],m3`: `n07`.
fn first_node(list: &str) -> Option<String> {
    let (mut name, mut rest) = (String::new(), list.trim());
    while let Some(at) = rest.find([',', '[']) {
        name.push_str(&rest[..at]);
        if rest.as_bytes()[at] == b',' {
            return Some(name).filter(|name| !name.is_empty());
        }
        let (numbers, after) = rest[at + 1..].split_once(']')?;
        name.push_str(numbers.split([',', '-']).next()?);
        rest = after;
    }
    name.push_str(rest);
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ranks_are_cut() {
        let long = "é".repeat(1 << 19);
        let agent = ([192, 0, 2, 1], 60_000).into();
        let hello = RankHello { rank: 1, size: 2, program: long.clone(), host: long.clone(), rack: Some(long), agent };
        let hello = hello.within_caps();
        let name = "é".repeat(NAME_MAX / 2);
        assert_eq!((&hello.program, &hello.host, hello.rack.as_ref()), (&name, &name, Some(&name)));
        assert!(hello.host.capacity() <= 2 * NAME_MAX);
    }

    #[test]
    fn a_test_takes_less_than_half_a_kilobyte() {
        let place = SlotPlace { replicate: 2, round: 2_996, slot: 1_498_499, hub: 998, client: 999, clients: 1 };
        let start = ToRank::Start { place, agent: Some(([192, 168, 100, 100], 60_000).into()) };
        let rate = |sender, receiver| (0, RateSample { sender, receiver, ln_rate: 23.456_789_012_345_6 });
        let (slot, outcome) = (place.slot, Outcome::Measured);
        let report = ToRankZero::Report { slot, outcome, rates: vec![rate(998, 999), rate(999, 998)] };
        let bytes = serde_json::to_vec(&start).unwrap().len() + serde_json::to_vec(&report).unwrap().len();
        assert!(bytes < 500, "{bytes}");
    }
}

#[cfg(test)]
mod launcher_tests {
    use super::*;

    fn found(flags: (Option<u32>, Option<u32>), variables: &[(&str, &str)]) -> Result<(u32, u32), String> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        place(flags.0, flags.1, variable).map(|place| (place.rank, place.size))
    }

    #[test]
    fn launchers_are_recognised() {
        let none = (None, None);
        assert_eq!(found(none, &[("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8")]), Ok((3, 8)));
        let mpi = [
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "2"),
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_SIZE", "6"),
        ];
        assert_eq!(found(none, &mpi), Ok((5, 6)));
        assert_eq!(found(none, &[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), Ok((1, 2)));
        assert_eq!(found(none, &[("PMIX_RANK", "1"), ("SLURM_NTASKS", "2")]), Ok((1, 2)));
        assert_eq!(found((None, Some(4)), &[("JOB_COMPLETION_INDEX", "3")]), Ok((3, 4)));
    }

    #[test]
    fn flags_come_first() {
        assert_eq!(found((Some(1), Some(3)), &[("SLURM_PROCID", "7"), ("SLURM_NTASKS", "8")]), Ok((1, 3)));
    }

    #[test]
    fn bad_places_are_refused() {
        let check = |flags, variables: &[(&str, &str)], expected: &str| {
            let error = found(flags, variables).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check((None, None), &[], "no launcher has set one");
        check((Some(0), None), &[], "--rank does not set it");
        check((Some(3), Some(3)), &[], "ranks are 0 to 2");
        check((Some(0), Some(1)), &[], "use --size 2 to");
        check((None, Some(2)), &[("PMI_RANK", "x")], "PMI_RANK is \"x\"");
    }

    #[test]
    fn node_lists_begin_with_rank_zero() {
        let check = |list: &str, first: Option<&str>| assert_eq!(first_node(list).as_deref(), first, "{list}");
        check("n7", Some("n7"));
        check("n[07-10,12],m3", Some("n07"));
        check("n[3,5-7]", Some("n3"));
        check("a,b[1-2]", Some("a"));
        check("rack[2-3]node[0-7]-ib,x", Some("rack2node0-ib"));
        check("n[1-", None);
        check("", None);
    }

    #[test]
    fn steps_have_ports_of_their_own() {
        let of = |job: &str, step: &str| {
            let variables = [(NODES, "n[1-4]"), ("SLURM_JOB_ID", job), ("SLURM_STEP_ID", step)];
            slurm_coordinator(|name| {
                variables
                    .iter()
                    .find(|(known, value)| *known == name && !value.is_empty())
                    .map(|found| found.1.to_owned())
            })
        };
        let found: Vec<_> =
            [("7", "0"), ("7", "1"), ("8", "0")].iter().map(|(job, step)| of(job, step).unwrap()).collect();
        assert!(found.iter().all(|(host, port)| host == "n1" && PORTS.contains(&u64::from(*port))), "{found:?}");
        assert!(found[0] != found[1] && found[0] != found[2] && found[1] != found[2], "{found:?}");
        assert_eq!(of("7", ""), None);
    }

    #[test]
    fn slurm_racks_are_switches() {
        let rack = |address: &str, kinds: &str| {
            slurm_rack(|name| Some(if name == TOPOLOGY.0 { address } else { kinds }.to_owned()))
        };
        assert_eq!(rack("s0.s4.node7", "switch.switch.node"), Some("s0.s4".into()));
        assert_eq!(rack("node7", "node"), None);
        assert_eq!(slurm_rack(|_| None), None);
    }
}
