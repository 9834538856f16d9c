//! A control group with a quota of CPU time, with the version of control groups that this machine has.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";

/// The kernel's default period, microseconds (Documentation/admin-guide/cgroup-v2.rst, `cpu.max`).
const PERIOD_US: u32 = 100_000;

/// Pause between two checks whether a group is empty.
const LEAVING: Duration = Duration::from_millis(20);

/// A control group that is removed with this value; no process may be in it by then.
#[derive(Debug)]
pub struct QuotaGroup(PathBuf);

impl QuotaGroup {
    /// A new and empty group with a quota of `cpus` CPUs.
    ///
    /// # Errors
    /// When this user or this machine cannot make one.
    pub fn with_cpus(cpus: f64) -> Result<QuotaGroup> {
        let quota = (cpus * f64::from(PERIOD_US)).round();
        let unified = Path::new(ROOT).join("cgroup.controllers").exists();
        let parent = if unified { PathBuf::from(ROOT) } else { Path::new(ROOT).join("cpu") };
        let group = QuotaGroup(parent.join(format!("bytegauge-quota-{}", std::process::id())));
        fs::create_dir(&group.0).with_context(|| format!("making {}", group.0.display()))?;
        if unified {
            group.set("cpu.max", &format!("{quota} {PERIOD_US}"))?;
        } else {
            group.set("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            group.set("cpu.cfs_quota_us", &quota.to_string())?;
        }
        Ok(group)
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, value).with_context(|| format!("writing {value} to {}", path.display()))
    }

    /// A command that runs a program in this group: a shell enters it and becomes the program.
    #[must_use]
    pub fn command(&self, program: &Path) -> Process {
        let mut command = Process::new("sh");
        command.args(["-c", "echo $$ > \"$GROUP/cgroup.procs\" && exec \"$0\" \"$@\""]).env("GROUP", &self.0);
        command.arg(program);
        command
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        // A killed process leaves the group a moment later.
        for _ in 0..100 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => std::thread::sleep(LEAVING),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_in_a_temporary_group() {
        let group = match QuotaGroup::with_cpus(0.5) {
            Ok(group) => group,
            Err(reason) => return eprintln!("SKIPPED: no control group can be limited here: {reason:#}"),
        };
        let output = group.command(Path::new("cat")).arg("/proc/self/cgroup").output().unwrap();
        let (printed, path) = (String::from_utf8_lossy(&output.stdout).into_owned(), group.0.clone());
        assert!(printed.contains(path.file_name().unwrap().to_str().unwrap()), "{printed}");
        drop(group);
        assert!(!path.exists());
    }
}
