//! The command that tests a recommendation on the program itself. It ends, does the same work for every value, and has
//! `{value}` where the program's command line contains the size. Pure.

use bytegauge_model::Bytes;
use serde::Serialize;

use crate::descriptor::Leads;
use crate::observations::{EndView, Observed};

/// The largest value of a size (`read_size` and similar factors).
pub(super) const SIZE_MAX: u64 = 16 << 20;

/// Bytes that dd(1) copies if nothing bounds it: enough for a good part of a second on the slowest memory.
const DD_BYTES: u64 = 1 << 30;

/// A command, and the additions that the user has to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suggested {
    /// The command.
    #[serde(rename = "tune")]
    pub command: String,
    /// The missing part without which it measures nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}

impl Suggested {
    /// The trial of sizes in the program itself: of an end, with the size that it uses there.
    pub(super) fn of(observed: &Observed, used: Option<(&EndView, u64)>) -> Suggested {
        let own = used.map(|(_, own)| own.clamp(1, SIZE_MAX));
        let is_dd = observed.command.first().is_some_and(|word| word.rsplit('/').next() == Some("dd"));
        let (command, is_found) = match own {
            Some(own) if is_dd => (dd_words(&observed.command, own), true),
            _ => with_value(&observed.command, own),
        };
        let default = own.map_or_else(String::new, |own| format!(" --now {}", Bytes(own).compact()));
        let flags = format!(" --values 4K..1M{default}");
        let leads = used.map(|(end, _)| &end.leads);
        let ends = observed.ended || (is_dd && own.is_some());
        let lacks = match port(leads) {
            Some(_) => Some("replace CLIENT by the command of a client that makes requests and ends"),
            None => (!ends).then_some(
                "add an argument that makes it end by itself (a count, a size, a time): it did not end while observed",
            ),
        };
        let size =
            (!is_found).then_some("put {value} where the program takes its buffer size, if it takes it as an argument");
        let lacks: Vec<&str> = size.into_iter().chain(lacks).collect();
        Suggested {
            command: tune(&flags, &command, leads),
            lacks: Some(lacks.join("; ")).filter(|text| !text.is_empty()),
        }
    }
}

/// The port of a server, which has to be stopped.
fn port(leads: Option<&Leads>) -> Option<u16> {
    match leads {
        Some(Leads::Accepted { transport, port }) if transport.starts_with("tcp") => Some(*port),
        _ => None,
    }
}

/// The command that varies options of the program's sockets.
pub(super) fn tune_options(observed: &Observed, end: &EndView, option: &str) -> String {
    let pid = observed.under.as_ref().map_or(observed.pid, |under| under.pid);
    // A running server keeps its port, and has made its calls already.
    let present = option.replace("unset,", "");
    match port(Some(&end.leads)).filter(|_| !observed.ended && !observed.started && !present.contains("unset")) {
        Some(port) => format!("bytegauge tune --pid {pid} --port {port} --option {present} --metric wall"),
        None => tune(&format!(" --option {option}"), &observed.command, Some(&end.leads)),
    }
}

fn tune(flags: &str, command: &[String], leads: Option<&Leads>) -> String {
    let command = words(command);
    match port(leads) {
        Some(port) => {
            format!("bytegauge tune{flags} --start {} --ready tcp:{port} -- CLIENT", quoted(&format!("exec {command}")))
        }
        None => format!("bytegauge tune{flags} -- {command}"),
    }
}

/// The words with `{value}` in place of the size, or behind them, and whether the size is among them.
fn with_value(command: &[String], own: Option<u64>) -> (Vec<String>, bool) {
    let place = |(at, word): (usize, &String)| match (at, own) {
        (1.., Some(own)) => in_place(word, own).map_or_else(|| (word.clone(), false), |changed| (changed, true)),
        _ => (word.clone(), false),
    };
    let (mut words, changed): (Vec<String>, Vec<bool>) = command.iter().enumerate().map(place).unzip();
    let is_found = changed.contains(&true);
    if !is_found {
        // Only the user can find the size in the program's settings.
        words.push("{value}".into());
    }
    (words, is_found)
}

/// dd(1) counts in blocks: of another size it would copy another amount, and without a count never end. With
/// `iflag=count_bytes` it counts bytes, whatever the block.
fn dd_words(command: &[String], own: u64) -> Vec<String> {
    let value = |name: &str| command.iter().skip(1).rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let flags: Vec<&str> = value("iflag").into_iter().flat_map(|flags| flags.split(',')).collect();
    let in_bytes = flags.contains(&"count_bytes");
    let bytes = match value("count").map(str::parse::<Bytes>) {
        None => DD_BYTES,
        Some(Ok(count)) if in_bytes => count.0,
        Some(Ok(count)) => count.0.saturating_mul(own),
        // In a notation of dd (`1xM`): left to the user.
        Some(Err(_)) => return with_value(command, Some(own)).0,
    };
    let is_ours = |word: &&String| !["count=", "iflag=", "bs=", "ibs="].iter().any(|name| word.starts_with(name));
    let mut words: Vec<String> = command.iter().filter(is_ours).cloned().collect();
    let flags: Vec<&str> = flags.into_iter().filter(|flag| *flag != "count_bytes").chain(["count_bytes"]).collect();
    words.extend(["bs={value}".into(), format!("count={bytes}"), format!("iflag={}", flags.join(","))]);
    words
}

/// The word with `{value}` in place of the size, as a number or with a suffix.
fn in_place(word: &str, size: u64) -> Option<String> {
    let short = Bytes(size).compact();
    for written in [size.to_string(), short.clone(), short.to_lowercase(), format!("{short}iB"), format!("{short}B")] {
        let Some(at) = word.find(&written) else { continue };
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '.');
        let end = at + written.len();
        if !is_part(word[..at].chars().next_back()) && !is_part(word[end..].chars().next()) {
            return Some(format!("{}{{value}}{}", &word[..at], &word[end..]));
        }
    }
    None
}

fn words(command: &[String]) -> String {
    command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%{}".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dd_copies_the_same_for_every_block() {
        let dd = |line: &str| {
            let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
            words(&dd_words(&command, 65_536))
        };
        let bounded = "dd if=/dev/zero of=/dev/null bs={value} count=1073741824 iflag=count_bytes";
        assert_eq!(dd("dd if=/dev/zero of=/dev/null bs=64K"), bounded);
        assert_eq!(dd("dd if=/dev/zero of=/dev/null"), bounded, "the default size is not in the command");
        assert_eq!(dd("dd if=a bs=64K count=3"), "dd if=a bs={value} count=196608 iflag=count_bytes");
        assert_eq!(
            dd("dd if=a bs=64K count=3K iflag=direct"),
            "dd if=a bs={value} count=201326592 iflag=direct,count_bytes"
        );
        assert_eq!(dd("dd bs=64K count=1M iflag=count_bytes"), "dd bs={value} count=1048576 iflag=count_bytes");
        assert_eq!(dd("dd bs=64K count=2x3"), "dd bs={value} count=2x3");
    }

    #[test]
    fn a_size_is_found_as_a_whole_word() {
        for (word, expected) in [
            ("bs=65536", Some("bs={value}")),
            ("64k", Some("{value}")),
            ("--size=64KiB", Some("--size={value}")),
            ("165536", None),
            ("65536.5", None),
            ("x64K", None),
        ] {
            assert_eq!(in_place(word, 65_536).as_deref(), expected, "{word}");
        }
    }
}
