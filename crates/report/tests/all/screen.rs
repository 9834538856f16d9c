//! The screen: a table for each test, the summary last, 80 columns, whatever was measured.
//! Long because each part of the screen is tried on the same planted sessions.

use crate::flat;
use crate::support::{Plan, session};
use bytegauge_model::{CellId, CellKind, EndRole, Level, Outcome, SessionStatus, Stage, Trial};
use bytegauge_report::view::document::{
    Because, FindingKind, NextStep, OptionResult, OptionStatus, Severity, TestState,
};
use bytegauge_report::{Progress, SessionData, Settings, View, render};
use proptest::prelude::*;

fn screen(view: &View) -> String {
    render::screen::render(view, &render::TerminalStyle { columns: 80, ..Default::default() })
}

fn of(data: &SessionData) -> View {
    View::of(data, &Settings::default())
}

/// Whether no line is too wide, the summary is the end, and every test is there.
fn fits(view: &View) {
    let text = screen(view);
    // A command is one line, however long.
    let is_wide = |line: &&str| line.chars().count() > 80 && !line.trim_start().starts_with("bytegauge ");
    let wide: Vec<&str> = text.lines().filter(is_wide).collect();
    assert!(wide.is_empty(), "{wide:#?}\n{text}");
    let lines: Vec<&str> = text.lines().collect();
    let summary = lines.iter().position(|line| *line == "Summary").expect("a summary");
    let result =
        lines.iter().rposition(|line| line.starts_with("Result") || line.starts_with("Use")).expect("the result");
    assert!(lines[summary + 1..result - 1].iter().all(|line| line.starts_with("  ")), "{text}");
    assert!(lines.len() > result + 1 && lines[result + 1..].iter().all(|line| line.starts_with("  ")), "{text}");
    // With the prompt, on a small terminal.
    assert!(lines.len() - result < 24, "{text}");
    assert_eq!(text.matches("All details: ").count(), 1, "{text}");
    // A cell's name means nothing to a reader.
    let names_a_cell = |word: &str| {
        let digits = word.strip_prefix('c').map(|rest| rest.trim_end_matches([',', ':', ')', ';', '.']));
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    assert!(!text.split_whitespace().any(names_a_cell), "{text}");
    for test in &view.tests {
        let recommended = test.options.iter().filter(|option| test.recommended.as_ref() == Some(&option.id));
        // Nothing is recommended without an interval.
        assert!(
            recommended.clone().all(|option| option.slower_upper.is_some() || test.state == TestState::Single),
            "{test:?}"
        );
    }
}

/// Unix sockets, one reader, without noise.
fn small() -> Plan {
    Plan {
        transports: vec!["unix"],
        profiles: vec!["sum"],
        read_sizes: vec![4096, 65_536],
        write_sizes: vec![16_384, 65_536],
        finalists: 2,
        confirm_blocks: 8,
        noise: 0.001,
        ..Plan::default()
    }
}

/// Makes the ends of a trial so busy, as shares of the time.
fn is_busy(trial: &mut Trial, source: f64, sink: f64) {
    for (role, share) in [(EndRole::Source, source), (EndRole::Sink, sink)] {
        let end = trial.ends.get_mut(role).expect("an end");
        end.cpu_ns = (end.window_ns as f64 * share) as u64;
    }
}

fn view(plan: &Plan) -> View {
    View::of(&session(plan), &Settings::default())
}

/// Declares analyses, of which the first ends after eight blocks.
fn with_looks(noise: f64) -> SessionData {
    with_looks_over("unix", noise)
}

fn with_looks_over(transport: &'static str, noise: f64) -> SessionData {
    let mut data = session(&Plan { transports: vec![transport], noise, confirm_blocks: 8, ..small() });
    for row in &mut data.groups {
        row.facts.insert("looks".into(), serde_json::json!(3));
        row.facts.insert("blocks_fixed".into(), serde_json::json!(8));
    }
    data
}

/// Two transports of which one size is asked, so noisy that little is significant.
fn noisy(noise: f64) -> Plan {
    Plan {
        transports: vec!["unix", "tcp"],
        read_sizes: vec![1024, 16_384, 65_536, 262_144],
        write_sizes: vec![65_536],
        finalists: 4,
        confirm_blocks: 12,
        noise,
        ..small()
    }
}

fn option<'a>(view: &'a View, test: usize, label: &str) -> &'a OptionResult {
    view.tests[test].options.iter().find(|option| option.label == label).expect(label)
}

fn finding(view: &View, kind: FindingKind) -> Option<String> {
    view.findings.iter().find(|finding| finding.kind == kind).map(|finding| finding.text.clone())
}

/// The commands of the next steps, without the one that tries sizes in a program.
fn commands(view: &View) -> Vec<String> {
    let commands = view.next.iter().filter_map(|step| step.command.clone());
    commands.filter(|command| !command.contains(IN_PROGRAM)).collect()
}

const IN_PROGRAM: &str = " --recommendation 12 -- dd ";

