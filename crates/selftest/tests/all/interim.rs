//! When further analyses are useless, on trials whose truth is known.

use bytegauge_selftest::sim::{Noise, Scenario};
use bytegauge_stats::group::{Method, analyse};
use bytegauge_stats::interim::{LOOKS, level, settled};

#[test]
fn settled_needs_a_result_or_no_prospect() {
    let method = Method { level: level(0.95, LOOKS), ..Method::default() };
    let judged = |effects: &[f64], spread: f64, twin_off: f64| {
        let mut scenario = Scenario::new(effects.to_vec(), Noise::Normal, spread);
        scenario.twin_of = Some(0);
        let mut input = scenario.group(40, 2);
        input.blocks.iter_mut().for_each(|block| block.twin_cost = block.twin_cost.map(|cost| cost * twin_off.exp()));
        analyse(&input, &method)
    };
    let (proven, open) = (judged(&[0.0, 0.2], 0.01, 0.0), judged(&[0.0, 0.0], 0.5, 0.0));
    let alarmed = judged(&[0.0, 0.0], 0.1, 0.4);
    assert!(alarmed.twin_alarm);
    assert!(settled(std::slice::from_ref(&proven), &method) && settled(&[proven.clone(), alarmed], &method));
    assert!(!settled(&[proven, open], &method));
}
