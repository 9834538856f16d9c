//! Notes for readers of the numbers: omissions of the plan, and observations of the analysis.

use bytegauge_model::unit::{byte_rate, call_rate, counted, nop_rate, significant};
use bytegauge_model::{CellId, CellKind};

use super::call_datagrams;
use super::calls;
use super::copied;
use super::document::{CellView, FloorView, GroupView, StalledView};
use super::fd_table;
use super::lateness;
use super::options;
use super::rings;
use super::stolen::TOLD_P;
use crate::SessionData;
use crate::limit::call::DELAYED_ACKS;
use crate::outward::at_most;
use crate::sentence::{carried, moved_nothing, percent};

/// The harness's cost above which a note reports it; the aim is 1 % of the shortest real call.
const FLOOR_AIM: f64 = 0.01;

/// Most cells that a note names; others are counted.
const LISTED: usize = 4;

/// From this share on slow calls affect the 99th percentile.
const TAIL_SHARE: f64 = 0.01;

/// The best results of datagrams, then the session's own notes, then observations.
pub fn notes(data: &SessionData, cells: &[CellView], groups: &[GroupView], floor: &FloorView) -> Vec<String> {
    let mut notes = call_datagrams::best(cells, groups);
    notes.extend(data.record.notes.iter().cloned());
    for group in groups {
        notes.extend(of_group(group, cells));
    }
    notes.extend(rings::upside_down(groups, cells));
    notes.extend(of_cells(cells));
    notes.extend(lateness::sentence(cells, false));
    notes.extend(fd_table::sentence(data));
    if let Some(share) = floor.share.filter(|share| *share >= FLOOR_AIM) {
        notes.push(format!("the harness takes {} of the shortest real call; the aim is below 1 %", percent(share)));
    }
    notes
}

fn of_group(group: &GroupView, cells: &[CellView]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut add = |text: String| notes.push(format!("{}: {text}", group.id));
    if group.steady == Some(false) {
        add("not steady: the calibration trials had not settled by half of their time".into());
    }
    if let Some(serial) = group.serial.as_ref().filter(|serial| serial.merged_by > 1) {
        add(format!(
            "neighbouring blocks resembled each other and were merged by {}: how fast each is holds for this session alone",
            serial.merged_by
        ));
    }
    if let Some(look) = group.look.as_ref().filter(|look| look.so_far > 0) {
        let blocks = counted(look.so_far, "block");
        add(match look.done {
            0 => format!("{blocks} so far: they prove nothing before the first judgement"),
            done => {
                format!("{blocks} after judgement {done} of {} so far: they prove nothing before the next", look.of)
            }
        });
    }
    if let Some(stolen) = group.stolen.as_ref().filter(|stolen| stolen.p <= TOLD_P) {
        let named = |id: &CellId| {
            let label = cells.iter().find(|cell| cell.id == *id).map(|cell| format!(" ({})", cell.label));
            format!("{id}{}", label.unwrap_or_default())
        };
        add(format!(
            "steal hit {} in {} of trials, {} in {} (p = {}): part of why they differ",
            named(&stolen.most),
            percent(stolen.most_share),
            named(&stolen.least),
            percent(stolen.least_share),
            significant(stolen.p, 1)
        ));
    }
    if group.recommendation.survives_exchange == Some(false) {
        let bound = group.twin.as_ref().and_then(|twin| twin.exchanged_bound);
        let bound = bound.map_or_else(String::new, |bound| format!(" (at most {} more)", at_most(bound)));
        add(format!(
            "every block measured one choice twice, and by the second measurement it is not shown{bound}: trust it less"
        ));
    }
    if group.limited_trials > 0 {
        add(format!(
            "{} far slower than the rest of the block: each counts as no further off than three times the usual spread, \
             so that typical trials are compared",
            counted(group.limited_trials, "trial")
        ));
    }
    let stalls =
        |cell: &&CellView| cell.group == group.id && cell.kind == CellKind::Candidate && cell.stalled.is_some();
    let stalled: Vec<&CellView> = cells.iter().filter(stalls).collect();
    for cell in stalled.iter().take(LISTED) {
        let Some(StalledView { trials, of }) = cell.stalled else { continue };
        add(format!("“{}”: {}, so nothing is proven of it", cell.label, moved_nothing(trials, of)));
    }
    let behind = |id: &CellId| cells.iter().find(|cell| cell.id == *id && cell.behind.is_some());
    for cell in group.spoken_against.iter().filter_map(behind).take(LISTED) {
        let share = cell.behind.unwrap_or_default();
        add(format!("“{}” {}, which others carry, so nothing is proven of it", cell.label, carried(share)));
    }
    let is_noted = |id: &CellId| stalled.iter().any(|cell| cell.id == *id) || behind(id).is_some();
    let slow: Vec<&CellId> = group.spoken_against.iter().filter(|id| !is_noted(id)).collect();
    if !slow.is_empty() {
        let label = |id: &CellId| {
            cells.iter().find(|cell| cell.id == *id).map_or_else(|| id.to_string(), |cell| format!("“{}”", cell.label))
        };
        let named: Vec<String> = slow.iter().copied().take(LISTED).map(label).collect();
        let more = slow.len() - named.len();
        let more = if more > 0 { format!(" and {}", counted(more, "more cell")) } else { String::new() };
        add(format!(
            "typical trials favour {}{more}, but plain means do not: nothing is proven of it",
            named.join(", ")
        ));
    }
    if group.blocks.broken > 0 {
        let failed = cells.iter().filter(|cell| cell.group == group.id && cell.kind != CellKind::Floor);
        let failed: Vec<String> = failed
            .filter(|cell| cell.failed_trials > 0)
            .map(|cell| format!("{} of “{}”", counted(cell.failed_trials, "trial"), cell.label))
            .collect();
        let why = match failed.is_empty() {
            true => String::new(),
            false => format!("; {} failed, and a choice whose trials fail looks better than it is", failed.join(", ")),
        };
        add(format!(
            "{} broke off, to be repeated, and counted for nothing{why}",
            counted(group.blocks.broken, "block")
        ));
    }
    notes
}

