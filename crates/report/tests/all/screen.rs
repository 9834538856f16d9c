//! The first screen: it fits, it leads with the answer, and it names nothing that it does not show.
//! Long because a screen has many lines, and each is tried.

use crate::support::{Plan, in_force, session};
use bytegauge_model::{CellId, EndRole, Level, Outcome, Stage, Trial};
use bytegauge_report::view::document::{GridAxis, GridView, Standing, UseRow};
use bytegauge_report::{Settings, View, render};
use proptest::prelude::*;

fn screen(view: &View) -> String {
    render::screen::render(view, &render::TerminalStyle { columns: 80, ..Default::default() })
}

fn fits(view: &View) {
    let text = screen(view);
    assert!(text.lines().count() <= 35, "{} lines:\n{text}", text.lines().count());
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}\n{text}");
    // A cell's name tells nothing where no table shows it.
    let names_a_cell = |word: &str| {
        let digits = word.strip_prefix('c').map(|rest| rest.trim_end_matches([',', ':', ')', ';', '.']));
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    assert!(!text.split_whitespace().any(names_a_cell), "{text}");
    // A question may be shortened, what is answered never: rates, bounds' marks and notes stand in full.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !text.contains(" more, ") {
        let noted = view.answer.to_use.rows.iter().filter(|row| row.times.is_none());
        let notes = noted.filter_map(|row| row.note.as_ref());
        let lost: Vec<&String> = notes.filter(|note| !flat.contains(note.as_str())).collect();
        assert!(lost.is_empty(), "{lost:?}: {text}");
    }
    for name in ["USE", "WHY", "HOLDS", "NOISE", "NEXT", "MORE"] {
        assert_eq!(text.lines().filter(|line| line.split(' ').next() == Some(name)).count(), 1, "{name}: {text}");
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

#[test]
fn the_answer_comes_first() {
    let text = screen(&view(&small()));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("bytegauge buffer-size · session 12 · "), "{text}");
    assert!(
        lines[2].starts_with("USE    dearer: takes at most this much more time than the best confirmed (95 %)"),
        "{text}"
    );
    for part in ["read", "write", "reader", "GiB/s", "dearer"] {
        assert!(lines[3].contains(part), "{part}: {text}");
    }
    let row: Vec<&str> = lines[4].split_whitespace().collect();
    assert_eq!(row[..7], ["✓", "Unix", "64", "KiB", "64", "KiB", "sums"], "{text}");
    assert!(text.contains("in code: read(fd, buf, 65536), write(fd, buf, 65536)"), "{text}");
    assert!(text.contains("MORE   bytegauge report 12 --full\n"), "{text}");
}

#[test]
fn code_is_that_of_the_users_own_program() {
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
    let view = View::of(&data, &Settings::default());
    let [reads, writes] = view.answer.to_use.rows.as_slice() else { panic!("{:?}", view.answer.to_use.rows) };
    let (read, write) = (["read(fd, buf, 65536)"], ["write(fd, buf, 65536)"]);
    assert_eq!(
        (reads.code.as_slice(), reads.peer_code.as_slice()),
        (&read.map(str::to_owned)[..], &write.map(str::to_owned)[..])
    );
    assert_eq!(
        (writes.code.as_slice(), writes.peer_code.as_slice()),
        (&write.map(str::to_owned)[..], &read.map(str::to_owned)[..])
    );
}

#[test]
fn one_to_forty_groups_fit_a_screen() {
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
        assert_eq!(view.groups.len(), transport * placement * profiles);
        fits(&view);
    }
}

#[test]
fn what_was_only_screened_is_printed_in_brackets_and_rounded() {
    let plan = Plan { confirm_blocks: 0, ..small() };
    let view = view(&plan);
    let [row] = view.answer.to_use.rows.as_slice() else { panic!("{:?}", view.answer.to_use.rows) };
    assert_eq!((row.standing, row.rough, row.within), (Standing::Doubtful, true, None));
    let text = screen(&view);
    assert!(text.contains("(3.0)") || text.contains("(2.9)") || text.contains("(3.1)"), "{text}");
    let full = render::terminal::full(&view, &render::TerminalStyle::default());
    assert!(full.contains("(…): only screened"), "{full}");
}

