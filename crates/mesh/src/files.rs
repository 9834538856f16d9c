//! The files of a mesh: each rank writes its own, and [`read`] merges those of a directory.
//!
//! A file grows as `rank-00007.jsonl.part`, one JSON document per line: first the header, then the rows. At the end it
//! is flushed to the disk and renamed to `rank-00007.jsonl`, so that a file with this name is whole. A rank that is
//! killed leaves its `.part` file, whose last line may be cut off; everything before it is used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use bytegauge_model::Outcome;
use bytegauge_sys::new_file::create_fresh;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Rank;
use crate::message::RankHello;
use crate::row::MeshRow;
use crate::settings::{FORMAT, MeshSettings};

/// The longest line that is read, bytes. A row has about 500, of calls a few thousand.
const LINE_MAX: u64 = 8 << 20;

/// A directory that has no usable results.
#[derive(Debug, Error)]
pub enum MeshFileError {
    /// It cannot be read or written.
    #[error("{0}: {1}: check the path, its permissions and the free space")]
    Io(PathBuf, io::Error),
    /// It has no file of a mesh.
    #[error(
        "{0} has no files of a mesh (rank-NNNNN.jsonl): give the directory of --out, and copy the files of all hosts there"
    )]
    Empty(PathBuf),
    /// A file is not one of a mesh, or of another version.
    #[error("{0}: {1}: remove the file, or use the version of bytegauge that wrote it")]
    Format(PathBuf, String),
    /// Files of several runs.
    #[error("{0} and {1} are of different runs: gather each run from a directory of its own")]
    Mixed(PathBuf, PathBuf),
    /// A file of another test, which cannot be continued.
    #[error("{0} is of a mesh with other settings: use the same flags and --seed as before, or another --out")]
    OtherTest(PathBuf),
    /// Results that would be overwritten.
    #[error("{0} exists already: use another --out, or --resume to measure what is missing there")]
    Exists(PathBuf),
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileHeader {
    /// The settings of the mesh.
    pub settings: MeshSettings,
    /// The rank that wrote it.
    pub hello: RankHello,
}

/// The file of a rank that is being written.
#[derive(Debug)]
pub struct RankFile {
    out: BufWriter<File>,
    part: PathBuf,
    whole: PathBuf,
}

/// Whether a rank has a file in a directory, finished or not.
pub fn existing(dir: &Path, rank: Rank) -> Option<PathBuf> {
    let whole = dir.join(file_name(rank));
    [whole.clone(), part_of(&whole)].into_iter().find(|path| path.exists())
}

impl RankFile {
    /// Begins the file of a rank. With `resume`, rows that it has already are kept: they are returned.
    ///
    /// # Errors
    /// [`MeshFileError`] if the file exists and is not to be resumed, is of another test, or cannot be written.
    pub fn begin(dir: &Path, header: &FileHeader, resume: bool) -> Result<(RankFile, Vec<MeshRow>), MeshFileError> {
        let whole = dir.join(file_name(header.hello.rank));
        let part = part_of(&whole);
        let before = match existing(dir, header.hello.rank) {
            None => Vec::new(),
            Some(path) if !resume => return Err(MeshFileError::Exists(path)),
            Some(path) => {
                let (earlier, rows) = read_file(&path)?;
                if !earlier.settings.is_same_test(&header.settings) {
                    return Err(MeshFileError::OtherTest(path));
                }
                rows
            }
        };
        // The new file replaces the old one only when it has all its rows.
        let fresh = part.with_extension("part.new");
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| MeshFileError::Io(path, error)
        };
        let file = create_fresh(&fresh).map_err(io(&fresh))?;
        let mut file = RankFile { out: BufWriter::new(file), part: part.clone(), whole: whole.clone() };
        file.line(header).map_err(io(&fresh))?;
        for row in &before {
            file.line(row).map_err(io(&fresh))?;
        }
        file.flush()?;
        fs::rename(&fresh, &part).map_err(io(&part))?;
        if whole.exists() {
            fs::remove_file(&whole).map_err(io(&whole))?;
        }
        Ok((file, before))
    }

    /// Adds rows; they are in the file when this returns.
    ///
    /// # Errors
    /// [`MeshFileError::Io`], for example without free space.
    pub fn add(&mut self, rows: &[MeshRow]) -> Result<(), MeshFileError> {
        rows.iter().try_for_each(|row| self.line(row)).map_err(|error| self.broken(error))?;
        self.flush()
    }

    /// Finishes the file: from now on it has its final name.
    ///
    /// # Errors
    /// [`MeshFileError::Io`].
    pub fn finish(mut self) -> Result<PathBuf, MeshFileError> {
        self.flush()?;
        let RankFile { out, part, whole } = &self;
        let renamed = out.get_ref().sync_all().and_then(|()| fs::rename(part, whole));
        renamed.map_err(|error| self.broken(error))?;
        Ok(self.whole.clone())
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")
    }

    fn flush(&mut self) -> Result<(), MeshFileError> {
        self.out.flush().map_err(|error| self.broken(error))
    }

    fn broken(&self, error: io::Error) -> MeshFileError {
        MeshFileError::Io(self.part.clone(), error)
    }
}

