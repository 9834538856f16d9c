//! Lines next to a table of rings: how the recommended cell got its rate, and the counts of a published loop.

use bytegauge_model::unit::{count_rate, nop_rate};
use bytegauge_model::{CellKind, Implementation};

use super::cell_text::{level, number};
use super::rows::Rows;
use crate::view::View;
use crate::view::document::{CellView, GroupView};

/// The lines; none where no ring ran.
pub fn lines(view: &View, group: &GroupView, rows: &Rows) -> Vec<String> {
    let named = rows.named().and_then(evidence);
    named.into_iter().chain(artefacts(view, group)).collect()
}

/// Evidence that the counts are those of completions.
fn evidence(cell: &CellView) -> Option<String> {
    let ring = cell.ring.as_ref()?;
    let calls = ring.nops_per_enter.map(|nops| format!(", {} for each io_uring_enter(2)", number(Some(nops))));
    let checked = if ring.checked > 0 { ", every result and user data compared" } else { "" };
    Some(format!(
        "{}: {} completions were taken of {} submissions{}{checked}; none overflowed",
        cell.label,
        ring.completed,
        ring.submitted,
        calls.unwrap_or_default()
    ))
}

/// The count of the published loop, next to the completions of its library at the same size.
fn artefacts(view: &View, group: &GroupView) -> Vec<String> {
    let shown: Vec<&CellView> =
        view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Artefact && cell.trials > 0).collect();
    let Some(rounds) = shown.iter().find_map(|cell| cell.ring.as_ref()?.overflowed_after_rounds) else {
        return Vec::new();
    };
    let mut lines = vec![format!(
        "liburing-undrained is an artefact and not compared: the published loop never takes a completion. After {rounds} \
         rounds its queue has overflowed (IORING_SQ_CQ_OVERFLOW), from then on the kernel allocates memory for every \
         completion, and what the loop counts are submissions:"
    )];
    lines.extend(shown.iter().filter_map(|cell| {
        let counted = cell.median("submissions_per_second")?;
        let drained = view.cells_of(&group.id).find(|other| is_drained(other, cell));
        let completed = drained.and_then(|other| other.estimate.median).map(nop_rate);
        let completed = completed.map_or_else(String::new, |rate| format!("; liburing completes {rate}"));
        Some(format!(
            "{} entries, {}: it counts {}{completed}",
            level(cell, "entries"),
            level(cell, "setup"),
            count_rate(counted)
        ))
    }));
    lines
}

/// Whether a cell is that of the same library, which takes its completions.
fn is_drained(other: &CellView, cell: &CellView) -> bool {
    let same = |name: &str| other.level(name) == cell.level(name);
    other.kind == CellKind::Candidate
        && other.spec().implementation() == Some(Implementation::Liburing)
        && ["entries", "submit_batch", "setup"].into_iter().all(same)
}