#[test]
fn what_limits_is_that_of_the_choice_in_the_row() {
    // Nothing was confirmed: the row shows the fastest that was screened, which is not the first of the plan.
    let mut data = session(&Plan { confirm_blocks: 0, ..small() });
    let fastest = |row: &&bytegauge_store::CellRow| {
        ["read_size", "write_size"].iter().all(|name| row.cell.factors.get(name).number() == Some(65_536))
    };
    let fastest = data.cells.iter().find(fastest).expect("a cell").cell.id.clone();
    for trial in data.trials.iter_mut().filter(|trial| trial.cell == fastest) {
        is_busy(trial, 0.3, 0.99);
    }
    let view = View::of(&data, &Settings::default());
    assert_eq!(view.answer.to_use.rows[0].shown, ["64 KiB", "64 KiB"]);
    assert_eq!(view.answer.why, ["receiver CPU: the reader runs 99 % of the time, the writer 30 %"]);
}

#[test]
fn a_limit_that_many_trials_do_not_show_is_told_with_the_other_one() {
    let why = |transports: &[&'static str], busy_reader: usize| {
        let mut data = session(&Plan { transports: transports.to_vec(), ..small() });
        let is_confirmed = |trial: &&mut Trial| trial.stage == Stage::Confirm && trial.bytes > 0;
        for trial in data.trials.iter_mut().filter(is_confirmed) {
            // All together the writer is busier, and busy.
            let reader = (trial.block % 8) < busy_reader as u64;
            is_busy(trial, 0.95, if reader { 0.99 } else { 0.6 });
        }
        let view = View::of(&data, &Settings::default());
        fits(&view);
        view.answer.why
    };
    assert_eq!(why(&["unix"], 1), ["sender CPU: the writer runs 95 % of the time, the reader 65 %"]);
    assert_eq!(
        why(&["unix"], 3),
        ["sender CPU (in 5 of 8 trials; both CPUs in 3): the writer runs 95 % of the time, the reader 75 %"]
    );
    let several = why(&["unix", "tcp"], 3);
    assert!(several[0].starts_with("sender CPU or both CPUs, everywhere; g1 Unix: "), "{several:?}");
}

#[test]
fn what_is_to_be_avoided_says_how_old_the_connections_were() {
    // Screened on connections of 10 ms, confirmed on such of 50.
    let titles = |screened_ns: u64, cells: usize| {
        let mut data = session(&Plan { transports: vec!["unix"], screen_blocks: 8, finalists: cells, ..noisy(0.03) });
        for trial in &mut data.trials {
            trial.warmup_ns = if trial.stage == Stage::Screen { screened_ns } else { 50_000_000 };
        }
        let view = View::of(&data, &Settings::default());
        fits(&view);
        let text = screen(&view);
        let lines: Vec<String> = text.lines().filter(|line| line.starts_with("AVOID")).map(str::to_owned).collect();
        assert!(!view.answer.avoid.is_empty(), "{text}");
        lines.join("")
    };
    assert_eq!(titles(10_000_000, 2), "AVOID  takes more time (95 %); seen only on connections 10 to 50 ms old");
    assert_eq!(titles(50_000_000, 2), "AVOID  takes so much more time, shown at 95 %");
    // What was confirmed is as old as the rest.
    assert_eq!(titles(10_000_000, 4), "AVOID  takes so much more time, shown at 95 %");
}

