//! The cells of a group that the lines of its details are about.

use bytegauge_model::{CellId, CellKind, Stage};

use crate::view::View;
use crate::view::document::{CellView, GroupView};

/// Number of the fastest cells that are shown while none is confirmed.
const LOOKS_MAX: usize = 8;

/// The cells of a group, the best first.
pub struct Rows<'a> {
    /// The cells, best first.
    pub cells: Vec<&'a CellView>,
    /// The cell that the group recommends.
    recommended: Option<CellId>,
}

impl<'a> Rows<'a> {
    /// The recommended cell, or the first.
    pub fn named(&self) -> Option<&'a CellView> {
        let named = self.cells.iter().find(|cell| self.recommended.as_ref() == Some(&cell.id));
        named.or(self.cells.first()).copied()
    }
}

/// The confirmed cells of a group, the best first; before confirmation the fastest of the screening.
pub fn rows<'a>(view: &'a View, group: &'a GroupView) -> Rows<'a> {
    let is_measured = |cell: &&CellView| cell.kind == CellKind::Candidate && cell.trials > 0;
    let has_numbers = |cell: &&CellView| cell.estimate.median.is_some() || !cell.more.is_empty();
    let candidates = || view.cells_of(&group.id).filter(is_measured).filter(has_numbers);
    let confirmed = candidates().any(|cell| cell.stage == Some(Stage::Confirm));
    let mut cells: Vec<&CellView> =
        candidates().filter(|cell| !confirmed || cell.stage == Some(Stage::Confirm)).collect();
    // Under an offered load all rates are alike: the cheapest first.
    let merit = |cell: &CellView| match group.cost {
        "cpu_ns_per_byte" => -cell.cpu.ends_s_per_gib.unwrap_or(f64::INFINITY),
        "cpu_ns_per_call" => -cell.median("server_cpu_ns_per_call").unwrap_or(f64::INFINITY),
        _ => cell.estimate.median.unwrap_or(0.0),
    };
    cells.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
    // Confirmed cells; screened ones are shown only where none is confirmed.
    cells.truncate(if confirmed { cells.len() } else { LOOKS_MAX });
    Rows { cells, recommended: group.recommendation.cell.clone() }
}
