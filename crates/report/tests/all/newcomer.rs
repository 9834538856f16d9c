//! Parts of the first screen that readers without documents misread.

use crate::flat;
use crate::phrases;
use crate::support::{Plan, levels, session};
use bytegauge_compare::{AcrossView, across};
use bytegauge_model::{CellKind, EndRole, Level, SessionId, Stage};
use bytegauge_report::view::document::{FindingKind, OptionResult, OptionStatus, TestState};
use bytegauge_report::{SessionData, Settings, View, render};

fn style() -> render::TerminalStyle {
    render::TerminalStyle { columns: 80, ..Default::default() }
}

fn screen(view: &View) -> String {
    render::screen::render(view, &style())
}

fn view(data: &SessionData) -> View {
    View::of(data, &Settings::default())
}

/// One test of reads of four sizes, with this noise.
fn reads(noise: f64) -> Plan {
    Plan {
        transports: vec!["tcp"],
        profiles: vec!["sum"],
        read_sizes: vec![16 << 10, 64 << 10, 256 << 10, 1 << 20],
        write_sizes: vec![64 << 10],
        finalists: 4,
        confirm_blocks: 12,
        noise,
        ..Plan::default()
    }
}

/// The first of planted sessions whose bound is as asked.
fn bounded(is_wanted: impl Fn(f64) -> bool) -> View {
    let each = (1..40).map(|step| view(&session(&Plan { seed: step, ..reads(0.04 * step as f64) })));
    let mut fits = each.filter(|view| view.groups[0].recommendation.bound.is_some_and(&is_wanted));
    fits.next().expect("some noise has such a bound")
}

#[test]
fn a_bound_that_excludes_nothing_is_no_answer() {
    let view = bounded(|bound| (1.5..8.0).contains(&bound));
    assert_eq!(view.tests[0].recommended, None);
    let text = screen(&view);
    assert!(
        flat(&text).contains("Result Undecided, nothing is recommended: even ")
            && (flat(&text).contains("× as long as the best") || flat(&text).contains(" % slower than the best")),
        "{text}"
    );
    // Nothing is recommended, and nothing is copied into a program.
    assert!(!text.contains("In the program:") && !text.contains("<- "), "{text}");
    let brief = bytegauge_formats::brief::render(&view, 4, 200, "bytegauge").join("\n");
    assert!(brief.contains("nothing is recommended"), "{brief}");
    // A bound that excludes as much is one.
    let view = bounded(|bound| (0.3..0.9).contains(&bound));
    assert_eq!((view.tests[0].state, view.tests[0].recommended.is_some()), (TestState::Inconclusive, true));
}

#[test]
fn large_buffers_state_their_memory() {
    let mut reported = 0;
    for step in 1..12 {
        let view = view(&session(&Plan { seed: step, ..reads(0.03 * step as f64) }));
        let Some(found) = view.findings.iter().find(|found| found.kind == FindingKind::Memory) else { continue };
        let test = &view.tests[0];
        let size = |option: &OptionResult| option.settings["read_size"].as_f64();
        let own = test.options.iter().find(|option| test.recommended.as_ref() == Some(&option.id)).expect("an option");
        assert_eq!((found.numbers.get("bytes").copied(), found.option.as_ref()), (size(own), Some(&own.id)));
        let is_tied = |status| matches!(status, OptionStatus::Best | OptionStatus::Tied);
        let is_smaller = |option: &&OptionResult| is_tied(option.status) && size(option) < size(own);
        let smaller: Vec<&OptionResult> = test.options.iter().filter(is_smaller).collect();
        // The smallest that is as good, else the one that can be slower by the least.
        let good = smaller.iter().filter(|option| option.status == OptionStatus::Best);
        let upper = |option: &OptionResult| option.slower_upper.unwrap_or(f64::INFINITY);
        let safest = smaller.iter().min_by(|a, b| upper(a).total_cmp(&upper(b)));
        let expected = good.min_by_key(|option| size(option).map(|size| size as u64)).or(safest);
        assert_eq!(found.numbers.get("smaller_bytes").copied(), expected.and_then(|option| size(option)), "{found:?}");
        assert!(found.text.starts_with("1000 connections with a buffer of "), "{found:?}");
        assert!(screen(&view).contains("Memory: "), "{}", screen(&view));
        reported += 1;
    }
    assert!(reported > 0);
}

#[test]
fn tied_options_have_no_winner() {
    let view = bounded(|bound| (0.3..0.9).contains(&bound));
    let brief = bytegauge_formats::brief::render(&view, 4, 80, "bytegauge").join("\n");
    assert!(brief.contains("Undecided: "), "{brief}");
}

