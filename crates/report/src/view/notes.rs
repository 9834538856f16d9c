//! Notes for readers of the numbers: omissions of the plan, and observations of the analysis.

use bytegauge_model::CellKind;
use bytegauge_model::unit::{byte_rate, counted};

use super::counters::option_notes;
use super::estimate::{IPERF3_LOST, IPERF3_RATE};
use super::numbers::{CellView, GroupView, Note};
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
    if group.blocks.broken > 0 {
        add(format!("{} with a failed trial left out and repeated", counted(group.blocks.broken, "block")));
    }
    notes
}

fn of_cells(cells: &[CellView]) -> Vec<String> {
    outlasting(cells).into_iter().chain(option_notes(cells)).chain(of_iperf3(cells)).collect()
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

/// The rates that an iperf3 server counted, and the reason why rates over UDP to it are estimates.
fn of_iperf3(cells: &[CellView]) -> Vec<String> {
    let medians = |name: &str| {
        let known = cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
        known.filter_map(|cell| cell.median(name)).collect::<Vec<_>>()
    };
    let rates = medians(IPERF3_RATE);
    let span = rates.iter().copied().reduce(f64::min).zip(rates.iter().copied().reduce(f64::max));
    let Some((least, most)) = span.map(|(least, most)| (byte_rate(least), byte_rate(most))) else { return Vec::new() };
    let rate = if least == most { least } else { format!("{least} to {most}") };
    let mut notes = vec![format!("the iperf3 server counted {rate} over whole tests")];
    if !medians(IPERF3_LOST).is_empty() {
        notes.push(
            "rates of datagrams to an iperf3 server are estimates: the server reports its loss for the whole test, and bytes sent \
             in the window count with that share"
                .into(),
        );
    }
    notes
}
