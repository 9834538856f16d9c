//! Reports of inconclusive results, and of options that stall.

use crate::phrases;
use crate::support::{Plan, session};
use bytegauge_model::{BlockRecord, CellId, CellKind, Outcome, Stage, Trial};

use bytegauge_report::results::OptionStatus;
use bytegauge_report::{Report, SessionData, Settings};

fn view(plan: &Plan) -> Report {
    Report::of(&session(plan), &Settings::default())
}

/// Two transports, four sizes of reads, with this noise.
fn noisy(noise: f64) -> Plan {
    Plan {
        transports: vec!["unix", "tcp"],
        profiles: vec!["sum"],
        read_sizes: vec![1024, 16_384, 65_536, 262_144],
        write_sizes: vec![65_536],
        finalists: 4,
        confirm_blocks: 12,
        noise,
        ..Plan::default()
    }
}

#[test]
fn an_inconclusive_test_names_a_narrow_interval() {
    let mut reported = 0;
    for seed in 1..=12 {
        let view = view(&Plan { seed, ..noisy(0.3) });
        for group in view.groups.iter().filter(|group| !group.recommendation.proven) {
            let Some(named) = group.recommendation.bound else { continue };
            let others = view.cells_of(&group.id).filter(|cell| !group.spoken_against.contains(&cell.id));
            let closest = others.filter_map(|cell| cell.above_best_upper).fold(f64::INFINITY, f64::min);
            // A middle size is named up to 1.5 times the narrowest interval, in ln.
            let times = named.ln_1p() / closest.ln_1p();
            assert!(times <= 1.5, "{seed} {}: {named} of the named option, {closest}", group.id);
            let cell = view.cell(group.recommendation.cell.as_ref().expect("an option")).expect("its cell");
            let is_middle = cell.level("read_size").number().is_some_and(|size| size >= 64 << 10);
            assert!(is_middle || times <= 1.0, "{seed} {}", group.id);
            reported += 1;
        }
    }
    assert!(reported > 12, "{reported}");
}

/// Adds confirmation trials of a cell in which no byte arrived, each in a block that broke off.
fn with_stalls(data: &mut SessionData, cell: &CellId, stalls: u64) {
    let of_cell = |trial: &&Trial| trial.cell == *cell && trial.stage == Stage::Confirm;
    let trial = data.trials.iter().rfind(of_cell).expect("a trial").clone();
    let record = data.blocks.iter().find(|block| block.index == trial.block).expect("its block").clone();
    for more in 1..=stalls {
        let index = 1_000_000 + more + data.trials.len() as u64;
        let outcome = Outcome::NothingMoved("planted".into());
        data.trials.push(Trial { block: index, bytes: 0, outcome, ..trial.clone() });
        data.blocks.push(BlockRecord { index, complete: false, ..record.clone() });
    }
}

#[test]
fn an_option_that_stalls_is_not_the_best() {
    let plan = Plan { transports: vec!["unix"], ..noisy(0.02) };
    let mut data = session(&plan);
    let of = |data: &SessionData| Report::of(data, &Settings::default());
    let before = of(&data);
    let group = &before.groups[0];
    let named = group.recommendation.cell.clone().expect("a choice");
    assert!(group.recommendation.proven, "{:?}", group.recommendation);
    assert_eq!(phrases(&before, "harm/stalled"), "");
    // Once is no property of an option: the machine may have paused.
    with_stalls(&mut data, &named, 1);
    let once = of(&data);
    assert!(once.groups[0].recommendation.proven && phrases(&once, "harm/stalled").is_empty());
    with_stalls(&mut data, &named, 1);
    let after = of(&data);
    let own = &after.groups[0].recommendation;
    assert!(own.cell.as_ref() != Some(&named) || !own.proven, "{own:?}");
    let cell = after.cell(&named).expect("its cell");
    let Some(stalled) = cell.stalled else { panic!("{cell:?}") };
    // The trials of its A/A control are included.
    let twin = data.cells.iter().any(|row| row.cell.twin_of.as_ref() == Some(&named));
    assert_eq!((stalled.trials, stalled.of), (2, if twin { 26 } else { 14 }));
    let text = phrases(&after, "harm/stalled");
    assert!(text.contains("no data moved in ") && text.contains(" of its trials"), "{text}");
    // Where all of them stall no option is the best.
    let all: Vec<CellId> =
        data.cells.iter().filter(|row| row.cell.kind == CellKind::Candidate).map(|row| row.cell.id.clone()).collect();
    let confirmed = |id: &&CellId| data.trials.iter().any(|trial| trial.cell == **id && trial.stage == Stage::Confirm);
    let confirmed: Vec<CellId> = all.iter().filter(confirmed).cloned().collect();
    confirmed.iter().for_each(|id| with_stalls(&mut data, id, 2));
    let open = of(&data);
    assert!(!open.groups[0].recommendation.proven);
    assert!(open.tests[0].options.iter().all(|option| option.status != OptionStatus::Use), "{:?}", open.tests[0]);
}
