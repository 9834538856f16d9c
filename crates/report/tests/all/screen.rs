//! The first screen: its text, and that it fits.

use bytegauge_model::{CallReport, Cost, EndRole, Level};
use bytegauge_report::render::{TerminalStyle, full, markdown, screen};
use bytegauge_report::results::OptionStatus;
use bytegauge_report::{Report, Settings};

use crate::calls::histogram;
use crate::support::{Plan, session};

fn report(plan: &Plan) -> Report {
    Report::of(&session(plan), &Settings::default())
}

fn shown(report: &Report, columns: usize) -> String {
    screen::render(report, &TerminalStyle { columns, ..TerminalStyle::default() })
}

/// Tests that share their options: a matrix.
fn several() -> Report {
    report(&Plan { profiles: vec!["sum"], write_sizes: vec![64 << 10], ..Plan::default() })
}

/// One test: intervals drawn.
fn one() -> Report {
    report(&Plan { transports: vec!["unix"], profiles: vec!["sum"], write_sizes: vec![64 << 10], ..Plan::default() })
}

#[test]
fn screen_fits_a_small_terminal() {
    for report in [several(), one(), report(&Plan::default())] {
        for columns in [80, 120] {
            let text = shown(&report, columns);
            assert!(text.lines().count() <= 25, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        }
    }
}

/// Options are compared by the delay of urgent messages, whatever their rates.
#[test]
fn urgent_messages_are_compared() {
    let with = |planned: &Plan, calls: u64| {
        let mut data = session(planned);
        let urgent = || Level::Number(10_000_000);
        data.groups.iter_mut().for_each(|row| row.group.factors.set("urgent", urgent()));
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("urgent", urgent()));
        let delayed: Vec<_> =
            data.cells.iter().map(|row| (row.cell.id.clone(), row.cell.factors.read_size())).collect();
        for trial in &mut data.trials {
            let size = delayed.iter().find(|(id, _)| *id == trial.cell).and_then(|(_, size)| *size);
            let median_ns = if size == Some(1 << 20) { 100_000_000 } else { 20_000_000 };
            let total = Some(histogram(calls, median_ns));
            let report = CallReport { calls, total, ..CallReport::default() };
            trial.ends.get_mut(EndRole::Sink).expect("a sink").call = Some(Box::new(report));
        }
        Report::of(&data, &Settings::default())
    };
    let plan = |transports| Plan {
        transports,
        profiles: vec!["drain"],
        write_sizes: vec![64 << 10],
        read_sizes: vec![512 << 10, 1 << 20],
        ..Plan::default()
    };
    let report = with(&plan(vec!["tcp"]), 100);
    assert_eq!(report.tests[0].used().map(|option| &*option.label), Some("512K"), "{:?}", report.tests[0]);
    let text = shown(&report, 80);
    for part in [
        "Use 512K: the least urgent delay; urgent p99 29.7 ms",
        "urgent mean",
        "delay / least",
        "compared by the mean delay",
    ] {
        assert!(crate::flat(&text).contains(part), "{part}: {text}");
    }
    assert!(!text.contains("urgent p90"), "{text}");
    // Too few for a p99; several tests show the delay with each decision.
    let several = with(&plan(vec!["tcp", "unix"]), 5);
    assert!(several.decisions.iter().all(|one| one.why.contains("; urgent p90 ")), "{:?}", several.decisions);
}

#[test]
fn cautions_give_way_to_the_matrix() {
    let mut report = several();
    report.cautions = (1..=4).map(|number| format!("caution {number}: {}", "of many words ".repeat(15))).collect();
    let text = shown(&report, 80);
    assert!(text.lines().count() <= 25, "{text}");
    assert!(text.contains("slower than the best by"), "{text}");
    assert!(text.contains("caution 1") && !text.contains("caution 4") && text.contains(" --full"), "{text}");
}