fn of_cells(cells: &[CellView]) -> Vec<String> {
    let mut notes = Vec::new();
    let outliers: usize = cells.iter().map(|cell| cell.outliers.count).sum();
    if outliers > 0 {
        let with = |read: fn(&CellView) -> usize| cells.iter().map(read).sum::<usize>();
        notes.push(format!(
            "{} far from the others of the same cell, and kept: {} in a block with steal, {} with unusual preemption",
            counted(outliers, "trial"),
            with(|cell| cell.outliers.with_steal),
            with(|cell| cell.outliers.with_preemption)
        ));
    }
    // An A/A control repeats its cell, and the harness's own loop is no answer.
    let mut split = 0;
    for cell in cells.iter().filter(|cell| cell.kind == CellKind::Candidate) {
        if let Some(modes) = cell.modes.as_ref().filter(|modes| !modes.modes.is_empty()) {
            let shown = match (&cell.call, &cell.ring) {
                (Some(_), _) => call_rate,
                (None, Some(_)) => nop_rate,
                (None, None) => byte_rate,
            };
            let heaps: Vec<String> =
                modes.modes.iter().map(|mode| format!("{} ({})", shown(mode.median), percent(mode.share))).collect();
            split += 1;
            if split <= LISTED {
                notes.push(format!(
                    "{}: {} ({}) has more than one speed: {}",
                    cell.group,
                    cell.label,
                    cell.id,
                    heaps.join(", ")
                ));
            }
        }
    }
    if split > LISTED {
        notes.push(format!("{} of more than one speed; --format json has them", counted(split - LISTED, "more cell")));
    }
    notes.extend(waits(cells));
    notes.extend(outlasting(cells));
    notes.extend(options::notes(cells));
    notes.extend(copied::note(cells));
    // Of a plan's choices: the harness adds nothing else to them.
    let ended =
        |outcome: &str| cells.iter().filter(|cell| cell.kind == CellKind::Candidate && cell.outcome == outcome).count();
    let (failed, skipped) = (ended("failed"), ended("skipped"));
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
         longer trials tell more (--trial-time 5s)",
        counted(outlasting.len(), "cell"),
        percent(*most),
        worst.label
    ))
}

/// Tails of calls that waited for delayed acknowledgements; if they take most of the time, the limit reports it.
fn waits(cells: &[CellView]) -> Option<String> {
    let seen = |cell: &CellView| {
        let seen = calls::waiting(cell.call.as_ref()?, &cell.counters)?;
        let is_reported = cell.kind != CellKind::Candidate || cell.limit.name == DELAYED_ACKS;
        (!is_reported && seen.slow_share >= TAIL_SHARE).then_some(seen)
    };
    let waited: Vec<_> = cells.iter().filter_map(|cell| Some((cell, seen(cell)?))).collect();
    let (worst, most) = waited.iter().max_by(|a, b| a.1.slow_share.total_cmp(&b.1.slow_share))?;
    Some(format!(
        "in {} calls took 40 ms and more, as long as an acknowledgement may be delayed, and as many were ({} of the calls \
         of {}): Nagle's algorithm; --nodelay on or requests in one piece avoid it",
        counted(waited.len(), "cell"),
        percent(most.slow_share),
        worst.label
    ))
}
