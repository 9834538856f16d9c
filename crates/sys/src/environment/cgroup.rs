//! The CPU limit of the control group of this process, and how often it took effect.
//!
//! A container with a quota runs at full speed and is then stopped for the rest of each period: averages look normal
//! while latencies are huge. So the count of throttled periods is more important than the limit.
//!
//! A limit in any parent group applies too, so all visible parents up to the mount are read. Sources: cgroups(7),
//! Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::RootFolder;

/// The limit and its effect, over this process's group and all visible groups above it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CgroupCpu {
    /// The version of the hierarchy with the CPU controller: 1 or 2.
    pub version: u8,
    /// The tightest limit, in CPUs (1.5 is one and a half). `None` if there is none.
    pub limit_cpus: Option<f64>,
    /// Periods in which a group ran out of its quota. `None` if no group counts them.
    pub nr_throttled: Option<u64>,
    /// How long groups were stopped for that, µs. `None` if no group counts it.
    pub throttled_us: Option<u64>,
}

impl CgroupCpu {
    /// Reads the groups of this process. `None` if no CPU controller is mounted or visible.
    pub fn read() -> Option<Self> {
        Self::read_of(&RootFolder::new(Path::new("/")), "self")
    }

    /// Reads the groups of another process, as far as they are visible from here.
    pub fn of(pid: u32) -> Option<Self> {
        Self::read_of(&RootFolder::new(Path::new("/")), &pid.to_string())
    }

    pub(super) fn read_of(root: &RootFolder<'_>, process: &str) -> Option<Self> {
        let place =
            GroupLocation::find(&root.text(&format!("proc/{process}/cgroup"))?, &root.text("proc/self/mountinfo")?)?;
        let mut read = Self { version: place.version, limit_cpus: None, nr_throttled: None, throttled_us: None };
        for dir in place.with_parents() {
            read.add(root, &dir);
        }
        Some(read)
    }

    fn add(&mut self, root: &RootFolder<'_>, dir: &str) {
        let limit = match self.version {
            1 => limit_v1(root, dir),
            _ => root.line(&format!("{dir}/cpu.max")).and_then(|line| limit_v2(&line)),
        };
        self.limit_cpus = self.limit_cpus.into_iter().chain(limit).reduce(f64::min);
        let stat = root.text(&format!("{dir}/cpu.stat")).unwrap_or_default();
        let (nr_throttled, throttled_us) = parse_stat(&stat);
        self.nr_throttled = self.nr_throttled.into_iter().chain(nr_throttled).reduce(u64::saturating_add);
        self.throttled_us = self.throttled_us.into_iter().chain(throttled_us).reduce(u64::saturating_add);
    }
}

/// The location of this process's group in the file system.
#[derive(Debug, PartialEq, Eq)]
struct GroupLocation {
    version: u8,
    mount: String,
    /// The group below the mount: empty, or with a leading slash.
    group: String,
}

impl GroupLocation {
    fn find(cgroup: &str, mountinfo: &str) -> Option<Self> {
        // Machines with both hierarchies have the controller in the first, if it is listed there.
        let (version, path) =
            path_v1(cgroup).map(|path| (1, path)).or_else(|| path_v2(cgroup).map(|path| (2, path)))?;
        let mut mounts = mountinfo.lines().filter_map(Mount::parse);
        let mount = mounts.find(|mount| match version {
            1 => mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "cpu"),
            _ => mount.kind == "cgroup2",
        })?;
        // A container may have mounted only its own part of the tree, or see a path that leads out of its namespace
        // ("/../.."): then only its own part is visible.
        let group = below(path, mount.root).unwrap_or("");
        Some(Self { version, mount: mount.point.to_owned(), group: group.trim_end_matches('/').to_owned() })
    }

    /// The group's directory and each one above it, up to the mount.
    fn with_parents(&self) -> Vec<String> {
        let mut dirs = Vec::new();
        let mut group = self.group.as_str();
        loop {
            dirs.push(format!("{}{group}", self.mount));
            match group.rfind('/') {
                Some(slash) => group = &group[..slash],
                None => return dirs,
            }
        }
    }
}

/// The part of a path below the root of its mount; `None` if it is elsewhere.
fn below<'a>(path: &'a str, mount_root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(mount_root.trim_end_matches('/'))?;
    ((rest.is_empty() || rest.starts_with('/')) && !rest.contains("..")).then_some(rest)
}

/// `4:cpu,cpuacct:/path` (cgroups(7)).
fn path_v1(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|controller| controller == "cpu").then_some(path)
    })
}

/// `0::/path` (cgroups(7)).
fn path_v2(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

/// One line of proc_pid_mountinfo(5).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let mut back = back.split(' ');
        Some(Self { root: front.next()?, point: front.next()?, kind: back.next()?, options: back.nth(1)? })
    }
}

