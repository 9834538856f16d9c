//! The result of a mesh as one page for a browser: the built page of `page/`, with the numbers inside. It needs no network and
//! allows none.
//!
//! A mesh of 1,000 hosts has a million cells: each has two bytes for its rate and one for its interval, both on a logarithmic
//! scale, so that the page stays below 5 MB.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytegauge_model::escape;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Rank;
use crate::files::MeshData;
use crate::rate_model::MeshFit;
use crate::result::{MeshNoise, MeshResult, SlowLink};
use crate::row::MeshRow;
use crate::summary::MeshSummary;

/// The page as `page/` builds it: `cargo xtask page`.
const TEMPLATE: &str = include_str!("../page/mesh.html");

/// The place of the numbers.
const SLOT: (&str, &str) = ("<script type=\"application/json\" id=\"mesh\">", "null</script>");

/// Bytes of all cells in a page; options beyond them are in the Parquet files only.
const CELLS_MAX: usize = 3 << 20;

/// The largest code of a rate: 0 is a pair without a rate.
const RATE_CODES: f64 = 65_534.0;

#[derive(Serialize)]
struct PageHost {
    rank: Rank,
    name: String,
    rack: String,
}

/// A round, from its first trial to the end of its last one.
#[derive(Default, Serialize)]
struct PageRound {
    replicate: u32,
    round: u32,
    /// From the begin of the mesh, nanoseconds.
    begin_ns: u64,
    end_ns: u64,
    measured: u32,
    missing: u32,
}

/// The page.
pub fn render(data: &MeshData, summary: &MeshSummary) -> String {
    let hosts = hosts(data);
    let places: BTreeMap<Rank, usize> = hosts.iter().enumerate().map(|(at, host)| (host.rank, at)).collect();
    let each = (3 * hosts.len() * hosts.len()).max(1);
    let shown = (CELLS_MAX / each).clamp(1, data.settings.options.len().max(1));
    let options = data.settings.options.iter().enumerate().take(shown);
    let options: Vec<Value> = options.map(|(at, name)| option(data, summary, (at, name), &places)).collect();
    // Hosts, an external server included, are in the order of their racks, and then of their ranks; pairs are positions in it.
    let page = json!({
        "pattern": data.settings.pattern,
        "workload": data.settings.workload.to_string(),
        "margin": data.settings.margin,
        "span_ns": summary.span_ns,
        "parts": summary.parts,
        "measured": summary.measured,
        "ranks": data.settings.ranks,
        "hosts": hosts,
        "options_left": data.settings.options.len() - options.len(),
        "options": options,
        "rounds": rounds(data),
        "missing": summary.missing,
    });
    let json = page.to_string();
    // Within a string of JSON `<` is escaped, so that no name can end the element.
    let json = json.replace('<', "\\u003c");
    TEMPLATE.replacen(&[SLOT.0, SLOT.1].concat(), &format!("{}{json}</script>", SLOT.0), 1)
}

fn hosts(data: &MeshData) -> Vec<PageHost> {
    let shown = |text: &str| escape::line(text).into_owned();
    let host = |rank: Rank| PageHost {
        rank,
        name: data.host(rank).map_or_else(|| format!("rank {rank}"), shown),
        rack: data.hosts.get(&rank).and_then(|hello| hello.rack.as_deref()).map(shown).unwrap_or_default(),
    };
    let mut hosts: Vec<PageHost> = (0..data.settings.parties()).map(host).collect();
    hosts.sort_by(|one, other| one.rack.cmp(&other.rack).then(one.rank.cmp(&other.rank)));
    hosts
}

