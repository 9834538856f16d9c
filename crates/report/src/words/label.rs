//! The names of options: the levels in which they differ.

use bytegauge_model::socket_changes::AS_IT_IS;
use bytegauge_model::unit::Bytes;
use bytegauge_model::{Level, OptionChange, ProgramChange, ProgramRole, RelayMethod, SocketChanges, Spec};

use super::phrase;

/// Factors whose levels name themselves: `epoll`, `cubic`.
const NAME_THEMSELVES: &str =
    "engine server_engine client_engine relay value implementation setup congestion transport connect";

/// The levels of the factors that options differ in, as every table names an option: `64K`, or `read 4K + epoll`. Empty
/// where they differ in none.
pub fn option_label(varied: &[String], spec: &Spec) -> String {
    let shown = |name: &String| {
        let level = spec.get(name);
        (level != Level::Absent).then(|| level_label(varied, spec, name, &level))
    };
    varied.iter().filter_map(shown).collect::<Vec<_>>().join(" + ")
}

/// Whether the name of a test has the size by its verb: "reads Unix".
fn is_named_by_title(factor: &str, spec: &Spec) -> bool {
    matches!(factor, "read_size" | "write_size") && spec.role() != Some(ProgramRole::Both)
}

/// One level, with the name of its factor where the level alone tells nothing, or options differ in several: `64K`, `epoll`,
/// `flows 4`, `SO_RCVBUF 256K`, `read 4K`.
pub fn level_label(varied: &[String], spec: &Spec, factor: &str, level: &Level) -> String {
    let mut text = phrase::compact(factor, level);
    // Its buffer, and not its method, may make a relay slower than others.
    if let Some(Bytes(own)) = own_buffer(spec).filter(|_| factor == "relay") {
        text += &format!(" {}", phrase::compact("relay_buffer", &Level::Number(own)));
    }
    let name = phrase::in_code(factor);
    // The relay itself is named before its threads and buffers.
    let has_relay = varied.iter().any(|name| name == "relay");
    let name = name.strip_prefix("relay ").filter(|_| has_relay).unwrap_or(name);
    // A sentence that begins with “4” or “off” tells nothing.
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit()) || matches!(text.as_str(), "on" | "off");
    // Neither do a number and `auto` without their option.
    let is_word = level.name().is_some_and(|_| !level.is_auto());
    let is_clear = !is_bare && (is_word || is_named_by_title(factor, spec));
    // A reader's or a writer's test names its one size next to other factors, too.
    let is_titled = !is_bare && spec.role().is_some() && is_named_by_title(factor, spec);
    match NAME_THEMSELVES.split(' ').any(|name| name == factor) || varied.len() == 1 && is_clear || is_titled {
        true => text,
        false => format!("{name} {text}"),
    }
}

/// The name of a value of a session that tries options of a program: `nodelay on`, `without its SO_RCVBUF`, `as it is`.
pub fn change_label(changes: &SocketChanges, value: &str) -> String {
    if value == AS_IT_IS {
        return "as it is".to_owned();
    }
    let each = changes.named(value).iter().map(|change| {
        let on = change.option().and_then(|change| change.on).map_or_else(String::new, |on| format!("{on}: "));
        match change {
            ProgramChange::Option(OptionChange { option, level: Some(set), .. }) => {
                format!("{on}{} {}", option.replace('_', "-"), phrase::level(option, set))
            }
            ProgramChange::Option(change) => format!("{on}without its {}", change.row().name),
            ProgramChange::Sysctl(change) => format!("{} = {}", change.sysctl, change.value),
        }
    });
    let all: Vec<String> = each.collect();
    if all.is_empty() { value.to_owned() } else { all.join(", ") }
}

/// The method of bytegauge's own relay.
pub fn relay_method(spec: &Spec) -> Option<RelayMethod> {
    spec.relay()?.method().filter(|method| *method != RelayMethod::Direct)
}

/// The bytes that a relay moves at a time by its own default, if that is less than the others, and no size was set.
pub fn own_buffer(spec: &Spec) -> Option<Bytes> {
    let bytes = relay_method(spec)?.small_buffer().filter(|_| spec.relay_buffer().is_none())?;
    Some(Bytes(bytes as u64))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::factor;

    use super::*;

    #[test]
    fn label_names_the_option_of_a_number() {
        let check = |varied: &[&str], levels: &[(&str, &str)], expected: &str| {
            let mut spec = Spec::default();
            for (name, text) in levels {
                spec.set(name, factor::find(name).unwrap().kind.parse(text).unwrap());
            }
            let varied: Vec<String> = varied.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(option_label(&varied, &spec), expected);
        };
        let of = |role: &'static str| [("transport", "tcp"), ("role", role), ("read_size", "64K"), ("rcvbuf", "256K")];
        check(&["read_size"], &of("reader"), "64K");
        check(&["read_size"], &of("both"), "read 64K");
        check(&["rcvbuf"], &of("reader"), "SO_RCVBUF 256K");
        check(&["read_size", "rcvbuf"], &of("reader"), "64K + SO_RCVBUF 256K");
        check(&["rcvbuf"], &[("transport", "tcp"), ("rcvbuf", "auto")], "SO_RCVBUF auto");
        check(&["congestion"], &[("transport", "tcp"), ("congestion", "bbr")], "bbr");
        check(&["engine"], &[("transport", "tcp"), ("engine", "epoll")], "epoll");
        check(&["relay"], &[("relay", "tokio")], "tokio 8K");
        check(&["relay"], &[("relay", "tokio"), ("relay_buffer", "64K")], "tokio");
        check(&["relay"], &[("relay", "splice")], "splice");
    }
}
