//! The test that fits the observed behaviour of a program: a plan with its conditions, and the command that tries sizes in the program itself.
//!
//! Pure: turns observations into text. Every assumption is listed.
//!
//! Long because a third of it are the tests, each with its plan.

use bytegauge_model::Bytes;
use serde::Serialize;

use crate::call_counts::SideView;
use crate::descriptor::Leads;
use crate::observations::{Diagnosed, EndView, Observed, diagnosed};
use crate::tune_command::{SIZE_MAX, Suggested};

/// Sizes that are always compared, in addition to the program's own.
const SIZES: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// One direction counts as the only one when it moves at least this multiple of the other's bytes.
const ONE_WAY: u64 = 4;

/// At least this many bytes in one or two exchanges of a connection are a stream, whatever the reply at its end.
const LONG: u64 = 1 << 20;

/// Connections with a request each that are a habit of the program.
const CONNECTIONS_MIN: u64 = 3;

/// Exchanges on a connection that are few.
const FEW: u64 = 2;

/// A pipe that moves less than 1/100 of the most bytes is ignored.
const ASIDE: u64 = 100;

/// Two sides pass on the same bytes when they differ by less than this share.
const SAME: f64 = 0.25;

/// The program's role in the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramKind {
    /// It reads what its peer writes.
    Reader,
    /// It writes what its peer reads.
    Writer,
    /// It does both, each for itself.
    Both,
    /// It answers requests.
    Server,
    /// It makes requests.
    Client,
    /// It passes on what it reads.
    Relay,
    /// It reads a file or a device.
    FileReader,
    /// It moves bytes in a way that no test covers.
    Other,
}

/// The test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DerivedTest {
    /// The program's role.
    pub kind: ProgramKind,
    /// One sentence: the program's behaviour, and the question that the test answers.
    pub summary: String,
    /// Assumptions of the plan that could not be observed.
    pub assumed: Vec<String>,
    /// The plan, as `bytegauge run` takes it; absent if no test fits.
    pub plan: Option<String>,
    /// The command that tests the recommendation on the program itself.
    #[serde(flatten)]
    pub tune: Suggested,
    /// What its connections wait for.
    pub waits: Vec<Diagnosed>,
}

impl DerivedTest {
    /// A test of a kind of program, which uses buffers of this size at this end: without a plan.
    fn new(
        kind: ProgramKind,
        observed: &Observed,
        used: Option<(&EndView, u64)>,
        summary: impl Into<String>,
    ) -> DerivedTest {
        let (summary, tune) = (summary.into(), Suggested::of(observed, used));
        DerivedTest { kind, summary, assumed: Vec::new(), plan: None, tune, waits: Vec::new() }
    }

    /// The test for the observed behaviour. `name` is the plan's.
    pub fn of(observed: &Observed, name: &str) -> DerivedTest {
        let most = observed.ends.iter().filter(|end| !end.start_up).map(EndView::bytes).max().unwrap_or(0);
        // Ignore messages that a program prints, or that a shell reads from its helpers.
        let aside = |end: &EndView| end.leads.transport() == Some("pipe") && end.bytes() < most / ASIDE;
        let is_joined = |end: &&EndView| end.leads.transport().is_some() && !aside(end);
        let joined: Vec<&EndView> = observed.ends.iter().filter(is_joined).collect();
        let mut asked = match joined.first() {
            Some(main) => over_a_path(observed, main, &joined),
            None => over_files(observed),
        };
        asked.waits = joined.first().map_or_else(Vec::new, |main| diagnosed(observed, main));
        if let Some(plan) = &mut asked.plan {
            plan.insert_str(0, &heading(observed, name, &asked.summary));
        }
        asked
    }
}

