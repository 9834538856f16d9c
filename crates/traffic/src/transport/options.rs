//! Options of sockets and pipes as the table in `model` has them: which are set on a socket, and what is in force.
//!
//! Streams, calls and datagrams alike come here; a new option is a row of the table and nothing here. What a path needs
//! for itself (a limit of patience, a count of drops) is set where it is needed.

use std::os::fd::{AsFd, BorrowedFd};

use bytegauge_model::level::Kind;
use bytegauge_model::option::{self as table, OPTIONS, OptionRow, Setter, When};
use bytegauge_model::{EffectiveOptions, Level, Spec, Transport};
use bytegauge_sys::option::{self, Form, KernelOption, Layer, OptionError, SocketOption, Value};

use crate::fault::Fault;

/// What a socket is at the moment when options can be set on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It will listen: what it has, accepted TCP connections inherit.
    Listening,
    /// It will be connected, or bound, and carry the flow itself; or it is a pipe.
    Own,
    /// It was accepted.
    Accepted,
}

/// The options that one end sets on a socket, of those that were asked for.
pub(crate) fn wanted(requested: &Spec, (setter, moment): (Setter, Moment), transport: &Transport) -> Vec<SocketOption> {
    let is_wanted = |row: &OptionRow| {
        let (setters, when) = (row.sites)(requested);
        setters.contains(&setter)
            && match (moment, when) {
                (Moment::Own, _) | (Moment::Listening, When::Early) | (Moment::Accepted, When::Accepted) => true,
                (Moment::Listening, When::Accepted) => false,
                (Moment::Accepted, When::Early) => !transport.is_tcp(),
            }
    };
    OPTIONS
        .iter()
        .filter(|row| (row.fits)(transport) && is_wanted(row))
        .filter_map(|row| asked(row, requested))
        .collect()
}

/// Sets them all.
///
/// # Errors
/// [`Fault::Missing`]: an option that this kernel or this user may not set skips the cell, and the others can be
/// measured.
pub(crate) fn set_all(fd: impl AsFd, options: &[SocketOption]) -> Result<(), Fault> {
    try_set_all(fd.as_fd(), options).map_err(|error| Fault::Missing(error.to_string()))
}

/// Sets them all, up to the first that is refused.
pub(crate) fn try_set_all(fd: BorrowedFd<'_>, options: &[SocketOption]) -> Result<(), OptionError> {
    options.iter().try_for_each(|option| option::set(fd, option))
}

/// What is in force, of what was asked for and of what is always told.
pub(crate) fn in_force(fd: BorrowedFd<'_>, transport: &Transport, requested: &Spec) -> EffectiveOptions {
    let mut effective = EffectiveOptions::default();
    let is_told = |row: &&OptionRow| row.always || requested.get(row.factor) != Level::Absent;
    for row in OPTIONS.iter().filter(is_told).filter(|row| (row.fits)(transport)) {
        if let Ok(value) = option::read(fd, known(row)) {
            effective.levels.insert(row.factor.to_owned(), level(row, value));
        }
    }
    effective
}

/// The kernel's option of a row.
fn known(row: &OptionRow) -> KernelOption {
    let layer = match row.layer {
        table::Layer::Socket => Layer::Socket,
        table::Layer::Tcp => Layer::Tcp,
    };
    let form = match row.form {
        table::Form::Int if matches!(row.kind, Kind::Switch { .. }) => Form::Flag,
        table::Form::Int => Form::Int,
        table::Form::Text => Form::Text,
        table::Form::Linger => Form::Linger,
        table::Form::Pipe => Form::Pipe,
    };
    KernelOption::new(row.name, layer, row.number, form, row.suffix)
}

/// The option as the level asks for it, in the kernel's units.
fn asked(row: &OptionRow, requested: &Spec) -> Option<SocketOption> {
    let value = match row.in_kernel_units(requested.get(row.factor)) {
        Level::Absent => return None,
        Level::Number(n) => Value::Number(n),
        Level::Switch(on) => Value::Switch(on),
        Level::Name(name) => Value::Text(name),
    };
    Some(known(row).to(value))
}

fn level(row: &OptionRow, value: Value) -> Level {
    match value {
        Value::Number(n) => Level::Number(n.saturating_mul(row.unit)),
        Value::Switch(on) => Level::Switch(on),
        Value::Text(name) => Level::Name(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(given: &[(&str, Level)], setter: Setter, moment: Moment, transport: &str) -> String {
        let requested = given.iter().cloned().collect();
        let options = wanted(&requested, (setter, moment), &transport.parse().unwrap());
        options.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// A report prints [`OptionRow::in_kernel_units`] as the line of code; this is what setsockopt(2) gets.
    #[test]
    fn kernel_receives_the_printed_number() {
        for row in OPTIONS {
            let level = row.kind.parse(row.example).unwrap();
            let option = asked(row, &Spec::from([(row.factor, level.clone())])).unwrap();
            if let Level::Number(printed) = row.in_kernel_units(level) {
                assert_eq!(option.value, Value::Number(printed), "{option}");
                assert_eq!(option.to_string(), format!("{}={printed}{}", row.name, row.suffix));
            }
        }
    }

    /// The numbers of the table against those that `sys` has from libc.
    #[test]
    fn one_option_has_one_number() {
        use option::{CONGESTION, LINGER, NO_DELAY, RECEIVE_BUFFER, REUSE_PORT, SEND_BUFFER};
        let in_sys = [CONGESTION, LINGER, NO_DELAY, RECEIVE_BUFFER, REUSE_PORT, SEND_BUFFER];
        for of_libc in in_sys {
            assert_eq!(OPTIONS.iter().map(known).find(|known| known.name == of_libc.name), Some(of_libc));
        }
    }

    #[test]
    fn what_a_listener_has_is_set_again_only_where_it_is_not_inherited() {
        let given = [("rcvbuf", Level::Number(4096)), ("linger", Level::Number(0))];
        let check = |moment, transport, expected: &str| {
            assert_eq!(set(&given, Setter::Server, moment, transport), expected, "{moment:?} {transport}");
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
        check(Setter::Source, "tcp", "SO_SNDBUF=1 TCP_NODELAY=true");
        check(Setter::Sink, "tcp", "SO_RCVBUF=2 SO_RCVLOWAT=3 SO_BUSY_POLL=2us");
        check(Setter::Client, "tcp", "SO_SNDBUF=1 TCP_NODELAY=true SO_BUSY_POLL=2us");
        check(Setter::Server, "udp", "SO_SNDBUF=1 SO_RCVBUF=2 SO_BUSY_POLL=2us");
        check(Setter::Source, "pipe", "F_SETPIPE_SZ=4");
        check(Setter::Sink, "pipe", "");
        check(Setter::Source, "unix-dgram", "SO_SNDBUF=1");
    }
}