#[test]
fn tests_are_tables_and_the_summary_is_last() {
    let view = view(&small());
    fits(&view);
    let text = screen(&view);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("bytegauge buffer-size · session 12 · "), "{text}");
    let title = lines.iter().position(|line| *line == view.tests[0].title).expect("the title of the test");
    assert_eq!(lines[title - 1], "", "{text}");
    for part in ["GiB/s", "slower than best (95 %)"] {
        assert!(lines[title + 1].contains(part), "{part}: {text}");
    }
    let named = lines.iter().filter(|line| line.contains("<- use")).collect::<Vec<_>>();
    assert!(named.len() == 1 && named[0].contains("read 64K + write 64K"), "{text}");
    assert!(text.contains("  In the program: read(fd, buf, 65536), write(fd, buf, 65536).\n"), "{text}");
    assert!(text.contains("  All details: bytegauge report 12 --full\n  Biggest effect: "), "{text}");
    let end = lines.iter().rposition(|line| line.starts_with("  Bottleneck: ")).expect("the line of the bottleneck");
    let rest = lines[end + 1..].iter().skip_while(|line| line.starts_with("    "));
    assert_eq!(rest.take(2).collect::<Vec<_>>(), [&"", &"Result"], "{text}");
    assert!(flat(&text).contains("Result Use read 64K + write 64K ("), "{text}");
}

#[test]
fn summary_and_results_fit_24_lines() {
    let transports = vec!["unix", "tcp", "tcp6", "pipe"];
    let view = view(&Plan { transports, profiles: vec!["sum"], ..noisy(0.3) });
    let text = screen(&view);
    let summary: Vec<&str> = text.lines().skip_while(|line| *line != "Summary").collect();
    assert!(view.tests.len() == 4 && summary.len() < 24, "{text}");
}

#[test]
fn code_is_that_of_the_own_end() {
    let mut data = session(&Plan { transports: vec!["unix", "tcp"], ..small() });
    // Over one the program reads, over the other it writes.
    let role = |group: &str| Level::Name(if group == "g1" { "reader" } else { "writer" }.into());
    for row in &mut data.groups {
        let role = role(&row.group.id.0);
        row.group.factors.set("role", role);
    }
    for row in &mut data.cells {
        let role = role(&row.cell.group.0);
        row.cell.factors.set("role", role);
    }
    let view = of(&data);
    let codes: Vec<&[String]> = view.tests.iter().map(|test| test.code.as_slice()).collect();
    assert_eq!(codes, [&["read(fd, buf, 65536)".to_owned()], &["write(fd, buf, 65536)".to_owned()]]);
}

#[test]
fn one_to_forty_tests_fit_80_columns() {
    let transports = ["unix", "tcp", "tcp6", "pipe", "/dev/zero", "/dev/urandom", "/dev/null"];
    let placements = ["cross-core", "same-cpu", "unpinned"];
    for (transport, placement, profiles) in [(1, 1, 1), (1, 1, 3), (2, 2, 3), (4, 3, 1), (4, 3, 3), (7, 3, 2)] {
        let view = view(&Plan {
            transports: transports[..transport].to_vec(),
            placements: placements[..placement].to_vec(),
            profiles: ["sum", "parser", "drain"][..profiles].to_vec(),
            confirm_blocks: 8,
            noise: 0.15,
            steal: 0.1,
            ..small()
        });
        assert_eq!(view.tests.len(), transport * placement * profiles);
        fits(&view);
        // Nothing is left out: every test has a table or a row.
        let text = flat(&screen(&view));
        assert!(view.tests.iter().all(|test| text.contains(&flat(&test.heading))), "{text}");
        if view.tests.len() > 6 {
            assert!(text.contains(&format!("of {} tests", view.tests.len())), "{text}");
        }
    }
}

#[test]
fn only_a_safest_option_is_explained() {
    let mut view = view(&Plan {
        transports: vec!["unix", "tcp", "tcp6", "pipe", "/dev/zero"],
        placements: vec!["cross-core", "same-cpu"],
        ..noisy(0.3)
    });
    let explained = "safest: undecided; another option may be faster";
    assert!(flat(&screen(&view)).contains(explained), "{}", screen(&view));
    view.tests.iter_mut().for_each(|test| test.because = Some(Because::Present));
    assert!(!flat(&screen(&view)).contains(explained), "{}", screen(&view));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_session_fits(
        seed: u64, transports in 1usize..5, placements in 1usize..4, profiles in 1usize..4, finalists in 1usize..4,
        confirm_blocks in 0u64..12, noise in 0.0f64..0.6, steal in 0.0f64..0.4, twin_bias in -0.2f64..0.2
    ) {
        fits(&view(&Plan {
            seed,
            transports: ["tcp", "unix", "/dev/zero", "pipe"][..transports].to_vec(),
            placements: ["cross-core", "same-cpu", "unpinned"][..placements].to_vec(),
            profiles: ["drain", "sum", "parser"][..profiles].to_vec(),
            finalists,
            confirm_blocks,
            noise,
            steal,
            twin_bias,
            ..small()
        }));
    }
}