#[test]
fn every_format_has_the_same_words() {
    let report = several();
    let (screen, markdown) = (shown(&report, 200), markdown::render(&report));
    for decision in &report.decisions {
        for text in [&decision.name, &decision.set, &decision.why] {
            assert!(screen.contains(text.as_str()), "{text}\n{screen}");
            assert!(markdown.contains(text.as_str()), "{text}\n{markdown}");
        }
    }
    let matrix = report.matrix.as_ref().expect("tests share their options");
    for cell in matrix.rows.iter().flat_map(|row| row.cells.iter().flatten()) {
        assert!(screen.contains(&cell.text), "{}\n{screen}", cell.text);
    }
}

#[test]
fn only_a_certain_option_is_marked() {
    let noisy = report(&Plan {
        transports: vec!["unix"],
        profiles: vec!["sum"],
        write_sizes: vec![64 << 10],
        noise: 0.6,
        confirm_blocks: 8,
        ..Plan::default()
    });
    assert!(noisy.tests[0].used().is_none(), "{:?}", noisy.tests[0]);
    let text = shown(&noisy, 80);
    assert!(!text.contains('*') && !text.contains("<-") && text.contains("undecided"), "{text}");
    assert!(!full::full(&noisy, &TerminalStyle::default()).contains("In the program"), "no code without a decision");
    let certain = one();
    let used = certain.tests[0].used().expect("a decision");
    let marked: Vec<String> =
        shown(&certain, 80).lines().filter(|line| line.contains(" * ")).map(str::to_owned).collect();
    assert!(marked.len() == 1 && marked[0].contains(&used.label) && marked[0].contains(" use"), "{marked:?}");
}

#[test]
fn each_interval_is_printed_outwards() {
    let report = several();
    let matrix = report.matrix.as_ref().expect("a matrix");
    for cell in matrix.rows.iter().flat_map(|row| row.cells.iter().flatten()) {
        let option = report.tests.iter().find_map(|test| test.option(&cell.option)).expect("an option");
        let Some((lower, upper)) = option.slower_lower.zip(option.slower_upper) else { continue };
        let text = cell.text.trim_matches(['*', '~']);
        let (from, to) = text.split_once('–').unwrap_or((text, text));
        let number = |text: &str| text.trim_start_matches('>').parse::<f64>().expect(text) / 100.0;
        assert!(from == to || number(from) <= lower + 1e-9, "{text} {lower}");
        assert!(number(to) >= upper.min(4.0) - 1e-9, "{text} {upper}");
        assert_eq!(cell.status == OptionStatus::Use, cell.text.starts_with('*'), "{cell:?}");
    }
}

#[test]
fn another_speed_is_a_caution_with_its_share() {
    let mut data = session(&Plan { profiles: vec!["sum"], write_sizes: vec![64 << 10], ..Plan::default() });
    let before = Report::of(&data, &Settings::default());
    let used = before.tests.iter().find_map(|test| test.used()).expect("a decision").id.clone();
    let mut count = 0;
    for trial in data.trials.iter_mut().filter(|trial| trial.cell == used) {
        count += 1;
        if count % 4 == 0 {
            trial.wall_ns *= 3;
            for end in trial.ends.values_mut() {
                end.counts.window_ns *= 3;
                end.flows.iter_mut().for_each(|flow| flow.counts.window_ns *= 3);
            }
        }
    }
    let after = Report::of(&data, &Settings::default());
    let text = shown(&after, 80);
    assert!(
        after.cautions.iter().any(|text| text.contains("25 % of the trials ") && text.contains("× as long")),
        "{:?}\n{text}",
        after.cautions
    );
    assert_eq!((before.environment.quietness(), after.environment.quietness()), (Some("quiet"), Some("noisy")));
}

#[test]
fn the_load_of_other_programs_comes_first() {
    let mut data = session(&Plan { profiles: vec!["sum"], write_sizes: vec![64 << 10], ..Plan::default() });
    for block in &mut data.blocks {
        (block.surroundings.foreign_cpus, block.surroundings.steal_share) = (Some(1.1), Some(0.03));
    }
    for trial in &mut data.trials {
        trial.machine.as_mut().expect("a machine").steal_ns = trial.wall_ns;
    }
    let report = Report::of(&data, &Settings::default());
    assert!(report.cautions[0].starts_with("Other programs used 1.1"), "{:?}", report.cautions);
    let stolen = |text: &str| text.contains("hypervisor took CPU time in ");
    assert!(!report.cautions.iter().any(|text| stolen(text)), "{:?}", report.cautions);
    assert!(report.findings.iter().any(|finding| stolen(&finding.text)), "{:?}", report.findings);
}

