//! Sessions of datagrams, planted: rates, losses, and their places.

use crate::phrases;
use crate::support::{Plan, session};
use bytegauge_model::{DatagramReport, EndRole, Trial, UdpUse};
use bytegauge_report::{Report, SessionData, Settings, render};

/// Trials as a sink of 1000-byte datagrams would have counted them, one in fifty of them lost.
pub fn planted(change: impl FnMut(&mut DatagramReport)) -> Report {
    planted_at(&[], change)
}

/// The same, with further conditions.
fn planted_at(conditions: &[(&str, &str)], mut change: impl FnMut(&mut DatagramReport)) -> Report {
    Report::of(&planted_session(conditions, |_, came| change(came)), &Settings::default())
}

/// The same before it is viewed; `change` sees the cell of a trial.
fn planted_session(conditions: &[(&str, &str)], mut change: impl FnMut(&str, &mut DatagramReport)) -> SessionData {
    let plan = Plan {
        transports: vec!["udp"],
        profiles: vec!["drain"],
        read_sizes: vec![64 << 10],
        write_sizes: vec![1000, 4096],
        finalists: 2,
        ..Plan::default()
    };
    let mut data = session(&plan);
    for (name, level) in conditions {
        data.cells.iter_mut().for_each(|row| row.cell.factors.set(name, (*level).into()));
        data.groups.iter_mut().for_each(|row| row.group.factors.set(name, (*level).into()));
    }
    // The harness's own trials move nothing.
    for trial in data.trials.iter_mut().filter(|trial| trial.bytes > 0) {
        let (sent, mut came) = counted(trial);
        change(&trial.cell.0, &mut came);
        for (role, report) in [(EndRole::Source, sent), (EndRole::Sink, came)] {
            if let Some(end) = trial.ends.get_mut(role) {
                end.datagrams = Some(Box::new(report));
            }
        }
        if let Some(machine) = &mut trial.machine {
            machine.udp =
                Some(Box::new(UdpUse { receive_buffer_errors: 20, backlog_drops: Some(7), ..UdpUse::default() }));
        }
    }
    data
}

fn counted(trial: &Trial) -> (DatagramReport, DatagramReport) {
    let total = trial.bytes / 1000;
    let sent = DatagramReport { datagrams: total, packets: total, total, total_packets: total, ..Default::default() };
    let lost = total / 50;
    let came = DatagramReport {
        total: total - lost,
        total_packets: total - lost,
        missing: lost,
        socket_drops: Some(lost),
        ..sent
    };
    (sent, came)
}

fn text(view: &Report) -> String {
    let style = render::TerminalStyle { columns: 160, ..Default::default() };
    // Lines are wrapped: expected parts may be cut.
    render::full::full(view, &style).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn rates_and_losses_are_reported() {
    let view = planted(|_| {});
    let text = text(&view);
    for expected in ["datagrams/s", "lost"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.contains("were lost: 100 % at the receiver's full socket buffer"), "{text}");
    // The other drops of the machine are not those of the session.
    assert!(!text.contains("unknown place") && !text.contains("backlog"), "{text}");
    let cell = view.cells.iter().find(|cell| cell.trials > 0 && cell.datagrams.is_some()).unwrap();
    let datagrams = cell.datagrams.as_ref().unwrap();
    assert_eq!(datagrams.lost, datagrams.lost_at_socket);
    assert!(datagrams.lost_share.is_some_and(|share| (0.015..0.025).contains(&share)), "{datagrams:?}");
    assert!(datagrams.namespace.as_ref().is_some_and(|udp| udp.receive_buffer_errors > 0));
    let rate = cell.more["datagrams_per_second"].median.unwrap();
    assert!((rate - cell.estimate.median.unwrap() / 1000.0).abs() < rate / 100.0);
}

#[test]
fn a_loss_at_an_unknown_place_is_reported() {
    let text = text(&planted(|came| came.socket_drops = Some(0)));
    assert!(text.contains("were lost: 100 % at an unknown place"), "{text}");
    assert!(
        text.contains("packets of any process were dropped by a CPU's full backlog (net.core.netdev_max"),
        "{text}"
    );
}

#[test]
fn lost_and_truncated_datagrams_are_findings() {
    let cut = planted(|came| came.truncated = came.total / 4);
    let text = phrases(&cut, "harm/cut-datagrams");
    assert!(text.contains("25 % of the datagrams cut off"), "{text}");
    let lost = |view: &Report| view.cell(&view.tests[0].options[0].id).and_then(|cell| cell.harm.lost_share);
    // What is cut off is lost, in addition to what did not arrive.
    assert!(lost(&cut).is_some_and(|share| share > 0.26), "{:?}", lost(&cut));
    assert!(lost(&planted(|_| ())).is_some_and(|share| (0.019..0.021).contains(&share)));
    assert_eq!(lost(&planted(|came| (came.total, came.missing) = (came.total + came.missing, 0))), Some(0.0));
}

#[test]
fn other_events_of_datagrams_are_reported() {
    let text = text(&planted(|came| {
        (came.reordered, came.duplicated, came.truncated, came.cut_bytes) = (1, 1, 1, 4096);
    }));
    for expected in ["came late", "came twice", "cut off by --read-size, 4096 B of each on average"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn the_document_and_the_table_hold_them() {
    let view = planted(|_| {});
    let json: serde_json::Value = serde_json::from_str(&render::json::render(&view)).unwrap();
    let schema: serde_json::Value = serde_json::from_str(render::json::SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let cells = json["cells"].as_array().unwrap();
    assert!(cells.iter().any(|cell| cell["datagrams"]["lost_at_socket"].as_u64().is_some_and(|lost| lost > 0)));
    let csv = render::csv::render(&view);
    let heading = csv.lines().next().unwrap();
    for column in ["datagrams_per_second", "packets_per_second", "lost_share", "lost_unknown", "truncated"] {
        assert!(heading.split(',').any(|name| name == column), "{heading}");
    }
    // A stream of bytes has none of them.
    let bytes = Report::of(&session(&Plan::default()), &Settings::default());
    assert!(!render::csv::render(&bytes).lines().next().unwrap().contains("datagrams"));
}

#[test]
fn kernel_drops_belong_to_the_receiving_host() {
    let far = |direction: &'static str| planted_at(&[("host", "192.0.2.7:4711"), ("direction", direction)], |_| {});
    for (view, is_reported) in [(far("to"), false), (far("from"), true), (planted(|_| {}), true)] {
        let namespaces: Vec<bool> =
            view.cells.iter().filter_map(|cell| Some(cell.datagrams.as_ref()?.namespace.is_some())).collect();
        assert!(!namespaces.is_empty() && namespaces.iter().all(|reported| *reported == is_reported));
    }
    assert!(text(&far("to")).contains("UDP to the host 192.0.2.7:4711"));
}