#[test]
fn disturbed_sessions_are_run_again() {
    let mut data = session(&Plan { read_sizes: vec![65_536, 131_072], finalists: 4, confirm_blocks: 60, ..small() });
    data.record.plan["asked"] = serde_json::json!(["run", "buffer-size", "--time", "60s"]);
    // In the second half each second option is slower: blocks depend on their neighbours however many are merged.
    for trial in data.trials.iter_mut().filter(|trial| trial.block > 33 && trial.cell.0.ends_with(['2', '4'])) {
        trial.bytes /= 2;
    }
    let view = View::of(&data, &Settings::default());
    assert!(view.groups[0].serial.as_ref().is_some_and(|serial| !serial.independent), "{:?}", view.groups[0].serial);
    assert_eq!(view.next[0].text, "run it again: the disturbance of this session may be over");
    assert_eq!(view.next[0].command.as_deref(), Some("bytegauge run buffer-size --time 60s"));
}

#[test]
fn screened_options_have_no_interval() {
    let view = view(&Plan { confirm_blocks: 0, ..small() });
    let test = &view.tests[0];
    assert_eq!((test.state, &test.recommended), (TestState::Unconfirmed, &None));
    assert!(test.options.iter().all(|option| option.status == OptionStatus::Unconfirmed));
    let text = flat(&screen(&view));
    assert!(text.contains("fastest so far: read 64K + write 64K at ") && !text.contains("<- "), "{text}");
}

#[test]
fn an_interrupted_session_recommends_nothing_before_its_analysis() {
    let mut data = with_looks(0.01);
    data.groups.iter_mut().for_each(|row| {
        row.facts.insert("blocks_fixed".into(), 20.into());
    });
    data.record.status = SessionStatus::Incomplete;
    let view = of(&data);
    assert_eq!((view.tests[0].state, &view.tests[0].recommended), (TestState::Unconfirmed, &None));
    assert!(view.tests[0].options.iter().all(|option| option.slower_upper.is_none()));
    let text = flat(&screen(&view));
    assert!(text.contains("the session stopped before its first analysis") && !text.contains("<- "), "{text}");
}

#[test]
fn the_bottleneck_is_that_of_the_recommended_option() {
    // Nothing was confirmed: the fastest of the screening is not the first of the plan.
    let mut data = session(&Plan { confirm_blocks: 0, ..small() });
    let fastest = |row: &&bytegauge_store::CellRow| {
        ["read_size", "write_size"].iter().all(|name| row.cell.factors.get(name).number() == Some(65_536))
    };
    let fastest = data.cells.iter().find(fastest).expect("a cell").cell.id.clone();
    for trial in data.trials.iter_mut().filter(|trial| trial.cell == fastest) {
        is_busy(trial, 0.3, 0.99);
    }
    let text = flat(&screen(&of(&data)));
    assert!(text.contains("Bottleneck: receiver CPU, with read 64K + write 64K: the reader runs 99 %"), "{text}");
}

#[test]
fn trials_that_show_another_bottleneck_are_counted() {
    let bottleneck = |busy_reader: usize| {
        let mut data = session(&small());
        let is_confirmed = |trial: &&mut Trial| trial.stage == Stage::Confirm && trial.bytes > 0;
        for trial in data.trials.iter_mut().filter(is_confirmed) {
            // All together the writer is busier, and busy.
            let reader = (trial.block % 8) < busy_reader as u64;
            is_busy(trial, 0.95, if reader { 0.99 } else { 0.6 });
        }
        of(&data).tests[0].bottleneck.clone().expect("a limit").text
    };
    assert_eq!(
        bottleneck(1),
        "sender CPU, with read 64K + write 64K: the writer runs 95 % of the time, the reader 65 %"
    );
    assert_eq!(
        bottleneck(3),
        "sender CPU, in some trials both CPUs, with read 64K + write 64K: the writer runs 95 % of the time, the reader 75 % \
         (sender CPU in 5 of 8 trials, both CPUs in 3)"
    );
}

#[test]
fn a_differing_control_invalidates_the_test() {
    let view = view(&Plan { twin_bias: 0.1, confirm_blocks: 40, ..small() });
    let test = &view.tests[0];
    assert_eq!((test.state, &test.recommended), (TestState::Invalid, &None));
    assert!(test.options.iter().all(|option| option.slower_upper.is_none()));
    let text = screen(&view);
    assert!(
        text.matches("Caveat: ").count() >= 1
            && flat(&text).contains("read 64K + write 64K, measured twice, differs by"),
        "{text}"
    );
    assert!(!text.contains("<- "), "{text}");
}

#[test]
fn an_interrupted_session_forecasts_the_rest() {
    let mut data = with_looks(0.1);
    data.record.status = SessionStatus::Incomplete;
    let [resume] = of(&data).next.try_into().expect("one step");
    assert!(resume.command.as_ref().is_some_and(|command| command.contains(" --resume ")), "{resume:?}");
    let time = resume.text.strip_prefix("continue the session, about ").expect("a time");
    assert!(time.starts_with(|c: char| c.is_ascii_digit()) && time.ends_with(" more"), "{time}");
    data.blocks.iter_mut().for_each(|block| block.surroundings.foreign_cpus = Some(1.2));
    let [crowded] = of(&data).next.try_into().expect("one step");
    assert_eq!(crowded.command, resume.command);
    assert!(crowded.text.contains("the command doctor") && crowded.text.ends_with(&resume.text), "{crowded:?}");
}