#[test]
fn compared_sessions_show_their_congestion_control() {
    let one = |number: u64, name: &str| {
        let mut data = session(&Plan { seed: number, ..reads(0.02) });
        data.record.id = SessionId(number as i64);
        data.record.machine["network"]["congestion_control"] = name.into();
        data
    };
    let text =
        |sessions: &[SessionData]| flat(&across::render(&AcrossView::of(sessions, &Settings::default()), &style()));
    let alike = text(&[one(1, "bbr"), one(2, "bbr"), one(3, "bbr")]);
    assert!(alike.contains("congestion control, where none is named: bbr in all of them"), "{alike}");
    let differ = text(&[one(1, "bbr"), one(2, "cubic"), one(3, "bbr")]);
    assert!(differ.contains("was not the same: bbr in 1, 3; cubic in 2"), "{differ}");
}

#[test]
fn the_profile_tells_which_end_works() {
    let mut data = session(&reads(0.01));
    // Levels alone may be those of another workload.
    for factors in data.groups.iter_mut().map(|row| &mut row.group.factors) {
        factors.set("profile", Level::Name("rpc".into()));
        factors.set("working_set", Level::Number(16 << 10));
    }
    let valid = phrases(&view(&data), FindingKind::ValidFor);
    assert!(valid.contains("the server adds up every request") && !valid.contains("the reader adds"), "{valid}");
}

#[test]
fn the_average_read_is_that_of_all_trials() {
    let data = session(&Plan { noise: 0.001, ..reads(0.001) });
    let text = render::screen::one_test(&view(&data), "g1", &render::TerminalStyle { columns: 140, ..style() });
    let text = text.expect("a group");
    assert!(text.contains("\nWith 95 % confidence:\n") && text.ends_with('\n'), "{text}");
    // Trials of 60,000 bytes a read.
    assert!(text.contains("on average over all trials, a read moved 58.6 KiB, a write 58.6 KiB"), "{text}");
}

/// Reads of two sizes by two congestion controls; the slow one is confirmed with `confirmed` of the sizes, and slow with `slow_with`.
fn two_controls(confirmed: usize, slow_with: usize) -> SessionData {
    let mut data = session(&Plan { read_sizes: vec![64 << 10, 256 << 10], seed: 3, confirm_blocks: 16, ..reads(0.01) });
    let fast: Vec<_> = data.cells.iter().filter(|row| row.cell.kind == CellKind::Candidate).cloned().collect();
    for row in &mut data.cells {
        row.cell.factors.set("congestion", levels(&[("congestion", "cubic".into())]).get("congestion").clone());
    }
    for (at, row) in fast.iter().enumerate() {
        let mut slow = row.clone();
        slow.cell.id.0 = format!("slow{at}").into();
        slow.cell.factors.set("congestion", levels(&[("congestion", "bbr".into())]).get("congestion").clone());
        let own: Vec<_> = data.trials.iter().filter(|trial| trial.cell == row.cell.id).cloned().collect();
        for mut trial in own.into_iter().filter(|trial| at < confirmed || trial.stage != Stage::Confirm) {
            trial.cell = slow.cell.id.clone();
            trial.position += 10;
            // A screened option may be as good.
            trial.bytes /= if trial.stage == Stage::Confirm && at < slow_with { 2 } else { 1 };
            data.trials.push(trial);
        }
        data.cells.push(slow);
    }
    data
}

/// The sentences of the comparisons that the user named.
fn named(mut data: SessionData) -> Vec<String> {
    data.record.plan["families"] = serde_json::json!([{ "named": true, "groups": ["g1"] }]);
    let view = view(&data);
    let of_kind = view.findings.iter().filter(|finding| finding.kind == FindingKind::Comparison);
    of_kind.map(|finding| finding.text.clone()).collect()
}

#[test]
fn named_levels_are_compared_at_their_best() {
    // Sizes differ, too: the answer is about what is no size.
    let [text] = named(two_controls(2, 2)).try_into().expect("one comparison");
    assert!(text.starts_with("bbr takes 2") && text.contains("× as long as TCP_CONGESTION cubic ("), "{text}");
    assert!(text.contains(", both with read ") || text.contains(", each at its best: read "), "{text}");
}