fn heading(observed: &Observed, name: &str, summary: &str) -> String {
    let plain: String = summary.chars().filter(|c| !matches!(c, '"' | '\\' | '\n')).collect();
    format!(
        "# Made by `bytegauge observe` from {}, in {} samples. Edit it if needed; `bytegauge run THIS-FILE` runs it.\n\
         name = \"{name}\"\nsummary = \"{plain}\"\ntime = \"60s\"\n",
        observed.program.chars().filter(|c| c.is_ascii_graphic() && *c != '"').collect::<String>(),
        observed.cost.samples,
    )
}

fn bytes(side: Option<&SideView>) -> u64 {
    side.map_or(0, |side| side.totals.bytes)
}

fn over_a_path(observed: &Observed, main: &EndView, joined: &[&EndView]) -> DerivedTest {
    let transport = main.leads.transport().unwrap_or_default();
    if transport.starts_with("udp") || transport == "unix-dgram" {
        return datagrams(observed, main, transport);
    }
    let (read, written) = (bytes(main.reads.as_ref()), bytes(main.writes.as_ref()));
    let all = |side: fn(&EndView) -> u64| joined.iter().map(|end| side(end)).sum::<u64>();
    let (read_all, written_all) = (all(|end| bytes(end.reads.as_ref())), all(|end| bytes(end.writes.as_ref())));
    let one_way = |end: &EndView| {
        let (read, written) = (bytes(end.reads.as_ref()), bytes(end.writes.as_ref()));
        read.max(written) >= ONE_WAY * read.min(written)
    };
    let same = read_all.abs_diff(written_all) as f64 <= SAME * read_all.max(written_all) as f64;
    let answered = answered(main);
    if joined.len() > 1 && same && one_way(main) && transport != "pipe" && !connects_to_itself(joined) {
        relay(observed, main, transport)
    } else if answered {
        calls(observed, main, transport)
    } else if read >= ONE_WAY * written {
        reader(observed, main, transport)
    } else if written >= ONE_WAY * read {
        writer(observed, main, transport)
    } else {
        both(observed, main, transport)
    }
}

/// Whether both ends of a connection were seen: bytes then only move within the program, and it is no relay.
fn connects_to_itself(ends: &[&EndView]) -> bool {
    let is_own = |own: u16| ends.iter().any(|end| matches!(&end.leads, Leads::Accepted { port, .. } if *port == own));
    ends.iter().any(|end| {
        let Leads::Connected { peer, .. } = &end.leads else { return false };
        peer.parse::<std::net::SocketAddr>().is_ok_and(|peer| peer.ip().is_loopback() && is_own(peer.port()))
    })
}

/// Whether reads and writes alternate, every few calls.
fn answered(end: &EndView) -> bool {
    let (Some(reads), Some(writes)) = (&end.reads, &end.writes) else { return false };
    let fewer = reads.totals.calls.min(writes.totals.calls);
    // With a connection for each request, both request and reply may take several calls. A sample sees a part of some.
    let of_one_request = end.seen >= CONNECTIONS_MIN && 2 * end.turns >= end.seen && end.bytes() / end.seen < LONG;
    let alternates = end.turns >= fewer && !is_streamed(end, reads.totals.bytes, writes.totals.bytes);
    fewer > 0 && (of_one_request || alternates)
}

/// Whether a connection carries one long message and little back: an upload with its receipt, a download with its request.
/// Many exchanges on a connection are calls however long they are, and short ones are however few.
fn is_streamed(end: &EndView, read: u64, written: u64) -> bool {
    let (more, less) = (read.max(written), read.min(written));
    let exchanges = end.exchanges.max(1);
    exchanges <= FEW * end.seen.max(1) && more / exchanges >= LONG && more >= ONE_WAY * less
}

/// The buffer that the program reads into: the size that it requests most often.
fn buffer(side: &SideView) -> u64 {
    side.asked.as_ref().map_or(side.moved.largest, |asked| asked.most_often).clamp(1, SIZE_MAX)
}

