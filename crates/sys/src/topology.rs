//! Which CPUs share a core, a cache or a memory node, and pairs of them for placing two ends.
//!
//! On loopback the place of two ends relative to each other decides more than most options, so it
//! is a factor of its own. Facts come from sysfs
//! (Documentation/ABI/stable/sysfs-devices-system-cpu); only CPUs that the calling thread may use
//! are considered, so read the topology before pinning anything.
//!
//! Never pins and never picks a placement.

use std::path::Path;
use std::{fs, io};

use crate::affinity;

/// Where one CPU sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// The kernel's number of the CPU (hardware thread).
    pub cpu: usize,
    /// Physical core, named by its lowest-numbered CPU, since the kernel's `core_id` is unique
    /// only within a package or die.
    pub core: usize,
    /// Memory node. 0 on a kernel without NUMA.
    pub node: usize,
    /// Largest cache, named by the lowest-numbered CPU that shares it. `None` if unknown, as in
    /// many virtual machines.
    pub last_level_cache: Option<usize>,
}

/// How two ends are placed relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Both on one CPU: they take turns.
    SameCpu,
    /// Two hardware threads of one physical core.
    SmtSibling,
    /// Two physical cores, on one node where the machine has such.
    CrossCore,
    /// Two memory nodes.
    CrossNode,
}

/// The places of the allowed CPUs, in ascending order of CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// One place for each allowed CPU.
    pub cpus: Vec<CpuPlace>,
}

impl Topology {
    /// Reads where the CPUs sit that the calling thread may use.
    ///
    /// # Errors
    ///
    /// That of a file that is hidden or holds something else than documented; its message names the next step.
    pub fn read() -> io::Result<Self> {
        Self::read_from(Path::new("/sys/devices/system/cpu"), &affinity::allowed_cpus()?)
    }

    /// As [`Topology::read`], from another directory and for the given CPUs.
    ///
    /// # Errors
    ///
    /// That of a file that is hidden or holds something else than documented; its message names the next step.
    pub fn read_from(root: &Path, allowed: &[usize]) -> io::Result<Self> {
        let mut cpus = allowed.iter().map(|cpu| read_place(root, *cpu)).collect::<io::Result<Vec<_>>>()?;
        cpus.sort_by_key(|place| place.cpu);
        Ok(Self { cpus })
    }

    /// All pairs of CPUs in this relation, the smaller number first.
    ///
    /// The order serves parallel flows: take pairs from the front. First come pairs that share no
    /// physical core with an earlier one, then pairs that share no CPU, then the rest. Among
    /// those for [`Relation::CrossCore`], pairs within one last-level cache come first. Empty if
    /// the machine has no such pair.
    pub fn pairs(&self, relation: Relation) -> Vec<(usize, usize)> {
        let mut candidates = self.candidates(relation);
        if relation == Relation::CrossCore {
            if candidates.iter().any(|(a, b)| a.node == b.node) {
                candidates.retain(|(a, b)| a.node == b.node);
            }
            // Stable: the ascending order survives inside each half.
            candidates.sort_by_key(|(a, b)| a.last_level_cache != b.last_level_cache);
        }
        disjoint_first(candidates)
    }

    fn candidates(&self, relation: Relation) -> Vec<(CpuPlace, CpuPlace)> {
        let is_related = |a: &CpuPlace, b: &CpuPlace| match relation {
            Relation::SameCpu => a.cpu == b.cpu,
            Relation::SmtSibling => a.cpu < b.cpu && a.core == b.core,
            Relation::CrossCore => a.cpu < b.cpu && a.core != b.core,
            Relation::CrossNode => a.cpu < b.cpu && a.node != b.node,
        };
        let mut pairs = Vec::new();
        for a in &self.cpus {
            pairs.extend(self.cpus.iter().filter(|b| is_related(a, b)).map(|b| (*a, *b)));
        }
        pairs
    }
}

/// Moves pairs to the front that share neither core nor CPU with the ones before them.
fn disjoint_first(candidates: Vec<(CpuPlace, CpuPlace)>) -> Vec<(usize, usize)> {
    let (apart, sharing) = split_disjoint(candidates, |place| place.core, &mut Vec::new());
    let mut used: Vec<usize> = apart.iter().flat_map(|(a, b)| [a.cpu, b.cpu]).collect();
    let (next, rest) = split_disjoint(sharing, |place| place.cpu, &mut used);
    apart.into_iter().chain(next).chain(rest).map(|(a, b)| (a.cpu, b.cpu)).collect()
}

