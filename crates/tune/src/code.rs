//! The line of a program that a change stands for.

use bytegauge_model::option::{OptionLayer, OptionRow, ValueForm};
use bytegauge_model::{Level, OptionChange, ProgramChange, SocketsSeen};

/// What to change in the source, `remove setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 65536)`, or on the machine.
pub(crate) fn line(change: &ProgramChange, seen: Option<&SocketsSeen>) -> String {
    match change {
        ProgramChange::Option(change) => line_of_option(change, seen),
        ProgramChange::Sysctl(change) => format!("sysctl -w {}='{}'", change.sysctl, change.value),
    }
}

fn line_of_option(change: &OptionChange, seen: Option<&SocketsSeen>) -> String {
    let row = change.row();
    let own = seen.into_iter().flat_map(|seen| seen.own.values());
    let own = own.filter(|own| own.option.as_deref() == Some(row.factor)).map(|own| own.value.as_str()).next();
    match (&change.level, own) {
        (None, own) => format!("remove {}", call(row, own.unwrap_or("…"))),
        (Some(level), Some(own)) => format!("replace {} by {}", call(row, own), call(row, &value(row, level))),
        (Some(level), None) => format!("add {}", call(row, &value(row, level))),
    }
}

fn call(row: &OptionRow, value: &str) -> String {
    let layer = match row.layer {
        OptionLayer::Socket => "SOL_SOCKET",
        OptionLayer::Ip => "IPPROTO_IP",
        OptionLayer::Ipv6 => "IPPROTO_IPV6",
        OptionLayer::Tcp => "IPPROTO_TCP",
    };
    format!("setsockopt(fd, {layer}, {}, {value})", row.name)
}

fn value(row: &OptionRow, level: &Level) -> String {
    match row.in_kernel_units(level.clone()) {
        Level::Number(number) => number.to_string(),
        Level::Switch(on) => u8::from(on).to_string(),
        Level::Name(name) if row.form == ValueForm::Text => format!("\"{name}\""),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::socket_changes::{OwnOption, parse};

    use super::*;

    #[test]
    fn lines_name_the_call() {
        let own = OwnOption { option: Some("rcvbuf".into()), value: "65536".into(), calls: 1 };
        let seen = SocketsSeen { own: [("SO_RCVBUF".into(), own)].into(), ..SocketsSeen::default() };
        let check =
            |text: &str, expected: &str| assert_eq!(line_of_option(&parse(text).unwrap()[0], Some(&seen)), expected);
        check("rcvbuf=unset", "remove setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 65536)");
        check(
            "rcvbuf=4M",
            "replace setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 65536) by setsockopt(fd, SOL_SOCKET, SO_RCVBUF, 4194304)",
        );
        check("nodelay=on", "add setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1)");
        check("congestion=bbr", "add setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, \"bbr\")");
        check("rto-min=40ms", "add setsockopt(fd, IPPROTO_TCP, TCP_RTO_MIN_US, 40000)");
    }
}