fn list(own: u64) -> String {
    let mut sizes = SIZES.to_vec();
    sizes.push(own.clamp(1, SIZE_MAX));
    sizes.sort_unstable();
    sizes.dedup();
    let words: Vec<String> = sizes.into_iter().map(|size| Bytes(size).compact()).collect();
    words.join(",")
}

fn compact(size: u64) -> String {
    Bytes(size.clamp(1, SIZE_MAX)).compact()
}

/// The reader's work, as the factor takes it: one to three digits, or `none` if there is almost none.
fn work(ns_per_byte: Option<f64>, assumed: &mut Vec<String>) -> String {
    match ns_per_byte {
        Some(ns) if ns >= 0.01 => {
            let digits = if ns >= 10.0 {
                0
            } else if ns >= 1.0 {
                1
            } else {
                2
            };
            format!("{ns:.digits$}ns")
        }
        Some(_) => "none".into(),
        None => {
            assumed.push(
                "its work per byte could not be measured (the pauses between samples were short): the plan assumes that it reads every byte"
                    .into(),
            );
            "sum".into()
        }
    }
}

fn stream(transport: &str, role: &str, flows: u64, sizes: &str, work: &str) -> String {
    format!(
        "workload = \"stream\"\ntransport = \"{transport}\"\nprofile = \"observed\"\nrole = \"{role}\"\nflows = {}\n{sizes}finalists = \
         \"all\"\n\n[profiles.observed]\nwork = \"{work}\"\n",
        flows.clamp(1, 65_536)
    )
}

fn reader(observed: &Observed, end: &EndView, transport: &str) -> DerivedTest {
    let mut assumed = Vec::new();
    let Some(side) = &end.reads else { return other(observed, end) };
    let own = buffer(side);
    // A read that filled its buffer shows nothing about the peer's writes; one that did not received all bytes that were there.
    let writes = if side.totals.full * 2 >= side.totals.calls {
        assumed.push(format!(
            "the size of the peer's writes is not visible, since most reads fill the buffer: the plan uses 16K and 1M{}",
            peers_hint(end)
        ));
        "16K,1M".to_owned()
    } else {
        assumed
            .push(format!("the peer's writes are assumed to have the size that most reads return{}", peers_hint(end)));
        compact(side.moved.most_often)
    };
    let work = work(observed.user_ns_per_byte, &mut assumed);
    let sizes = format!("write-size = \"{writes}\"\nread-size = \"{}\"\n", list(own));
    let summary =
        format!("it reads {} at a time from a peer that writes ({writes}): which read size is best?", compact(own));
    DerivedTest {
        assumed,
        plan: Some(stream(transport, "reader", end.flows, &sizes, &work)),
        ..DerivedTest::new(ProgramKind::Reader, observed, Some((end, own)), summary)
    }
}

fn writer(observed: &Observed, end: &EndView, transport: &str) -> DerivedTest {
    let Some(side) = &end.writes else { return other(observed, end) };
    let own = buffer(side);
    let assumed = vec![format!("the peer's read size is not visible: the plan uses 64K{}", peers_hint(end))];
    let sizes = format!("read-size = \"64K\"\nwrite-size = \"{}\"\n", list(own));
    let summary = format!("it writes {} at a time to a peer that reads: which write size is best?", compact(own));
    DerivedTest {
        assumed,
        plan: Some(stream(transport, "writer", end.flows, &sizes, "sum")),
        ..DerivedTest::new(ProgramKind::Writer, observed, Some((end, own)), summary)
    }
}