#[test]
fn a_twin_that_differs_is_doubtful_and_said_once() {
    let view = view(&Plan { twin_bias: 0.1, confirm_blocks: 40, ..small() });
    let row: &UseRow = &view.answer.to_use.rows[0];
    assert_eq!((row.standing, row.within), (Standing::Doubtful, None));
    assert!(row.note.as_ref().is_some_and(|note| note.starts_with("the same twice: ")), "{row:?}");
    assert_eq!(screen(&view).matches("measured twice").count(), 1);
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
fn what_was_not_looked_at_is_said() {
    let mut data = session(&Plan { transports: vec!["tcp"], ..small() });
    data.record.plan["ends"] = "threads".into();
    let text = screen(&View::of(&data, &Settings::default())).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "not asked: other congestion controls than cubic (--congestion)",
        "AUDIT not run: connections older than 44 ms may differ",
        "ends kept on different CPUs (else: --placement unpinned)",
        "over loopback, no network",
        "processes (--ends)",
        "writes below 16 KiB",
        "(run buffer-grid)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("both ends yours (--role both)"), "{text}");
    data.groups[0].group.factors.set("role", Level::Name("both".into()));
    let asked = View::of(&data, &Settings::default()).answer.holds.join("; ");
    assert!(
        !asked.contains("both ends yours") && asked.contains("(run buffer-grid), socket buffers (run socket-buffers)"),
        "{asked}"
    );
    data.record.plan["ends"] = "processes".into();
    data.record.plan_name = "mine".into();
    let text = screen(&View::of(&data, &Settings::default()));
    assert!(!text.contains("--ends") && !text.contains("buffer-grid"), "{text}");
    // Who reads has no congestion control to set.
    for row in &mut data.groups {
        row.group.factors.set("role", Level::Name("reader".into()));
    }
    let holds = View::of(&data, &Settings::default()).answer.holds.join("; ");
    assert!(holds.contains("other congestion controls of the peer, which sends, than cubic"), "{holds}");
}

#[test]
fn an_interrupted_session_says_that_nothing_was_audited() {
    let mut data = session(&small());
    data.record.plan["audit"] = 0.2.into();
    let audit = |data: &_| View::of(data, &Settings::default()).answer.audit.join("; ");
    assert!(audit(&data).starts_with("not run (no time): "), "{}", audit(&data));
    data.record.status = bytegauge_model::SessionStatus::Incomplete;
    assert!(audit(&data).starts_with("not run (cut off before): "), "{}", audit(&data));
    // A search for a rate is never audited, and lacks nothing without.
    for row in &mut data.groups {
        row.group.factors.set("slo", Level::Name("p99=2ms".into()));
    }
    assert_eq!(audit(&data), "");
}

#[test]
fn what_alone_was_asked_and_not_measured_is_run_again_and_compared_with_nothing() {
    let mut data =
        session(&Plan { read_sizes: vec![4096], write_sizes: vec![4096], transports: vec!["unix"], ..small() });
    data.trials.iter_mut().for_each(|trial| trial.outcome = Outcome::Failed("no room".into()));
    let next = View::of(&data, &Settings::default()).answer.next.join("; ");
    assert!(next.contains("runs it again") && !next.contains("--help"), "{next}");
}

#[test]
fn a_session_that_was_cut_off_says_how_long_the_rest_takes_and_what_had_better_rest_first() {
    let mut data = with_looks(0.1);
    data.record.status = bytegauge_model::SessionStatus::Incomplete;
    let next = |data: &_| View::of(data, &Settings::default()).answer.next;
    let [command, goes_on] = next(&data).try_into().expect("a command and what it does");
    assert!(command.contains(" --resume "), "{command}");
    let time = goes_on.strip_prefix("goes on where it stopped, about ").expect("a time");
    assert!(time.starts_with(|c: char| c.is_ascii_digit()) && time.contains(" more at this pace;"), "{goes_on}");
    data.blocks.iter_mut().for_each(|block| block.surroundings.foreign_cpus = Some(1.2));
    let crowded = next(&data);
    assert!(crowded[0] == "bytegauge doctor" && crowded[2..] == [command, goes_on], "{crowded:?}");
}

/// A session of so much noise, with looks left.
fn with_looks(noise: f64) -> bytegauge_report::SessionData {
    with_looks_over("unix", noise)
}

fn with_looks_over(transport: &'static str, noise: f64) -> bytegauge_report::SessionData {
    let mut data = session(&Plan { transports: vec![transport], noise, confirm_blocks: 8, ..small() });
    for row in &mut data.groups {
        row.facts.insert("looks".into(), serde_json::json!(3));
        row.facts.insert("blocks_fixed".into(), serde_json::json!(8));
    }
    data
}

#[test]
fn what_is_to_be_done_next_can_be_done() {
    let next = |data: &_| View::of(data, &Settings::default()).answer.next.join(" ");
    // Too little noise is proven at once, and too much never.
    let each = (3..10).map(|noise| with_looks(f64::from(noise) * 0.04)).map(|data| (next(&data), data));
    let goes_on = |(said, _): &(String, _)| said.contains("--resume");
    let (said, mut data) = each.into_iter().find(goes_on).expect("looks that help");
    // A session goes on with what it was begun with: --resume takes no other budget. One that was asked by no words of its own, as
    // a part of a survey, goes on by `run`, which takes any.
    assert!(said.starts_with("bytegauge run --resume 12 --until conclusive ") && !said.contains("--time"), "{said}");
    // Where other programs decide, time does not help.
    data.blocks.iter_mut().for_each(|block| block.surroundings.foreign_cpus = Some(1.4));
    let view = View::of(&data, &Settings::default());
    let said = view.answer.next.join(" ");
    assert!(said.contains("while other programs rest") && said.starts_with("bytegauge doctor "), "{said}");
    // They may be somebody else's: then the looks that are left are all that there is.
    assert!(view.answer.next.iter().any(|step| step == "bytegauge run --resume 12 --until conclusive"), "{said}");
    fits(&view);
    assert!(view.answer.head.contains(" · others used 1.4 of 2 CPUs"), "{}", view.answer.head);
}

#[test]
fn a_first_look_that_was_cut_short_leaves_those_that_were_declared() {
    let mut data = with_looks(0.1);
    data.groups.iter_mut().for_each(|row| {
        row.facts.insert("blocks_fixed".into(), serde_json::json!(10));
    });
    let view = View::of(&data, &Settings::default());
    let look = view.groups[0].look.as_ref().unwrap();
    assert_eq!((look.blocks, look.cut_short, look.left_until()), (8, true, Some(40)));
}

#[test]
fn a_pause_before_a_session_goes_on_is_no_measuring() {
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

/// Two transports of which one size is asked, so noisy that little is told apart.
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

#[test]
fn what_is_not_told_apart_stands_beside_the_choice() {
    let view = view(&noisy(0.3));
    let open = |row: &&UseRow| row.standing == Standing::Open && row.tied.is_some();
    let tied: Vec<&UseRow> = view.answer.to_use.rows.iter().filter(open).collect();
    assert!(!tied.is_empty(), "{:?}", view.answer.to_use.rows);
    for row in &tied {
        let group = view.groups.iter().find(|group| row.groups == [group.id.clone()]).expect("its group");
        assert_eq!(row.ties.len() + 1, group.best_set.len(), "{row:?}");
        assert!(!row.ties.contains(&row.choice), "{row:?}");
    }
    let text = screen(&view);
    assert!(text.contains("  or\n") && text.contains("or: not told apart"), "{text}");
    assert!(tied.iter().all(|row| text.contains(row.tied.as_deref().unwrap_or("?"))), "{text}");
    // What is proven needs no other.
    let exact = self::view(&noisy(0.001));
    assert!(exact.answer.to_use.rows.iter().all(|row| row.standing != Standing::Proven || row.ties.is_empty()));
}

#[test]
fn a_program_with_one_constant_is_told_which() {
    let text = screen(&view(&noisy(0.4)));
    assert!(text.contains("\nONE    for all questions: read 256 KiB (at most 4"), "{text}");
    // What every row says needs no line.
    let text = screen(&view(&noisy(0.05)));
    assert!(text.matches(" 256 KiB  sums ").count() == 2 && !text.contains("\nONE "), "{text}");
}

#[test]
fn what_was_confirmed_to_be_slow_is_to_be_avoided() {
    let view = view(&noisy(0.05));
    let lines = &view.answer.avoid;
    assert!(lines.iter().any(|line| line.against == "the best" && line.levels[0].level == "1K"), "{lines:?}");
    for line in lines {
        assert!(line.levels.windows(2).all(|pair| pair[0].dearer_lower >= pair[1].dearer_lower), "{line:?}");
    }
    let text = screen(&view);
    assert!(text.contains(": read 1K ") && text.contains(" % above the best"), "{text}");
}

#[test]
fn groups_are_named_where_they_are_spoken_of() {
    let mut data = session(&noisy(0.001));
    crate::audit::audit(&mut data, "g2", 5, |_| 1.0);
    let text = screen(&View::of(&data, &Settings::default()));
    assert!(text.contains("g1 Unix") && text.contains("g2 TCP"), "{text}");
    assert!(text.contains("AUDIT  holds for g2 in 250 ms trials: "), "{text}");
    let audit = View::of(&data, &Settings::default()).answer.audit;
    assert!(audit.iter().any(|said| said == "not run for g1: no time"), "{audit:?}");
}

/// The noise line and the full text of a session in which every other trial of some cells of `g1` ran at half the speed.
fn at_two_speeds(of: impl Fn(&[CellId]) -> Vec<CellId>) -> (String, String) {
    let mut data = session(&Plan { confirm_blocks: 60, ..noisy(0.001) });
    let of_g1: Vec<_> =
        data.cells.iter().filter(|row| row.cell.group.0 == "g1").map(|row| row.cell.id.clone()).collect();
    for split in of(&of_g1) {
        for trial in data.trials.iter_mut().filter(|trial| trial.cell == split).step_by(2) {
            trial.bytes /= 2;
        }
    }
    let view = View::of(&data, &Settings::default());
    let full = render::terminal::render(&view, &render::TerminalStyle { columns: 100, ..Default::default() });
    (view.answer.noise.join("; "), full)
}

#[test]
fn two_speeds_are_told_with_their_question() {
    let (noise, full) = at_two_speeds(|cells| vec![cells[cells.len() / 2].clone()]);
    assert!(noise.contains("g1 Unix: read ") && noise.contains(" has 2 speeds, "), "{noise}");
    assert!(full.contains(" has 2 speeds: "), "{full}");
}

#[test]
fn how_many_others_have_two_speeds_is_told() {
    let (noise, _) = at_two_speeds(<[CellId]>::to_vec);
    assert!(noise.contains(" has 2 speeds, ") && noise.contains(" other choices)"), "{noise}");
}

#[test]
fn commands_are_whole_lines() {
    let mut data = session(&noisy(0.001));
    data.record.plan["asked"] = serde_json::json!(["run", "buffer-size", "--time", "30s", "--read-size", "4K,64K"]);
    let view = View::of(&data, &Settings::default());
    assert_eq!(view.answer.next[0], "bytegauge run buffer-size --time 30s --read-size 4K,64K");
    assert!(
        view.answer.more.iter().all(|command| command.starts_with("bytegauge report 12 --")),
        "{:?}",
        view.answer.more
    );
    data.record.status = bytegauge_model::SessionStatus::Incomplete;
    let style = render::TerminalStyle {
        columns: 80,
        program: "bytegauge --store /a/long/way/to/where/the/results/of/this/machine/are.db".into(),
        ..Default::default()
    };
    let text = render::screen::render(&View::of(&data, &Settings::default()), &style);
    // However long, a command is not broken.
    let command = format!("NEXT   {} run buffer-size --resume 12\n", style.program);
    assert!(text.contains(&command), "{text}");
    // Who wanted all looks still does.
    data.record.plan["asked"] = serde_json::json!(["run", "buffer-size", "--until", "conclusive", "--seed", "3"]);
    let next = View::of(&data, &Settings::default()).answer.next;
    assert_eq!(next[0], "bytegauge run buffer-size --resume 12 --until conclusive");
}

#[test]
fn a_program_s_words_are_quoted_for_a_shell() {
    let mut data = session(&Plan { transports: vec!["unix"], ..noisy(0.001) });
    data.record.plan["asked"] = serde_json::json!(["check", "--values", "1,2", "--", "sh", "-c", "it's {value}"]);
    let next = View::of(&data, &Settings::default()).answer.next;
    assert_eq!(next[0], r"bytegauge check --values 1,2 -- sh -c 'it'\''s {value}'");
}

/// A group's choice.
fn choice_of(view: &View, group: &str) -> CellId {
    let group = view.groups.iter().find(|one| one.id.0 == group).expect("a group");
    group.recommendation.cell.clone().expect("a choice")
}

#[test]
fn a_median_that_all_trials_together_do_not_reach_has_their_rate_beside_it() {
    let mut data = session(&Plan { transports: vec!["unix"], confirm_blocks: 60, ..noisy(0.001) });
    assert!(View::of(&data, &Settings::default()).answer.to_use.rows.iter().all(|row| row.rate_all.is_none()));
    // In every third block whatever ran was ten times slower, so that all choices are as much worse.
    data.trials.iter_mut().filter(|trial| trial.block % 3 == 0).for_each(|trial| trial.bytes /= 10);
    let view = View::of(&data, &Settings::default());
    let row = &view.answer.to_use.rows[0];
    assert_eq!(row.standing, Standing::Proven, "{row:?}");
    let (all, median) = (row.rate_all.expect("both"), row.rate.expect("a rate"));
    assert!(all < 0.8 * median, "{all} of {median}");
    let text = screen(&view);
    assert!(text.contains("all trials: 2.39 GiB/s"), "{text}");
    fits(&view);
}

#[test]
fn all_trials_that_speak_for_another_choice_are_told_beside_a_proof() {
    let mut data = session(&Plan { transports: vec!["unix"], confirm_blocks: 8, ..noisy(0.001) });
    let choice = choice_of(&View::of(&data, &Settings::default()), "g1");
    // One trial of eight moves next to nothing: typical ones are as good as ever.
    let mut of_choice = data.trials.iter_mut().filter(|trial| trial.cell == choice && trial.stage == Stage::Confirm);
    of_choice.nth(3).expect("a trial").bytes /= 30;
    let view = View::of(&data, &Settings::default());
    let row = &view.answer.to_use.rows[0];
    assert_eq!((row.standing, row.note.as_deref()), (Standing::Proven, Some("all trials against: NOISE")), "{row:?}");
    let noise = view.answer.noise.join("; ");
    assert!(noise.contains("over all trials, slow ones in full, read 64 KiB made "), "{noise}");
    fits(&view);
}

#[test]
fn what_an_earlier_look_showed_and_this_one_does_not_is_said() {
    let mut data = session(&Plan { transports: vec!["unix"], confirm_blocks: 32, ..noisy(0.01) });
    for row in &mut data.groups {
        row.facts.insert("looks".into(), serde_json::json!(3));
        row.facts.insert("blocks_fixed".into(), serde_json::json!(8));
    }
    let view = View::of(&data, &Settings::default());
    let is_out = |view: &View| view.answer.avoid.iter().any(|line| line.levels.iter().any(|one| one.level == "16K"));
    assert!(is_out(&view) && view.groups[0].once_avoided.is_empty(), "{:?}", view.answer.avoid);
    assert!(view.groups[0].recommendation.proven && view.groups[0].once_proven.is_empty());
    let proven = view.groups[0].recommendation.cell.clone().expect("a choice");
    // Since the second look began all others are slower than it.
    let cell = data.cells.iter().find(|row| row.cell.factors.read_size() == Some(16_384));
    let cell = cell.expect("a cell").cell.id.clone();
    let later = data.blocks.iter().filter(|block| block.stage == Stage::Confirm).nth(8).expect("a block").index;
    for trial in data.trials.iter_mut().filter(|trial| trial.cell != cell && trial.block >= later) {
        trial.bytes = trial.bytes * 10 / 17;
    }
    let view = View::of(&data, &Settings::default());
    assert!(view.groups[0].once_avoided.contains(&cell), "{:?}", view.groups[0].once_avoided);
    assert!(!is_out(&view));
    let noise = view.answer.noise.join("; ");
    assert!(noise.contains("to be avoided earlier and not any more") && noise.contains("16 KiB"), "{noise}");
    assert_eq!(view.groups[0].once_proven, [proven]);
    assert!(noise.starts_with("proven earlier and not any more"), "{noise}");
}

#[test]
fn a_rate_that_fell_while_it_was_measured_is_said() {
    let plan = Plan { transports: vec!["unix"], confirm_blocks: 12, ..noisy(0.01) };
    let told = |fall: u64| {
        let mut data = session(&plan);
        let first = data.blocks.iter().find(|block| block.stage == Stage::Confirm).expect("a block").index;
        for trial in data.trials.iter_mut().filter(|trial| trial.stage == Stage::Confirm) {
            trial.bytes = trial.bytes * 100 / (100 + fall * (trial.block - first));
        }
        let view = View::of(&data, &Settings::default());
        assert_eq!(
            (view.answer.to_use.rows[0].moves, screen(&view).contains("~ unsteady: NOISE")),
            (fall > 0, fall > 0)
        );
        view.answer.noise.join("; ")
    };
    assert!(!told(0).contains("first and last third"), "{}", told(0));
    let noise = told(20);
    assert!(
        noise.contains(" fell from ")
            && noise.contains("(first and last third of these 62 s): its median tells of neither"),
        "{noise}"
    );
}

#[test]
fn sizes_of_which_none_is_told_apart_are_all_named() {
    let view = view(&Plan {
        transports: vec!["unix"],
        confirm_blocks: 8,
        read_sizes: vec![65_536, 262_144, 1 << 20],
        ..noisy(0.3)
    });
    let rows: Vec<_> = view.answer.to_use.rows.iter().filter(|row| row.ties.len() == 2).collect();
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row.tied.as_deref().is_some_and(|tied| tied.starts_with("any "))),
        "{rows:?}"
    );
}

