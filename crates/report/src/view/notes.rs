//! What a reader of the numbers must know beside them: what the plan left out, and what the analysis noticed.

use bytegauge_model::CellKind;
use bytegauge_model::unit::{byte_rate, call_rate, nop_rate};

use super::call_datagrams;
use super::document::{CellView, FloorView, GroupView};
use crate::SessionData;
use crate::sentence::percent;

/// The harness's cost above which a note says so; the aim is 1 % of the fastest real call.
const FLOOR_AIM: f64 = 0.01;

/// What came back at best, then the session's own notes, then what was noticed.
pub fn notes(data: &SessionData, cells: &[CellView], groups: &[GroupView], floor: &FloorView) -> Vec<String> {
    let mut notes = call_datagrams::best(cells, groups);
    notes.extend(data.record.notes.iter().cloned());
    for group in groups {
        notes.extend(of_group(group));
    }
    notes.extend(of_cells(cells));
    if let Some(share) = floor.share.filter(|share| *share >= FLOOR_AIM) {
        notes.push(format!("the harness takes {} of the fastest real call; the aim is below 1 %", percent(share)));
    }
    notes
}

fn of_group(group: &GroupView) -> Vec<String> {
    let mut notes = Vec::new();
    let mut say = |text: String| notes.push(format!("{}: {text}", group.id));
    if group.steady == Some(false) {
        say("not steady: the calibration trials had not settled by half of their time".into());
    }
    if let Some(serial) = group.serial.as_ref().filter(|serial| serial.merged_by > 1) {
        say(format!(
            "neighbouring blocks resembled each other and were merged by {}: absolute rates hold during this session",
            serial.merged_by
        ));
    }
    if group.blocks.breached > 0 {
        let verdict = match &group.all_blocks {
            None => "the verdict is the same with them".to_owned(),
            Some(all) => {
                let cell = all.cell.as_ref().map_or("no cell".to_owned(), ToString::to_string);
                let proven = if all.proven { "proven" } else { "not proven" };
                format!("with them the verdict differs: {cell}, {proven}")
            }
        };
        say(format!("{} blocks with more than 5 % steal were left out; {verdict}", group.blocks.breached));
    }
    if group.limited_trials > 0 {
        say(format!(
            "{} far slower than the block around counted three spreads each: what is compared is the typical trial",
            counted(group.limited_trials, "trial")
        ));
    }
    if !group.spoken_against.is_empty() {
        let cells: Vec<String> = group.spoken_against.iter().map(ToString::to_string).collect();
        say(format!("typical trials speak for {}, but plain means against: nothing proven of it", cells.join(", ")));
    }
    if group.blocks.broken > 0 {
        say(format!("{} broke off, to be repeated, and counted for nothing", counted(group.blocks.broken, "block")));
    }
    notes
}

fn of_cells(cells: &[CellView]) -> Vec<String> {
    let mut notes = Vec::new();
    let outliers: usize = cells.iter().map(|cell| cell.outliers.count).sum();
    if outliers > 0 {
        let with = |read: fn(&CellView) -> usize| cells.iter().map(read).sum::<usize>();
        notes.push(format!(
            "{outliers} trials lie far from the others of their cell and are kept: {} in a block with steal, {} with \
             unusual preemption",
            with(|cell| cell.outliers.with_steal),
            with(|cell| cell.outliers.with_preemption)
        ));
    }
    // A twin repeats what its cell says, and the harness's own loop is no answer.
    for cell in cells.iter().filter(|cell| cell.kind == CellKind::Candidate) {
        if let Some(modes) = cell.modes.as_ref().filter(|modes| !modes.modes.is_empty()) {
            let shown = match (&cell.call, &cell.ring) {
                (Some(_), _) => call_rate,
                (None, Some(_)) => nop_rate,
                (None, None) => byte_rate,
            };
            let heaps: Vec<String> =
                modes.modes.iter().map(|mode| format!("{} ({})", shown(mode.median), percent(mode.share))).collect();
            notes.push(format!("{} ({}) has more than one mode: {}", cell.id, cell.label, heaps.join(", ")));
        }
    }
    let failed = cells.iter().filter(|cell| cell.outcome == "failed").count();
    let skipped = cells.iter().filter(|cell| cell.outcome == "skipped").count();
    if failed + skipped > 0 {
        notes.push(format!("{} skipped, {failed} failed; `--format csv` lists every reason", counted(skipped, "cell")));
    }
    notes
}

/// `1 block`, `3 blocks`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
