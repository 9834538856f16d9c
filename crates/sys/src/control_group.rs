//! A control group below that of the calling process. It accounts for all processes in it, including those that started
//! and ended meanwhile.
//!
//! Uses cgroup v2, where every group counts CPU time even without the CPU controller
//! (Documentation/admin-guide/cgroup-v2.rst, `cpu.stat`). No group is created where that controller would make it
//! compete with its parent: measuring a program must not change how it runs.
//!
//! Never limits resources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::descendants::TreeUse;
use crate::environment::own_group;
use crate::new_file;
use crate::owner::{self, OwnerProcess};

/// The prefix of every name, followed by the [`OwnerProcess`].
const NAME: &str = "bytegauge-";

/// How long ended processes may stay in the group, in steps.
const LEAVE_STEPS: u32 = 20;
const LEAVE_STEP: Duration = Duration::from_millis(5);

/// A group, removed on drop.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
    above: PathBuf,
}

impl ControlGroup {
    /// Creates the group of the calling process, which has at most one.
    ///
    /// # Errors
    ///
    /// `NotFound` without cgroup v2, `Unsupported` where the group would get its own share of CPU time,
    /// `PermissionDenied` or `ReadOnlyFilesystem` without permission.
    pub fn make() -> io::Result<ControlGroup> {
        let above = own_group().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let controllers = fs::read_to_string(above.join("cgroup.subtree_control"))?;
        if controllers.split_whitespace().any(|controller| controller == "cpu") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let folder = above.join(format!("{NAME}{}", OwnerProcess::this()));
        // Processes of a previous group may have ended late.
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder)?;
        Ok(ControlGroup { folder, above })
    }

    /// Runs `start` with the calling process in the group, so that programs it starts are in it. Returns whether
    /// entering and leaving both worked.
    pub fn within<T>(&self, start: impl FnOnce() -> T) -> (T, bool) {
        let is_there = enter(&self.folder).is_ok();
        let started = start();
        let is_back = !is_there || enter(&self.above).is_ok();
        (started, is_there && is_back)
    }

    /// Resources used by its processes, and the number of live ones. The kernel updates a running thread's time at
    /// every timer tick and when it stops (`update_curr`, kernel/sched/fair.c), so each running thread may be one tick
    /// behind.
    ///
    /// # Errors
    ///
    /// When the files of the group cannot be read.
    pub fn used(&self) -> io::Result<TreeUse> {
        let text = fs::read_to_string(self.folder.join("cpu.stat"))?;
        let processes = fs::read_to_string(self.folder.join("cgroup.procs"))?.lines().count() as u64;
        parse(&text).map(|used| TreeUse { processes, ..used }).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // If leaving failed, or the closure panicked, try again: otherwise the next group would be created below this
        // one.
        if own_group().is_some_and(|group| group == self.folder) {
            let _ = enter(&self.above);
        }
        remove(&self.folder);
    }
}

/// Removes a group. It is busy while a process is exiting; the next start removes remaining ones.
fn remove(folder: &Path) -> bool {
    for _ in 0..LEAVE_STEPS {
        if fs::remove_dir(folder).is_ok() {
            return true;
        }
        thread::sleep(LEAVE_STEP);
    }
    false
}

/// Moves the calling process (cgroups(7): 0 means the writer).
fn enter(group: &Path) -> io::Result<()> {
    new_file::set(group.join("cgroup.procs"), "0")
}

/// Kills everything in groups whose owners are dead, and removes these groups. Returns the number of groups removed.
pub fn end_abandoned() -> u64 {
    let Some(above) = own_group() else { return 0 };
    let end = |folder: &PathBuf| {
        // Linux 5.14 (Documentation/admin-guide/cgroup-v2.rst, `cgroup.kill`). Before, a group with processes stays.
        let _ = new_file::set(folder.join("cgroup.kill"), "1");
        remove(folder)
    };
    owner::abandoned(&above, NAME).iter().filter(|folder| end(folder)).count() as u64
}

fn parse(stat: &str) -> Option<TreeUse> {
    let ns = |name: &str| {
        let us: u64 = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.parse().ok()?;
        Some(us * 1000)
    };
    Some(TreeUse { processes: 0, cpu_ns: ns("usage_usec")?, user_ns: ns("user_usec")?, system_ns: ns("system_usec")? })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn times_are_microseconds() {
        let stat = "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nnr_periods 0\n";
        let used = TreeUse { processes: 0, cpu_ns: 5_000_000, user_ns: 3_000_000, system_ns: 2_000_000 };
        assert_eq!(parse(stat), Some(used));
        assert_eq!(parse("user_usec 3\n"), None);
    }

    // In a separate process, since the whole process moves and other tests start programs meanwhile.
    #[test]
    #[ignore = "run by the next test"]
    fn group_in_its_own_process() {
        let group = ControlGroup::make().unwrap();
        let before = own_group();
        // It works, its parent does not wait for it, and both end.
        let script = "(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) & exec true";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
        let (child, worked) = group.within(|| command.spawn());
        assert!(worked && own_group() == before);
        child.unwrap().wait().unwrap();
        while group.used().unwrap().processes > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let used = group.used().unwrap();
        assert!(used.cpu_ns > 0, "{used:?}");
        let folder = group.folder.clone();
        // A group is removed even if the process did not leave it.
        enter(&folder).unwrap();
        assert!(own_group() != before);
        drop(group);
        assert!(own_group() == before && !folder.exists());
    }

    #[test]
    fn group_of_a_dead_owner_is_ended() {
        if let Err(error) = ControlGroup::make() {
            eprintln!("SKIPPED: no control group can be made here: {error}");
            return;
        }
        let folder = own_group().unwrap().join(format!("{NAME}{}-1", std::process::id()));
        let mut orphan = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap();
        // Another program on this machine may remove the group before the orphan is in it.
        while fs::create_dir(&folder)
            .and_then(|()| fs::write(folder.join("cgroup.procs"), orphan.id().to_string()))
            .is_err()
        {
            let _ = fs::remove_dir(&folder);
        }
        let can_kill = folder.join("cgroup.kill").exists();
        if !can_kill {
            orphan.kill().unwrap();
        }
        // A killed process stays in its group until it is waited for.
        let waits = thread::spawn(move || orphan.wait());
        while folder.exists() {
            end_abandoned();
        }
        assert!(!waits.join().unwrap().unwrap().success());
    }

    #[test]
    fn ended_processes_are_accounted_for() {
        if let Err(error) = ControlGroup::make() {
            eprintln!("no control group can be made here: {error}");
            return;
        }
        let own = std::env::current_exe().unwrap();
        let name = "control_group::tests::group_in_its_own_process";
        let output = Command::new(own).args(["--exact", name, "--ignored"]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
