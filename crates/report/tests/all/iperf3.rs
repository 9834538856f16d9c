//! The numbers of an iperf3 server on the screen.

use bytegauge_model::{EndRole, Iperf3Report};
use bytegauge_report::{Report, Settings};

use crate::support::{Plan, session};

/// The notes on trials whose writer had this report of the server.
fn notes(report: &Iperf3Report) -> String {
    let plan = Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() };
    let mut data = session(&plan);
    for trial in &mut data.trials {
        if let Some(end) = trial.ends.get_mut(EndRole::Source) {
            end.iperf3 = Some(Box::new(report.clone()));
        }
    }
    Report::of(&data, &Settings::default()).notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn results_of_the_server_are_shown() {
    let report = Iperf3Report { bytes: 3 << 30, duration_ns: 3_000_000_000, cpu_percent: 25.0, ..Default::default() };
    let shown = notes(&report);
    assert!(shown.contains("the iperf3 server counted 1 GiB/s over whole tests"), "{shown}");
    assert!(!shown.contains("estimates"), "{shown}");
}

#[test]
fn rates_over_udp_are_called_estimates() {
    let report = Iperf3Report {
        bytes: 1 << 20,
        duration_ns: 1_000_000_000,
        datagrams: Some(1000),
        lost: Some(20),
        jitter_ns: Some(4_200),
        ..Default::default()
    };
    let shown = notes(&report);
    assert!(shown.contains("rates of datagrams to an iperf3 server are estimates"), "{shown}");
}
