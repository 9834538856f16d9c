//! Sessions of one plan that differ in what is planted: for whatever looks over several of them.

use bytegauge_report::SessionData;

use crate::support::Plan;

/// The plan of one session of several: four cells of which the largest reads may be made slow, with noise of its own.
pub fn one_of_several(number: u64, confirm_blocks: u64) -> Plan {
    Plan {
        seed: 40 + number,
        transports: vec!["unix"],
        profiles: vec!["sum"],
        read_sizes: vec![16 << 10, 1 << 20],
        write_sizes: vec![64 << 10, 256 << 10],
        finalists: 4,
        confirm_blocks,
        noise: 0.01,
        ..Plan::default()
    }
}

/// Reads of 1 MiB are slower by this factor in this session.
pub fn slow_large_reads(data: &mut SessionData, times: u64) {
    for at in 0..data.trials.len() {
        let row = data.cells.iter().find(|row| row.cell.id == data.trials[at].cell);
        if row.is_some_and(|row| row.cell.factors.read_size() == Some(1 << 20)) {
            data.trials[at].bytes /= times;
        }
    }
}