fn both(observed: &Observed, end: &EndView, transport: &str) -> DerivedTest {
    let (Some(reads), Some(writes)) = (&end.reads, &end.writes) else { return other(observed, end) };
    let mut assumed = vec![format!("the peer is assumed to use the same sizes{}", peers_hint(end))];
    let (in_size, out_size) = (buffer(reads), buffer(writes));
    let work = work(observed.user_ns_per_byte, &mut assumed);
    let summary = format!(
        "it reads {} and writes {} at a time, independently of each other: which sizes are best, each way?",
        compact(in_size),
        compact(out_size)
    );
    DerivedTest {
        assumed,
        plan: Some(format!(
            "workload = \"stream\"\ntransport = \"{transport}\"\nprofile = \"observed\"\nflows = {}\nfinalists = \"all\"\n\n\
             [[part]]\nrole = \"reader\"\nwrite-size = \"{}\"\nread-size = \"{}\"\n\n[[part]]\nrole = \"writer\"\nread-size = \
             \"{}\"\nwrite-size = \"{}\"\n\n[profiles.observed]\nwork = \"{work}\"\n",
            end.flows.clamp(1, 65_536),
            compact(out_size),
            list(in_size),
            compact(in_size),
            list(out_size),
        )),
        ..DerivedTest::new(ProgramKind::Both, observed, Some((end, in_size)), summary)
    }
}

fn calls(observed: &Observed, end: &EndView, transport: &str) -> DerivedTest {
    let (Some(reads), Some(writes)) = (&end.reads, &end.writes) else { return other(observed, end) };
    let serves = matches!(end.leads, Leads::Accepted { .. });
    // A message may arrive in pieces, and a sample may cut the first and the last one of a connection: count those that were seen
    // whole, or divide all bytes by the number of responses.
    let message = |side: &SideView| side.bytes_per_turn.unwrap_or(side.totals.bytes / end.exchanges.max(1));
    let (came, went) = (message(reads), message(writes));
    let (request, response) = if serves { (came, went) } else { (went, came) };
    let mut assumed = Vec::new();
    let ns_per_call = observed.user_ns_per_byte.map(|ns| ns * (came + went) as f64);
    let work = work(ns_per_call.filter(|_| serves).map(|ns| ns / request.max(1) as f64), &mut assumed);
    if !serves {
        assumed.clear();
        assumed.push("it makes the requests: the plan compares options of its server".into());
    }
    let work = if serves { work } else { "sum".into() };
    // One pipe goes one way.
    let transport = if transport == "pipe" { "unix" } else { transport };
    let summary = format!(
        "it {} requests of {} B with {} B over {}: which engine serves them best?",
        if serves { "answers" } else { "makes" },
        request.max(1),
        response.max(1),
        match end.flows {
            1 => "one connection at a time".to_owned(),
            flows => format!("{flows} connections at once"),
        }
    );
    DerivedTest {
        assumed,
        plan: Some(format!(
            "workload = \"call\"\ntransport = \"{transport}\"\nprofile = \"observed\"\nflows = {}\nrequest = {}\nresponse = {}\n\
             server-engine = \"blocking,epoll,uring,tokio\"\nfinalists = \"all\"\n\n[profiles.observed]\nwork = \"{work}\"\n",
            end.flows.clamp(1, 65_536),
            request.clamp(1, SIZE_MAX),
            response.clamp(1, SIZE_MAX),
        )),
        ..DerivedTest::new(
            if serves { ProgramKind::Server } else { ProgramKind::Client },
            observed,
            Some((end, buffer(reads))),
            summary,
        )
    }
}

fn relay(observed: &Observed, end: &EndView, transport: &str) -> DerivedTest {
    let side = end.reads.as_ref().filter(|side| side.totals.bytes > bytes(end.writes.as_ref())).or(end.writes.as_ref());
    let Some(side) = side else { return other(observed, end) };
    let own = buffer(side);
    let summary = format!(
        "it relays {} at a time: which buffer size is best, and would another relay method be better?",
        compact(own)
    );
    DerivedTest {
        assumed: vec![
            "both sides are assumed to use one transport; the plan's ends write and read 256K at a time".into(),
        ],
        plan: Some(format!(
            "workload = \"stream\"\ntransport = \"{transport}\"\nprofile = \"drain\"\nflows = {}\nread-size = \"256K\"\nwrite-size \
             = \"256K\"\nfinalists = \"all\"\n\n[[part]]\nrelay = \"read-write\"\nrelay-buffer = \"{}\"\n\n[[part]]\nrelay = \
             \"splice,epoll,uring\"\n",
            end.flows.clamp(1, 65_536),
            list(own)
        )),
        ..DerivedTest::new(ProgramKind::Relay, observed, Some((end, own)), summary)
    }
}

