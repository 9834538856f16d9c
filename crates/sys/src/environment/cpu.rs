//! The processor: its name, caches, frequency settings and mitigations.
//!
//! Sources: proc_cpuinfo(5), Documentation/ABI/testing/sysfs-devices-system-cpu and
//! Documentation/admin-guide/pm/ of the kernel.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::RootFolder;
use crate::topology;

const CPUS: &str = "sys/devices/system/cpu";

/// Facts about the processor. `None` or empty where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// The manufacturer's name; on ARM the numbers of implementer and part.
    pub model: Option<String>,
    /// Revision of the microcode. x86 only.
    pub microcode: Option<String>,
    /// Number of CPUs (hardware threads) that are online.
    pub online: Option<usize>,
    /// The CPUs that this process may use.
    pub allowed: Option<Vec<usize>>,
    /// The caches that the first allowed CPU uses, nearest first.
    pub caches: Vec<Cache>,
    /// The mitigation of each known vulnerability of processors.
    pub mitigations: BTreeMap<String, String>,
    /// The frequency policy (`scaling_governor`); several, if CPUs differ, joined with commas.
    pub governor: Option<String>,
    /// Whether frequencies above the nominal one are allowed.
    pub turbo: Option<bool>,
    /// The clock source. Reading a clock is slow with any except `tsc`, `arch_sys_counter` and `kvm-clock`.
    pub clock_source: Option<String>,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Distance from the core, 1 nearest.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Number of CPUs that share it.
    pub shared_by: Option<usize>,
}

impl Cpu {
    pub(super) fn read(root: &RootFolder<'_>, allowed: Option<Vec<usize>>) -> Self {
        let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
        let first = allowed.as_ref().and_then(|cpus| cpus.first()).copied();
        let online = root.line(&format!("{CPUS}/online")).and_then(|line| topology::parse(&line));
        Self {
            model: model(&cpuinfo),
            microcode: cpuinfo_field(&cpuinfo, "microcode").map(str::to_owned),
            online: online.as_ref().map(Vec::len),
            caches: caches(root, first.unwrap_or(0)),
            mitigations: mitigations(root),
            governor: governor(root, &online.unwrap_or_default()),
            turbo: turbo(root),
            clock_source: root.line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            allowed,
        }
    }
}

/// The value of the first line with this name.
pub(super) fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn model(cpuinfo: &str) -> Option<String> {
    let field = |name| cpuinfo_field(cpuinfo, name);
    if let Some(name) = field("model name") {
        return Some(name.to_owned());
    }
    // 64-bit ARM has no names, only the numbers that a table outside the kernel translates.
    let implementer = field("CPU implementer")?;
    let part = field("CPU part")?;
    Some(format!("ARM implementer {implementer} part {part}"))
}

fn caches(root: &RootFolder<'_>, cpu: usize) -> Vec<Cache> {
    let dir = format!("{CPUS}/cpu{cpu}/cache");
    let indices = root.names(&dir);
    let mut caches: Vec<Cache> = indices
        .iter()
        .filter(|name| name.starts_with("index"))
        .filter_map(|name| cache(root, &format!("{dir}/{name}")))
        .collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

fn cache(root: &RootFolder<'_>, dir: &str) -> Option<Cache> {
    let shared = root.line(&format!("{dir}/shared_cpu_list"));
    Some(Cache {
        level: root.number(&format!("{dir}/level"))?,
        kind: root.line(&format!("{dir}/type"))?,
        size_bytes: cache_size(&root.line(&format!("{dir}/size"))?)?,
        shared_by: shared.and_then(|list| topology::parse(&list)).map(|cpus| cpus.len()),
    })
}

/// sysfs writes sizes as `32K` (drivers/base/cacheinfo.c).
fn cache_size(text: &str) -> Option<u64> {
    let kib: u64 = text.strip_suffix('K')?.parse().ok()?;
    Some(kib * 1024)
}

fn mitigations(root: &RootFolder<'_>) -> BTreeMap<String, String> {
    let dir = format!("{CPUS}/vulnerabilities");
    let names = root.names(&dir).into_iter();
    names
        .filter_map(|name| {
            let state = root.line(&format!("{dir}/{name}"))?;
            Some((name, state))
        })
        .collect()
}

fn governor(root: &RootFolder<'_>, online: &[usize]) -> Option<String> {
    let governors: BTreeSet<String> =
        online.iter().filter_map(|cpu| root.line(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor"))).collect();
    let governors: Vec<String> = governors.into_iter().collect();
    (!governors.is_empty()).then(|| governors.join(","))
}

fn turbo(root: &RootFolder<'_>) -> Option<bool> {
    let off = root.number::<u8>(&format!("{CPUS}/intel_pstate/no_turbo"));
    let on = root.number::<u8>(&format!("{CPUS}/cpufreq/boost"));
    off.map(|off| off == 0).or(on.map(|on| on == 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    fn read(scratch: &Scratch) -> Cpu {
        Cpu::read(&RootFolder::new(scratch.path()), Some(vec![0, 1]))
    }

    #[test]
    fn files_become_facts() {
        let scratch = Scratch::new();
        let index = |n: u32| format!("{CPUS}/cpu0/cache/index{n}");
        scratch
            .file("proc/cpuinfo", "model name\t: Example 9000\nmicrocode\t: 0x1\n\nmodel name\t: Other\n")
            .file(&format!("{CPUS}/online"), "0-1,3\n")
            .file(&format!("{CPUS}/vulnerabilities/mds"), "Not affected\n")
            .file(&format!("{CPUS}/cpu0/cpufreq/scaling_governor"), "powersave\n")
            .file(&format!("{CPUS}/cpu3/cpufreq/scaling_governor"), "performance\n")
            .file(&format!("{CPUS}/cpufreq/boost"), "1\n")
            .file(&format!("{}/level", index(9)), "1\n")
            .file(&format!("{}/type", index(9)), "Data\n")
            .file(&format!("{}/size", index(9)), "32K\n")
            .file(&format!("{}/level", index(1)), "3\n")
            .file(&format!("{}/type", index(1)), "Unified\n")
            .file(&format!("{}/size", index(1)), "32768K\n")
            .file(&format!("{}/shared_cpu_list", index(1)), "0-1\n");
        let cpu = read(&scratch);
        assert_eq!(cpu.model.as_deref(), Some("Example 9000"));
        assert_eq!(cpu.microcode.as_deref(), Some("0x1"));
        assert_eq!(cpu.online, Some(3));
        assert_eq!(cpu.mitigations["mds"], "Not affected");
        assert_eq!(cpu.governor.as_deref(), Some("performance,powersave"));
        assert_eq!(cpu.turbo, Some(true));
        let cache =
            |level, kind: &str, size_bytes, shared_by| Cache { level, kind: kind.to_owned(), size_bytes, shared_by };
        let expected = [cache(1, "Data", 32 << 10, None), cache(3, "Unified", 32 << 20, Some(2))];
        assert_eq!(cpu.caches, expected);
    }

    #[test]
    fn intels_switch_is_the_other_way_round() {
        let scratch = Scratch::new();
        scratch.file(&format!("{CPUS}/intel_pstate/no_turbo"), "1\n");
        assert_eq!(read(&scratch).turbo, Some(false));
    }

    #[test]
    fn arm_has_numbers_for_a_name() {
        let text = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model(text).as_deref(), Some("ARM implementer 0x41 part 0xd0c"));
        assert_eq!(model(""), None);
    }
}
