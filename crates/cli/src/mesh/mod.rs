//! `bytegauge mesh`: many hosts measure each other, one process per host, started by the user's launcher.
//!
//! Every process is a member: it runs an agent for its partners and measures when rank 0 tells it to. Rank 0 also
//! coordinates ([`rank_zero`]). Nothing is started on other hosts.

mod flags;
mod member;
mod plan;
mod rank_zero;
mod rendezvous;
mod screen;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytegauge_mesh::files::{self, MeshFileError, RankFile};
use bytegauge_mesh::summary::MeshSummary;
use bytegauge_mesh::{MeshRow, page};
use bytegauge_sys::new_file;
use clap::ArgMatches;

pub use flags::{command, options, refused};

use crate::exit_code::{DONE, Failure, INTERRUPTED, usage};
use crate::{agent, interrupt, measure, terminal};
use flags::MeshFlags;
use member::{Member, MemberEnd};
use plan::MeshForecast;
use rank_zero::RankZero;

/// Runs one rank, or gathers results.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    match matches.subcommand() {
        Some(("gather", matches)) => gather(matches),
        Some(("print", matches)) => flags::print(matches),
        _ => rank(matches),
    }
}

fn rank(matches: &ArgMatches) -> Result<u8, Failure> {
    let flags = MeshFlags::read(matches)?;
    let settings = plan::settings(matches, &flags)?;
    let forecast = MeshForecast::of(&settings);
    if matches.get_flag("dry-run") {
        terminal::print(&forecast.text);
        return Ok(DONE);
    }
    forecast.check(matches)?;
    let key = agent::read(matches)?;
    new_file::create_folder(&flags.out)
        .map_err(|error| Failure::usage(format!("--out {}: {error}: give another directory", flags.out.display())))?;
    let stop = interrupt::stop_on_signals()?;
    measure::remove_leftovers(flags.quiet);
    if flags.place.rank != 0 {
        let member = Member { flags: &flags, settings: &settings, key, stop };
        return end(member.run(&rendezvous::Rendezvous::all_of(&flags))?, &[], &flags);
    }
    // Before this process shows itself as rank 0: another mesh may be running in a directory with results.
    if let Some(path) = files::existing(&flags.out, flags.place.rank).filter(|_| !flags.resume) {
        return Err(MeshFileError::Exists(path).into());
    }
    let zero = RankZero::listen(&flags, settings.clone(), key.clone(), Arc::clone(&stop))?;
    let own = zero.own_address()?;
    // The coordinator ends when every rank has left, this one included.
    let coordinator = member::spawn("mesh", move || zero.run())?;
    let member = Member { flags: &flags, settings: &settings, key, stop: Arc::clone(&stop) };
    let member = member.run(&[rendezvous::Rendezvous::At(vec![own])]);
    if member.is_err() {
        // Without the member of this process there is no mesh: the others need not be waited for.
        stop.store(true, Ordering::Relaxed);
    }
    let missing = coordinator.join().map_err(|_| Failure::failed("the coordinator ended by an error of its own"))??;
    let code = end(member?, &missing, &flags)?;
    if code == DONE {
        show(&flags.out)?;
    }
    Ok(code)
}

/// Finishes the file of rank 0, which has the rows of tests that were not measured, or reports how this rank ended.
fn end(end: MemberEnd, missing: &[MeshRow], flags: &MeshFlags) -> Result<u8, Failure> {
    let MemberEnd { mut file, is_complete } = end;
    if let Some(file) = &mut file {
        file.add(missing)?;
    }
    if !is_complete {
        let kept = match file {
            Some(_) => format!("everything measured is in {}; --resume measures the rest", flags.out.display()),
            None => "it had not joined the mesh, and measured nothing".to_owned(),
        };
        terminal::note(&format!("rank {}: interrupted: {kept}", flags.place.rank));
        return Ok(INTERRUPTED);
    }
    file.map(RankFile::finish).transpose()?;
    Ok(DONE)
}

/// `bytegauge mesh gather DIR`: merges the files of all ranks and shows the result.
fn gather(matches: &ArgMatches) -> Result<u8, Failure> {
    let dir =
        matches.get_one::<PathBuf>("dir").ok_or_else(|| Failure::usage("gather needs DIR, the directory of --out"))?;
    if !dir.is_dir() {
        return usage(format!("gather {}: it is no directory: give the one of --out", dir.display()));
    }
    show(dir)?;
    Ok(DONE)
}

fn write_page(html: &str, dir: &Path) -> io::Result<()> {
    new_file::replace(&dir.join("mesh.html"), |file| file.write_all(html.as_bytes()))
}

/// Shows the result of a directory, and writes its page and Parquet files there.
fn show(dir: &Path) -> Result<(), Failure> {
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
