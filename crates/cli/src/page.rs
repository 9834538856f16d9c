//! Writes the report page: to a given file, and next to the store after every session.

use std::io::Write;
use std::path::Path;
use std::time::SystemTime;
use std::{fs, io};

use bytegauge_report::Report;
use bytegauge_sys::new_file;

use crate::exit_code::Failure;
use crate::{stored, terminal};

/// Pages that are kept next to a store. Older ones are deleted; `report --html` makes them again.
const KEPT_MAX: usize = 20;

/// Keeps the page of the new session next to its store, in place of the oldest if there are many, and prints its path as
/// the last line of the run. The results are in the store: without a page nothing is lost.
pub fn keep(views: &[Report], store: &Path) {
    let name = match views {
        [] => return,
        [view] => view.session.to_string(),
        [first, .., last] => format!("{}-{}", first.session, last.session),
    };
    let folder = store.with_extension("pages");
    let path = folder.join(format!("{name}.html"));
    terminal::note(&match kept(views, store, &folder, &path) {
        Ok(()) => format!("page: {}", fs::canonicalize(&path).unwrap_or(path).display()),
        Err(error) => format!("note: no page in {}: {error}: make one with report --html FILE", path.display()),
    });
}

fn kept(views: &[Report], store: &Path, folder: &Path, path: &Path) -> io::Result<()> {
    let page = rendered(views, store);
    new_file::create_own_folder(folder)?;
    new_file::replace(path, |file| file.write_all(page.as_bytes()))?;
    let mut others: Vec<_> = pages(folder).into_iter().filter(|(_, name)| folder.join(name) != path).collect();
    others.sort_unstable();
    for (_, name) in &others[..(others.len() + 1).saturating_sub(KEPT_MAX)] {
        // Another run may have deleted it.
        let _ = fs::remove_file(folder.join(name));
    }
    Ok(())
}

/// The page of some sessions, whose commands find their store.
fn rendered(views: &[Report], store: &Path) -> String {
    let mut views = views.to_vec();
    views.iter_mut().for_each(|view| name_store(view, store));
    bytegauge_report::render::page::render(&views)
}

/// Makes the commands of a document find its store.
pub fn name_store(view: &mut Report, store: &Path) {
    let program = stored::called(store);
    view.next.iter_mut().for_each(|step| step.command = step.typed(&program));
}

/// The pages of a folder, and when each was written; other files are left alone. Ordered by time, since session numbers
/// start again with a new store.
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

/// Writes the page of some sessions, and prints its path.
///
/// # Errors
/// If the file cannot be written.
pub fn write(views: &[Report], store: &Path, file: &Path) -> Result<(), Failure> {
    let page = rendered(views, store);
    new_file::replace(file, |out| out.write_all(page.as_bytes()))
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}: choose another --html", file.display())))?;
    let path = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    terminal::print(&format!("the page is in {}\n", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_are_listed() {
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