/// Everything that the files of a directory contain.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshData {
    /// The settings of the mesh.
    pub settings: MeshSettings,
    /// The ranks that have a file.
    pub hosts: BTreeMap<Rank, RankHello>,
    /// Ranks whose file was not finished: they were killed, or are still running.
    pub unfinished: Vec<Rank>,
    /// The rows, by rank of the client.
    pub rows: Vec<MeshRow>,
}

impl MeshData {
    /// The name of the host of a rank, or of an external server; `None` if the rank has no file.
    pub fn host(&self, rank: Rank) -> Option<&str> {
        let server = self.settings.server.as_deref().filter(|_| rank == self.settings.ranks);
        server.or_else(|| self.hosts.get(&rank).map(|hello| hello.host.as_str()))
    }
}

/// Reads the files of a directory.
///
/// # Errors
/// [`MeshFileError`] if there are none, or they are not of one run.
pub fn read(dir: &Path) -> Result<MeshData, MeshFileError> {
    let io = |error| MeshFileError::Io(dir.to_owned(), error);
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("rank-") && (name.ends_with(".jsonl") || name.ends_with(".jsonl.part")) {
            paths.push(path);
        }
    }
    paths.sort();
    let mut data: Option<(PathBuf, MeshData)> = None;
    for path in paths {
        let (header, rows) = match read_file(&path) {
            // A rank may finish its file in the meantime.
            Err(MeshFileError::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => {
                read_file(&path.with_extension(""))?
            }
            read => read?,
        };
        let (first, data) = data.get_or_insert_with(|| {
            let settings = header.settings.clone();
            let data = MeshData { settings, hosts: BTreeMap::new(), unfinished: Vec::new(), rows: Vec::new() };
            (path.clone(), data)
        });
        if !data.settings.is_same_test(&header.settings) {
            return Err(MeshFileError::Mixed(first.clone(), path));
        }
        if path.extension().is_some_and(|extension| extension == "part") {
            data.unfinished.push(header.hello.rank);
        }
        data.hosts.insert(header.hello.rank, header.hello);
        data.rows.extend(rows);
    }
    let (_, mut data) = data.ok_or_else(|| MeshFileError::Empty(dir.to_owned()))?;
    drop_explained(&mut data.rows);
    Ok(data)
}

