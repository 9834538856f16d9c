//! `bytegauge mesh gather DIR`: merges the files of all ranks and shows the result.

use std::path::{Path, PathBuf};

use bytegauge_mesh::files;
use bytegauge_mesh::summary::MeshSummary;
use clap::ArgMatches;

use super::screen;
use crate::exit::{DONE, Failure};
use crate::terminal;

/// Gathers a directory.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let dir =
        matches.get_one::<PathBuf>("dir").ok_or_else(|| Failure::usage("gather needs DIR, the directory of --out"))?;
    show(dir)?;
    Ok(DONE)
}

/// Shows the result of a directory.
pub fn show(dir: &Path) -> Result<(), Failure> {
    let data = files::read(dir).map_err(|error| Failure::failed(error.to_string()))?;
    terminal::print(&screen::render(&data, &MeshSummary::of(&data), dir));
    #[cfg(feature = "parquet")]
    if let Err(error) = bytegauge_mesh::parquet_file::write(&data, dir) {
        // The rows are in the files of the ranks all the same.
        terminal::note(&format!(
            "{}: no Parquet files were written: {error}: check permissions and free space",
            dir.display()
        ));
    }
    Ok(())
}
