//! Steps that help whether or not a session decided: other conditions, the program of the user, another load.

use bytegauge_model::{CellKind, Nanos, Transport, Workload};

use super::next::step;
use super::{NextStep, Results};
use crate::findings::{Fact, Finding};
use crate::results::Test;
use crate::view::calls::CLOSED;
use crate::view::numbers::{CellView, GroupView, HarmKind, View};

/// The sizes of calls in a stream.
pub const STREAM_SIZES: &[&str] = &["read_size", "write_size"];

/// All steps of this kind that apply.
pub fn all(view: &Results) -> Vec<NextStep> {
    let steps = [in_program(view), over_a_link(view), with_other_work(view), below_full_load(view), without_loss(view)];
    steps.into_iter().flatten().collect()
}

/// The delay of an emulated link that shows what a setting does on a network.
pub const LINK_DELAY: &str = "10ms";

/// The same plan over an emulated link, where a setting was compared that does something else on a network.
fn over_a_link(view: &Results) -> Option<NextStep> {
    view.findings.iter().find(|finding| matches!(finding.fact, Fact::BeyondLoopback { .. }))?;
    let command = again_instead(view, &["--link-delay"], &["--link-delay", LINK_DELAY])?;
    Some(step(&command, "see the same over a link with delay (needs /dev/net/tun)"))
}

/// The same plan for readers with and without work: it may reverse the order of socket buffers.
fn with_other_work(view: &Results) -> Option<NextStep> {
    let is_buffer = |name: &String| ["rcvbuf", "sndbuf"].contains(&name.as_str());
    let is_of_one = |test: &Test| test.varied.iter().any(is_buffer) && test.environment.profile() == Some("program");
    let [test] = view.tests else { return None };
    (is_of_one(test) && !is_asked(view, "--profile")).then_some(())?;
    let command = again_instead(view, &[], &["--profile", "drain,program"])?;
    Some(step(&command, "see whether the same holds for a program that does no work"))
}

/// The measured sizes in the program of the user: bytegauge's own loop is a model of it, and the best size of a program is often
/// another one.
fn in_program(view: &Results) -> Option<NextStep> {
    let is_size = |name: &String| STREAM_SIZES.contains(&name.as_str());
    let has_sizes = |test: &Test| test.is_compared() && test.varied.iter().any(is_size);
    let is_sockets = |transport: &Transport| transport.two_ended() && !transport.is_datagram();
    let is_of_sockets = |group: &GroupView| group.factors.transport().is_some_and(is_sockets);
    let is_stream = view.plan.workload == Workload::Stream.to_string() && view.groups.iter().all(is_of_sockets);
    (is_stream && view.tests.iter().any(has_sizes)).then(|| {
        let command = "bytegauge tune --values recommended --now 4K -- ./prog {value}";
        step(command, "try these sizes in your program")
    })
}

/// A search for the load at which latency is good: where many calls at full load wait for each other, most of it is waiting.
fn below_full_load(view: &Results) -> Option<NextStep> {
    let is_queued = |cell: &CellView| {
        let spec = &cell.factors;
        let is_closed = cell.call.as_ref().is_some_and(|call| call.timing == CLOSED);
        cell.kind == CellKind::Candidate && is_closed && !spec.offers_load() && spec.calls_at_once() > 1
    };
    let [test] = view.tests else { return None };
    view.cells.iter().find(|cell| is_queued(cell))?;
    let p99s = test.options.iter().filter_map(|option| view.cell(&option.id)?.median("total_p99_ns"));
    let p99_ns = p99s.reduce(f64::min)?;
    let limit = round_below(p99_ns / 2.0);
    let command = again_searching(view, &["--slo"], &format!("p99={limit}"))?;
    let why = "above, clients call as fast as they can, so p99 is mostly waiting";
    Some(step(&command, &format!("find the highest rate that keeps p99 within {limit}, or another limit ({why})")))
}

/// Receive buffers that are compared where bursts lose datagrams: the default, and larger ones.
const BURST_BUFFERS: &str = "auto,1M,4M,16M";

