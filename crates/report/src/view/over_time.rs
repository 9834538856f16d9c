//! The last long trial of a group's choice, interval by interval. Trials shorter than a second have no series.

use bytegauge_model::{Bin, CellId, EndRole, SessionId, Stage};
use bytegauge_store::{Series, Store, StoreError};

use super::View;
use super::calls::mean_and_sd;
use super::numbers::OverTimeView;

/// The ends that count received data, in order of preference.
const COUNTING: [EndRole; 5] = [EndRole::Sink, EndRole::Client, EndRole::Ring, EndRole::Command, EndRole::Source];

/// Adds to each group of a view its choice over time, in intervals of `interval_ns`, and that it was requested.
///
/// # Errors
/// When the store cannot be read.
pub fn add(view: &mut View, store: &Store, interval_ns: u64) -> Result<(), StoreError> {
    let session: SessionId = view.session;
    view.interval_ns = Some(interval_ns);
    for group in &mut view.groups {
        let candidates = view.cells.iter().filter(|cell| cell.group == group.id && cell.trials > 0);
        let chosen = [&group.recommendation.cell, &group.recommendation.best].into_iter().flatten().cloned();
        for cell in chosen.chain(candidates.map(|cell| cell.id.clone())) {
            let series = store.series(session, Some(&cell))?;
            group.over_time = of_last_trial(cell, &series, interval_ns);
            if group.over_time.is_some() {
                break;
            }
        }
    }
    Ok(())
}

fn of_last_trial(cell: CellId, series: &[Series], interval_ns: u64) -> Option<OverTimeView> {
    let measured = |each: &&Series| each.stage != Stage::Calibrate;
    let last = series.iter().rfind(measured)?;
    let of_trial = |each: &&Series| {
        measured(each) && (each.block, each.position, each.stage) == (last.block, last.position, last.stage)
    };
    let end = COUNTING.into_iter().find(|end| series.iter().filter(of_trial).any(|each| each.end == *end))?;
    let flows: Vec<Vec<f64>> =
        series.iter().filter(of_trial).filter(|each| each.end == end).map(|each| rates(each, interval_ns)).collect();
    let whole = flows.iter().map(Vec::len).min().filter(|whole| *whole > 0)?;
    let sum: Vec<f64> = (0..whole).map(|at| flows.iter().map(|rates| rates[at]).sum()).collect();
    let (mean, sd) = mean_and_sd(&sum);
    let mean = mean?;
    let spread = sd.filter(|_| mean > 0.0).map(|sd| sd / mean);
    let flows = flows.into_iter().map(|rates| rates[..whole].to_vec()).collect();
    Some(OverTimeView { cell, interval_ns, unit: unit(end), flows, sum, mean, spread })
}

/// The bins of an end, per second.
fn unit(end: EndRole) -> &'static str {
    match end {
        EndRole::Ring => "NOPs/s",
        _ => "bytes/s",
    }
}

/// Counts per second in every whole measured interval.
fn rates(series: &Series, interval_ns: u64) -> Vec<f64> {
    let measured = (series.measured_ns / interval_ns.max(1)) as usize;
    let counts = Bin::by_interval(&series.bins, interval_ns).into_iter().take(measured);
    counts.map(|bytes| bytes * 1e9 / interval_ns as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(block: u64, end: EndRole, flow: usize, bins: &[(u64, u64)]) -> Series {
        let bins: Vec<Bin> = bins.iter().map(|&(ns, bytes)| Bin { ns, bytes }).collect();
        let measured_ns = bins.iter().map(|bin| bin.ns).sum();
        Series { cell: CellId("c1".into()), stage: Stage::Confirm, block, position: 0, end, flow, measured_ns, bins }
    }

    #[test]
    fn data_after_the_window_is_no_interval() {
        // Three seconds were measured; then the reader waited for the end of the stream.
        let second = 1_000_000_000;
        let mut seen = series(0, EndRole::Sink, 0, &[(second, 10), (second, 30), (second, 20), (second, 1)]);
        seen.measured_ns = 3 * second;
        let found = of_last_trial(CellId("c1".into()), &[seen], second).unwrap();
        assert_eq!((found.sum, found.mean), (vec![10.0, 30.0, 20.0], 20.0));
    }

    #[test]
    fn bins_are_split_among_intervals() {
        // 3 s: a bin across the border gives each side its share, and a rest shorter than an interval is left out.
        let seen = series(0, EndRole::Sink, 0, &[(500_000_000, 100), (1_000_000_000, 400), (700_000_000, 0)]);
        assert_eq!(rates(&seen, 1_000_000_000), [300.0, 200.0]);
        assert_eq!(rates(&seen, 5_000_000_000), [0.0; 0]);
    }

    #[test]
    fn flows_of_the_last_trial_add_up() {
        let second = 1_000_000_000;
        let all = [
            series(0, EndRole::Sink, 0, &[(second, 1)]),
            series(1, EndRole::Source, 0, &[(second, 99), (second, 99)]),
            series(1, EndRole::Sink, 0, &[(second, 10), (second, 30), (second, 5)]),
            series(1, EndRole::Sink, 1, &[(second, 20), (second, 20)]),
        ];
        let found = of_last_trial(CellId("c1".into()), &all, second).unwrap();
        assert_eq!((found.unit, found.flows), ("bytes/s", vec![vec![10.0, 30.0], vec![20.0, 20.0]]));
        assert_eq!((found.sum, found.mean), (vec![30.0, 50.0], 40.0));
        assert!((found.spread.unwrap() - 200f64.sqrt() / 40.0).abs() < 1e-12);
        assert_eq!(of_last_trial(CellId("c1".into()), &all, 10 * second), None);
    }

    #[test]
    fn short_trials_have_no_intervals() {
        let all = [series(0, EndRole::Sink, 0, &[(500_000_000, 7)])];
        assert_eq!(of_last_trial(CellId("c1".into()), &all, 1_000_000_000), None);
    }

    #[test]
    fn a_ring_counts_what_it_completes() {
        let all = [series(0, EndRole::Ring, 0, &[(1_000_000_000, 7), (1_000_000_000, 9)])];
        let found = of_last_trial(CellId("c1".into()), &all, 1_000_000_000).unwrap();
        assert_eq!((found.unit, found.sum), ("NOPs/s", vec![7.0, 9.0]));
    }
}