fn limit_v1(root: &RootFolder<'_>, dir: &str) -> Option<f64> {
    // −1 means no limit, and does not parse.
    let quota_us: u64 = root.number(&format!("{dir}/cpu.cfs_quota_us"))?;
    let period_us: u64 = root.number(&format!("{dir}/cpu.cfs_period_us"))?;
    ratio(quota_us, period_us)
}

/// `max 100000` or `150000 100000`, both µs.
fn limit_v2(line: &str) -> Option<f64> {
    let (quota_us, period_us) = line.split_once(' ')?;
    // "max" means no limit, and does not parse.
    ratio(quota_us.parse().ok()?, period_us.parse().ok()?)
}

fn ratio(quota_us: u64, period_us: u64) -> Option<f64> {
    (period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// (throttled periods, throttled time in µs).
fn parse_stat(text: &str) -> (Option<u64>, Option<u64>) {
    let field = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.parse().ok()
    };
    // cgroup v1 counts nanoseconds under another name.
    let throttled_us = field("throttled_usec").or(field("throttled_time").map(|ns| ns / 1000));
    (field("nr_throttled"), throttled_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn check(cgroup: &str, mounts: &str, expected: Option<(u8, &str, &str)>) {
        let expected = expected.map(|(version, mount, group)| GroupLocation {
            version,
            mount: mount.to_owned(),
            group: group.to_owned(),
        });
        assert_eq!(GroupLocation::find(cgroup, mounts), expected, "{cgroup}");
    }

    #[test]
    fn the_group_is_found_where_it_is_mounted() {
        check("4:cpu,cpuacct:/a/b\n0::/\n", MOUNTS, Some((1, "/sys/fs/cgroup/cpu", "/a/b")));
        check("0::/user.slice\n", MOUNTS, Some((2, "/sys/fs/cgroup/unified", "/user.slice")));
        check("0::/\n", MOUNTS, Some((2, "/sys/fs/cgroup/unified", "")));
        check("0::/\n", "", None);
        check("3:cpuset:/\n", MOUNTS, None);
    }

    #[test]
    fn a_subtree_begins_at_its_mount() {
        let mounts = "9 8 0:1 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        check("0::/docker/x/y\n", mounts, Some((2, "/sys/fs/cgroup", "/y")));
        check("0::/docker/x\n", mounts, Some((2, "/sys/fs/cgroup", "")));
        check("0::/docker/xy\n", mounts, Some((2, "/sys/fs/cgroup", "")));
        check("0::/../..\n", mounts, Some((2, "/sys/fs/cgroup", "")));
    }

    #[test]
    fn the_tightest_limit_of_all_parents_counts() {
        let scratch = Scratch::new();
        let dir = "sys/fs/cgroup/unified";
        scratch
            .file("proc/self/cgroup", "0::/a/b\n")
            .file("proc/self/mountinfo", MOUNTS)
            .file(&format!("{dir}/a/cpu.max"), "150000 100000\n")
            .file(&format!("{dir}/a/cpu.stat"), "usage_usec 5\nnr_throttled 3\nthrottled_usec 700\n")
            .file(&format!("{dir}/a/b/cpu.max"), "max 100000\n")
            .file(&format!("{dir}/a/b/cpu.stat"), "nr_throttled 1\nthrottled_usec 50\n");
        let expected = CgroupCpu { version: 2, limit_cpus: Some(1.5), nr_throttled: Some(4), throttled_us: Some(750) };
        assert_eq!(CgroupCpu::read_of(&RootFolder::new(scratch.path()), "self"), Some(expected));
        scratch.file("proc/77/cgroup", "0::/a\n");
        let other = CgroupCpu { nr_throttled: Some(3), throttled_us: Some(700), ..expected };
        assert_eq!(CgroupCpu::read_of(&RootFolder::new(scratch.path()), "77"), Some(other));
    }

    #[test]
    fn cgroup_v1_has_other_names_and_units() {
        let scratch = Scratch::new();
        let dir = "sys/fs/cgroup/cpu";
        scratch
            .file("proc/self/cgroup", "4:cpu:/a\n")
            .file("proc/self/mountinfo", MOUNTS)
            .file(&format!("{dir}/cpu.cfs_quota_us"), "-1\n")
            .file(&format!("{dir}/cpu.cfs_period_us"), "100000\n")
            .file(&format!("{dir}/a/cpu.cfs_quota_us"), "50000\n")
            .file(&format!("{dir}/a/cpu.cfs_period_us"), "100000\n")
            .file(&format!("{dir}/a/cpu.stat"), "nr_periods 9\nnr_throttled 2\nthrottled_time 9000\n");
        let expected = CgroupCpu { version: 1, limit_cpus: Some(0.5), nr_throttled: Some(2), throttled_us: Some(9) };
        assert_eq!(CgroupCpu::read_of(&RootFolder::new(scratch.path()), "self"), Some(expected));
    }
}
