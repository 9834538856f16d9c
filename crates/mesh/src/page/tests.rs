use bytegauge_model::Outcome;
use serde_json::Value;

use super::*;
use crate::message::RankHello;
use crate::row::{MeshRow, SlotPlace};
use crate::schedule::MeshPattern;
use crate::schedule::MeshSchedule;
use crate::settings::MeshSettings;

/// A mesh of all pairs in which rank 1 sends at half of the rate.
fn data(ranks: u32) -> MeshData {
    let settings = MeshSettings::of_pairs(ranks);
    let hello = |rank: Rank| RankHello {
        rank,
        size: ranks,
        program: "0".into(),
        host: format!("node{rank}</script>"),
        rack: Some(format!("rack{}", rank % 2)),
        agent: ([192, 0, 2, 1], 1).into(),
    };
    let schedule = MeshSchedule::new(ranks, MeshPattern::Pairs, 1, 1);
    let mut rows = Vec::new();
    for (id, slot) in schedule.slots() {
        let place = SlotPlace::of(id, slot, slot.clients[0]);
        for sender in [slot.hub, slot.clients[0]] {
            let row = MeshRow::without_numbers(place, Outcome::Measured, 1_000 * u64::from(slot.round));
            let scatter = 1.0 + f64::from(id % 7) / 1_000.0;
            let rate = scatter * if sender == 1 { 5e8 } else { 1e9 };
            rows.push(MeshRow { option: Some(0), sender: Some(sender), rate: Some(rate), window_ns: 900, ..row });
        }
    }
    let hosts = (0..ranks).map(|rank| (rank, hello(rank))).collect();
    MeshData { settings, hosts, unfinished: Vec::new(), rows }
}

/// The numbers in a page.
fn numbers(page: &str) -> Value {
    let (_, rest) = page.split_once(SLOT.0).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_template_has_a_place_for_the_numbers() {
    assert_eq!(TEMPLATE.matches(&[SLOT.0, SLOT.1].concat()).count(), 1);
}

#[test]
fn cells_are_in_the_order_of_racks() {
    let data = data(6);
    let page = numbers(&render(&data, &MeshSummary::of(&data)));
    let names: Vec<&str> =
        page["hosts"].as_array().unwrap().iter().map(|host| host["rack"].as_str().unwrap()).collect();
    assert_eq!(names, ["rack0", "rack0", "rack0", "rack1", "rack1", "rack1"]);
    let option = &page["options"][0];
    let codes: Vec<u16> = BASE64
        .decode(option["rates"].as_str().unwrap())
        .unwrap()
        .chunks(2)
        .map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
        .collect();
    let [low, high] = [&option["scale"][0], &option["scale"][1]].map(|end| end.as_f64().unwrap());
    let rate = |at: usize| (low + f64::from(codes[at] - 1) / RATE_CODES * (high - low)).exp();
    // Rank 1 is the first host of the second rack.
    assert!(codes[3 * 6 + 3] == 0 && (rate(3 * 6) / 5e8 - 1.0).abs() < 0.01 && (rate(3) / 1e9 - 1.0).abs() < 0.01);
    assert_eq!(option["slow_hosts"], serde_json::json!([3]));
    assert_eq!(page["rounds"].as_array().unwrap().len(), 5);
}

#[test]
fn a_name_ends_no_element() {
    let data = data(4);
    let page = render(&data, &MeshSummary::of(&data));
    assert!(page.contains("node1\\u003c/script>") && !page.contains("node1</script>"));
}

#[test]
fn a_thousand_hosts_take_less_than_5_mb() {
    let data = data(1_000);
    let page = render(&data, &MeshSummary::of(&data));
    assert!(page.len() < 5_000_000, "{}", page.len());
}
