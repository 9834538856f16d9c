//! `--flamegraph DIR`: the CPU time of each relay, as folded stacks and as a flame graph.
//!
//! perf(1) samples each relay in an extra trial after the session's own trials, so judged trials are never sampled.
//! If sampling is impossible, a note gives the reason and the next step, and the session continues without it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod perf;

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_harness::trial;
use bytegauge_model::relay_program::short_relay_name;
use bytegauge_model::unit::counted;
use bytegauge_model::{Cell, CellKind, RelayChoice, escape};
use bytegauge_plan::Plan;
use bytegauge_report::Report;
use bytegauge_sys::new_file;
use bytegauge_sys::owner::{OwnedFolder, remove_abandoned_folders};
use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph::{self, Options};

/// The start of the name of a folder for perf's data.
const SCRATCH: &str = ".bytegauge-perf-";

/// The settings of the sampling.
pub struct Flames {
    folder: PathBuf,
    program: PathBuf,
    /// Prints a line for the user.
    note: fn(&str),
}

/// The reason why a plan has no relay to sample, if any, with the next step.
///
/// # Errors
/// When no relay would be measured, or one on another host.
pub fn check(plan: &Plan) -> Result<(), String> {
    if !plan.cells.iter().any(|cell| cell.factors.has_relay()) {
        return Err("--flamegraph has no effect without --relay METHOD: it samples relays".into());
    }
    if plan.cells.iter().any(|cell| cell.factors.relay_host().is_some()) {
        return Err("--flamegraph samples relays on this host only, but --relay-host names another one: leave one of them out, or run \
             `bytegauge run relay-copy --relay METHOD --flamegraph DIR` on that host"
            .into());
    }
    Ok(())
}

impl Flames {
    /// Flame graphs in a folder, of ends that `program` runs. Whether perf may sample here is checked before measuring: if not,
    /// there are none, and `note` gets the reason.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn in_folder(folder: &Path, program: &Path, note: fn(&str)) -> Result<Option<Flames>, String> {
        let unwritten = |error| format!("--flamegraph {}: {error}: use a folder that can be written", folder.display());
        new_file::create_folder(folder).map_err(unwritten)?;
        remove_abandoned_folders(folder, SCRATCH);
        // perf's data of a trial is stored temporarily in the user's folder, since it may be large.
        let scratch = OwnedFolder::create_in(folder, SCRATCH).map_err(unwritten)?;
        match perf::tried(program, scratch.path()) {
            Ok(()) => Ok(Some(Flames { folder: folder.to_owned(), program: program.to_owned(), note })),
            Err(reason) => {
                note(&format!("no flame graphs: {reason}; the session continues without them"));
                Ok(None)
            }
        }
    }

    /// Samples each measured relay, in its fastest cell, and writes the results.
    pub fn draw(&self, plan: &Plan, view: &Report, quiet: bool, stop: &AtomicBool) {
        let (mut written, cells) = (Vec::new(), fastest(plan, view));
        if !quiet {
            (self.note)(&format!("sampling {}, each in an extra trial", counted(cells.len(), "relay")));
        }
        for cell in cells {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let relay = cell.factors.relay().map_or_else(String::new, ToString::to_string);
            match self.one(plan, cell, &format!("session-{}-{}", view.session, file_name(&relay)), stop) {
                Ok(svg) => written.push(svg.display().to_string()),
                Err(reason) => (self.note)(&format!("no flame graph of {}: {reason}", short_relay_name(&relay))),
            }
        }
        if !written.is_empty() {
            (self.note)(&format!(
                "flame graphs of extra trials (folded stacks in the same folder): {}",
                written.join(" ")
            ));
        }
    }

    /// Samples one relay. Returns the picture's path.
    fn one(&self, plan: &Plan, cell: &Cell, name: &str, stop: &AtomicBool) -> Result<PathBuf, String> {
        let scratch = OwnedFolder::create_in(&self.folder, SCRATCH).map_err(|error| error.to_string())?;
        let data = scratch.path().join("perf.data");
        let sample = |pids: &[u32]| perf::Sampling::of(&self.program, pids, &data, stop);
        trial::carry((plan, cell), &self.program, stop, sample, perf::Sampling::finish)?;
        let folded = folded(&perf::script(&self.program, &data, stop)?)?;
        let picture = drawn(&folded, &title(cell))?;
        let path = |ending: &str| self.folder.join(format!("{name}.{ending}"));
        let write = |path: PathBuf, bytes: &[u8]| {
            let written = new_file::replace(&path, |file| file.write_all(bytes));
            written.map(|()| path.clone()).map_err(|error| format!("{}: {error}", path.display()))
        };
        write(path("folded"), &folded)?;
        write(path("svg"), &picture)
    }
}

