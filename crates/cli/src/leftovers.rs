//! Programs and files that a killed bytegauge left behind: the next start ends and removes them.

use bytegauge_model::unit::counted;
use bytegauge_traffic::leftovers::Leftovers;

/// Removes them, with a note unless `quiet`.
pub fn remove(quiet: bool) {
    let Leftovers { processes, folders } = Leftovers::remove();
    if processes + folders > 0 && !quiet {
        let programs = if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
        let folders = counted(folders as usize, "folder");
        crate::terminal::note(&format!(
            "note: ended {programs} and removed {folders} that a killed bytegauge left behind"
        ));
    }
}
