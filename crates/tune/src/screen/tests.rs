//! Screens of sessions with planted changes.

use bytegauge_model::{
    CellId, Level, OptionChange, ProgramChange, SessionId, SessionRecord, SessionStatus, SocketWaits, SocketsSeen,
    Transport,
};
use bytegauge_report::view::tune::{beyond_loopback, mark_best};
use bytegauge_report::{SessionData, Settings};
use serde_json::Value;

use super::*;

/// A change with only its first runs.
const DROPPED: &str = "sndbuf=1048576";

fn change(value: &str, ends: Option<[f64; 3]>) -> ChangeView {
    let [change, lower, upper] = ends.map_or([None; 3], |ends| ends.map(Some));
    let dropped = value == DROPPED;
    let why = if dropped { "not among the best" } else { "2 usable blocks; at least 6 are needed" };
    let reason = ends.is_none().then(|| why.to_owned());
    ChangeView {
        value: value.into(),
        cell: CellId(value.into()),
        change,
        lower,
        upper,
        effect: ChangeEffect::of(lower, upper, 0.05),
        is_best: false,
        reason,
        left_for: None,
        dropped,
        growth: None,
        beyond_loopback: None,
    }
}

/// What a session that changed these options shows: a change for each value, and a next step.
fn shown(changes: &[(&str, Option<[f64; 3]>)], next: NextStep) -> String {
    let record = SessionRecord {
        id: SessionId(1),
        started_unix_ns: 0,
        finished_unix_ns: Some(1),
        status: SessionStatus::Complete,
        plan_name: "tune".into(),
        workload: "tune".into(),
        seed: 1,
        margin: 0.05,
        version: String::new(),
        plan: Value::Null,
        machine: Value::Null,
        machine_after: Value::Null,
        notes: Vec::new(),
        imported: false,
    };
    let none = SessionData { record, groups: vec![], cells: vec![], blocks: vec![], trials: vec![] };
    let view = Report { next: vec![next], ..Report::of(&none, &Settings::default()) };
    let option = |value: &str| {
        let (name, level) = value.split_once('=').expect("an option");
        let level = match level {
            "unset" => None,
            "on" => Some(Level::Switch(true)),
            level => Some(level.parse::<u64>().map_or(level.into(), Level::Number)),
        };
        vec![ProgramChange::Option(OptionChange { option: name.into(), level, on: None })]
    };
    let by_value = changes.iter().map(|(value, _)| ((*value).to_owned(), option(value))).collect();
    let waits = SocketWaits { over_loopback: true, ..SocketWaits::default() };
    let listens = |transport| OpenedSocket { transport, call: Opening::Listen };
    let opened = [(listens(Transport::Unix), 1), (listens(Transport::Tcp), 1)].into();
    let watched = Some(SocketsSeen { waits, opened, ..SocketsSeen::default() });
    let task = SocketChanges { by_value, watched, ..SocketChanges::default() };
    let with_network = |value: &str, ends: Option<[f64; 3]>| ChangeView {
        beyond_loopback: option(value)[0].option().and_then(|option| beyond_loopback(option, &task)),
        ..change(value, ends)
    };
    let mut changes: Vec<ChangeView> = changes.iter().map(|(value, ends)| with_network(value, *ends)).collect();
    mark_best(&mut changes, &task);
    let changes = ChangesView {
        on: "both".into(),
        cost: VersusCost::Time,
        changes,
        not_tried: Vec::new(),
        service: Vec::new(),
        task: Some(task.clone()),
    };
    Screen {
        view: &view,
        changes: &changes,
        task: &task,
        test: None,
        width: 100,
        program: "/opt/bytegauge",
        full: false,
    }
    .lines()
    .join("\n")
}

fn step(command: &str) -> NextStep {
    NextStep {
        command: Some(command.into()),
        text: "repeat it".into(),
        takes: None,
        continues: command.contains("--resume"),
    }
}

