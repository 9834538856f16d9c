//! The time of a search for a knee: a trial of about ten measurements instead of one.

use bytegauge_model::slo::{PROBE_MAX_NS, PROBES_USUAL};
use bytegauge_model::{Level, Spec};

use crate::spec::PlanSpec;
use crate::trial_length;

/// Datagrams that a sender usually sends, by which a plan is timed.
const DATAGRAMS_PER_SECOND: f64 = 100_000.0;

/// Time of a trial under these conditions, nanoseconds: a warm-up, a window and the overhead, long enough for the
/// necessary calls; for a search, the usual number of probes, each as long as its percentile needs.
/// Calls come at `per_second`.
pub fn trial_ns(conditions: &Spec, (warmup_ns, window_ns): (u64, u64), overhead_ns: u64, per_second: f64) -> u64 {
    let probe_ns = match (conditions.slo(), conditions.max_loss()) {
        (Some(slo), _) => slo.probe_ns(window_ns, per_second),
        (None, Some(share)) => share.probe_ns(window_ns, DATAGRAMS_PER_SECOND),
        (None, None) => return trial_length::trial_ns(conditions, (warmup_ns, window_ns), overhead_ns, per_second),
    };
    PROBES_USUAL * (probe_ns.min(PROBE_MAX_NS.max(window_ns)) + warmup_ns + overhead_ns)
}

/// Whether some part of a spec searches.
pub(crate) fn is_wanted(spec: &PlanSpec) -> bool {
    let of = |name| spec.parts.iter().filter_map(move |part| part.levels.get(name)).flatten();
    let mut named = ["slo", "max_loss"].into_iter().flat_map(of);
    named.any(|level| level.name() != Some("none") && *level != Level::Absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(slo: &str, per_second: f64, expected_ns: u64) {
        let conditions = Spec::from([("slo", slo.into())]);
        assert_eq!(trial_ns(&conditions, (4_000_000, 50_000_000), 6_000_000, per_second), expected_ns);
    }

    #[test]
    fn a_search_takes_as_long_as_its_probes() {
        check("none", 1000.0, 60_000_000);
        check("p99=2ms", 100_000.0, PROBES_USUAL * 60_000_000);
        check("p99.9=2ms", 10_000.0, PROBES_USUAL * 1_260_000_000);
        check("p99.9=2ms", 0.0, PROBES_USUAL * 10_010_000_000);
        let conditions = Spec::from([("max_loss", "0.1%".into())]);
        assert_eq!(trial_ns(&conditions, (4_000_000, 50_000_000), 6_000_000, 0.0), PROBES_USUAL * 260_000_000);
    }
}
