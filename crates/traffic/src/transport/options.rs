//! Options of sockets and pipes from the table in `model`: those set on a socket, and the values in force.
//!
//! Streams, calls and datagrams alike use this; a new option is a row of the table and nothing here. Options that a path needs
//! for itself (a time limit, a count of drops) are set where they are needed.
//!
//! Also the kernel's state of a connection, for a report.

use std::os::fd::{AsFd, BorrowedFd};

use bytegauge_model::level::LevelKind;
use bytegauge_model::option::{OPTIONS, OptionRow, ValueForm, When};
use bytegauge_model::{
    EffectiveOptions, EndRole, FlowReport, Level, Spec, TcpReport, Transport, option as option_table,
};
use bytegauge_sys::option::{self, Form, KernelOption, OptionError, SocketOption, Value};
use bytegauge_sys::tcp_info;

use crate::EndError;
use crate::setup::Setup;

/// The state of a socket at the moment when options can be set on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It will listen: accepted TCP connections inherit its options.
    Listening,
    /// It will be connected, or bound, and carry the flow itself; or it is a pipe.
    Own,
    /// It was accepted.
    Accepted,
}

/// The options that one end sets on a socket, of those that were asked for.
pub(crate) fn wanted(spec: &Spec, (setter, moment): (EndRole, Moment), transport: &Transport) -> Vec<SocketOption> {
    let is_wanted = |row: &OptionRow| {
        let (setters, when) = (row.sites)(spec);
        setters.contains(&setter)
            && match (moment, when) {
                (Moment::Own, _) | (Moment::Listening, When::Early) | (Moment::Accepted, When::Accepted) => true,
                (Moment::Listening, When::Accepted) => false,
                (Moment::Accepted, When::Early) => !transport.is_tcp(),
            }
    };
    let rows = OPTIONS.iter().filter(|row| (row.fits)(transport) && is_wanted(row));
    // A switch without `auto` is off in the kernel until it is turned on.
    let is_off = |row: &OptionRow, value: &Value| {
        matches!((row.kind, value), (LevelKind::Switch { auto: false }, Value::Switch(false)))
    };
    let asked = rows.filter_map(|row| Some((row, asked(row, spec)?))).filter(|(row, value)| !is_off(row, value));
    asked.map(|(row, value)| known(row, setter, transport).to(value)).collect()
}

/// The options of one of several listening sockets: where an option is the CPU of the socket's thread, it gets that CPU.
pub(crate) fn for_cpu(options: &[SocketOption], cpu: usize) -> Vec<SocketOption> {
    let with_cpu = |option: &SocketOption| match (option.known.form, &option.value) {
        (Form::Cpu, Value::Switch(true)) => Some(option.known.to(cpu as u64)),
        // Sockets have none before one is set.
        (Form::Cpu, _) => None,
        _ => Some(option.clone()),
    };
    options.iter().filter_map(with_cpu).collect()
}

/// Sets them all.
///
/// # Errors
/// [`EndError::Missing`]: an option that this kernel or this user may not set skips the cell, and the others can be
/// measured.
pub(crate) fn set_all(fd: impl AsFd, options: &[SocketOption]) -> Result<(), EndError> {
    Ok(try_set_all(fd.as_fd(), options)?)
}

/// Sets them all, up to the first that is refused.
pub(crate) fn try_set_all(fd: BorrowedFd<'_>, options: &[SocketOption]) -> Result<(), OptionError> {
    options.iter().try_for_each(|option| option::set(fd, option))
}

/// The values in force on a connection, a datagram socket or a pipe, of the requested options and of those that are always
/// reported.
pub(crate) fn in_force(fd: BorrowedFd<'_>, transport: &Transport, spec: &Spec) -> EffectiveOptions {
    let is_reported = |row: &&OptionRow| row.always || option_table::asked(spec, row).is_some();
    // A client has its own option where that of the server belongs to the listening socket.
    let is_here = |row: &&OptionRow| !row.of_listener || (row.variant)(EndRole::Client, transport).is_some();
    read(fd, (EndRole::Client, transport), spec, OPTIONS.iter().filter(is_reported).filter(is_here))
}

/// The values in force on a listening socket, of the requested options that no accepted connection inherits.
pub(crate) fn of_listener(fd: BorrowedFd<'_>, transport: &Transport, spec: &Spec) -> EffectiveOptions {
    let rows = OPTIONS.iter().filter(|row| row.of_listener && option_table::asked(spec, row).is_some());
    read(fd, (EndRole::Server, transport), spec, rows)
}