#[test]
fn an_interval_decides_the_effect() {
    let check = |ends: Option<[f64; 3]>, expected: ChangeEffect| {
        assert_eq!(change("x", ends).effect, expected, "{ends:?}");
    };
    check(Some([-0.5, -0.6, -0.4]), ChangeEffect::Better);
    check(Some([0.5, 0.4, 0.6]), ChangeEffect::Worse);
    check(Some([0.0, -0.04, 0.04]), ChangeEffect::Nothing);
    check(Some([0.0, -0.06, 0.04]), ChangeEffect::Undecided);
    check(None, ChangeEffect::NotMeasured);
}

#[test]
fn leaving_out_a_call_is_simpler_than_another_value() {
    let with = |removed: [f64; 3]| {
        shown(
            &[("notsent_lowat=4194304", Some([-0.6, -0.7, -0.5])), ("notsent_lowat=unset", Some(removed))],
            step("bytegauge tune"),
        )
    };
    let used = |text: &str| text.lines().find(|line| line.contains("<- use")).unwrap_or_default().to_owned();
    let as_good = with([-0.55, -0.6, -0.5]);
    assert!(used(&as_good).contains("without its TCP_NOTSENT_LOWAT"), "{as_good}");
    let slower = with([-0.3, -0.4, -0.2]);
    assert!(used(&slower).contains("notsent-lowat 4 MiB"), "{slower}");
}

#[test]
fn what_wins_over_loopback_alone_is_no_change_to_make() {
    let gain = Some([-0.6, -0.7, -0.5]);
    let text =
        shown(&[("congestion=reno", gain), ("congestion=cubic", Some([-0.5, -0.6, -0.4]))], step("bytegauge tune"));
    assert!(!text.contains("<- use") && text.contains("Use        keep the program as it is"), "{text}");
    assert_eq!(text.matches("\nLoopback   ").count(), 1, "one value of an option: {text}");
    assert!(text.contains("\nLoopback   2.5× as fast (2–3.34×) over loopback: "), "{text}");
    assert!(text.contains("\"reno\")"), "{text}");
    let text = shown(&[("congestion=reno", gain), ("nodelay=on", Some([-0.2, -0.3, -0.1]))], step("bytegauge tune"));
    assert!(text.contains("Use        add setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1): 1.25×"), "{text}");
    assert!(text.contains("\nLoopback   2.5×"), "{text}");
    for harmless in ["congestion=unset", "notsent_lowat=65536"] {
        assert!(shown(&[(harmless, gain)], step("bytegauge tune")).contains("<- use"), "{harmless}");
    }
}

#[test]
fn connections_that_inherit_nothing_are_named() {
    let text = shown(&[("sndbuf=65536", Some([0.0, -0.01, 0.01]))], step("bytegauge tune"));
    assert!(text.contains("\nUnchanged  connections that it accepts over Unix sockets"), "{text}");
}

#[test]
fn a_session_without_intervals_states_one_reason() {
    let text = shown(&[("rcvbuf=unset", None), ("nodelay=on", None)], step("bytegauge tune --resume 1"));
    assert_eq!(text.matches("2 usable blocks").count(), 1, "{text}");
    assert!(text.contains("every change: 2 usable blocks") && !text.to_lowercase().contains("no result:"), "{text}");
    assert!(text.contains("Next       /opt/bytegauge tune --resume 1"), "{text}");
}

#[test]
fn decided_changes_lead_to_no_repetition() {
    let text = shown(&[("nodelay=on", Some([0.0, -0.01, 0.01]))], step("bytegauge tune -- ./program"));
    assert!(!text.contains("./program") && text.contains("nothing is left to decide"), "{text}");
    let open = shown(&[("nodelay=on", Some([0.0, -0.2, 0.2]))], step("bytegauge tune -- ./program"));
    assert!(open.contains("./program\n") && open.contains("repeat it"), "{open}");
}

#[test]
fn a_dropped_change_is_neither_open_nor_judged() {
    let text = shown(&[("nodelay=on", Some([0.0, -0.01, 0.01])), (DROPPED, None)], step("bytegauge tune -- ./program"));
    assert!(text.contains("\nDropped    sndbuf 1 MiB: not among the best\n"), "{text}");
    assert!(text.contains("no change is shown to help") && !text.contains("that was tried"), "{text}");
    assert!(text.contains("nothing is left to decide") && !text.contains("usable block"), "{text}");
}