#[test]
fn what_a_large_buffer_comes_to_is_said() {
    let text = screen(&view(&noisy(0.05)));
    assert!(text.contains("256K × 1000 connections: 250 MiB"), "{text}");
    let small = screen(&view(&Plan { read_sizes: vec![1024, 16_384], ..noisy(0.05) }));
    assert!(!small.contains("connections: "), "{small}");
}

#[test]
fn what_a_buffer_grew_to_that_is_left_to_the_kernel_is_said() {
    let planted = |seed: u64, bytes: u64| {
        // Two levels of the receive buffer: the better one is left to the kernel.
        let plan = Plan { seed, transports: vec!["tcp"], read_sizes: vec![16_384, 65_536], ..noisy(0.01) };
        let mut data = session(&plan);
        for row in &mut data.cells {
            let asked = row.cell.factors.read_size() == Some(16_384);
            row.cell.factors.set("rcvbuf", if asked { Level::Number(65_536) } else { Level::auto() });
            row.cell.factors.set("read_size", Level::Number(65_536));
        }
        let is_auto =
            |id: &CellId| data.cells.iter().any(|row| row.cell.id == *id && row.cell.factors.get("rcvbuf").is_auto());
        for trial in data.trials.iter_mut().filter(|trial| is_auto(&trial.cell)) {
            let flows = &mut trial.ends.get_mut(EndRole::Sink).expect("a reader").flows;
            flows.iter_mut().for_each(|flow| flow.options = in_force(&[("rcvbuf", bytes)]));
        }
        View::of(&data, &Settings::default())
    };
    let legend = |bytes: u64| {
        // By chance a second measurement may be another one, and then nothing is advised.
        let view = (1..20).map(|seed| planted(seed, bytes)).find(|view| view.answer.to_use.rows[0].within.is_some());
        let view = view.expect("an answer");
        assert_eq!(view.answer.to_use.rows[0].shown, ["auto"]);
        fits(&view);
        view.answer.to_use.memory
    };
    assert_eq!(legend(13 << 20).as_deref(), Some("SO_RCVBUF auto: grew to 13 MiB a connection"));
    assert_eq!(legend(2_199_387).as_deref(), Some("SO_RCVBUF auto: grew to 2.1 MiB a connection"));
    assert_eq!(legend(131_072), None);
}

