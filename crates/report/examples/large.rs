//! Times a report of a large session, from the store to the page, and prints the report of a small one:
//! `large [TRIALS [FINALISTS]]`, `large --show`. The last line is the seconds from the store to all four texts.
// Printing is all that it does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/all/support/mod.rs"]
mod support;

use std::time::Instant;

use bytegauge_report::{SessionData, Settings, View, render};
use support::Plan;

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "2000".into());
    if argument == "--show" {
        let plan = Plan { transports: vec!["unix"], placements: vec!["cross-core", "same-cpu"], ..Plan::default() };
        let view = View::of(&support::session(&plan), &Settings::default());
        let style = render::TerminalStyle {
            columns: 110,
            colour: true,
            store: Some("results.db".into()),
            ..Default::default()
        };
        print!("{}", render::terminal::full(&view, &style));
        return;
    }
    let trials: u64 = argument.parse().expect("a number of trials");
    let finalists: usize = std::env::args().nth(2).map_or(6, |text| text.parse().expect("a number of finalists"));
    // Six groups of 20 screened cells; each finalist, an A/A control and a floor in every block of confirmation.
    let plan = Plan { confirm_blocks: trials / (6 * (finalists as u64 + 2)), finalists, ..Plan::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let (store, id) = support::stored(&support::session(&plan), folder.path());
    let start = Instant::now();
    let session = SessionData::load(&store, id).expect("the session");
    let loaded = start.elapsed();
    let start = Instant::now();
    let view = View::of(&session, &Settings::default());
    let settled = start.elapsed();
    let texts = [
        render::json::render(&view),
        bytegauge_formats::csv::render(&view),
        bytegauge_formats::markdown::render(&view),
        render::terminal::full(&view, &render::TerminalStyle::default()),
    ];
    let printed = start.elapsed() - settled;
    let bytes: usize = texts.iter().map(String::len).sum();
    eprintln!(
        "{} trials: load {loaded:?}, view {settled:?}, four renderings {printed:?} ({bytes} bytes)",
        session.trials.len()
    );
    println!("{:.3}", (loaded + settled + printed).as_secs_f64());
}
