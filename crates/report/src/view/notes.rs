//! Notes for readers of the numbers: omissions of the plan, and observations of the analysis.

use bytegauge_model::CellKind;
use bytegauge_model::unit::counted;

use super::iperf3;
use super::numbers::{CellOutcome, CellView, GroupView, Note};
use super::options;
use crate::SessionData;
use crate::interval_rounding::percent;

/// The session's own notes, then observations.
pub fn notes(data: &SessionData, cells: &[CellView], groups: &[GroupView]) -> Vec<Note> {
    let stored = data.record.notes.iter().map(|text| Note::stored(text));
    let of_groups = groups.iter().flat_map(of_group);
    stored.chain(of_groups).chain(of_cells(cells).into_iter().map(Note::of_session)).collect()
}

fn of_group(group: &GroupView) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut add = |text: String| notes.push(Note::of_group(&group.id, text));
    if group.steady == Some(false) {
        add("not steady: the calibration trials had not settled by half of their time".into());
    }
    if let Some(serial) = group.serial.as_ref().filter(|serial| serial.merged_by > 1) {
        add(format!(
            "neighbouring blocks resembled each other and were merged by {}: how fast each is holds for this session alone",
            serial.merged_by
        ));
    }
    if group.limited_trials > 0 {
        add(format!(
            "{} far slower than the rest of the block: each counts only as if its difference were three times the usual one, so \
             that a few slow trials decide nothing",
            counted(group.limited_trials, "trial")
        ));
    }
    if group.blocks.broken > 0 {
        add(format!("{} with a failed trial left out and repeated", counted(group.blocks.broken, "block")));
    }
    notes
}

fn of_cells(cells: &[CellView]) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(outlasting(cells));
    notes.extend(options::notes(cells));
    notes.extend(iperf3::notes(cells));
    // Options of the plan only: the harness adds other cells.
    let ended = |outcome: CellOutcome| {
        cells.iter().filter(|cell| cell.kind == CellKind::Candidate && cell.outcome == outcome).count()
    };
    let (failed, skipped) = (ended(CellOutcome::Failed), ended(CellOutcome::Skipped));
    if failed + skipped > 0 {
        notes.push(format!("{} skipped, {failed} failed; `--format csv` lists every reason", counted(skipped, "cell")));
    }
    notes
}

/// Calls whose end was not observed.
fn outlasting(cells: &[CellView]) -> Option<String> {
    let share = |cell: &CellView| cell.call.as_ref()?.outlasting_share.filter(|_| cell.kind == CellKind::Candidate);
    let outlasting: Vec<_> = cells.iter().filter_map(|cell| Some((cell, share(cell)?))).collect();
    let (worst, most) = outlasting.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "in {} calls took longer than their trials could observe ({} of the calls of {}): percentiles in that range are not reported; \
         longer trials show more (--trial-time 5s)",
        counted(outlasting.len(), "cell"),
        percent(*most),
        worst.label
    ))
}