#[test]
fn the_next_command_continues_the_session() {
    // Too little noise is decided at once, and too much never.
    let each = (3..10).map(|noise| with_looks(f64::from(noise) * 0.01)).map(|data| (commands(&of(&data)), data));
    let continues = |(commands, _): &(Vec<String>, _)| commands.iter().any(|command| command.contains("--resume"));
    let (phrases, mut data) = each.into_iter().find(continues).expect("analyses that help");
    // A session asked by no words of its own, as a part of a survey, is continued by `run`, which takes any.
    assert_eq!(phrases, ["bytegauge run --resume 12 --until conclusive"]);
    // Where other programs decide, time does not help.
    data.blocks.iter_mut().for_each(|block| block.surroundings.foreign_cpus = Some(1.4));
    let view = of(&data);
    assert_eq!(commands(&view), phrases);
    assert!(view.next[0].text.contains("the command doctor"), "{:?}", view.next);
    fits(&view);
    assert!(view.heading.contains(" · busy machine: other programs used 1.4 of 2 CPUs"), "{}", view.heading);
}

#[test]
fn more_analyses_are_offered_where_they_decide() {
    let mut seen = [0; 2];
    for noise in 1..40 {
        let view = of(&with_looks(f64::from(noise) * 0.01));
        let (group, own) = (&view.groups[0], &view.groups[0].recommendation);
        let Some(bound) = own.bound.filter(|_| own.more_blocks.is_some()) else { continue };
        // The interval of the A/A control must come down to the margin as well; four times the blocks halve both.
        let likely = bound.max(group.twin_reach.unwrap_or(0.0)) / 2.0;
        let offered = commands(&view).iter().any(|command| command.contains("--until conclusive"));
        assert_eq!(offered, likely <= view.plan.margin, "{likely}: {:?}", view.next);
        seen[usize::from(offered)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// A session ends as decided only where its report is conclusive, and continues where the A/A control alone is too wide.
#[test]
fn a_session_ends_as_its_report_does() {
    let mut wide = 0;
    for noise in 1..40 {
        let data = with_looks(f64::from(noise) * 0.01);
        let (view, progress) = (of(&data), Progress::of(&data, &Settings::default()));
        let is_decided = view.tests[0].state == TestState::Decided;
        assert_eq!((progress.tests, progress.decided), (1, usize::from(is_decided)), "{noise}");
        let more = view.groups[0].recommendation.more_blocks;
        assert_eq!(progress.settled == 1, is_decided || more.is_none(), "{noise}: {progress:?} {more:?}");
        assert!(!is_decided || more.is_none(), "{noise}: nothing is left to decide");
        wide += usize::from(view.groups[0].recommendation.proven && more.is_some());
    }
    assert!(wide > 0, "the control alone is too wide in one of the sessions");
}

#[test]
fn sizes_of_sockets_are_tried_in_a_program() {
    let tried = |plan: &Plan, change: &dyn Fn(&mut SessionData)| {
        let mut data = session(plan);
        change(&mut data);
        of(&data).next.iter().any(|step| step.command.as_ref().is_some_and(|command| command.contains(IN_PROGRAM)))
    };
    assert!(tried(&small(), &|_| ()));
    // With many sizes only those that may be the best.
    let sizes = (9..21).map(|power| 1 << power).collect();
    assert!(tried(&Plan { read_sizes: sizes, write_sizes: vec![65_536], finalists: 4, ..small() }, &|_| ()));
    assert!(!tried(&Plan { transports: vec!["/dev/zero"], ..small() }, &|_| ()), "a device is read by no peer");
    assert!(!tried(&Plan { confirm_blocks: 0, ..small() }, &|_| ()), "nothing is recommended");
    assert!(!tried(&small(), &|data| data.record.imported = true), "another store has the session");
    let text = screen(&view(&small()));
    assert!(
        text.contains(
            "--values 4K,16K,64K --default 4K --recommendation 12 \\\n      -- dd if=/dev/zero of=/dev/null "
        ),
        "{text}"
    );
}

#[test]
fn the_last_lines_have_rates_and_ties() {
    let view = view(&noisy(0.3));
    let text = flat(&screen(&view));
    let tests = view.tests.iter().filter(|test| test.recommended.is_some());
    let mut ties = 0;
    for test in tests {
        let own = test.options.iter().find(|option| test.recommended.as_ref() == Some(&option.id)).expect("an option");
        let line = text.rsplit_once(&format!("{}: {} (safest), ", test.name, own.label)).expect(&text).1;
        let rate = line.split_once(", at most ").expect(line).0;
        assert!(rate.ends_with("iB/s"), "{line}");
        let tied = test.options.iter().filter(|option| option.status == OptionStatus::Tied && option.id != own.id);
        for option in tied.clone() {
            let row =
                |text: &&str| text.trim().starts_with(&format!("{} ", option.label)) && text.ends_with(" undecided");
            assert!(screen(&view).lines().any(|text| row(&text)), "{}", screen(&view));
        }
        let tied: Vec<&str> = tied.map(|option| option.label.as_str()).collect();
        let named = format!("; {} may be faster", tied.join(", "));
        assert!(
            tied.is_empty() || line.contains(&named) || line.contains(&format!("; {} undecided", tied.len())),
            "{line}"
        );
        ties += tied.len();
    }
    assert!(ties > 0, "{text}");
}

#[test]
fn a_busy_machine_is_in_the_last_line() {
    let last = |cpus: f64| {
        let mut data = session(&small());
        data.blocks.iter_mut().for_each(|block| block.surroundings.foreign_cpus = Some(cpus));
        let text = screen(&of(&data));
        flat(text.rsplit_once("\nResult\n").expect(&text).1)
    };
    assert!(last(1.4).contains("Busy machine: other programs used 1.4 of 2 CPUs"), "{}", last(1.4));
    assert!(!last(0.2).contains("Busy machine"), "{}", last(0.2));
}

#[test]
fn a_wide_terminal_has_wider_bars() {
    let view = view(&small());
    let of_width = |columns| render::screen::render(&view, &render::TerminalStyle { columns, ..Default::default() });
    let longest = |text: &str| text.lines().map(|line| line.matches('█').count()).max().unwrap_or(0);
    let [usual, wide] = [80, 200].map(of_width);
    assert!(longest(&wide) > 2 * longest(&usual), "{wide}");
    assert!(wide.lines().all(|line| line.chars().count() <= 200), "{wide}");
}

/// Not "at most 0 % slower than the best".
#[test]
fn the_fastest_next_to_noise_is_named_so() {
    let results = (0..20).map(|step| {
        let mut data = session(&Plan { transports: vec!["unix"], ..noisy(0.1) });
        let own = option(&of(&data), 0, "64K").id.clone();
        let trials = data.trials.iter_mut().filter(|trial| trial.cell == own);
        trials.for_each(|trial| trial.bytes += trial.bytes * step / 40);
        of(&data).tests[0].result.clone()
    });
    let results: Vec<String> = results.collect();
    assert!(results.iter().any(|text| text.contains(": the fastest, but one option, measured twice")), "{results:#?}");
}

/// Relays with long names, all numbers that options can have, and the longest marks.
#[test]
fn tables_with_all_columns_fit() {
    let mut view = view(&noisy(0.3));
    view.tests.truncate(1);
    let test = &mut view.tests[0];
    (test.varied, test.more_cpu_heading) = (vec!["relay".into()], Some("CPU / least"));
    for (option, label) in test.options.iter_mut().zip(["std-copy 8K", "uring-multishot", "haproxy-splice", "hybrid"]) {
        option.label = label.into();
        (option.p50_ns, option.p99_ns, option.p99_9_ns) = (Some(123_456.0), Some(1_234_567.0), Some(12_345_678.0));
        (option.cpu, option.cpu_unit, option.more_cpu) = (Some(0.001_234), Some("µs/call"), Some("12.3–123×".into()));
        (option.failed_share, option.starved_share) = (Some(0.123), Some(0.456));
        (option.longest_ns, option.harm) = (Some(1_234_567_890), vec![FindingKind::StarvedClients]);
    }
    let is_on_one_line = |view: &View| screen(view).lines().any(|line| line.starts_with("  uring-multishot  "));
    let mut calls = view.clone();
    for option in &mut calls.tests[0].options {
        (option.more_cpu, option.failed_share) = (None, None);
    }
    calls.tests[0].more_cpu_heading = None;
    assert!(is_on_one_line(&calls) && screen(&calls).contains("CPU µs/call"), "{}", screen(&calls));
    let style = render::TerminalStyle { columns: 80, ..Default::default() };
    for longer in [false, true] {
        let label = |option: &mut OptionResult| option.label += " + threads direction + buffer 256K";
        view.tests[0].options.iter_mut().filter(|_| longer).for_each(label);
        fits(&view);
        let full = render::terminal::full(&view, &style);
        let wide: Vec<&str> = full.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        for heading in ["rate (95 %)", "p50", "p99.9", "CPU µs/call", "CPU / least", "failed", "starved", "longest"] {
            assert!(full.contains(heading), "{heading}: {full}");
        }
        assert!(full.split_whitespace().any(|word| word == "p99"), "{full}");
        for (heading, kept) in [("CPU / least", true), ("CPU µs/call", false), ("p99.9", false)] {
            assert_eq!(screen(&view).contains(&format!("  {heading}  ")), kept, "{heading}");
        }
    }
}

#[test]
fn the_full_text_has_each_warning_once() {
    let view = view(&noisy(0.3));
    let text = flat(&render::terminal::full(&view, &render::TerminalStyle { columns: 80, ..Default::default() }));
    let warnings: Vec<_> = view.findings.iter().filter(|finding| finding.severity == Severity::Warning).collect();
    assert!(warnings.len() > 2, "{warnings:?}");
    for finding in warnings {
        assert_eq!(text.matches(&flat(&finding.text)).count(), 1, "{}: {text}", finding.text);
    }
}

#[test]
fn a_short_first_analysis_leaves_the_others() {
    let mut data = with_looks(0.1);
    data.groups.iter_mut().for_each(|row| {
        row.facts.insert("blocks_fixed".into(), serde_json::json!(10));
    });
    let view = of(&data);
    let look = view.groups[0].look.as_ref().unwrap();
    assert_eq!((look.blocks, look.cut_short, look.left_until()), (8, true, Some(40)));
}

#[test]
fn a_pause_of_a_session_is_no_measuring() {
    let mut data = with_looks(0.1);
    let elapsed = |data: &_| View::of(data, &Settings::default()).elapsed_ns;
    let before = elapsed(&data);
    let pause = 3_600_000_000_000;
    let half = data.blocks.len() / 2;
    data.blocks.iter_mut().skip(half).for_each(|block| block.started_unix_ns += pause);
    let later = |trial: &&mut Trial| trial.block >= half as u64;
    data.trials.iter_mut().filter(later).for_each(|trial| trial.started_unix_ns += pause);
    data.record.finished_unix_ns = data.record.finished_unix_ns.map(|at| at + pause);
    // The gap that was there before goes with it.
    let lost = before.zip(elapsed(&data)).map(|(before, after)| before.abs_diff(after));
    assert!(lost.is_some_and(|ns| ns < 1_000_000_000), "{lost:?} of {before:?}");
}

#[test]
fn ties_are_named_with_the_recommended_option() {
    let view = view(&noisy(0.3));
    let inconclusive: Vec<_> = view.tests.iter().filter(|test| test.state == TestState::Inconclusive).collect();
    assert!(!inconclusive.is_empty(), "{:?}", view.tests);
    for test in inconclusive {
        let tied = test.options.iter().filter(|option| option.status == OptionStatus::Tied).count();
        assert!(
            tied > 1 && (test.result.to_lowercase().contains("undecided: ") || test.recommended.is_none()),
            "{test:?}"
        );
    }
}

#[test]
fn one_setting_has_its_largest_loss() {
    let view = view(&noisy(0.05));
    let phrases = finding(&view, FindingKind::OneSetting).expect("one setting");
    assert!(phrases.contains("256 KiB") && phrases.contains("each test"), "{phrases}");
    assert!(flat(&screen(&view)).contains(&format!("One setting for all: {phrases}")), "{}", screen(&view));
}

#[test]
fn significantly_slower_options_have_their_interval() {
    let view = view(&noisy(0.05));
    let slow = option(&view, 0, "1K");
    assert_eq!(slow.status, OptionStatus::Slower);
    let (lower, upper) = slow.slower_lower.zip(slow.slower_upper).expect("an interval");
    assert!(0.05 < lower && lower < upper, "{slow:?}");
    assert!(view.tests[0].result.contains("Avoid: 1K ("), "{:?}", view.tests);
}

/// Findings of a session in which every other trial of some options of the first test ran at half the speed.
fn at_two_speeds(of: impl Fn(&[CellId]) -> Vec<CellId>) -> Vec<String> {
    let mut data = session(&Plan { confirm_blocks: 60, ..noisy(0.001) });
    let of_g1: Vec<_> =
        data.cells.iter().filter(|row| row.cell.group.0 == "g1").map(|row| row.cell.id.clone()).collect();
    for split in of(&of_g1) {
        for trial in data.trials.iter_mut().filter(|trial| trial.cell == split).step_by(2) {
            trial.bytes /= 2;
        }
    }
    let view = self::of(&data);
    let of_kind = view.findings.iter().filter(|finding| finding.kind == FindingKind::SeveralSpeeds);
    of_kind.map(|finding| finding.text.clone()).collect()
}

#[test]
fn several_speeds_name_test_and_option() {
    let one = at_two_speeds(|cells| vec![cells[cells.len() / 2].clone()]);
    assert!(one.len() == 1 && one[0].contains("ran at 2 different speeds"), "{one:?}");
    assert!(at_two_speeds(<[CellId]>::to_vec).len() > 1);
}

#[test]
fn commands_are_whole_lines() {
    let mut data = session(&noisy(0.001));
    data.record.plan["asked"] = serde_json::json!(["run", "buffer-size", "--time", "30s", "--read-size", "4K,64K"]);
    assert_eq!(commands(&of(&data)), ["bytegauge run buffer-size --time 30s --read-size 4K,64K"]);
    data.record.status = SessionStatus::Incomplete;
    let style = render::TerminalStyle {
        columns: 80,
        program: "bytegauge --store /a/long/way/to/where/the/results/of/this/machine/are.db".into(),
        ..Default::default()
    };
    let text = render::screen::render(&of(&data), &style);
    // A command that is too long is broken as a shell takes it.
    let whole = text.replace(" \\\n      ", " ");
    assert!(whole.contains(&format!("\n    {} run buffer-size --resume 12\n", style.program)), "{text}");
    // `--until` of the session is kept.
    data.record.plan["asked"] = serde_json::json!(["run", "buffer-size", "--until", "conclusive", "--seed", "3"]);
    assert_eq!(commands(&of(&data)), ["bytegauge run buffer-size --resume 12 --until conclusive"]);
}

#[test]
fn words_are_quoted_for_a_shell() {
    let mut data = session(&Plan { transports: vec!["unix"], ..noisy(0.001) });
    data.record.plan["asked"] = serde_json::json!(["check", "--values", "1,2", "--", "sh", "-c", "it's {value}"]);
    assert_eq!(commands(&of(&data)), [r"bytegauge check --values 1,2 -- sh -c 'it'\''s {value}'"]);
}

#[test]
fn a_misleading_median_has_the_rate_of_all() {
    let mut data = session(&Plan { transports: vec!["unix"], confirm_blocks: 60, ..noisy(0.001) });
    assert!(of(&data).tests[0].options.iter().all(|option| option.rate_all.is_none()));
    // In every third block everything was ten times slower.
    data.trials.iter_mut().filter(|trial| trial.block % 3 == 0).for_each(|trial| trial.bytes /= 10);
    let mut one = data.clone();
    let view = of(&data);
    let best = option(&view, 0, "256K");
    let (all, median) = (best.rate_all.expect("both"), best.rate.expect("a rate"));
    assert!(all < 0.8 * median, "{all} of {median}");
    let full = render::terminal::full(&view, &render::TerminalStyle { columns: 120, ..Default::default() });
    assert!(full.contains(" average (all trials") && !screen(&view).contains(" average "), "{full}");
    fits(&view);
    // Only the option that needs it has it.
    let is_other = |trial: &&mut Trial| trial.block.is_multiple_of(3) && trial.cell != best.id;
    one.trials.iter_mut().filter(is_other).for_each(|trial| trial.bytes *= 10);
    let view = of(&one);
    let known = view.tests[0].options.iter().filter(|option| option.rate_all.is_some());
    assert_eq!(known.map(|option| &option.id).collect::<Vec<_>>(), [&best.id]);
}

#[test]
fn a_disturbed_machine_is_not_called_quiet() {
    let heading = |every: usize| {
        let mut data = session(&noisy(0.001));
        let machines = data.trials.iter_mut().step_by(every).filter_map(|trial| trial.machine.as_mut());
        machines.for_each(|machine| machine.steal_ns = 1_000_000);
        of(&data).heading
    };
    assert!(heading(50).contains(" · quiet machine · "), "{}", heading(50));
    assert!(!heading(3).contains("quiet machine"), "{}", heading(3));
}

/// The recommended option of the first test.
fn recommended(view: &View) -> CellId {
    view.tests[0].recommended.clone().expect("a recommendation")
}

#[test]
fn slow_trials_that_favour_another_option_are_found() {
    let mut data = session(&Plan { transports: vec!["unix"], confirm_blocks: 8, ..noisy(0.001) });
    let choice = recommended(&of(&data));
    // One trial of eight moves next to nothing: typical ones are as good as ever.
    let mut of_choice = data.trials.iter_mut().filter(|trial| trial.cell == choice && trial.stage == Stage::Confirm);
    of_choice.nth(3).expect("a trial").bytes /= 30;
    let view = of(&data);
    let phrases = finding(&view, FindingKind::SlowTrialsDisagree).expect("a finding");
    assert!(phrases.contains("over all trials, slow ones included, it reached "), "{phrases}");
    fits(&view);
}

#[test]
fn earlier_results_that_no_longer_hold_are_found() {
    let mut data = session(&Plan { transports: vec!["unix"], confirm_blocks: 32, ..noisy(0.01) });
    for row in &mut data.groups {
        row.facts.insert("looks".into(), serde_json::json!(3));
        row.facts.insert("blocks_fixed".into(), serde_json::json!(8));
    }
    let view = of(&data);
    assert!(view.groups[0].once_avoided.is_empty() && view.groups[0].once_proven.is_empty());
    assert_eq!(option(&view, 0, "16K").status, OptionStatus::Slower);
    let best = recommended(&view);
    // Since the second analysis began all others are slower than it.
    let cell = option(&view, 0, "16K").id.clone();
    let later = data.blocks.iter().filter(|block| block.stage == Stage::Confirm).nth(8).expect("a block").index;
    for trial in data.trials.iter_mut().filter(|trial| trial.cell != cell && trial.block >= later) {
        trial.bytes = trial.bytes * 10 / 17;
    }
    let view = of(&data);
    assert!(view.groups[0].once_avoided.contains(&cell) && view.groups[0].once_proven == [best]);
    for kind in [FindingKind::NoLongerBest, FindingKind::NoLongerSlower] {
        assert!(finding(&view, kind).is_some_and(|text| text.contains("an earlier analysis found it")), "{kind:?}");
    }
}

#[test]
fn a_falling_rate_is_found() {
    let plan = Plan { transports: vec!["unix"], confirm_blocks: 12, ..noisy(0.01) };
    let drift = |fall: u64| {
        let mut data = session(&plan);
        let first = data.blocks.iter().find(|block| block.stage == Stage::Confirm).expect("a block").index;
        for trial in data.trials.iter_mut().filter(|trial| trial.stage == Stage::Confirm) {
            trial.bytes = trial.bytes * 100 / (100 + fall * (trial.block - first));
        }
        finding(&of(&data), FindingKind::Drift)
    };
    assert_eq!(drift(0), None);
    assert!(drift(20).is_some_and(|text| text.contains("its rate fell from ")));
}

#[test]
fn a_session_that_overran_its_budget_is_found() {
    let overrun = |budget_s: u64, change: &dyn Fn(&mut SessionData)| {
        let mut data = session(&small());
        data.record.plan["budget_ns"] = (budget_s * 1_000_000_000).into();
        change(&mut data);
        let view = of(&data);
        fits(&view);
        (finding(&view, FindingKind::Overrun), finding(&view, FindingKind::PlanReduced))
    };
    assert!(overrun(30, &|_| ()).0.is_some_and(|text| text.contains("took 62 s of the 30 s given")));
    assert_eq!(overrun(60, &|_| ()), (None, None));
    // Blocks that were asked for take what they take.
    assert_eq!(overrun(30, &|data| data.record.plan["blocks"] = 8.into()).0, None);
    let reduced = overrun(60, &|data| data.record.notes.push("slower than planned, so only 9 of 72 trials".into()));
    assert!(reduced.1.is_some_and(|text| text.contains("9 of 72 trials")));
}

#[test]
fn the_forecast_includes_the_long_trials() {
    let forecast = |transport: &'static str| {
        let time = (1..40).find_map(|noise| {
            let mut data = with_looks_over(transport, f64::from(noise) * 0.02);
            // No A/A control, whose difference may be too large for any number of blocks.
            let is_control =
                |id: &CellId| data.cells.iter().any(|row| row.cell.kind == CellKind::Twin && row.cell.id == *id);
            data.trials.retain(|trial| !is_control(&trial.cell));
            data.record.plan["audit"] = 0.3.into();
            let text =
                |step: &NextStep| Some(step.text.strip_prefix("measure up to ")?.split_once(" more")?.0.to_owned());
            of(&data).next.iter().find_map(text)
        });
        time.expect("analyses that help")
    };
    // 24 blocks of 0.42 s; and of all that, three tenths.
    assert_eq!((forecast("unix"), forecast("/dev/zero")), ("15 s".to_owned(), "11 s".to_owned()));
}

#[test]
fn an_unbeaten_option_is_the_fastest() {
    let view = view(&noisy(0.001));
    assert!(
        view.tests.iter().all(|test| test.result.starts_with("use 256K (")
            && test.result.contains(" GiB/s): the fastest, with 95 % confidence")),
        "{:?}",
        view.tests
    );
}

#[test]
fn the_details_name_the_last_analysis() {
    let check = |fixed: Option<u64>, expected: &str| {
        let mut data = with_looks(0.1);
        for row in &mut data.groups {
            if let Some(blocks) = fixed {
                row.facts.insert("blocks_fixed".into(), blocks.into());
            }
        }
        let style = render::TerminalStyle { columns: 80, ..Default::default() };
        let full = render::terminal::full(&of(&data), &style);
        assert!(full.lines().any(|line| line.ends_with(expected)), "{expected}: {full}");
    };
    check(None, " · complete, after 1 of at most 3 analyses");
    // The clock stopped it before.
    check(Some(100), " · complete, after 1 of at most 3 analyses, with fewer blocks than planned");
}

#[test]
fn an_import_proposes_a_plan_of_its_kind() {
    let next = |workload: &str| {
        let mut data = session(&small());
        data.record.status = SessionStatus::Imported;
        data.record.workload = workload.into();
        commands(&of(&data))
    };
    assert_eq!(next("stream"), ["bytegauge run buffer-size"]);
    assert_eq!(next("call"), ["bytegauge run receive-buffer"]);
}

#[test]
fn an_imported_session_is_repeated_on_its_machine() {
    let step = |is_imported: bool| {
        let mut data = with_looks(0.001);
        data.record.plan["asked"] = serde_json::json!(["stream", "--read-size", "4K,64K"]);
        data.record.imported = is_imported;
        let step = of(&data).next[0].clone();
        assert!(step.command.is_some(), "{step:?}");
        step.text.starts_with("on the machine that measured it, repeat it ")
    };
    assert!(step(true) && !step(false));
}

#[test]
fn a_failed_session_has_reasons_and_a_step() {
    let mut data =
        session(&Plan { read_sizes: vec![4096], write_sizes: vec![4096], transports: vec!["unix"], ..small() });
    data.trials.iter_mut().for_each(|trial| trial.outcome = Outcome::Failed("no room".into()));
    let view = of(&data);
    fits(&view);
    let text = screen(&view);
    assert!(text.contains("no room") && text.contains("fix the reason above, then run it again"), "{text}");
}

#[test]
fn everything_is_in_the_full_text() {
    let view = view(&noisy(0.05));
    let full = flat(&render::terminal::full(&view, &render::TerminalStyle { columns: 80, ..Default::default() }));
    for finding in &view.findings {
        assert!(full.contains(&flat(&finding.text)), "{}: {full}", finding.text);
    }
    for test in &view.tests {
        assert!(full.contains(&flat(&test.title)), "{full}");
        assert!(test.options.iter().all(|option| full.contains(&option.label)), "{full}");
    }
}
