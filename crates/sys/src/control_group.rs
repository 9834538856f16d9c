//! A control group of one's own below that of the calling process: what all processes of it have used, those included that have
//! come and gone, whoever waited for them.
//!
//! Of the second hierarchy, where every group counts CPU time, whether or not the CPU controller is on there
//! (Documentation/admin-guide/cgroup-v2.rst, `cpu.stat`). Where that controller would make the new group compete with the old
//! one, none is made: how a program is looked at must not change how it runs.
//!
//! Never limits anything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::descendants::TreeUse;
use crate::environment::own_group;
use crate::owner::{self, OwnerProcess};

/// The start of every name. The [`OwnerProcess`] follows.
const NAME: &str = "bytegauge-";

/// How long processes that have been waited for may take to leave, in steps.
const LEAVE_STEPS: u32 = 20;
const LEAVE_STEP: Duration = Duration::from_millis(5);

/// A group, which is removed with this value.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
    above: PathBuf,
}

impl ControlGroup {
    /// Makes the group of the calling process, which has one at a time.
    ///
    /// # Errors
    ///
    /// `NotFound` without a second hierarchy, `Unsupported` where the group would have CPU time of its own, `PermissionDenied`
    /// or `ReadOnlyFilesystem` where nobody may make one.
    pub fn make() -> io::Result<ControlGroup> {
        let above = own_group().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let controllers = fs::read_to_string(above.join("cgroup.subtree_control"))?;
        if controllers.split_whitespace().any(|controller| controller == "cpu") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let folder = above.join(format!("{NAME}{}", OwnerProcess::this()));
        // The last one's processes may have left late.
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder)?;
        Ok(ControlGroup { folder, above })
    }

    /// Starts something within the group: the calling process goes there, and comes back. Whether both worked.
    pub fn within<T>(&self, start: impl FnOnce() -> T) -> (T, bool) {
        let is_there = enter(&self.folder).is_ok();
        let started = start();
        let is_back = !is_there || enter(&self.above).is_ok();
        (started, is_there && is_back)
    }

    /// What its processes have used, and how many live. The kernel adds up what a running thread uses at every tick of its own,
    /// and when it stops (`update_curr`, kernel/sched/fair.c): each that runs meanwhile may be a tick behind.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell.
    pub fn used(&self) -> io::Result<TreeUse> {
        let text = fs::read_to_string(self.folder.join("cpu.stat"))?;
        let processes = fs::read_to_string(self.folder.join("cgroup.procs"))?.lines().count() as u64;
        parse(&text).map(|used| TreeUse { processes, ..used }).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Who could not come back, or panicked within, tries once more: the next group would be made below this one.
        if own_group().is_some_and(|group| group == self.folder) {
            let _ = enter(&self.above);
        }
        remove(&self.folder);
    }
}

/// Removes a group. It is busy as long as a process is on its way out; the next start removes what stays.
fn remove(folder: &Path) -> bool {
    for _ in 0..LEAVE_STEPS {
        if fs::remove_dir(folder).is_ok() {
            return true;
        }
        thread::sleep(LEAVE_STEP);
    }
    false
}

/// Moves the calling process (cgroups(7): 0 stands for it).
fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// Kills everything in groups whose owners are dead, and removes these groups. Returns the number of groups removed.
pub fn end_abandoned() -> u64 {
    let Some(above) = own_group() else { return 0 };
    let end = |folder: &PathBuf| {
        // Linux 5.14 (Documentation/admin-guide/cgroup-v2.rst, `cgroup.kill`). Before, a group with processes stays.
        let _ = fs::write(folder.join("cgroup.kill"), "1");
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

    // In a process of its own, since the whole process moves: other tests start programs meanwhile.
    #[test]
    #[ignore = "what the next test runs"]
    fn a_group_of_one_s_own() {
        let group = ControlGroup::make().unwrap();
        let before = own_group();
        // It works, its parent waits for neither, and both are gone.
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
        // Of one who never came back nothing stays there either.
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
    fn who_has_come_and_gone_is_charged_where_a_group_can_be_made() {
        if let Err(error) = ControlGroup::make() {
            eprintln!("no control group can be made here: {error}");
            return;
        }
        let own = std::env::current_exe().unwrap();
        let name = "control_group::tests::a_group_of_one_s_own";
        let output = Command::new(own).args(["--exact", name, "--ignored"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
}
