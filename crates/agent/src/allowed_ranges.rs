//! The ranges of numbers that a caller may ask for: those of the command line.

use bytegauge_model::{FACTORS, Factor, Spec};

/// Checks that every number is one that the command line takes. The demand of an end is counted for such numbers only.
///
/// # Errors
/// The reason of a refusal, with the range.
pub(super) fn in_range(spec: &Spec) -> Result<(), String> {
    let checked = |factor: &Factor| {
        let checked = factor.kind.check(&spec.level(factor.key));
        checked.map_err(|error| format!("the agent does not allow this --{}: {error}", factor.flag()))
    };
    FACTORS.iter().try_for_each(checked)
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{FactorKey, Side, Workload};

    use crate::Limits;
    use bytegauge_traffic::path::FarPath;
    use bytegauge_traffic::path::Ticket;
    use bytegauge_traffic::setup::Setup;

    use bytegauge_traffic::VisitLimits;

    use super::*;

    #[test]
    fn numbers_beyond_their_factors_are_refused() {
        let client = |depth: u64| {
            let levels = Spec::from([("transport", "tcp".into()), ("request", 1.into())]).with_workload(Workload::Call);
            let mut asked = Setup::of(&levels).unwrap();
            let ticket = Ticket::fresh().unwrap();
            asked.far = Some(FarPath::to(([192, 0, 2, 1], 1).into(), Side::Sink, ticket));
            asked.spec.put(FactorKey::depth, depth);
            Limits::default().allow_visit(&asked)
        };
        assert_eq!(client(4096), Ok(()));
        // An outstanding call takes 48 bytes, and its message one.
        let refused = client(1 << 29).unwrap_err();
        assert!(refused.contains("--depth: 536870912 is out of range: use 1 to 4096"), "{refused}");
    }
}
