//! Limits of a trial that another host asks this one to measure: rank 0 of a mesh sends the cells.

use bytegauge_model::{EndRole, FACTORS, Factor, Spec, Workload};
use bytegauge_traffic::{Setup, VisitLimits};

use crate::limits::Limits;

impl VisitLimits for Limits {
    /// Checks a trial that another host asks this one to measure with a third: its ends here move data over the network to
    /// that host, or to an external server that the user of this host has named, within these limits, and do nothing else.
    fn allow_visit(&self, setup: &Setup) -> Result<(), String> {
        if setup.relay().is_some() || setup.spec.emulated_link().is_some() || setup.program.is_some() {
            return Err("a relay, an emulated link or a program is not measured for another host".into());
        }
        let far = setup.far.is_some_and(|far| far.end.is_some());
        if far == setup.external().is_some() {
            return Err("a trial without another host is not measured for one".into());
        }
        let roles = match (setup.workload(), far) {
            (Workload::Call, true) => &[EndRole::Client, EndRole::Server][..],
            (Workload::Call, false) => &[EndRole::Client],
            (_, true) => &[EndRole::Source, EndRole::Sink],
            (_, false) => &[EndRole::Source],
        };
        roles.iter().try_for_each(|role| self.allows(*role, setup))
    }
}

// The ranges of numbers that a caller may ask for: those of the command line.

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
    use bytegauge_model::{FactorKey, Side, Spec, Workload};
    use bytegauge_traffic::VisitLimits;
    use bytegauge_traffic::path::{FarPath, Ticket};
    use bytegauge_traffic::setup::Setup;

    use crate::Limits;

    #[test]
    fn visits_call_an_external_server_within_the_limits() {
        let at = [("transport", "tcp".into()), ("request", 512.into()), ("connect", "192.0.2.9:80".into())];
        let asked = Setup::of(&Spec::from(at).with_workload(Workload::Call)).unwrap();
        assert_eq!(Limits::default().allow_visit(&asked), Ok(()));
        let mut many = asked;
        many.spec.put(FactorKey::flows, 1 << 20);
        assert!(Limits::default().allow_visit(&many).unwrap_err().contains("--max-flows"));
    }

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