#[test]
fn a_session_that_overran_its_budget_says_why() {
    let noise = |budget_s: u64, change: &dyn Fn(&mut bytegauge_report::SessionData)| {
        let mut data = session(&small());
        data.record.plan["budget_ns"] = (budget_s * 1_000_000_000).into();
        change(&mut data);
        let view = View::of(&data, &Settings::default());
        fits(&view);
        view.answer.noise.join("; ")
    };
    let said = "took 62 s of the 30 s given: a block is every choice once, and what was begun is finished";
    assert!(noise(30, &|_| ()).starts_with(said), "{}", noise(30, &|_| ()));
    assert!(!noise(60, &|_| ()).contains("measured whole"), "{}", noise(60, &|_| ()));
    // Blocks that were asked for take what they take.
    let asked = noise(30, &|data| data.record.plan["blocks"] = 8.into());
    assert!(!asked.contains("measured whole"), "{asked}");
    // What gave way is said as well.
    let notes = ["9 of 72 trials of calibration", "1 of 4 rounds of screening, 2 of 6 finalists of the screening"];
    let note = |what: &&str| format!("slower than planned, so only {what}");
    let cut = noise(60, &|data| data.record.notes.extend(notes.iter().map(note)));
    assert!(cut.starts_with(&note(&notes.join(", ").as_str())), "{cut}");
}

