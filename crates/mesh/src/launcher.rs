//! Which rank this process is: from flags, or from the variables of the launcher that started it.
//!
//! Reads no environment itself: the caller passes a function that looks a variable up.

use crate::Rank;

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
