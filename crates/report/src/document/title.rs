//! The first line of a report: plan, session, duration, where, processor, kernel. And the titles of tests: the measured operation and
//! its settings.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{Direction, FACTORS, Level, ProgramRole, SessionStatus, Spec, Transport, Workload};

use super::Results;
use crate::findings::is_loopback;
use crate::view::numbers::{GroupView, View};
use crate::view::varied;
use crate::words::phrase;

/// The parts of a title: the operation, and the conditions in the order of the factor table.
struct Parts {
    head: String,
    short: String,
    details: Vec<String>,
}

/// The title and the short name of each test, in the order of the groups. A short name has the conditions in which tests of one
/// operation differ.
pub fn names(view: &View) -> Vec<(String, String)> {
    let (varying, workers_differ) = (varying(view), workers_differ(view));
    let parts: Vec<Parts> = view.groups.iter().map(|group| parts(view, group, &varying, workers_differ)).collect();
    let name = |one: &Parts| {
        let alike: Vec<&Parts> = parts.iter().filter(|other| other.short == one.short).collect();
        let tells = |detail: &&String| alike.iter().any(|other| !other.details.contains(detail));
        let details: Vec<String> = one.details.iter().filter(tells).cloned().collect();
        let short = [vec![one.short.clone()], details].concat().join(", ");
        (joined(&one.head, &one.details), short)
    };
    parts.iter().map(name).collect()
}

fn joined(head: &str, details: &[String]) -> String {
    if details.is_empty() { head.to_owned() } else { format!("{head} ({})", details.join(", ")) }
}

/// The transport, and each condition with more than one level, in the order of the factor table. A condition that exists over TCP only
/// does not distinguish tests over TCP from others.
pub fn varying(view: &View) -> Vec<String> {
    let varied = varied(&view.groups.iter().map(|group| &group.factors).collect::<Vec<_>>(), |_, _| true);
    let is_named = |name: &&str| matches!(*name, "transport" | "mode") || varied.iter().any(|varied| varied == name);
    let names = FACTORS.iter().map(|factor| factor.name).filter(|name| !phrase::PROFILE_FACTORS.contains(name));
    names.filter(is_named).map(str::to_owned).collect()
}

/// Whether the work of the reader or the server distinguishes tests.
pub fn workers_differ(view: &View) -> bool {
    let mut workers = view.groups.iter().map(worker);
    workers.next().is_some_and(|first| workers.any(|other| other != first))
}

/// The work of the reader or the server of a group in a word; empty where it does none.
pub fn worker(group: &GroupView) -> String {
    let conditions = &group.factors;
    // A reader that compares the bytes does not only discard them, whatever its profile.
    match phrase::throws_away(conditions) && !group.throws_away {
        true => "compares".to_owned(),
        false => phrase::profile_brief(conditions),
    }
}

fn parts(view: &View, group: &GroupView, varying: &[String], workers_differ: bool) -> Parts {
    let conditions = &group.factors;
    let congestion = congestion(view, group).map(|name| {
        let is_default = view.environment.congestion() == Some(name.as_str());
        format!("{}congestion control {name}", if is_default { "default " } else { "" })
    });
    let mut details: Vec<String> = peer(conditions).into_iter().collect();
    details.extend(fixed_sizes(view, group));
    details.extend(congestion);
    for (factor, level) in conditions.present() {
        let name = factor.name;
        let varies = varying.iter().any(|varying| varying == name);
        let always = conditions.workload() == Workload::Call && matches!(name, "flows" | "request");
        let shown = match name {
            "transport" | "role" | "congestion" | "profile" | "work" | "working_set" | "writer_work" | "call_work" => {
                None
            }
            // The operation names the host, and the options what is compared.
            "read_size" | "write_size" | "host" | "direction" | "compare" => None,
            "mode" | "user_data" if conditions.workload() == Workload::Ring => word(name, &level),
            "flows" => level.number().filter(|_| varies || always).map(|flows| counted(flows as usize, "connection")),
            "slo" => level.name().map(phrase::objective),
            "duration" => durations_differ(view, conditions).then(|| word(name, &level)).flatten(),
            "placement" | "connection_age" => varies.then(|| word(name, &level)).flatten(),
            _ if varies || always => word(name, &level),
            _ => phrase::condition(name, conditions),
        };
        // The absence of something is no condition worth a word.
        let is_none = name != "user_data" && level.name() == Some("none");
        details.extend(shown.filter(|_| !is_none));
    }
    // An import may have conditions that this version does not know.
    let known = |name: &str| bytegauge_model::factor::find(name).is_some();
    details.extend(conditions.iter().filter(|(name, _)| !known(name)).map(|(name, level)| format!("{name} {level}")));
    let worker = worker(group);
    if workers_differ && !worker.is_empty() {
        details.push(format!("{} {worker}", conditions.workload().row().worker));
    }
    let (head, short) = operation(view, conditions);
    Parts { head, short, details }
}