#[test]
fn what_is_left_takes_as_long_as_the_blocks_before_it_and_an_audit_where_there_is_one() {
    let next = |transport: &'static str| {
        let time = (1..40).find_map(|noise| {
            let mut data = with_looks_over(transport, f64::from(noise) * 0.02);
            data.record.plan["audit"] = 0.3.into();
            let next = View::of(&data, &Settings::default()).answer.next;
            next.iter().find_map(|step| {
                Some(step.strip_prefix("up to about ")?.split_once(" more at this pace;")?.0.to_owned())
            })
        });
        time.expect("looks that help")
    };
    // 24 blocks of 0.42 s; and of all that, three tenths.
    assert_eq!((next("unix"), next("/dev/zero")), ("15 s".to_owned(), "11 s".to_owned()));
}

#[test]
fn a_bound_of_nothing_is_called_the_best() {
    let view = view(&noisy(0.001));
    assert!(view.answer.to_use.rows.iter().all(|row| row.within == Some(0.0)), "{:?}", view.answer.to_use.rows);
    let text = screen(&view);
    assert!(
        text.contains("  best\n") && text.contains("best: none is better (95 %)") && !text.contains(" 0 %"),
        "{text}"
    );
}

#[test]
fn a_table_has_one_unit_and_says_why_intervals_may_overlap() {
    let view = view(&Plan { transports: vec!["unix"], ..noisy(0.01) });
    let style = render::TerminalStyle { columns: 80, ..Default::default() };
    let alone = render::terminal::group_alone(&view, "g1", &style).expect("a group");
    let full = render::terminal::full(&view, &style);
    for text in [alone, full] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("intervals may overlap and the best need not have the largest median"), "{text}");
        // 1 KiB moves some hundreds of MiB a second, 256 KiB some GiB.
        assert!(text.contains("GiB/s") && !text.contains("MiB/s"), "{text}");
    }
}