type Pairs = Vec<(CpuPlace, CpuPlace)>;

/// Takes, in order, each pair whose resources are unused so far: (taken, left).
fn split_disjoint(candidates: Pairs, resource: impl Fn(&CpuPlace) -> usize, used: &mut Vec<usize>) -> (Pairs, Pairs) {
    candidates.into_iter().partition(|(a, b)| {
        let pair = [resource(a), resource(b)];
        let free = pair.iter().all(|one| !used.contains(one));
        if free {
            used.extend(pair);
        }
        free
    })
}

fn read_place(root: &Path, cpu: usize) -> io::Result<CpuPlace> {
    let dir = root.join(format!("cpu{cpu}"));
    let siblings = read_list(&dir.join("topology/core_cpus_list"))?;
    Ok(CpuPlace {
        cpu,
        core: siblings.into_iter().min().unwrap_or(cpu),
        node: node_of(&dir).unwrap_or(0),
        last_level_cache: last_level_cache(&dir.join("cache")),
    })
}

fn read_list(path: &Path) -> io::Result<Vec<usize>> {
    let failed = |kind, what: &dyn std::fmt::Display| io::Error::new(kind, format!("{}: {what}{NEXT}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.kind(), &error))?;
    parse(&text).ok_or_else(|| failed(io::ErrorKind::InvalidData, &format!("{text:?} is no list of CPUs")))
}

/// What to do where sysfs does not show where CPUs are.
const NEXT: &str = ": mount sysfs on /sys, or leave placement to the scheduler";

/// The node is the name of a link `nodeN` in the CPU's directory.
fn node_of(dir: &Path) -> Option<usize> {
    fs::read_dir(dir).ok()?.filter_map(Result::ok).find_map(|entry| node_number(entry.file_name().to_str()?))
}

fn node_number(name: &str) -> Option<usize> {
    name.strip_prefix("node")?.parse().ok()
}

/// Among the caches of the highest level, the lowest CPU that shares it.
fn last_level_cache(dir: &Path) -> Option<usize> {
    let caches = fs::read_dir(dir).ok()?.filter_map(Result::ok);
    caches
        .filter_map(|cache| {
            let text = |name: &str| fs::read_to_string(cache.path().join(name)).ok();
            let level: u32 = text("level")?.trim().parse().ok()?;
            let first = parse(&text("shared_cpu_list")?)?.into_iter().min()?;
            Some((level, first))
        })
        .max_by_key(|(level, _)| *level)
        .map(|(_, first)| first)
}

// Reads the kernel's list format, `0-3,8,10-11`.
//
// The format is defined under "cpuset(7), List format" and used throughout
// `/sys/devices/system`. Never touches a file.

/// The numbers of a list, in the order written. `None` if the text is not a list.
///
/// An empty text is an empty list: sysfs has one for a node without CPUs.
pub(crate) fn parse(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let mut numbers = Vec::new();
    if text.is_empty() {
        return Some(numbers);
    }
    for part in text.split(',') {
        match part.split_once('-') {
            None => numbers.push(part.trim().parse().ok()?),
            Some((first, last)) => {
                let first: usize = first.trim().parse().ok()?;
                let last: usize = last.trim().parse().ok()?;
                if last < first {
                    return None;
                }
                numbers.extend(first..=last);
            }
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    /// Two nodes of two cores of two threads, numbered as Linux does on such a machine: the
    /// second threads come after all first ones.
    fn two_nodes() -> Topology {
        let places = (0..8).map(|cpu| CpuPlace {
            cpu,
            core: cpu % 4,
            node: cpu % 4 / 2,
            last_level_cache: Some(cpu % 4 / 2 * 2),
        });
        Topology { cpus: places.collect() }
    }

    fn check(topology: &Topology, relation: Relation, expected: &[(usize, usize)]) {
        assert_eq!(topology.pairs(relation), expected, "{relation:?}");
    }

    #[test]
    fn same_cpu_pairs_spread_over_cores_first() {
        let all: Vec<_> = (0..8).map(|cpu| (cpu, cpu)).collect();
        check(&two_nodes(), Relation::SameCpu, &all);
    }

    #[test]
    fn siblings_share_a_core() {
        let expected = [(0, 4), (1, 5), (2, 6), (3, 7)];
        check(&two_nodes(), Relation::SmtSibling, &expected);
    }

    #[test]
    fn cross_core_begins_with_disjoint_pairs() {
        let expected = [(0, 1), (2, 3), (4, 5), (6, 7), (0, 5), (1, 4), (2, 7), (3, 6)];
        check(&two_nodes(), Relation::CrossCore, &expected);
    }

    #[test]
    fn cross_node_leads_with_disjoint_cores() {
        let pairs = two_nodes().pairs(Relation::CrossNode);
        assert_eq!(pairs.len(), 16);
        assert_eq!(pairs[..2], [(0, 2), (1, 3)]);
        assert_eq!(pairs[2..4], [(4, 6), (5, 7)]);
    }

    #[test]
    fn cross_core_falls_back_to_other_nodes() {
        let mut topology = two_nodes();
        topology.cpus.retain(|place| [0, 2].contains(&place.cpu));
        check(&topology, Relation::CrossCore, &[(0, 2)]);
    }

    #[test]
    fn cross_core_prefers_a_shared_cache() {
        let place = |cpu, cache| CpuPlace { cpu, core: cpu, node: 0, last_level_cache: Some(cache) };
        let topology = Topology { cpus: vec![place(0, 0), place(1, 1), place(2, 0), place(3, 1)] };
        let pairs = topology.pairs(Relation::CrossCore);
        assert_eq!(pairs[..2], [(0, 2), (1, 3)]);
        assert_eq!(pairs.len(), 6);
    }

    #[test]
    fn one_cpu_has_only_itself() {
        let mut topology = two_nodes();
        topology.cpus.truncate(1);
        check(&topology, Relation::SameCpu, &[(0, 0)]);
        check(&topology, Relation::SmtSibling, &[]);
        check(&topology, Relation::CrossCore, &[]);
        check(&topology, Relation::CrossNode, &[]);
    }

    fn fixture() -> Scratch {
        let scratch = Scratch::new();
        for (cpu, siblings, node) in [(0, "0,2", 0), (1, "1", 3)] {
            let dir = format!("cpu{cpu}");
            scratch
                .file(&format!("{dir}/topology/core_cpus_list"), siblings)
                .file(&format!("{dir}/cache/index0/level"), "1\n")
                .file(&format!("{dir}/cache/index0/shared_cpu_list"), siblings)
                .file(&format!("{dir}/cache/index1/level"), "3\n")
                .file(&format!("{dir}/cache/index1/shared_cpu_list"), "0-2\n")
                .dir(&format!("{dir}/node{node}"));
        }
        scratch
    }

    #[test]
    fn files_become_places() {
        let scratch = fixture();
        let topology = Topology::read_from(scratch.path(), &[1, 0]).unwrap();
        let expected =
            [(0, 0, 0), (1, 1, 3)].map(|(cpu, core, node)| CpuPlace { cpu, core, node, last_level_cache: Some(0) });
        assert_eq!(topology.cpus, expected);
    }

    #[test]
    fn a_missing_or_garbled_file_is_named() {
        let scratch = fixture();
        let error = Topology::read_from(scratch.path(), &[7]).unwrap_err();
        assert!(error.to_string().contains("cpu7"), "{error}");
        scratch.file("cpu0/topology/core_cpus_list", "ff");
        let error = Topology::read_from(scratch.path(), &[0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }

    #[test]
    fn node_directories_are_recognised() {
        assert_eq!(node_number("node12"), Some(12));
        assert_eq!(node_number("nodes"), None);
        assert_eq!(node_number("topology"), None);
    }

    #[test]
    fn this_machine_is_readable() {
        let topology = Topology::read().unwrap();
        assert_eq!(topology.pairs(Relation::SameCpu).len(), affinity::allowed_cpus().unwrap().len());
    }
}

#[cfg(test)]
mod cpu_list_tests {
    use super::*;

    fn check(text: &str, expected: Option<&[usize]>) {
        assert_eq!(parse(text).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn lists() {
        check("0\n", Some(&[0]));
        check("0-3,8,10-11\n", Some(&[0, 1, 2, 3, 8, 10, 11]));
        check("", Some(&[]));
        check("\n", Some(&[]));
        check("3-1", None);
        check("0,", None);
        check("ff", None);
    }
}
