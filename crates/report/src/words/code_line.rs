//! The line of a program that a change stands for.

use bytegauge_model::option::{OptionLayer, ValueForm, Variant};
use bytegauge_model::{Level, OptionChange, OwnOption, ProgramChange, SocketChanges, SocketsSeen};

/// The lines of all changes of a value.
pub fn lines(task: &SocketChanges, value: &str) -> Vec<String> {
    task.named(value).iter().map(|change| line(change, task)).collect()
}

/// A change in the source, `remove setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 65536)`, or on the machine.
fn line(change: &ProgramChange, task: &SocketChanges) -> String {
    match change {
        ProgramChange::Option(change) => {
            let on = change.on.map_or_else(String::new, |on| format!("in the {on}, "));
            on + &line_of_option(change, &task.seen_of(change))
        }
        ProgramChange::Sysctl(change) => format!("sysctl -w {}='{}'", change.sysctl, change.value),
    }
}

fn line_of_option(change: &OptionChange, seen: &SocketsSeen) -> String {
    let row = change.row();
    let call = KernelCall(variant(change, seen), &seen.executable);
    let is_own = |(_, own): &(&String, &OwnOption)| own.option.as_deref() == Some(row.factor);
    let own = seen.own.iter().find(is_own).map(|(name, own)| {
        // Of SO_RCVBUFFORCE the program sets another option than the one of the row.
        let forced = FORCED.into_iter().find(|forced| forced == name);
        let (own_name, layer, number, form) = call.0;
        KernelCall((forced.unwrap_or(own_name), layer, number, form), call.1).with(&own.value)
    });
    match (&change.level, own) {
        (None, own) => format!("remove {}", own.unwrap_or_else(|| call.with("…"))),
        (Some(level), Some(own)) => format!("replace {own} by {}", call.with(&call.value(change, level))),
        (Some(level), None) => format!("add {}", call.with(&call.value(change, level))),
    }
}

/// The option of the kernel that was set on the program's sockets: the row's own, unless they all have a variant.
fn variant(change: &OptionChange, seen: &SocketsSeen) -> Variant {
    let row = change.row();
    let sockets = seen.opened.keys().filter(|socket| (row.fits)(&socket.transport));
    let mut variants = sockets.map(|socket| (row.variant)(socket.setter(), &socket.transport));
    let first = variants.next().flatten();
    let common = first.filter(|_| variants.all(|other| other == first));
    common.unwrap_or((row.name, row.layer, row.number, row.form))
}

/// Options of privileged programs that set what another one sets.
const FORCED: [&str; 2] = ["SO_SNDBUFFORCE", "SO_RCVBUFFORCE"];

/// Methods of the standard libraries that set an option: the beginning of the executable's name, the option, and the method.
const METHODS: [(&str, &str, &str); 4] = [
    ("node", "TCP_NODELAY", "socket.setNoDelay({bool})"),
    ("java", "TCP_NODELAY", "socket.setTcpNoDelay({bool})"),
    ("java", "SO_SNDBUF", "socket.setSendBufferSize({value})"),
    ("java", "SO_RCVBUF", "socket.setReceiveBufferSize({value})"),
];

/// Options that the module `socket` of Python names, with values that it takes as they are.
const PYTHON_NAMES: [&str; 9] = [
    "TCP_NODELAY",
    "SO_SNDBUF",
    "SO_RCVBUF",
    "SO_RCVLOWAT",
    "SO_REUSEPORT",
    "TCP_CONGESTION",
    "TCP_NOTSENT_LOWAT",
    "TCP_QUICKACK",
    "TCP_CORK",
];

/// A call of setsockopt(2) in a program of this executable.
struct KernelCall<'a>(Variant, &'a str);

