//! Writes the report page: where it was asked for, and beside the store after every session. Shows it where that was asked for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;
use std::{fs, io};

use bytegauge_report::{BetweenView, View, render};

use crate::exit::{DONE, Failure};
use crate::terminal;

/// What shows a file in whatever the desktop has chosen for it.
const OPENER: &str = "xdg-open";

/// Pages that are kept beside a store. Whoever wants one for longer saves it, or has it made again by `report --html`.
const KEPT_MAX: usize = 20;

/// Keeps the page of what was just measured beside its store, in place of the oldest where there are many, and tells where it
/// is. It is the last line of the run. What was measured stands in the store: without a page nothing is lost.
pub fn keep(views: &[View], store: &Path) {
    let [first, .., last] = views else {
        return views.first().map_or((), |view| told(views, store, &view.session.to_string()));
    };
    told(views, store, &format!("{}-{}", first.session, last.session));
}

fn told(views: &[View], store: &Path, name: &str) {
    match kept(views, store, name) {
        Ok(path) => terminal::note(&format!("page: {}", path.display())),
        Err((path, error)) => {
            terminal::note(&format!("note: no page in {}: {error}: make one with report --html FILE", path.display()));
        }
    }
}

fn kept(views: &[View], store: &Path, name: &str) -> Result<PathBuf, (PathBuf, io::Error)> {
    let folder = store.with_extension("pages");
    let path = folder.join(format!("{name}.html"));
    // Whoever looks at an older one of the same session sees a whole page at any time.
    let new = folder.join(format!("{name}.html.new"));
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&new, render::page::render(views, None)))
        .and_then(|()| fs::rename(&new, &path));
    if let Err(error) = written {
        // A part of a page, which nobody is told of.
        let _ = fs::remove_file(&new);
        return Err((path, error));
    }
    let mut others: Vec<_> = pages(&folder).into_iter().filter(|(_, name)| folder.join(name) != path).collect();
    others.sort_unstable();
    for (_, name) in &others[..(others.len() + 1).saturating_sub(KEPT_MAX)] {
        // Another run may have taken it away.
        let _ = fs::remove_file(folder.join(name));
    }
    Ok(fs::canonicalize(&path).unwrap_or(path))
}

/// The pages of a folder, and when each was written; whatever else lies there is left alone. By time: the numbers of sessions
/// begin anew with the store.
fn pages(folder: &Path) -> Vec<(SystemTime, String)> {
    let is_number = |part: &str| part.parse::<u64>().is_ok_and(|number| number.to_string() == part);
    let page = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let sessions = name.strip_suffix(".html")?;
        let (first, last) = sessions.split_once('-').unwrap_or((sessions, sessions));
        let written = entry.metadata().and_then(|metadata| metadata.modified()).ok()?;
        (is_number(first) && is_number(last)).then_some((written, name))
    };
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(page).collect()
}

/// Writes the page of some sessions, says where it is, and shows it in a browser if `open`.
///
/// # Errors
/// When the file cannot be written, or nothing can show it; then it is written all the same.
pub fn write(views: &[View], between: Option<&BetweenView>, file: &str, open: bool) -> Result<u8, Failure> {
    fs::write(file, render::page::render(views, between))
        .map_err(|error| Failure::failed(format!("cannot write {file}: {error}: choose another --html")))?;
    let path = fs::canonicalize(file).unwrap_or_else(|_| Path::new(file).to_owned());
    terminal::print(&format!("the page is in {}\n", path.display()));
    if open {
        show(&path).map_err(|error| {
            Failure::failed(format!("cannot show it with {OPENER}: {error}: open {} in a browser", path.display()))
        })?;
    }
    Ok(DONE)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_from_what_else_lies_there() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["7.html", "12-14.html", "07.html", "12.html.new", "mine.html", "-1.html", "1-.html", "13.htm"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let mut found: Vec<String> = pages(folder.path()).into_iter().map(|(_, name)| name).collect();
        found.sort_unstable();
        assert_eq!(found, ["12-14.html", "7.html"]);
        assert!(pages(&folder.path().join("missing")).is_empty());
    }
}