#[test]
fn cpu_time_decides_where_it_is_asked_for() {
    let plan = Plan { transports: vec!["unix"], profiles: vec!["sum"], write_sizes: vec![64 << 10], ..Plan::default() };
    let mut data = session(&plan);
    let before = Report::of(&data, &Settings::default());
    let slow = before.tests[0].with(OptionStatus::Avoid).next().expect("a slow option").id.clone();
    for end in data.trials.iter_mut().filter(|trial| trial.cell == slow).flat_map(|trial| trial.ends.values_mut()) {
        for counts in end.flows.iter_mut().map(|flow| &mut flow.counts).chain([&mut end.counts]) {
            for ns in [&mut counts.cpu_ns, &mut counts.user_ns, &mut counts.system_ns] {
                *ns /= 20;
            }
        }
    }
    let by_cpu = Report::of(&data, &Settings { objective: Some(Cost::Cpu), ..Settings::default() });
    assert_eq!((by_cpu.tests[0].compares, by_cpu.tests[0].recommended.as_ref()), (Cost::Cpu, Some(&slow)));
    assert!(by_cpu.sentence.contains("CPU time"), "{}", by_cpu.sentence);
    let text = shown(&by_cpu, 80);
    assert!(text.contains("Options are compared by CPU time.") && text.contains("CPU s/GiB"), "{text}");
    assert_eq!(Report::of(&data, &Settings::default()).tests[0].recommended, before.tests[0].recommended);
}

#[test]
fn colour_is_never_alone() {
    let report = several();
    let style = TerminalStyle { colour: true, ..TerminalStyle::default() };
    let coloured = screen::render(&report, &style);
    assert!(coloured.contains('\u{1b}'));
    let plain: String = {
        let mut out = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            out += before;
            rest = after.split_once('m').expect("the end of a style").1;
        }
        out + rest
    };
    assert_eq!(plain, screen::render(&report, &TerminalStyle::default()));
}

#[test]
fn rare_tcp_drops_are_no_caution() {
    let cautions = |counter: &str, every: usize| {
        let plan =
            Plan { transports: vec!["tcp"], profiles: vec!["sum"], write_sizes: vec![64 << 10], ..Plan::default() };
        let mut data = session(&plan);
        for trial in data.trials.iter_mut().step_by(every) {
            let machine = trial.machine.as_mut().expect("a machine");
            machine.tcp_drops = [(counter.to_owned(), 1)].into();
        }
        Report::of(&data, &Settings::default()).cautions.join("\n")
    };
    let often = cautions("TCPRcvQDrop", 1);
    assert!(often.contains("TCP segments found no room") && often.contains("Linux 6.17 to 6.19.6"), "{often}");
    let other = cautions("PruneCalled", 1);
    assert!(other.contains("TCP segments found no room") && !other.contains("Linux"), "{other}");
    let rare = cautions("PruneCalled", 17);
    assert!(!rare.contains("no room"), "{rare}");
}

#[test]
fn long_decisions_are_wrapped_not_cut() {
    let mut report = several();
    let why = "9 of 48 options may be the best, of which none is surely slower";
    for decision in &mut report.decisions {
        decision.set = "keep mode per-thread, set-up coop-taskrun and single-issuer".into();
        decision.why = why.into();
    }
    for columns in [76, 80, 200] {
        let text = shown(&report, columns);
        assert!(text.lines().count() <= 25 && text.lines().all(|line| line.chars().count() <= columns), "{text}");
        let table = text.lines().skip_while(|line| !line.contains(" set ")).skip(1).take_while(|line| !line.is_empty());
        let table = crate::flat(&table.collect::<Vec<_>>().join(" "));
        assert!(!table.contains('…'), "{text}");
        assert_eq!([table.matches("single-issuer").count(), table.matches("slower").count()], [2, 2], "{text}");
    }
}
