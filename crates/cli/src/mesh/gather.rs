//! `bytegauge mesh gather DIR`: merges the files of all ranks and shows the result.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytegauge_mesh::summary::MeshSummary;
use bytegauge_mesh::{files, page};
use bytegauge_sys::new_file;
use clap::ArgMatches;

use super::screen;
use crate::exit_code::{DONE, Failure};
use crate::terminal;

/// Gathers a directory.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let dir =
        matches.get_one::<PathBuf>("dir").ok_or_else(|| Failure::usage("gather needs DIR, the directory of --out"))?;
    if !dir.is_dir() {
        return Err(Failure::usage(format!("gather {}: it is no directory: give the one of --out", dir.display())));
    }
    show(dir)?;
    Ok(DONE)
}

fn write_page(html: &str, dir: &Path) -> io::Result<()> {
    new_file::replace(&dir.join("mesh.html"), |file| file.write_all(html.as_bytes()))
}

/// Shows the result of a directory, and writes its page and Parquet files there.
pub fn show(dir: &Path) -> Result<(), Failure> {
    let data = files::read(dir)?;
    let summary = MeshSummary::of(&data);
    terminal::print(&screen::render(&data, &summary, dir));
    // The rows are in the files of the ranks all the same.
    let note = |what: &str, error: String| {
        terminal::note(&format!("{}: {what} written: {error}: check permissions and free space", dir.display()));
    };
    if let Err(error) = write_page(&page::render(&data, &summary), dir) {
        note("no page was", error.to_string());
    }
    #[cfg(feature = "parquet")]
    if let Err(error) = bytegauge_mesh::parquet_file::write(&data, dir) {
        note("no Parquet files were", error.to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn pages_are_not_written_through_links() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let other = elsewhere.path().join("profile");
        fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("mesh.html.new")).unwrap();
        write_page("page", dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
        assert_eq!(fs::read_to_string(dir.path().join("mesh.html")).unwrap(), "page");
    }
}