fn read<'a>(
    fd: BorrowedFd<'_>,
    (setter, transport): (EndRole, &Transport),
    spec: &Spec,
    rows: impl Iterator<Item = &'a OptionRow>,
) -> EffectiveOptions {
    let mut effective = EffectiveOptions::default();
    for row in rows.filter(|row| (row.readable)(transport) && (row.fits)(transport)) {
        if let Ok(value) = option::read(fd, known(row, setter, transport)) {
            effective.levels.insert(row.factor.to_owned(), level(row, value, spec));
        }
    }
    effective
}

/// The kernel's option of a row at an end; at a client that is the one of an open connection.
pub(crate) fn known(row: &OptionRow, setter: EndRole, transport: &Transport) -> KernelOption {
    let own = (row.name, row.layer, row.number, row.form);
    let (name, layer, number, form) = (row.variant)(setter, transport).unwrap_or(own);
    let form = match form {
        ValueForm::Int if matches!(row.kind, LevelKind::Switch { .. }) => Form::Flag,
        ValueForm::Int => Form::Int,
        ValueForm::Flag => Form::Flag,
        ValueForm::Long => Form::Long,
        ValueForm::Text => Form::Text,
        ValueForm::Linger => Form::Linger,
        ValueForm::Pipe => Form::Pipe,
        ValueForm::Cpu => Form::Cpu,
    };
    KernelOption { name, place: (layer as i32, number), form, suffix: row.unit.1 }
}

/// The kernel's options that a row stands for, at either end and over IPv4 and IPv6.
pub(crate) fn variants(row: &OptionRow) -> Vec<KernelOption> {
    let over = [Transport::Tcp, Transport::Tcp6];
    let all = over
        .iter()
        .flat_map(|transport| [EndRole::Client, EndRole::Server].map(|setter| known(row, setter, transport)));
    let mut variants: Vec<KernelOption> = Vec::new();
    all.for_each(|option| {
        if !variants.contains(&option) {
            variants.push(option);
        }
    });
    variants
}

/// The level of an option that is in force on a socket of another program; `None` if the kernel does not report it.
pub(crate) fn present(fd: BorrowedFd<'_>, row: &OptionRow, transport: &Transport) -> Option<Level> {
    let value = option::read(fd, known(row, EndRole::Client, transport)).ok()?;
    Some(level(row, value, &Spec::default()))
}

/// Sets one option on a socket of another program, and reads it back.
///
/// # Errors
/// Why it is not in force, and what to do.
pub(crate) fn change(
    fd: BorrowedFd<'_>,
    row: &'static OptionRow,
    requested: &Level,
    (setter, transport): (EndRole, &Transport),
) -> Result<(), String> {
    let spec = Spec::from([(row.factor, requested.clone())]);
    let Some(value) = asked(row, &spec) else { return Ok(()) };
    let option = known(row, setter, transport);
    option::set(fd, &option.to(value)).map_err(|error| error.to_string())?;
    if row.changes || !(row.readable)(transport) {
        return Ok(());
    }
    let expected = row.expected(requested);
    match option::read(fd, option).map(|value| level(row, value, &spec)) {
        Ok(found) if found != expected => Err(format!(
            "{} is {} where {} was set: {}",
            row.name,
            row.kind.show(&found),
            row.kind.show(requested),
            row.explained(&expected, &found)
        )),
        _ => Ok(()),
    }
}

/// The requested value in the kernel's units.
fn asked(row: &OptionRow, spec: &Spec) -> Option<Value> {
    Some(match row.in_kernel_units(option_table::asked(spec, row)?) {
        Level::Absent => return None,
        Level::Number(n) => Value::Number(n),
        Level::Switch(on) => Value::Switch(on),
        Level::Name(name) => Value::Text(name),
    })
}

/// The level of a value that was read.
fn level(row: &OptionRow, value: Value, spec: &Spec) -> Level {
    match value {
        Value::Number(n) => Level::Number(n.saturating_mul(row.unit.0)),
        // The option of this end only turns on what the other end has a number for.
        Value::Switch(true) if spec.get(row.factor).number().is_some() => spec.get(row.factor),
        Value::Switch(on) => Level::Switch(on),
        Value::Text(name) => Level::Name(name),
    }
}

// The kernel's state of a connection, for a report.