/// Whether another test has all conditions of this one but the length of its trials. Elsewhere that length follows from the
/// other conditions and distinguishes nothing.
fn durations_differ(view: &View, conditions: &Spec) -> bool {
    let others = |spec: &Spec| {
        let mut spec = spec.clone();
        spec.set("duration", Level::Absent);
        spec
    };
    let own = others(conditions);
    view.groups.iter().filter(|group| others(&group.factors) == own).nth(1).is_some()
}

fn word(name: &str, level: &Level) -> Option<String> {
    match name {
        // A heading names calls already.
        "request" => Some(phrase::level(name, level)),
        _ => phrase::word(name, level),
    }
}

/// The sizes of the other end, where the program is one end alone.
fn peer(conditions: &Spec) -> Option<String> {
    let size = |name: &str| match conditions.get(name) {
        Level::Absent => None,
        level => Some(phrase::level(name, &level)),
    };
    let (writes, reads) = (size("write_size"), size("read_size"));
    match conditions.role()? {
        ProgramRole::Reader => writes.map(|size| format!("peer writes {size}")),
        ProgramRole::Writer => reads.map(|size| format!("peer reads {size}")),
        ProgramRole::Relay => Some(format!("one peer writes {}, the other reads {}", writes?, reads?)),
        ProgramRole::Both => None,
    }
}

/// The sizes of the program in a stream whose options differ in something else: `read 64 KiB`.
fn fixed_sizes(view: &View, group: &GroupView) -> Vec<String> {
    let is_named = group.factors.workload() == Workload::Stream && !group.varied.is_empty();
    let Some(cell) = view.cells_of(&group.id).next().filter(|_| is_named) else { return Vec::new() };
    let is_own =
        |name: &&str| group.factors.get(name) == Level::Absent && !group.varied.iter().any(|varied| varied == name);
    let sizes = ["read_size", "write_size"].into_iter().filter(is_own).map(|name| (name, cell.level(name)));
    let sizes = sizes.filter(|(_, level)| *level != Level::Absent);
    // Next to a relay, whose buffer has a size of its own.
    let ends = if group.varied.iter().any(|name| name == "relay") { "ends " } else { "" };
    let shown: Vec<(&str, String)> =
        sizes.map(|(name, level)| (phrase::in_code(name), phrase::level(name, &level))).collect();
    match shown.as_slice() {
        [(read, size), (write, other)] if size == other => vec![format!("{ends}{read} and {write} {size}")],
        each => each.iter().map(|(name, size)| format!("{ends}{name} {size}")).collect(),
    }
}

/// The operation of a test, and the same as short as possible: `Read from a Unix socket`, `reads Unix`.
fn operation(view: &View, conditions: &Spec) -> (String, String) {
    let path = phrase::word("transport", &conditions.get("transport")).unwrap_or_else(|| "each transport".into());
    let path = match conditions.far() {
        Some((place, _)) => format!("{path} {place}"),
        None => path,
    };
    let (one, all) = (medium(conditions, true), medium(conditions, false));
    match conditions.workload() {
        Workload::Ring => ("NOPs through io_uring".into(), "NOPs".into()),
        Workload::Call => (format!("Calls over {all}"), format!("calls {path}")),
        Workload::Stream => match (conditions.role(), conditions.transport()) {
            (_, Some(Transport::Source(path))) => (format!("Read {path}"), format!("reads {path}")),
            (Some(ProgramRole::Reader), _) => (format!("Read from {one}"), format!("reads {path}")),
            (Some(ProgramRole::Writer), _) => (format!("Write to {one}"), format!("writes {path}")),
            (Some(ProgramRole::Relay), _) => (format!("Relay over {all}"), format!("relays {path}")),
            _ => (format!("Stream over {all}"), path),
        },
        Workload::Tune => {
            let program = view.tune.as_ref().map(|tune| tune.program.clone());
            (program.clone().unwrap_or_else(|| "Program".into()), program.unwrap_or_else(|| "program".into()))
        }
    }
}

