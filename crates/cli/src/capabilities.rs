//! The capabilities of this machine that a plan needs: those that the harness probes, and that of emulating a link, which only the
//! program itself knows.

use bytegauge_harness::machine_probe;
use bytegauge_plan::{Catalog, PlanSpec, emulated};

/// Probes what the spec needs. Raises the soft limit of open files as a side effect.
pub fn catalog(spec: &PlanSpec) -> Catalog {
    let mut catalog = machine_probe::catalog(spec);
    if emulated::is_wanted(spec) {
        // This program emulates the link in another process; without its file the ends report that.
        catalog.missing_link =
            std::env::current_exe().ok().and_then(|program| bytegauge_emulated_link::missing_requirement(&program));
    }
    catalog
}