/// The numbers of an option.
fn option(data: &MeshData, summary: &MeshSummary, (at, name): (usize, &str), places: &BTreeMap<Rank, usize>) -> Value {
    let of_clients;
    let result = match summary.results.get(at) {
        Some(result) => result,
        // Clients of one host at the same time: their rates are shown, and nothing is judged.
        None => {
            let rows = data.rows.iter().filter(|row| row.option == Some(at as u32));
            let samples: Vec<_> = rows.filter_map(MeshRow::sample).collect();
            of_clients = MeshResult { fit: MeshFit::of(&samples, &[]), ..MeshResult::default() };
            &of_clients
        }
    };
    let place = |rank: Rank| places.get(&rank).copied();
    let (scale, rates, reaches) = cells(&result.fit, result.noise.as_ref(), places);
    let link = |link: &SlowLink| {
        let [sender, receiver] = [place(link.sender)? as u32, place(link.receiver)? as u32];
        Some(SlowLink { sender, receiver, shift: link.shift })
    };
    let mut shifts = vec![None; places.len()];
    for (rank, shift) in &result.hosts {
        if let Some(at) = place(*rank) {
            shifts[at] = Some(*shift);
        }
    }
    json!({
        "name": name,
        // The typical rate.
        "typical": result.typical_rate(),
        // Logarithms of the smallest and the largest rate, codes 1 and 65,535.
        "scale": scale,
        // Codes of rates, by sender and then by receiver: 16 bits, little-endian, base64.
        "rates": BASE64.encode(rates),
        // Codes of intervals in the same order: 8 bits, base64. Code c is 0.001 × 2^((c − 1) / 16) on the log scale to either side; 0 is
        // unknown.
        "reaches": BASE64.encode(reaches),
        "shifts": shifts,
        "slow_hosts": result.slow_hosts.iter().filter_map(|host| place(host.rank)).collect::<Vec<_>>(),
        // By positions.
        "slow_links": result.slow_links.iter().filter_map(link).collect::<Vec<_>>(),
    })
}

/// The scale, and the codes of rates and intervals.
fn cells(fit: &MeshFit, noise: Option<&MeshNoise>, places: &BTreeMap<Rank, usize>) -> ([f64; 2], Vec<u8>, Vec<u8>) {
    let n = places.len();
    let ends = |(low, high): (f64, f64), rate: f64| (low.min(rate), high.max(rate));
    let (low, high) = fit.pairs.iter().map(|pair| pair.ln_rate).fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    let (mut rates, mut reaches) = (vec![0; 2 * n * n], vec![0; n * n]);
    for pair in &fit.pairs {
        let (Some(sender), Some(receiver)) = (places.get(&pair.sender), places.get(&pair.receiver)) else { continue };
        let at = sender * n + receiver;
        let share = if high > low { (pair.ln_rate - low) / (high - low) } else { 0.0 };
        let code = 1 + (share * RATE_CODES).round() as u16;
        rates[2 * at..2 * at + 2].copy_from_slice(&code.to_le_bytes());
        reaches[at] = noise.map_or(0, |noise| reach_code(noise.reach_of(pair)));
    }
    let scale = if low.is_finite() { [low, high] } else { [0.0, 0.0] };
    (scale, rates, reaches)
}

/// The code of a distance on the log scale.
fn reach_code(reach: f64) -> u8 {
    let steps = 16.0 * (reach.max(1e-9) / 0.001).log2();
    (1.0 + steps.round()).clamp(1.0, 255.0) as u8
}

fn rounds(data: &MeshData) -> Vec<PageRound> {
    let measured = || data.rows.iter().filter(|row| row.rate.is_some());
    let first_ns = measured().map(|row| row.started_unix_ns).min().unwrap_or(0);
    let mut rounds: BTreeMap<u32, PageRound> = BTreeMap::new();
    for row in &data.rows {
        let place = row.place;
        let round = rounds.entry(place.round).or_insert_with(|| PageRound {
            replicate: place.replicate,
            round: place.round,
            begin_ns: u64::MAX,
            ..PageRound::default()
        });
        if row.rate.is_none() {
            round.missing += 1;
            continue;
        }
        let begin_ns = row.started_unix_ns.saturating_sub(first_ns);
        round.measured += 1;
        round.begin_ns = round.begin_ns.min(begin_ns);
        round.end_ns = round.end_ns.max(begin_ns + row.window_ns);
    }
    let mut rounds: Vec<PageRound> = rounds.into_values().collect();
    for round in rounds.iter_mut().filter(|round| round.measured == 0) {
        round.begin_ns = 0;
    }
    rounds
}

#[cfg(test)]
mod tests;