/// Keeps the latest word about each part: rows with numbers, else the last row of its client, else that of rank 0, which
/// alone has no sender.
fn drop_explained(rows: &mut Vec<MeshRow>) {
    let weight = |row: &MeshRow| match (row.outcome == Outcome::Measured, row.sender.is_some()) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    let mut best: HashMap<(u32, Rank), u8> = HashMap::new();
    for row in rows.iter() {
        let known = best.entry(row.place.part()).or_insert(0);
        *known = weight(row).max(*known);
    }
    // Failed trials of a part of which others were measured stay: they are results of their own.
    rows.retain(|row| weight(row) == best[&row.place.part()] || row.option.is_some());
    // A slot that was measured again has the trials of its other clients twice: one of each stays, rather a measured one.
    let trial = |row: &MeshRow| (row.place.part(), row.place.hub, row.option, row.sender);
    let measured: HashSet<_> = rows.iter().filter(|row| row.outcome == Outcome::Measured).map(trial).collect();
    let (mut seen, mut trials) = (HashSet::new(), HashSet::new());
    let mut stays = |row: &MeshRow| match row.option {
        None => seen.insert(row.place.part()),
        Some(_) => (row.outcome == Outcome::Measured || !measured.contains(&trial(row))) && trials.insert(trial(row)),
    };
    let mut keep: Vec<bool> = rows.iter().rev().map(&mut stays).collect();
    keep.reverse();
    let mut keep = keep.into_iter();
    rows.retain(|_| keep.next().unwrap_or(true));
}

/// The header of a file.
///
/// # Errors
/// [`MeshFileError`] if it is not a file of a mesh, or cannot be read.
pub fn header(path: &Path) -> Result<FileHeader, MeshFileError> {
    Ok(FileLines::open(path)?.1)
}

fn read_file(path: &Path) -> Result<(FileHeader, Vec<MeshRow>), MeshFileError> {
    let (mut lines, header) = FileLines::open(path)?;
    let mut rows = Vec::new();
    while lines.next()? {
        let damaged = |why: String| lines.damaged(format!("row {} is damaged ({why})", rows.len() + 1));
        let row: MeshRow = serde_json::from_slice(&lines.line).map_err(|error| damaged(error.to_string()))?;
        row.check(&header.settings).map_err(damaged)?;
        rows.push(row);
    }
    Ok((header, rows))
}

/// The lines of a file.
struct FileLines {
    path: PathBuf,
    reader: BufReader<File>,
    line: Vec<u8>,
}

impl FileLines {
    /// Opens a file and reads its header.
    fn open(path: &Path) -> Result<(FileLines, FileHeader), MeshFileError> {
        let io = |error| MeshFileError::Io(path.to_owned(), error);
        if !fs::metadata(path).map_err(io)?.is_file() {
            // Opening a pipe would wait for a writer.
            return Err(MeshFileError::Format(path.to_owned(), "it is no regular file".into()));
        }
        let file = File::open(path).map_err(io)?;
        let reader = BufReader::with_capacity(1 << 20, file);
        let mut lines = FileLines { path: path.to_owned(), reader, line: Vec::new() };
        if !lines.next()? {
            return Err(lines.damaged("it has no header".into()));
        }
        let header: FileHeader = serde_json::from_slice(&lines.line)
            .map_err(|error| lines.damaged(format!("it does not begin with a header ({error})")))?;
        match header.settings.format {
            FORMAT => {
                let checked = header.settings.check();
                checked.map_err(|why| lines.damaged(format!("its header is damaged ({why})")))?;
                Ok((lines, header))
            }
            other => Err(lines.damaged(format!("its format is {other}, and this version reads {FORMAT}"))),
        }
    }

    /// Reads the next line. `false` at the end, and at a line that was cut off.
    fn next(&mut self) -> Result<bool, MeshFileError> {
        self.line.clear();
        let read = (&mut self.reader).take(LINE_MAX).read_until(b'\n', &mut self.line);
        read.map_err(|error| MeshFileError::Io(self.path.clone(), error))?;
        Ok(self.line.last() == Some(&b'\n'))
    }

    fn damaged(&self, reason: String) -> MeshFileError {
        MeshFileError::Format(self.path.clone(), reason)
    }
}

fn file_name(rank: Rank) -> String {
    format!("rank-{rank:05}.jsonl")
}

fn part_of(whole: &Path) -> PathBuf {
    whole.with_extension("jsonl.part")
}

#[cfg(test)]
mod tests;