/// How the ends are joined; `one` of several.
fn medium(conditions: &Spec, one: bool) -> String {
    let level = conditions.get("transport");
    let name = match conditions.transport() {
        Some(Transport::Unix) if one => "a Unix socket".into(),
        Some(Transport::Unix) => "Unix sockets".into(),
        Some(Transport::UnixDatagram) => "Unix datagram sockets".into(),
        Some(Transport::UnixSeqpacket) => "Unix sockets of packets".into(),
        Some(Transport::Pipe) if one => "a pipe".into(),
        Some(Transport::Pipe) => "pipes".into(),
        // Without a level it is what is compared; an import may have one that this version does not know.
        _ => phrase::word("transport", &level).unwrap_or_else(|| "each transport".into()),
    };
    match conditions.far() {
        Some((place, direction)) => {
            let way = match direction {
                Direction::To => "to",
                Direction::From => "from",
                Direction::Both => "to and from",
            };
            format!("{name} {way} the host {place}")
        }
        None => name,
    }
}

/// The congestion control of the end that sends over TCP, where it is known and the options do not vary it.
fn congestion(view: &View, group: &GroupView) -> Option<String> {
    let conditions = &group.factors;
    let is_tcp = conditions.transport().is_some_and(Transport::is_tcp);
    let varies = group.varied.iter().any(|name| name == "congestion");
    // The sender may be another machine.
    let is_here =
        conditions.far().is_none() && conditions.connect().is_none() && view.status != SessionStatus::Imported;
    if !is_tcp || varies {
        return None;
    }
    let of_cells =
        || view.cells_of(&group.id).map(|cell| cell.level("congestion")).find(|level| *level != Level::Absent);
    let level = Some(conditions.get("congestion")).filter(|level| *level != Level::Absent).or_else(of_cells);
    match level {
        Some(level) if !level.is_auto() => level.name().map(str::to_owned),
        _ => view.environment.congestion().filter(|_| is_here).map(str::to_owned),
    }
}

/// More words of the name of a processor make the first line too long.
const MODEL_WORDS: usize = 3;

/// A duration in seconds.
pub fn seconds(ns: u64) -> String {
    format!("{} s", significant(ns as f64 / 1e9, 2))
}

/// `bytegauge buffer-size #1  56 s · loopback · Intel Xeon, 2 CPUs · Linux 6.18.44`.
pub fn heading(results: &Results) -> String {
    let status = match results.status {
        SessionStatus::Complete => None,
        other => Some(other.name().to_owned()),
    };
    let took = results.elapsed_ns.filter(|ns| *ns >= 1_000_000_000).map(seconds);
    let blocks = results.groups.first().map_or(0, |group| group.blocks.used);
    let runs = (blocks > 0).then(|| match (&results.versus, &results.tune) {
        (Some(_), _) => Some(format!("{}, random order", counted(blocks, "pair"))),
        (None, Some(_)) => Some(format!("{} each, random order", counted(blocks, "run"))),
        _ => None,
    });
    let cpus = results.environment.allowed_cpus().map(|n| counted(n, "CPU"));
    let kernel = results.environment.text(&["kernel_release"]);
    let kernel = kernel.map(|release| format!("Linux {}", release.split('-').next().unwrap_or(release)));
    let model = results.environment.text(&["cpu", "model"]).map(short_name);
    let machine = [model.filter(|model| !model.is_empty()), cpus].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let machine = Some(machine).filter(|machine| !machine.is_empty());
    let parts = [status, took, runs.flatten(), place(results), machine, kernel];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("bytegauge {} #{}  {}", results.plan.name, results.session, parts.join(" · "))
}

/// Loopback, an emulated link, or other hosts; nothing for programs without a link, and for rings.
fn place(results: &Results) -> Option<String> {
    let specs = || results.groups.iter().map(|group| &group.factors);
    if let Some(place) = specs().find_map(|spec| Some(spec.far()?.0.to_string())) {
        return Some(format!("host {place}"));
    }
    if specs().any(|spec| spec.emulated_link().is_some()) {
        return Some("emulated link".into());
    }
    let is_program = results.plan.workload == Workload::Tune.to_string();
    let over = !is_program && specs().any(is_loopback) && results.status != SessionStatus::Imported;
    over.then(|| "loopback".into())
}

/// The first words of a processor, without trademarks and clock: `Intel Xeon`, `AMD EPYC 7763`.
fn short_name(model: &str) -> String {
    let plain = model.replace("(R)", "").replace("(TM)", "").replace("(tm)", "");
    let before_clock = plain.split('@').next().unwrap_or_default();
    let is_filler = |word: &&str| !matches!(*word, "CPU" | "Processor" | "processor") && !word.ends_with("-Core");
    before_clock.split_whitespace().filter(is_filler).take(MODEL_WORDS).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_short_names() {
        assert_eq!(short_name("Intel(R) Xeon(R) Processor @ 2.10GHz"), "Intel Xeon");
        assert_eq!(short_name("AMD EPYC 7763 64-Core Processor"), "AMD EPYC 7763");
    }
}