/// The kernel's state of a connection now; a flow's counters stay empty.
pub(crate) fn report(fd: BorrowedFd<'_>, setup: &Setup) -> FlowReport {
    let transport = setup.transport();
    let tcp = if transport.is_tcp() { tcp_info::tcp_info(fd).ok() } else { None };
    FlowReport {
        tcp: tcp.as_ref().map(|info| {
            Box::new(TcpReport {
                mptcp: (*transport == Transport::Mptcp).then(|| tcp_info::mptcp_info(fd).is_ok_and(|info| info.in_use)),
                syn_data: info.syn_data.filter(|_| setup.spec.fastopen().is_some()),
                ..tcp_report(info)
            })
        }),
        options: in_force(fd, transport, &setup.spec).into(),
        ..FlowReport::default()
    }
}

/// Bytes that the kernel received on a connection of TCP or MPTCP; `None` where it does not count them.
pub(crate) fn bytes_received(fd: BorrowedFd<'_>, transport: &Transport) -> Option<u64> {
    match transport {
        Transport::Mptcp => tcp_info::mptcp_info(fd).ok()?.bytes_received,
        _ => tcp_info::tcp_info(fd).ok()?.bytes_received,
    }
}

/// The fields of `TCP_INFO` that a report holds.
fn tcp_report(info: &tcp_info::TcpInfo) -> TcpReport {
    TcpReport {
        retransmits: info.total_retrans.map(u64::from).into(),
        busy_us: info.busy_time_us.into(),
        rwnd_limited_us: info.rwnd_limited_us.into(),
        sndbuf_limited_us: info.sndbuf_limited_us.into(),
        min_rtt_us: info.min_rtt_us.map(u64::from).into(),
        bytes_sent: info.bytes_sent.into(),
        bytes_acked: info.bytes_acked.into(),
        bytes_received: info.bytes_received.into(),
        mptcp: None,
        syn_data: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/support/examples.rs"));

    fn set(given: &[(&str, Level)], setter: EndRole, moment: Moment, transport: &str) -> String {
        let requested = given.iter().cloned().collect();
        let options = wanted(&requested, (setter, moment), &transport.parse().unwrap());
        options.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// A report prints [`OptionRow::in_kernel_units`] as the line of code; this is what setsockopt(2) gets.
    #[test]
    fn kernel_receives_the_printed_number() {
        for row in OPTIONS.iter() {
            let level = row.kind.parse(example(row.factor)).unwrap();
            let value = asked(row, &Spec::from([(row.factor, level.clone())])).unwrap();
            if let Level::Number(printed) = row.in_kernel_units(level) {
                assert_eq!(value, Value::Number(printed), "{}", row.name);
            }
        }
    }

    /// Units, against the manual pages and the kernel's headers.
    #[test]
    fn levels_are_passed_in_the_units_of_options() {
        let check = |factor: &str, level: &str, transport: &str, expected: &str| {
            let row = bytegauge_model::option::of_factor(factor).unwrap();
            let level = row.kind.parse(level).unwrap();
            let [setter, ..] = (row.sites)(&Spec::default()).0 else { panic!("no end sets {factor}") };
            assert_eq!(set(&[(factor, level)], *setter, Moment::Own, transport), expected);
        };
        check("busy_poll", "50us", "tcp", "SO_BUSY_POLL=50us");
        check("busy_poll_budget", "8", "udp", "SO_BUSY_POLL_BUDGET=8");
        check("prefer_busy_poll", "on", "udp", "SO_PREFER_BUSY_POLL=true");
        check("pacing_rate", "8Mbit", "tcp", "SO_MAX_PACING_RATE=1000000");
        check("delack_max", "40ms", "tcp", "TCP_DELACK_MAX_US=40000us");
        check("rto_min", "40ms", "tcp", "TCP_RTO_MIN_US=40000us");
        check("rto_max", "5s", "tcp6", "TCP_RTO_MAX_MS=5000ms");
        check("tx_delay", "1ms", "tcp", "TCP_TX_DELAY=1000us");
        check("txrehash", "off", "tcp", "SO_TXREHASH=false");
        check("tos", "184", "udp", "IP_TOS=184");
        check("tos", "184", "tcp6", "IPV6_TCLASS=184");
        check("tos", "184", "unix", "");
        check("defer_accept", "1", "tcp", "TCP_DEFER_ACCEPT=1s");
        check("fastopen", "256", "tcp", "TCP_FASTOPEN_CONNECT=256");
        check("notsent_lowat", "16K", "tcp", "TCP_NOTSENT_LOWAT=16384");
        check("rcvbuf", "64K", "unix", "SO_RCVBUF=65536");
        check("inq", "on", "mptcp", "TCP_INQ=true");
        check("inq", "on", "unix", "SO_INQ=true");
        check("linger", "1", "tcp", "SO_LINGER=1s");
        check("pipe_size", "64K", "pipe", "F_SETPIPE_SZ=65536");
    }

    /// The numbers of the table against those that `sys` has from libc.
    #[test]
    fn one_option_has_one_number() {
        use option::{CONGESTION, DEFER_ACCEPT, LINGER, NO_DELAY, RECEIVE_BUFFER, REUSE_PORT, SEND_BUFFER};
        let (ends, tcp) = (EndRole::Server, &Transport::Tcp);
        for of_libc in [CONGESTION, DEFER_ACCEPT, LINGER, NO_DELAY, RECEIVE_BUFFER, REUSE_PORT, SEND_BUFFER] {
            let of_table = OPTIONS.iter().map(|row| known(row, ends, tcp)).find(|known| known.name == of_libc.name);
            assert_eq!(of_table, Some(of_libc));
        }
    }

    #[test]
    fn options_are_set_again_unless_inherited() {
        let given = [("rcvbuf", Level::Number(4096)), ("linger", Level::Number(0))];
        let check = |moment, transport, expected: &str| {
            assert_eq!(set(&given, EndRole::Server, moment, transport), expected, "{moment:?} {transport}");
        };
        check(Moment::Listening, "tcp", "SO_RCVBUF=4096");
        check(Moment::Accepted, "tcp", "SO_LINGER=0s");
        check(Moment::Listening, "unix", "SO_RCVBUF=4096");
        check(Moment::Accepted, "unix", "SO_RCVBUF=4096");
        check(Moment::Own, "udp", "SO_RCVBUF=4096");
    }

    #[test]
    fn each_end_sets_its_own() {
        let given = [
            ("sndbuf", Level::Number(1)),
            ("rcvbuf", Level::Number(2)),
            ("rcvlowat", Level::Number(3)),
            ("nodelay", Level::Switch(true)),
            ("busy_poll", Level::Number(1500)),
            ("pipe_size", Level::Number(4)),
        ];
        let check = |setter, transport, expected: &str| {
            assert_eq!(set(&given, setter, Moment::Own, transport), expected, "{setter:?} {transport}");
        };
        check(EndRole::Source, "tcp", "SO_SNDBUF=1 TCP_NODELAY=true");
        check(EndRole::Sink, "tcp", "SO_RCVBUF=2 SO_RCVLOWAT=3 SO_BUSY_POLL=2us");
        check(EndRole::Client, "tcp", "SO_SNDBUF=1 TCP_NODELAY=true SO_BUSY_POLL=2us");
        check(EndRole::Server, "udp", "SO_SNDBUF=1 SO_RCVBUF=2 SO_BUSY_POLL=2us");
        check(EndRole::Source, "pipe", "F_SETPIPE_SZ=4");
        check(EndRole::Sink, "pipe", "");
        check(EndRole::Source, "unix-dgram", "SO_SNDBUF=1");
    }
}

#[cfg(test)]
mod kernel_report_tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::os::fd::AsFd;

    use bytegauge_model::Spec;
    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;
    use crate::transport::missing;

    /// Whether a client of MPTCP uses it towards a listener of a protocol.
    fn uses_mptcp_towards(listener: Option<Protocol>) -> Option<bool> {
        let open = |protocol| Socket::new(Domain::IPV4, Type::STREAM, protocol).unwrap();
        let (listener, client) = (open(listener), open(Some(Protocol::MPTCP)));
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(1).unwrap();
        client.connect(&listener.local_addr().unwrap()).unwrap();
        let _server = listener.accept().unwrap();
        let setup = Setup::unchecked(Spec::from([("transport", "mptcp".into())]));
        report(client.as_fd(), &setup).tcp.unwrap().mptcp
    }

    #[test]
    fn a_fallback_to_tcp_is_reported() {
        if missing(&Transport::Mptcp).is_some() {
            return;
        }
        assert_eq!(uses_mptcp_towards(Some(Protocol::MPTCP)), Some(true));
        assert_eq!(uses_mptcp_towards(None), Some(false));
    }
}