#[test]
fn a_session_with_looks_left_is_not_just_complete() {
    let check = |fixed: Option<u64>, expected: &str| {
        let mut data = with_looks(0.1);
        for row in &mut data.groups {
            if let Some(blocks) = fixed {
                row.facts.insert("blocks_fixed".into(), blocks.into());
            }
        }
        let style = render::TerminalStyle { columns: 80, ..Default::default() };
        let full = render::terminal::render(&View::of(&data, &Settings::default()), &style);
        assert!(full.lines().next().is_some_and(|line| line.ends_with(expected)), "{expected}: {full}");
    };
    check(None, " · judgement 1 of 3 complete");
    // The clock stopped it before it had so many.
    check(Some(100), " · judgement 1 of 3 complete, with fewer blocks than planned");
}

#[test]
fn other_programs_that_the_head_tells_of_are_not_nothing() {
    let mut data = session(&Plan { steal: 0.0, noise: 0.001, ..small() });
    for block in &mut data.blocks {
        block.surroundings.foreign_cpus = Some(1.8);
    }
    let view = View::of(&data, &Settings::default());
    assert!(view.answer.head.contains("others used 1.8 of 2 CPUs"), "{}", view.answer.head);
    assert!(!view.answer.noise.iter().any(|line| line.contains("nothing was noticed")), "{:?}", view.answer.noise);
}