#[test]
fn a_compared_condition_is_answered_first() {
    let mut data = two_controls(2, 2);
    // The same with placements in place of congestion controls.
    for row in &mut data.cells {
        let is_slow = row.cell.id.0.starts_with("slow");
        let place = if is_slow { "cross-core" } else { "same-cpu" };
        row.cell.factors.set("placement", Level::Name(place.into()));
        row.cell.factors.set("congestion", Level::auto());
        row.cell.factors.set("compare", Level::Name("placement".into()));
    }
    data.groups.iter_mut().for_each(|row| {
        row.group.factors.set("compare", Level::Name("placement".into()));
        row.group.factors.set("placement", Level::Absent);
    });
    let [text] = named(data).try_into().expect("one comparison");
    assert!(text.starts_with("cross-core takes 2") && text.contains("× as long as placement same-cpu ("), "{text}");
}

#[test]
fn a_slow_congestion_control_is_in_the_table() {
    let view = view(&two_controls(2, 2));
    let test = &view.tests[0];
    let slow: Vec<_> = test.options.iter().filter(|option| option.status == OptionStatus::Slower).collect();
    assert_eq!(slow.iter().filter(|option| option.settings["congestion"] == "bbr").count(), 2, "{test:?}");
    assert!(view.groups[0].avoid.is_empty(), "{:?}", view.groups[0].avoid);
    // The options have intervals in the table: no second one is printed.
    let text = screen(&view);
    assert!(flat(&text).contains("Biggest effect: TCP congestion control: cubic reaches "), "{text}");
}

#[test]
fn confirmed_options_are_not_avoided_by_screening() {
    let blamed = |confirmed: usize| {
        let mut data = two_controls(confirmed, 0);
        let is_slow = |cell: &bytegauge_model::CellId| cell.0.starts_with("slow");
        // A noisy first minute: as many screening blocks as a claim takes.
        let screened: Vec<_> = data.trials.iter().filter(|trial| trial.stage == Stage::Screen).cloned().collect();
        for copy in 1..8 {
            data.trials.extend(screened.iter().cloned().map(|mut trial| {
                trial.block += 10_000 * copy;
                trial
            }));
        }
        for trial in data.trials.iter_mut().filter(|trial| trial.stage == Stage::Screen && is_slow(&trial.cell)) {
            trial.bytes /= 3;
        }
        let view = view(&data);
        view.groups[0].avoid.iter().filter(|one| one.factor == "congestion").cloned().collect::<Vec<_>>()
    };
    // Only screened, it is slower; confirmed, it has an interval of its own.
    assert!(!blamed(0).is_empty(), "{:?}", blamed(0));
    assert_eq!(blamed(2), []);
}

#[test]
fn a_busy_machine_with_few_blocks_needs_time() {
    let mut data = session(&Plan { confirm_blocks: 3, ..reads(0.05) });
    data.record.plan = serde_json::json!({ "budget_ns": 60_000_000_000_u64, "asked": ["stream", "--time", "60s"] });
    data.blocks.iter_mut().for_each(|block| block.surroundings.foreign_cpus = Some(1.2));
    let commands =
        |data: &SessionData| -> Vec<String> { view(data).next.into_iter().filter_map(|step| step.command).collect() };
    let expected = ["bytegauge stream --time 4m"];
    assert_eq!(commands(&data), expected);
    // The new time replaces all that was asked about the length.
    data.record.plan["asked"] = serde_json::json!(["stream", "--until=conclusive", "--time=60s", "--max-time", "2m"]);
    assert_eq!(commands(&data), expected);
}

#[test]
fn an_import_has_no_loopback() {
    let mut data = session(&Plan { transports: vec!["tcp"], ..reads(0.05) });
    let is_loopback =
        |data: &SessionData| phrases(&view(data), FindingKind::ValidFor).contains("loopback, without a network");
    assert!(is_loopback(&data));
    data.record.status = bytegauge_model::SessionStatus::Imported;
    assert!(!is_loopback(&data));
}

/// Sessions of the same options with more and more noise.
fn noisier() -> impl Iterator<Item = View> {
    (1..30).map(|step| view(&session(&Plan { seed: step, read_sizes: SIZES.to_vec(), ..reads(0.02 * step as f64) })))
}

