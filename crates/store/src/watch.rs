//! Detects that the file was deleted, replaced or cut short. An open database continues to accept transactions then,
//! and all of them would be lost when the process ends.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// The last known state of a file; `None` if it is not watched.
#[derive(Debug, Default)]
pub(crate) struct FileWatch {
    seen: Option<FileState>,
}

#[derive(Clone, Copy, Debug)]
struct FileState {
    device: u64,
    inode: u64,
    len: u64,
}

impl FileWatch {
    /// Starts to watch a file that was opened.
    pub(crate) fn on(path: &Path) -> FileWatch {
        FileWatch { seen: seen(path) }
    }

    /// The change of the file since the last check, reported once.
    pub(crate) fn look(&mut self, path: &Path) -> Option<&'static str> {
        let before = self.seen.take()?;
        let Some(now) = seen(path) else { return Some("deleted") };
        if (before.device, before.inode) != (now.device, now.inode) {
            return Some("replaced");
        }
        // bytegauge never shortens the file.
        if now.len < before.len {
            return Some("cut short");
        }
        self.seen = Some(now);
        None
    }
}

fn seen(path: &Path) -> Option<FileState> {
    let metadata = path.metadata().ok()?;
    Some(FileState { device: metadata.dev(), inode: metadata.ino(), len: metadata.len() })
}

/// Writes the content of the open database to a new file in the same folder.
pub(crate) fn save(connection: &Connection, path: &Path) -> Result<PathBuf, String> {
    let names = (1..100).map(|number| {
        let mut name: OsString = path.as_os_str().to_owned();
        name.push(format!(".saved-{number}"));
        PathBuf::from(name)
    });
    let free = names.into_iter().find(|name| !name.exists()).ok_or("too many files were saved already")?;
    // SQLite takes a path as bytes.
    let name = ToSqlOutput::Borrowed(ValueRef::Text(free.as_os_str().as_bytes()));
    connection.execute("VACUUM INTO ?1", [name]).map_err(|error| error.to_string())?;
    Ok(free)
}
