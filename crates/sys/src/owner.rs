//! The owner of something that outlives a killed process: a folder, a program.
//!
//! Names carry the owner's process number and start time, because process numbers are reused. The next start removes what
//! dead owners left. It never removes anything of a live owner or of another user.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process_tree::Stat;

/// A process, identified by its number and its start time. Written as `PID-START`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerProcess {
    pid: u32,
    /// Clock ticks since boot (proc_pid_stat(5), field 22); 0 without `/proc`.
    start_ticks: u64,
}

impl OwnerProcess {
    /// The calling process.
    pub fn this() -> OwnerProcess {
        let pid = std::process::id();
        OwnerProcess { pid, start_ticks: start_ticks(pid).unwrap_or(0) }
    }

    /// A process that has not ended.
    pub fn of(pid: u32) -> Option<OwnerProcess> {
        Some(OwnerProcess { pid, start_ticks: start_ticks(pid)? })
    }

    /// The owner that [`OwnerProcess`] writes as `text`.
    pub(crate) fn parse(text: &str) -> Option<OwnerProcess> {
        let (pid, start_ticks) = text.split_once('-')?;
        Some(OwnerProcess { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
    }

    /// Whether this process still runs. A process that ended and was not waited for does not.
    pub fn is_alive(self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

impl fmt::Display for OwnerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.start_ticks)
    }
}

/// The start time of a process that has not ended, in clock ticks since boot.
pub fn start_ticks(pid: u32) -> Option<u64> {
    Stat::of(pid).filter(Stat::lives).map(|stat| stat.start_ticks)
}

/// A folder that is removed with this value, or by the next start if its owner was killed.
///
/// Its name is `PREFIX` + owner + a number. The owner also holds a lock on it (flock(2)), so that a process of another
/// host or container, for which the owner's number means nothing, leaves the folder alone.
#[derive(Debug)]
pub struct OwnedFolder {
    path: PathBuf,
    // Held, not read: closing it unlocks the folder.
    _lock: File,
}

impl OwnedFolder {
    /// Creates a folder below `parent` that only this user may enter.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created or locked.
    pub fn create_in(parent: &Path, prefix: &str) -> io::Result<OwnedFolder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let owner = OwnerProcess::this();
        loop {
            let path = parent.join(format!("{prefix}{owner}-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    created?;
                    let lock = File::open(&path).and_then(|folder| folder.lock().map(|()| folder));
                    let lock = lock.inspect_err(|_| drop(fs::remove_dir(&path)))?;
                    return Ok(OwnedFolder { path, _lock: lock });
                }
            }
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnedFolder {
    fn drop(&mut self) {
        // If it cannot be removed now, the next start tries again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders below `parent` whose owners are dead. Returns the number of folders removed.
pub fn remove_abandoned_folders(parent: &Path, prefix: &str) -> u64 {
    let abandoned = abandoned(parent, prefix);
    abandoned.iter().filter(|path| is_unlocked(path) && fs::remove_dir_all(path).is_ok()).count() as u64
}

/// Folders of this user below `parent` whose names start with `prefix` and a dead owner.
fn abandoned(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let user = user();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_abandoned = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| owner_in(name.strip_prefix(prefix)?));
        let is_ours = || entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        owner.is_some_and(|owner| !owner.is_alive()) && is_ours()
    };
    entries.filter(is_abandoned).map(|entry| entry.path()).collect()
}

/// The effective user of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The owner at the start of `PID-START` or `PID-START-NUMBER`.
fn owner_in(text: &str) -> Option<OwnerProcess> {
    let end = text.match_indices('-').nth(1).map_or(text.len(), |(at, _)| at);
    OwnerProcess::parse(&text[..end])
}

fn is_unlocked(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| folder.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::tests::Scratch;

    const PREFIX: &str = "test-";

    #[test]
    fn owner_is_read_as_written() {
        let this = OwnerProcess::this();
        assert_eq!(OwnerProcess::parse(&this.to_string()), Some(this));
        for bad in ["", "7", "7-", "-7", "a-7", "7-b"] {
            assert_eq!(OwnerProcess::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn reused_process_number_is_another_owner() {
        let this = OwnerProcess::this();
        assert!(this.is_alive());
        assert!(!OwnerProcess { start_ticks: this.start_ticks + 1, ..this }.is_alive());
    }

    #[test]
    fn ended_process_is_dead_before_the_wait() {
        let mut child = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap();
        let owner = OwnerProcess::of(child.id()).unwrap();
        assert!(owner.is_alive());
        child.kill().unwrap();
        crate::tests::eventually("it has ended", || !owner.is_alive());
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }

    #[test]
    fn only_folders_of_dead_owners_are_removed() {
        let scratch = Scratch::new();
        let dead = OwnerProcess { pid: std::process::id(), start_ticks: 1 };
        let (left, other, nameless) = (format!("{PREFIX}{dead}-0"), format!("other-{dead}-0"), format!("{PREFIX}x"));
        for name in [&left, &other, &nameless] {
            scratch.file(&format!("{name}/data"), "x");
        }
        // Another host's owner: dead by its number, alive by its lock.
        let locked = format!("{PREFIX}{dead}-1");
        scratch.dir(&locked);
        let held = File::open(scratch.path().join(&locked)).unwrap();
        held.lock().unwrap();
        let live = OwnedFolder::create_in(scratch.path(), PREFIX).unwrap();
        assert_eq!(remove_abandoned_folders(scratch.path(), PREFIX), 1);
        let is_there = |name: &str| scratch.path().join(name).exists();
        assert!(!is_there(&left) && is_there(&other) && is_there(&nameless) && is_there(&locked));
        assert!(live.path().exists());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn links_to_folders_are_not_followed() {
        let scratch = Scratch::new();
        scratch.file("kept/data", "x");
        let dead = OwnerProcess { pid: std::process::id(), start_ticks: 1 };
        let link = scratch.path().join(format!("{PREFIX}{dead}-0"));
        std::os::unix::fs::symlink(scratch.path().join("kept"), link).unwrap();
        assert_eq!(remove_abandoned_folders(scratch.path(), PREFIX), 0);
        assert!(scratch.path().join("kept/data").exists());
    }
}