const SIZES: [u64; 5] = [1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

#[test]
fn avoided_options_are_surely_worse() {
    let mut seen = [0, 0];
    for view in noisier() {
        let test = &view.tests[0];
        let least = test.margin.max(test.control_upper.unwrap_or(0.0));
        let slower = test.options.iter().filter(|option| option.status == OptionStatus::Slower);
        for option in slower {
            let is_sure = option.slower_lower.is_some_and(|lower| lower > least);
            let named = test.avoid.iter().any(|avoid| avoid.option.as_ref() == Some(&option.id));
            assert_eq!(named, is_sure, "{option:?} {:?}", test.control_upper);
            let mark = if is_sure { "avoid" } else { "slower" };
            let is_row = |line: &str| line.trim().starts_with(&format!("{} ", option.label)) && line.ends_with(mark);
            assert!(screen(&view).lines().any(is_row), "{mark}: {}", screen(&view));
            seen[usize::from(is_sure)] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn differences_have_one_unit() {
    let mut seen = [0, 0];
    for view in noisier() {
        let uppers = view.tests[0].options.iter().filter_map(|option| option.slower_upper);
        let most = uppers.chain(view.tests[0].control_upper).fold(0.0, f64::max);
        assert_eq!(view.scale.multiples, most > 1.0);
        let text = flat(&render::terminal::full(&view, &style()));
        let other = if view.scale.multiples { " % slower" } else { "× as long" };
        assert!(!text.contains(other), "{text}");
        seen[usize::from(view.scale.multiples)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn rates_of_short_trials_are_marked() {
    let view = view(&session(&Plan { finalists: 2, ..reads(0.02) }));
    let text = screen(&view);
    let short: Vec<&str> = text.lines().filter(|line| line.contains("screening only")).collect();
    assert_eq!(short.len(), 2, "{text}");
    assert!(short.iter().all(|line| line.contains('(') && !line.contains('█')), "{text}");
}

#[test]
fn undecided_rates_name_the_least_cpu_time() {
    let named = |spread: f64, others: f64| {
        let mut data = session(&Plan { seed: 5, ..reads(0.4) });
        data.blocks.iter_mut().for_each(|block| block.surroundings.foreign_cpus = Some(others));
        let cheap = data.cells[1].cell.id.clone();
        for trial in &mut data.trials {
            let ns = if trial.cell == cheap { 0.1 } else { 0.1 + spread };
            let bytes = trial.bytes as f64;
            for role in [EndRole::Source, EndRole::Sink] {
                trial.ends.get_mut(role).into_iter().for_each(|end| end.cpu_ns = (bytes * ns) as u64);
            }
        }
        let mut view = view(&data);
        assert_eq!(view.tests[0].state, TestState::Inconclusive);
        let find =
            |view: &View| view.summary.iter().find(|line| line.heading == "Least CPU").map(|line| line.text.clone());
        let (line, text) = (find(&view), screen(&view));
        // An option to avoid is no advice.
        view.tests[0].options.iter_mut().for_each(|option| option.harm = vec![FindingKind::LostDatagrams]);
        view.add(Vec::new());
        assert_eq!(find(&view), None);
        (line, text)
    };
    let (line, text) = named(0.05, 1.5);
    assert_eq!(line.as_deref(), Some("64K."), "{text}");
    let row = |text: &str| text.lines().find(|line| line.trim_start().starts_with("16K ")).unwrap_or("").to_owned();
    assert!(text.contains(" CPU / least ") && row(&text).contains(" 1.49–1.51× "), "{text}");
    assert!(flat(&text).contains("CPU / least its CPU time divided by that of the option with the least"), "{text}");
    // No option is surely slower, so CPU time has the biggest effect.
    assert!(flat(&text).contains("K uses 1.49–1.51× as much CPU time as the option with the least."), "{text}");
    // Without a difference, and on a quiet machine.
    for (line, text) in [named(0.0, 1.5), named(0.05, 0.0)] {
        assert_eq!(line, None);
        assert!(!text.contains("CPU / least") && !text.contains("more CPU"), "{text}");
    }
}

/// A receiver over TCP is a server: the check that is printed starts one.
#[test]
fn sizes_of_receivers_are_tried_in_servers() {
    let command = |plan: Plan| {
        let view = view(&session(&plan));
        let step = view.next.iter().find(|step| step.text.starts_with("try these sizes")).cloned();
        step.and_then(|step| step.command).expect("a check")
    };
    let of_tcp = command(Plan { seed: 3, ..reads(0.02) });
    assert!(
        of_tcp.contains("--start 'socat -u -b {value} TCP-LISTEN:7007,fork /dev/null' --ready tcp:7007 --load"),
        "{of_tcp}"
    );
    let of_unix = command(Plan { seed: 3, transports: vec!["unix"], ..reads(0.02) });
    assert!(of_unix.contains(" -- dd if=/dev/zero ") && !of_unix.contains("--start"), "{of_unix}");
}