impl KernelCall<'_> {
    fn with(&self, value: &str) -> String {
        let KernelCall((name, layer, ..), executable) = self;
        let layer = match layer {
            OptionLayer::Socket => "SOL_SOCKET",
            OptionLayer::Ip => "IPPROTO_IP",
            OptionLayer::Ipv6 => "IPPROTO_IPV6",
            OptionLayer::Tcp => "IPPROTO_TCP",
        };
        // `python3.11` is Python, `node_exporter` is no Node.
        let program = executable.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if let Some((.., method)) = METHODS.iter().find(|row| program == row.0 && row.1 == *name) {
            let switch = if value == "0" { "false" } else { "true" };
            return method.replace("{bool}", switch).replace("{value}", value);
        }
        if program == "python" && PYTHON_NAMES.contains(name) {
            let bytes = if value.starts_with('"') { "b" } else { "" };
            return format!("sock.setsockopt(socket.{layer}, socket.{name}, {bytes}{value})");
        }
        format!("setsockopt(fd, {layer}, {name}, {value})")
    }

    fn value(&self, change: &OptionChange, level: &Level) -> String {
        let KernelCall((.., form), _) = self;
        match (form, change.row().in_kernel_units(level.clone())) {
            (ValueForm::Flag, Level::Number(_)) => "1".to_owned(),
            (ValueForm::Linger, Level::Number(seconds)) => format!("{{1, {seconds}}}"),
            (_, Level::Number(number)) => number.to_string(),
            (_, Level::Switch(on)) => u8::from(on).to_string(),
            (ValueForm::Text, Level::Name(name)) => format!("\"{name}\""),
            (_, other) => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::socket_changes::parse;

    use super::*;

    #[test]
    fn lines_name_the_call() {
        let own = OwnOption { option: Some("rcvbuf".into()), value: "65536".into(), calls: 1 };
        let seen = SocketsSeen { own: [("SO_RCVBUF".into(), own)].into(), ..SocketsSeen::default() };
        let check = |text: &str, expected: &str| assert_eq!(line_of_option(&parse(text).unwrap()[0], &seen), expected);
        check("rcvbuf=unset", "remove setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 65536)");
        check(
            "rcvbuf=4M",
            "replace setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 65536) by setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 4194304)",
        );
        check("nodelay=on", "add setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1)");
        check("congestion=bbr", "add setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, \"bbr\")");
        check("rto-min=40ms", "add setsockopt(fd, IPPROTO_TCP, TCP_RTO_MIN_US, 40000)");
        check("linger=5", "add setsockopt(fd, SOL_SOCKET, SO_LINGER, {1, 5})");
        let own = OwnOption { option: Some("sndbuf".into()), value: "7".into(), calls: 1 };
        let seen = SocketsSeen { own: [("SO_SNDBUFFORCE".into(), own)].into(), ..SocketsSeen::default() };
        let removed = line_of_option(&parse("sndbuf=unset").unwrap()[0], &seen);
        assert_eq!(removed, "remove setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, 7)");
    }

    #[test]
    fn lines_are_in_the_language_of_the_program() {
        let check = |executable: &str, text: &str, expected: &str| {
            let seen = SocketsSeen { executable: executable.into(), ..SocketsSeen::default() };
            assert_eq!(line_of_option(&parse(text).unwrap()[0], &seen), format!("add {expected}"));
        };
        check("python3.12", "nodelay=on", "sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)");
        check("python3", "congestion=bbr", "sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b\"bbr\")");
        check("node", "nodelay=on", "socket.setNoDelay(true)");
        check("node", "sndbuf=4K", "setsockopt(fd, SOL_SOCKET, SO_SNDBUF, 4096)");
        check("java", "rcvbuf=4M", "socket.setReceiveBufferSize(4194304)");
        check("curl", "nodelay=off", "setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 0)");
    }

    #[test]
    fn lines_name_the_variant_that_was_set() {
        let check = |opened: &[&str], text: &str, expected: &str| {
            let opened = opened.iter().map(|kind| (kind.parse().unwrap(), 1)).collect();
            let seen = SocketsSeen { opened, ..SocketsSeen::default() };
            let line = line_of_option(&parse(text).unwrap()[0], &seen);
            assert!(line.contains(expected), "{:?} {line}", seen.opened);
        };
        check(&["tcp connect"], "tos=184", "IPPROTO_IP, IP_TOS, 184");
        check(&["tcp6 connect"], "tos=184", "IPPROTO_IPV6, IPV6_TCLASS, 184");
        check(&["unix connect", "tcp6 connect"], "tos=184", "IPV6_TCLASS");
        check(&["tcp connect", "tcp6 connect"], "tos=184", "IP_TOS");
        check(&["tcp connect"], "fastopen=256", "IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)");
        check(&["tcp listen"], "fastopen=256", "IPPROTO_TCP, TCP_FASTOPEN, 256)");
    }
}
