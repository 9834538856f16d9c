//! What the harness costs beside a bare loop in C: the same reads and writes between two threads, and nothing else.
//!
//! The floor in a report is that of a loop that moves nothing, so it holds the bookkeeping alone; what else may differ
//! from a program of the user's (how calls are made, caches, threads) is in this ratio.

use anyhow::{Context, Result, ensure};
use bytegauge_model::{Bytes, EndRole};

use super::arm::{Found, GRACE_SECONDS, Place, numbers, seconds, word};
use super::bench::Bench;
use super::compare::Aim;
use super::foreign::STREAM_LOOP;
use super::pairs::{Measure, Player, Rival, Rivalry, Rivals};
use super::process;

pub const COMPARISON: Rivalry = Rivalry {
    heading: "A stream, beside the same loop in C",
    measures: &[
        Measure::rate("MiB/s", |rate| format!("{:.0}", rate / f64::from(1 << 20))),
        Measure::cost("CPU time of the reader for a read, ns", |cost_s| format!("{:.0}", cost_s * 1e9)),
    ],
    pairs,
    arms: &[("c", in_c), ("ours", ours)],
    method: "- One thread writes, one reads, on two cores whose parts a coin deals in every run; both read and write by so many \
             bytes. The C loop looks at the clock every 64 reads; ours once a millisecond. CPU time is that of the reading \
             thread by its own clock, over its reads.\n",
};

const AIM: Aim = Aim { text: "our loop moves at least 0.97 of what the one in C does", at_least: 0.97 };

/// Bytes of a read and of a write.
const SIZES: [u64; 4] = [64, 4 << 10, 64 << 10, 1 << 20];

fn pairs(bench: &Bench) -> Result<Rivals> {
    let program = STREAM_LOOP.built()?.display().to_string();
    let settings = ["unix", "tcp"].into_iter().flat_map(|transport| SIZES.map(|size| (transport, size)));
    let pair = |(transport, size): (&str, u64)| {
        let words = [transport.to_owned(), size.to_string(), bench.effort.seconds.to_string()];
        let of_c: Vec<String> = [program.clone()].into_iter().chain(words.clone()).collect();
        Rival {
            what: format!("{transport}, {}", Bytes(size)),
            theirs: Player::new("C", "c", &of_c),
            ours: Player::new("bytegauge", "ours", &words),
            aims: &[Some(AIM), None],
        }
    };
    Ok(Rivals {
        pairs: settings.take(if bench.effort.quick { 1 } else { usize::MAX }).map(pair).collect(),
        ..Rivals::default()
    })
}

/// The foreign loop prints bytes per second, and the reader's CPU time for a read, nanoseconds.
fn in_c(place: &mut Place, words: &[&str]) -> Result<Found> {
    let cpus = place.cpus()?;
    let mut command = process::bounded(word(words, 0)?, seconds(words, 3)? + GRACE_SECONDS);
    command.args(&words[1..]).args([cpus.client, cpus.server].map(|cpu| cpu.to_string()));
    let output = process::output(&mut command, None)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, said.trim());
    let [rate, cpu_ns] = numbers(&String::from_utf8_lossy(&output.stdout))?;
    Ok(Found { rate, cost_s: Some(cpu_ns / 1e9) })
}

fn ours(place: &mut Place, words: &[&str]) -> Result<Found> {
    let (transport, size, seconds) = (word(words, 0)?, word(words, 1)?, format!("{}s", seconds(words, 2)?));
    let mut args = vec!["stream", "--transport", transport, "--read-size", size, "--write-size", size];
    args.extend(["--placement", "cross-core", "--profile", "drain", "--duration", &seconds, "--blocks", "1"]);
    let session = place.ours.session(&args, None)?;
    let sink = session.confirmed().find_map(|(_, trial)| trial.end(EndRole::Sink));
    let sink = sink.filter(|sink| sink.calls > 0).context("the reader reported nothing")?;
    Ok(Found { rate: session.rate()?, cost_s: Some(sink.cpu_time_ns() as f64 / sink.calls as f64 / 1e9) })
}
