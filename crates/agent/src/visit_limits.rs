//! Limits of a trial that another host asks this one to measure: rank 0 of a mesh sends the cells.

use bytegauge_model::{EndRole, Workload};

use crate::limits::Limits;
use bytegauge_traffic::{Setup, VisitLimits};

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

#[cfg(test)]
mod tests {
    use bytegauge_model::{FactorKey, Spec};

    use super::*;

    #[test]
    fn visits_call_an_external_server_within_the_limits() {
        let at = [("transport", "tcp".into()), ("request", 512.into()), ("connect", "192.0.2.9:80".into())];
        let asked = Setup::of(&Spec::from(at).with_workload(Workload::Call)).unwrap();
        assert_eq!(Limits::default().allow_visit(&asked), Ok(()));
        let mut many = asked;
        many.spec.put(FactorKey::flows, 1 << 20);
        assert!(Limits::default().allow_visit(&many).unwrap_err().contains("--max-flows"));
    }
}
