//! The changes that can matter to a program, from the sockets that it opens and the options that it sets itself.
//!
//! Pure: the settings of this machine come as an argument.

use std::collections::BTreeSet;

use bytegauge_model::socket_changes::parse;
use bytegauge_model::{Level, OptionChange, SocketChanges, SocketsSeen, Transport};

/// A buffer that is large for every path within a machine or a building, bytes.
const LARGE: u64 = 4 << 20;

/// Congestion controls other than the present one that are tried.
const CONGESTION_MAX: usize = 2;

/// Options that change what a program does rather than how fast it is: its own calls are left alone.
const LEFT_ALONE: [&str; 4] = ["reuseport", "incoming_cpu", "linger", "inq"];

/// The settings of the kernel that limit what can be tried.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// `net.core.rmem_max`, bytes.
    pub rmem_max: Option<u64>,
    /// `net.core.wmem_max`, bytes.
    pub wmem_max: Option<u64>,
    /// The congestion controls that are loaded.
    pub congestion: Vec<String>,
    /// The one that connections get by default.
    pub default_congestion: Option<String>,
}

/// At most this number of changes to try, and those that could matter too and are not tried, each with the reason. Changes that
/// the waits of a program point to are first, then its own calls; those of its server and of its client alternate.
#[must_use]
pub fn proposed(changes: &SocketChanges, kernel: &Kernel, most: usize) -> (Vec<OptionChange>, Vec<String>) {
    let mut not_tried = BTreeSet::new();
    let mut all: Vec<((usize, usize), OptionChange)> = Vec::new();
    for (on, seen) in changes.seen() {
        let diagnoses = seen.waits.diagnoses().into_iter().filter_map(|one| parse(one.option?).ok());
        let suspects: Vec<OptionChange> = diagnoses.flatten().collect();
        for (at, change) in of_program(seen, kernel, &mut not_tried).into_iter().enumerate() {
            let rank = if suspects.contains(&change) { 0 } else { 1 + usize::from(change.level.is_some()) };
            all.push(((rank, at), OptionChange { on, ..change }));
        }
    }
    all.sort_by_key(|(rank, _)| *rank);
    let mut all: Vec<OptionChange> = all.into_iter().map(|(_, change)| change).collect();
    let left = all.split_off(all.len().min(most));
    if !left.is_empty() {
        let names: Vec<String> = left.iter().map(ToString::to_string).collect();
        not_tried.insert(format!("{}: {most} changes are tried at once", names.join(", ")));
    }
    (all, not_tried.into_iter().collect())
}

/// The changes that can matter to one program.
fn of_program(seen: &SocketsSeen, kernel: &Kernel, not_tried: &mut BTreeSet<String>) -> Vec<OptionChange> {
    let over = |is_it: fn(&Transport) -> bool| seen.opened.keys().any(|socket| is_it(&socket.transport));
    let (tcp, udp) = (over(Transport::is_tcp), over(Transport::is_udp));
    let mut all: Vec<OptionChange> = Vec::new();
    let own = || seen.own.values().filter_map(|own| Some((own.option.as_deref()?, own.value.as_str())));
    let mut add = |option: &str, level: Option<Level>| {
        let change = OptionChange { option: option.to_owned(), level, on: None };
        if !all.contains(&change) {
            all.push(change);
        }
    };
    for (option, _) in own().filter(|(option, _)| !LEFT_ALONE.contains(option)) {
        add(option, None);
    }
    let sets = |option: &str, value: &str| own().any(|known| known == (option, value));
    if tcp {
        if !sets("nodelay", "1") {
            add("nodelay", Some(Level::Switch(true)));
        }
        let others = kernel.congestion.iter().filter(|name| Some(*name) != kernel.default_congestion.as_ref());
        let others = others.filter(|name| !sets("congestion", &format!("\"{name}\"")));
        others.take(CONGESTION_MAX).for_each(|name| add("congestion", Some(Level::Name(name.clone()))));
        add("notsent_lowat", Some(Level::Number(128 << 10)));
    }
    let buffers = [("rcvbuf", kernel.rmem_max, "net.core.rmem_max"), ("sndbuf", kernel.wmem_max, "net.core.wmem_max")];
    for (option, max, sysctl) in
        buffers.into_iter().filter(|_| tcp || udp || over(|transport| *transport == Transport::Unix))
    {
        match max {
            Some(max) if max < LARGE => {
                not_tried
                    .insert(format!("{option} of 4 MiB: {sysctl} is {max}; to try it: sysctl -w {sysctl}={LARGE}"));
            }
            _ => add(option, Some(Level::Number(LARGE))),
        }
    }
    all
}