#[test]
fn an_imported_session_is_measured_here_by_a_plan_of_its_kind() {
    let next = |workload: &str| {
        let mut data = session(&small());
        data.record.status = bytegauge_model::SessionStatus::Imported;
        data.record.workload = workload.into();
        View::of(&data, &Settings::default()).answer.next
    };
    assert_eq!(next("stream"), ["bytegauge run buffer-size", "measures here"]);
    assert_eq!(next("call"), ["bytegauge run receive-buffer", "measures here"]);
}

#[test]
fn what_is_shown_of_a_reader_that_drains_reads_the_same_everywhere() {
    let view = view(&Plan { profiles: vec!["drain"], noise: 0.001, ..small() });
    assert!(view.answer.to_use.rows.iter().all(|row| row.standing == Standing::Proven), "{:?}", view.answer.to_use);
    let full = render::terminal::full(&view, &render::TerminalStyle::default());
    assert!(!full.lines().any(|line| line.starts_with("○ ")), "{full}");
    assert!(!full.contains("othing is recommended"), "{full}");
    assert!(full.contains("\u{2713} ") && full.contains("That holds for such a reader alone"), "{full}");
}

#[test]
fn a_paragraph_that_is_too_long_loses_whole_parts() {
    let mut view = view(&small());
    let part = |name: &str| format!("{name} {}", "says so ".repeat(30).trim_end());
    view.answer.noise = vec![part("first"), part("second"), part("third")];
    fits(&view);
    let text = screen(&view);
    let noise: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("NOISE")).collect();
    let said =
        noise.iter().take_while(|line| !line.is_empty()).map(|line| line[7..].trim()).collect::<Vec<_>>().join(" ");
    assert_eq!(said, format!("{}; 2 more: --full", part("first")), "{text}");
    let full = render::terminal::full(&view, &render::TerminalStyle::default());
    assert!(full.contains("third says so"), "{full}");
}

#[test]
fn what_to_avoid_first_is_named_however_little_room_there_is() {
    let mut view = view(&noisy(0.05));
    let line = view.answer.avoid[0].clone();
    // A grid takes room that no row gives back.
    let axis = |factor: &str, levels: usize| GridAxis {
        factor: factor.into(),
        levels: (1..=levels).map(|level| level.to_string()).collect(),
    };
    let cells = vec![vec![Some(0); 2]; 18];
    view.answer.to_use.grid = Some(GridView { down: axis("flows", 18), across: axis("request", 2), cells });
    view.answer.noise = vec!["noise ".repeat(30)];
    view.answer.holds = vec!["holds ".repeat(30)];
    for count in [1, 2, 30] {
        view.answer.avoid = vec![line.clone(); count];
        let text = screen(&view);
        assert!(text.contains(&format!("{}: read 1K ", line.question)), "{text}");
    }
}
