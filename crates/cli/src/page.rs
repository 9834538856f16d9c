//! Writes the report page, and shows it where that was asked for.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use bytegauge_report::{BetweenView, View, render};

use crate::exit::Failure;
use crate::stored;

/// What shows a file in whatever the desktop has chosen for it.
const OPENER: &str = "xdg-open";

/// Writes the page of some sessions, says where it is, and shows it in a browser if `open`.
///
/// # Errors
/// When the file cannot be written, or nothing can show it; then it is written all the same.
pub fn write(views: &[View], between: Option<&BetweenView>, file: &str, open: bool) -> Result<u8, Failure> {
    fs::write(file, render::page::render(views, between))
        .map_err(|error| Failure::failed(format!("cannot write {file}: {error}: choose another --html")))?;
    let path = fs::canonicalize(file).unwrap_or_else(|_| Path::new(file).to_owned());
    let done = stored::print(&format!("the page is in {}\n", path.display()))?;
    if open {
        show(&path).map_err(|error| {
            Failure::failed(format!("cannot show it with {OPENER}: {error}: open {} in a browser", path.display()))
        })?;
    }
    Ok(done)
}

/// Shows a file or an address. Returns once the opener has handed it over; the browser lives on by itself.
///
/// # Errors
/// When there is no opener, or it found nothing that shows it.
pub fn show(path: &Path) -> io::Result<()> {
    // A path with a slash in front is never taken for an option.
    let status =
        Command::new(OPENER).arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended with {status}"))) }
}