/// Why a change cannot differ from the program as it is: it removes a call that the program does not make, or sets what a new socket
/// has, which is `default`.
#[must_use]
pub fn without_meaning(change: &OptionChange, seen: &SocketsSeen, default: Option<Level>) -> Option<String> {
    let sets = seen.own.values().any(|own| own.option.as_ref() == Some(&change.option));
    let is_so = default.is_some_and(|default| change.is_in_force(&default));
    let already = if is_so { "it is so already, and " } else { "" };
    let name = change.row().name;
    (!sets && (is_so || change.level.is_none()))
        .then(|| format!("{change}: {already}the program does not set {name} itself"))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::SocketWaits;
    use bytegauge_model::sockets_seen::OwnOption;

    use super::*;

    fn seen(opened: &str, own: &[(&str, &str)]) -> SocketsSeen {
        let own = own.iter().map(|(option, value)| {
            let row = bytegauge_model::option::of_factor(option).unwrap();
            (row.name.to_owned(), OwnOption { option: Some((*option).into()), value: (*value).into(), calls: 1 })
        });
        SocketsSeen { opened: [(opened.parse().unwrap(), 1)].into(), own: own.collect(), ..SocketsSeen::default() }
    }

    fn check(seen: &SocketsSeen, rmem_max: u64, expected: &[&str], left: usize) {
        let changes = SocketChanges { watched: Some(seen.clone()), ..SocketChanges::default() };
        check_all(&changes, rmem_max, expected, left);
    }

    fn check_all(changes: &SocketChanges, rmem_max: u64, expected: &[&str], left: usize) {
        let kernel = Kernel {
            rmem_max: Some(rmem_max),
            wmem_max: Some(LARGE),
            congestion: ["cubic", "bbr", "reno", "dctcp"].map(str::to_owned).to_vec(),
            default_congestion: Some("cubic".into()),
        };
        let (changes, not_tried) = proposed(changes, &kernel, 8);
        assert_eq!(changes.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        assert_eq!(not_tried.len(), left, "{not_tried:?}");
    }

    #[test]
    fn only_options_that_can_matter_are_tried() {
        let usual = ["congestion=bbr", "congestion=reno", "notsent-lowat=128K", "rcvbuf=4M", "sndbuf=4M"];
        let with = |first: &[&'static str]| -> Vec<&'static str> { first.iter().copied().chain(usual).collect() };
        check(&seen("tcp connect", &[]), LARGE, &with(&["nodelay=on"]), 0);
        check(&seen("tcp connect", &[("rcvbuf", "65536")]), LARGE, &with(&["rcvbuf=unset", "nodelay=on"]), 0);
        check(&seen("tcp6 listen", &[("nodelay", "1")]), LARGE, &with(&["nodelay=unset"]), 0);
        check(&seen("tcp listen", &[("reuseport", "1")]), LARGE, &with(&["nodelay=on"]), 0);
        check(&seen("udp bind", &[]), 212_992, &["sndbuf=4M"], 1);
        check(
            &seen("tcp connect", &[("rcvbuf", "1"), ("sndbuf", "1"), ("nodelay", "0")]),
            LARGE,
            &{
                let mut all = with(&["rcvbuf=unset", "sndbuf=unset", "nodelay=unset", "nodelay=on"]);
                all.truncate(8);
                all
            },
            1,
        );
    }

    #[test]
    fn suspects_of_both_programs_come_first() {
        let waits = SocketWaits { samples: 10, held: 8, ..SocketWaits::default() };
        let client = SocketsSeen { waits, ..seen("tcp connect", &[("linger", "0")]) };
        let server = seen("tcp listen", &[("sndbuf", "4096")]);
        let changes = SocketChanges { watched: Some(server), watched_client: Some(client), ..SocketChanges::default() };
        let expected = [
            "client:nodelay=on",
            "server:sndbuf=unset",
            "server:nodelay=on",
            "client:congestion=bbr",
            "server:congestion=bbr",
            "client:congestion=reno",
            "server:congestion=reno",
            "client:notsent-lowat=128K",
        ];
        check_all(&changes, LARGE, &expected, 1);
    }

    #[test]
    fn removing_a_call_needs_one() {
        let unset = OptionChange { option: "rcvbuf".into(), level: None, on: None };
        assert_eq!(without_meaning(&unset, &seen("tcp connect", &[("rcvbuf", "1")]), None), None);
        let why = without_meaning(&unset, &seen("tcp connect", &[]), None).unwrap();
        assert_eq!(why, "rcvbuf=unset: the program does not set SO_RCVBUF itself");
    }

    #[test]
    fn what_sockets_have_is_not_set() {
        let check = |text: &str, own: &[(&str, &str)], default: Level, expected: Option<&str>| {
            let change = &parse(text).unwrap()[0];
            assert_eq!(without_meaning(change, &seen("tcp connect", own), Some(default)).as_deref(), expected);
        };
        let off = || Level::Switch(false);
        let why = "nodelay=off: it is so already, and the program does not set TCP_NODELAY itself";
        check("nodelay=off", &[], off(), Some(why));
        check("nodelay=on", &[], off(), None);
        check("nodelay=off", &[("nodelay", "1")], off(), None);
        check("sndbuf=64K", &[], Level::Number(65_536), None);
    }
}
