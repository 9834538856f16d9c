//! What a search for a knee costs: a trial of some ten measurements instead of one.

use bytegauge_model::slo::{PROBE_MAX_NS, PROBES_USUAL};
use bytegauge_model::{Level, Levels};

use crate::spec::Spec;

/// How long a trial takes under these conditions, nanoseconds: a window and what is beside it, or as many of them as a
/// search usually makes, each as long as its percentile needs at a pace of `per_second` calls.
pub fn trial_ns(conditions: &Levels, window_ns: u64, beside_ns: u64, per_second: f64) -> u64 {
    match conditions.slo() {
        None => window_ns + beside_ns,
        Some(slo) => {
            let probe_ns = slo.probe_ns(window_ns, per_second).min(PROBE_MAX_NS.max(window_ns));
            PROBES_USUAL * (probe_ns + beside_ns)
        }
    }
}

/// Whether some part of a spec searches.
pub(crate) fn is_wanted(spec: &Spec) -> bool {
    let mut named = spec.parts.iter().filter_map(|part| part.levels.get("slo")).flatten();
    named.any(|level| level.name() != Some("none") && *level != Level::Absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(slo: &str, per_second: f64, expected_ns: u64) {
        let conditions = Levels::from([("slo", slo.into())]);
        assert_eq!(trial_ns(&conditions, 50_000_000, 10_000_000, per_second), expected_ns);
    }

    #[test]
    fn a_search_takes_as_long_as_its_probes() {
        check("none", 1.0, 60_000_000);
        check("p99=2ms", 100_000.0, PROBES_USUAL * 60_000_000);
        check("p99.9=2ms", 10_000.0, PROBES_USUAL * 1_260_000_000);
        check("p99.9=2ms", 0.0, PROBES_USUAL * 10_010_000_000);
    }
}
