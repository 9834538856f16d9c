//! Whether the file is still there: an open database takes transactions long after its file was deleted, replaced or
//! cut short, and all of them would be lost with the process.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// What a file was when it was last looked at; nothing for one that is not watched.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Option<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    device: u64,
    inode: u64,
    len: u64,
}

impl Watch {
    /// Watches a file that was opened.
    pub(crate) fn on(path: &Path) -> Watch {
        Watch { seen: seen(path) }
    }

    /// What became of the file since, if anything did: said once.
    pub(crate) fn look(&mut self, path: &Path) -> Option<&'static str> {
        let before = self.seen.take()?;
        let Some(now) = seen(path) else { return Some("deleted") };
        if (before.device, before.inode) != (now.device, now.inode) {
            return Some("replaced");
        }
        // Nothing of ours makes it shorter.
        if now.len < before.len {
            return Some("cut short");
        }
        self.seen = Some(now);
        None
    }
}

fn seen(path: &Path) -> Option<Seen> {
    let metadata = path.metadata().ok()?;
    Some(Seen { device: metadata.dev(), inode: metadata.ino(), len: metadata.len() })
}

/// Writes all that the open database holds to a new file beside the old one.
pub(crate) fn save(connection: &Connection, path: &Path) -> Result<PathBuf, String> {
    let names = (1..100).map(|number| {
        let mut name: OsString = path.as_os_str().to_owned();
        name.push(format!(".saved-{number}"));
        PathBuf::from(name)
    });
    let free = names.into_iter().find(|name| !name.exists()).ok_or("too many files were saved already")?;
    // SQLite takes the bytes of a path as they are.
    let name = ToSqlOutput::Borrowed(ValueRef::Text(free.as_os_str().as_bytes()));
    connection.execute("VACUUM INTO ?1", [name]).map_err(|error| error.to_string())?;
    Ok(free)
}