/// The receive buffer that holds a burst, or a search for the rate at which few datagrams are lost, where an option
/// lost many.
fn without_loss(view: &Results) -> Option<NextStep> {
    let [test] = view.tests else { return None };
    let is_loss = |finding: &Finding| matches!(finding.fact, Fact::Harm { harm: HarmKind::LostDatagrams, .. });
    if view.plan.workload != Workload::Stream.to_string() || !view.findings.iter().any(is_loss) {
        return None;
    }
    if view.cells.iter().any(|cell| cell.factors.burst().is_some()) {
        if test.varied.iter().any(|name| name == "rcvbuf") {
            return None;
        }
        let command = again_instead(view, &["--rcvbuf"], &["--rcvbuf", BURST_BUFFERS])?;
        return Some(step(&command, "see which receive buffer holds a burst"));
    }
    // A search sets the rates itself.
    let command = again_searching(view, &["--max-loss", "--rate", "--think-time"], "0.1%")?;
    Some(step(&command, "find the highest rate of each option that loses at most 0.1 % of the datagrams"))
}

/// The largest round time of at most this many nanoseconds.
pub fn round_below(ns: f64) -> String {
    let ten = 10f64.powf(ns.log10().floor());
    let times = [5.0, 2.0].into_iter().find(|times| times * ten <= ns).unwrap_or(1.0);
    Nanos((times * ten).round() as u64).compact()
}

// The commands that continue a session, or ask the same once more with other flags.

/// Flags for the length of a session: another budget replaces them.
pub const LENGTHS: [&str; 4] = ["--time", "--until", "--max-time", "--blocks"];
/// Flags without a value that change what is shown, not what is measured.
const OF_DISPLAY: [&str; 3] = ["-q", "--quiet", "--no-page"];

/// The command that continues a session. The store has the plan; only the file with the key of another host is named again.
pub fn resuming(view: &View) -> String {
    let is_built_in = |plan: &String| !plan.starts_with('-') && !plan.contains(['/', '.']);
    let command = match view.plan.asked.as_deref().unwrap_or(&[]) {
        _ if view.versus.is_some() => "ab".to_owned(),
        [run, plan, ..] if run == "run" && is_built_in(plan) => format!("run {plan}"),
        // A plan in a file is named by its session alone.
        [command, ..] => command.clone(),
        // A part of a survey was asked by no words of its own; `run` takes any.
        [] => "run".to_owned(),
    };
    let mut asked = view.plan.asked.iter().flatten().take_while(|word| *word != "--");
    let file = asked.find_map(|word| word.strip_prefix("--key-file")).and_then(|rest| match rest {
        "" => asked.next().map(String::as_str),
        rest => rest.strip_prefix('='),
    });
    let key = file.map_or_else(String::new, |file| format!(" --key-file {}", quoted(file)));
    format!("bytegauge {command} --resume {}{key}", view.session)
}

/// Whether a session was asked with this flag. The words behind -- are the command of a program.
pub fn is_asked(view: &View, flag: &str) -> bool {
    let mut own = view.plan.asked.iter().flatten().take_while(|word| *word != "--");
    own.any(|word| word.split('=').next() == Some(flag))
}

/// The command that asks the same without these flags and their values, and with others; `None` where it is not known.
pub fn again_instead(view: &View, replaced: &[&str], further: &[&str]) -> Option<String> {
    let asked = view.plan.asked.as_deref()?;
    // The words behind -- are the command of a program.
    let flags = asked.iter().position(|word| word == "--").unwrap_or(asked.len());
    let (own, program) = asked.split_at(flags);
    let mut words: Vec<&str> = vec!["bytegauge"];
    let mut skip = false;
    for word in own {
        let name = word.split('=').next().unwrap_or(word);
        let is_replaced = replaced.contains(&name);
        if !std::mem::take(&mut skip) && !is_replaced && !OF_DISPLAY.contains(&name) {
            words.push(word);
        }
        skip |= is_replaced && name == word;
    }
    words.extend(further);
    words.extend(program.iter().map(String::as_str));
    Some(words.into_iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// The same options with a search by the first of these flags, in place of all of them.
pub fn again_searching(view: &View, flags: &[&str], limit: &str) -> Option<String> {
    again_instead(view, &[&LENGTHS, flags].concat(), &[flags[0], limit])
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:,=@%+-".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