/// For each measured relay the cell with the highest rate, in the order of the plan.
fn fastest<'a>(plan: &'a Plan, view: &Report) -> Vec<&'a Cell> {
    let rate = |cell: &Cell| view.cells.iter().find(|seen| seen.id == cell.id).and_then(|seen| seen.estimate.median);
    let is_asked =
        |cell: &&Cell| cell.kind == CellKind::Candidate && cell.twin_of.is_none() && cell.factors.has_relay();
    let measured: Vec<(&Cell, f64)> =
        plan.cells.iter().filter(is_asked).filter_map(|cell| Some((cell, rate(cell)?))).collect();
    let mut seen = HashSet::new();
    let relays = measured.iter().filter_map(|(cell, _)| cell.factors.relay()).filter(|relay| seen.insert(*relay));
    let best = |relay: &RelayChoice| {
        let of_relay = measured.iter().filter(|(cell, _)| cell.factors.relay() == Some(relay));
        of_relay.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(cell, _)| *cell)
    };
    relays.filter_map(best).collect()
}

/// The relay, and its other options.
fn title(cell: &Cell) -> String {
    let named = cell.factors.present().filter(|(factor, level)| factor.name.starts_with("relay") && !level.is_auto());
    let words: Vec<String> =
        named.map(|(factor, level)| format!("{} {}", factor.heading, factor.kind.compact(&level))).collect();
    escape::line(&words.join(", ")).into_owned()
}

/// A relay as part of a file's name: without characters that are special to a shell or a browser.
fn file_name(relay: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = relay.chars().take(60).map(safe).collect();
    name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

// Converts perf's output to folded stacks, a line for each with the CPU time of its samples, and those to a
// picture.

/// Folds what `perf script` printed.
///
/// # Errors
/// When it holds no sample, or is not perf's.
pub fn folded(script: &[u8]) -> Result<Vec<u8>, String> {
    let mut folded = Vec::new();
    let done = Folder::default().collapse(script, &mut folded);
    done.map_err(|error| format!("perf's output cannot be read: {error}"))?;
    match folded.is_empty() {
        true => Err("it has no samples: it hardly ran".into()),
        false => Ok(folded),
    }
}

/// Draws folded stacks: an SVG that can be searched and zoomed in a browser, and needs no network.
///
/// # Errors
/// When there is nothing to draw.
pub fn drawn(folded: &[u8], title: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.title = title.to_owned();
    // A sample of the CPU clock represents its period, which is a time.
    options.count_name = "ns".to_owned();
    let mut picture = Vec::new();
    let done = flamegraph::from_reader(&mut options, folded, &mut picture);
    done.map(|()| picture).map_err(|error| format!("drawing failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_name_files_that_need_no_quotes() {
        assert_eq!(file_name("read-write"), "read-write");
        assert_eq!(file_name("cmd:./my proxy -l {listen}"), "cmd-my-proxy-l-listen");
        assert_eq!(file_name("addr:127.0.0.1:9000=127.0.0.1:9001"), "addr-127-0-0-1-9000-127-0-0-1-9001");
    }
}

#[cfg(test)]
mod fold_tests {
    use super::*;

    /// As perf 6.1 prints them, of a relay that splices: two samples of one stack, one of another, another thread.
    const SCRIPT: &[u8] = include_bytes!("splice.script");

    #[test]
    fn times_are_summed_by_stack() {
        let folded = String::from_utf8(folded(SCRIPT).unwrap()).unwrap();
        let mut lines: Vec<&str> = folded.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "relay-2;[unknown] 1003009",
                "relay;splice;entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_splice;do_splice;tcp_splice_read 2006018",
                "relay;splice;entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_splice;splice_from_pipe 1003009",
            ]
        );
    }

    #[test]
    fn a_picture_names_what_it_shows() {
        let picture = String::from_utf8(drawn(&folded(SCRIPT).unwrap(), "relay splice").unwrap()).unwrap();
        for part in ["<svg", "relay splice", "tcp_splice_read (2,006,018 ns, 50.00%)"] {
            assert!(picture.contains(part), "{part}");
        }
    }

    #[test]
    fn a_script_without_samples_is_an_error() {
        assert!(folded(b"").unwrap_err().contains("it has no samples"));
        assert!(drawn(b"", "x").is_err());
    }
}
