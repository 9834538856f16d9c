//! How many more blocks a result needs, on trials whose truth is known.

use bytegauge_selftest::sim::{Noise, Scenario};
use bytegauge_stats::group::{Method, analyse};
use bytegauge_stats::interim::more_blocks;
use bytegauge_stats::rng::seeded;

fn check(effects: &[f64], spread: f64, cell: usize, expected: Option<(usize, usize)>) {
    let scenario = Scenario::new(effects.to_vec(), Noise::Normal, spread);
    let method = Method::default();
    let verdict = analyse(&scenario.group(20, 3), &method);
    let got = more_blocks(&verdict, cell, &method);
    match (got, expected) {
        (None, None) => {}
        (Some(got), Some((least, most))) if (least..=most).contains(&got) => {}
        _ => panic!("{got:?} is not in {expected:?}: {verdict:?}"),
    }
}

#[test]
fn known_cases() {
    check(&[0.0, 0.0], 0.01, 0, Some((0, 0)));
    check(&[0.0, 0.2], 0.01, 1, None);
    // se = 0.1·√2/√20 = 3.2 %, c about 2: the margin of 4.9 % needs more blocks. The number depends on the seed.
    check(&[0.0, 0.0, 0.0], 0.1, 1, Some((1, 200)));
}

#[test]
fn contradicted_cells_get_no_forecast() {
    let method = Method::default();
    let mut input = Scenario::new(vec![0.0, 0.0], Noise::Normal, 0.05).group(400, 3);
    assert!(more_blocks(&analyse(&input, &method), 1, &method).is_some());
    // One trial in ten of the second cell is far slower: typical trials barely change, plain means do.
    let mut random = seeded(3, 9);
    for block in &mut input.blocks {
        if random.uniform() < 0.1 {
            block.cost[1] = block.cost[1].map(|cost| cost * 5.0);
        }
    }
    let after = analyse(&input, &method);
    assert!(after.excess[1].is_some_and(|excess| excess < method.ln_margin()), "{after:?}");
    assert_eq!((after.contradicted.as_slice(), more_blocks(&after, 1, &method)), (&[1][..], None), "{after:?}");
}