fn datagrams(observed: &Observed, end: &EndView, transport: &str) -> DerivedTest {
    let (kind, side) = match (&end.reads, &end.writes) {
        (Some(read), Some(written))
            if read.messages_per_call * read.totals.calls as f64
                >= written.messages_per_call * written.totals.calls as f64 =>
        {
            (ProgramKind::Reader, read)
        }
        (Some(read), None) => (ProgramKind::Reader, read),
        (_, Some(written)) => (ProgramKind::Writer, written),
        (None, None) => return other(observed, end),
    };
    // The largest payload over IPv4; a Unix datagram can have it as well.
    let size = side.moved.most_often.clamp(1, 65_507);
    let summary = format!(
        "it {} datagrams of {size} B, {:.1} per call: does batching help?",
        if kind == ProgramKind::Reader { "takes" } else { "sends" },
        side.messages_per_call
    );
    DerivedTest {
        plan: Some(format!(
            "workload = \"stream\"\ntransport = \"{transport}\"\nprofile = \"sum\"\nflows = {}\nwrite-size = {size}\nengine = \
             \"plain,mmsg\"\nfinalists = \"all\"\n",
            end.flows.clamp(1, 65_536)
        )),
        ..DerivedTest::new(kind, observed, Some((end, buffer(side))), summary)
    }
}

fn over_files(observed: &Observed) -> DerivedTest {
    // Files that a program reads at its start are not tested.
    let is_own = |end: &&EndView| !end.start_up;
    let reads = |end: &&EndView| bytes(end.reads.as_ref()) >= bytes(end.writes.as_ref());
    let own = || observed.ends.iter().filter(is_own);
    let Some(end) = own().find(reads).or(own().next()) else {
        let summary = "it moved no bytes in the samples, except files that it reads at its start";
        return DerivedTest::new(ProgramKind::Other, observed, None, summary);
    };
    let (Leads::File { path }, Some(side)) = (&end.leads, &end.reads) else { return other(observed, end) };
    let plain = path.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | ','));
    if !plain || path.ends_with("(deleted)") {
        return other(observed, end);
    }
    let own = buffer(side);
    let mut assumed = Vec::new();
    let work = work(observed.user_ns_per_byte, &mut assumed);
    let summary = format!("it reads {path}, {} at a time: which read size is best?", compact(own));
    DerivedTest {
        assumed,
        plan: Some(format!(
            "workload = \"stream\"\ntransport = \"{path}\"\nprofile = \"observed\"\nread-size = \"{}\"\nfinalists = \
             \"all\"\n\n[profiles.observed]\nwork = \"{work}\"\n",
            list(own)
        )),
        ..DerivedTest::new(ProgramKind::FileReader, observed, Some((end, own)), summary)
    }
}

fn other(observed: &Observed, end: &EndView) -> DerivedTest {
    let own =
        [&end.reads, &end.writes].into_iter().flatten().max_by_key(|side| side.totals.bytes).map_or(65_536, buffer);
    let summary = format!(
        "most of its bytes go over {}, for which there is no test: use bytegauge tune on the program",
        end.label
    );
    DerivedTest::new(ProgramKind::Other, observed, Some((end, own)), summary)
}

/// How to look at the other side.
fn peers_hint(end: &EndView) -> String {
    // Peers that still run come first.
    match end.peers.first() {
        Some(peer) if peer.ended => {
            format!(" ({}, process {}, has ended: observe the next one with bytegauge observe)", peer.name, peer.pid)
        }
        Some(peer) => format!(" (to observe {1}: bytegauge observe --pid {0})", peer.pid, peer.name),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
