//! The metric of a run of the user's program.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name_tables::{names, text_serde};
use crate::unit::{Bytes, TextError};

/// The metric of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Its time.
    Wall,
    /// CPU time of the command and of its server from when it was ready: less is better.
    Cpu,
    /// This number of bytes, in its time.
    Bytes(u64),
    /// A rate that it prints: more is better.
    Rate(String),
    /// A time in seconds that it prints: less is better.
    Time(String),
    /// A counter of this name while it runs: less is better.
    Counter(String),
    /// The last number that another command prints, as this.
    Command(PrintedNumber, String),
}

names! {
    /// What a number means that a command prints.
    PrintedNumber, "printed number", PRINTED_NUMBERS {
        Rate = "cmd": "a rate, after the run: more is better",
        Time = "cmd-time": "seconds, after the run: less is better",
        Total = "cmd-total": "a total, before and after the run: more growth per second is better",
    }
}

/// The unit of a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// Runs per second.
    #[default]
    Runs,
    /// Runs per second of CPU time.
    CpuTime,
    /// Bytes per second.
    Bytes,
    /// The unit that the program prints.
    Printed,
    /// Runs for a million events, one more than were counted, so that a run without any has a rate as well.
    Events,
}

impl Metric {
    /// The unit of its rate.
    pub fn counted(&self) -> Counted {
        match self {
            Metric::Wall | Metric::Time(_) | Metric::Command(PrintedNumber::Time, _) => Counted::Runs,
            Metric::Cpu => Counted::CpuTime,
            Metric::Bytes(_) => Counted::Bytes,
            Metric::Rate(_) | Metric::Command(..) => Counted::Printed,
            Metric::Counter(_) => Counted::Events,
        }
    }

    /// The regular expression whose first group, or whole match, is the number.
    pub fn pattern(&self) -> Option<&str> {
        match self {
            Metric::Rate(pattern) | Metric::Time(pattern) => Some(pattern),
            Metric::Wall | Metric::Cpu | Metric::Bytes(_) | Metric::Counter(_) | Metric::Command(..) => None,
        }
    }
}

/// The expected form of a metric.
const EXPECTED: &str = "a metric: use wall (time of a run), cpu (CPU time of a run and its server), bytes:N (each run moves N), \
    regex:RE (a rate that it prints), time:RE (seconds that it prints), counter:NAME (what the kernel counts meanwhile, such as \
    TcpExt.TCPBacklogDrop), or what another command prints: cmd:CMD (a rate), cmd-time:CMD (seconds), \
    cmd-total:CMD (a total that grows) or prom:URL#NAME (a counter of Prometheus, by curl)";

impl FromStr for Metric {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Metric, TextError> {
        let bad = || TextError::malformed(text, EXPECTED);
        Ok(match text.split_once(':') {
            None if text == "wall" => Metric::Wall,
            None if text == "cpu" => Metric::Cpu,
            Some(("bytes", size)) => match size.parse()? {
                Bytes(0) => return Err(bad()),
                Bytes(bytes) => Metric::Bytes(bytes),
            },
            Some(("regex", pattern)) if !pattern.is_empty() => Metric::Rate(pattern.into()),
            Some(("time", pattern)) if !pattern.is_empty() => Metric::Time(pattern.into()),
            Some(("counter", name)) if !name.is_empty() => Metric::Counter(name.into()),
            Some(("prom", place)) => {
                let (url, series) = place.split_once('#').ok_or_else(bad)?;
                if url.is_empty() || series.is_empty() || place.contains(['\'', '\\', '\n']) {
                    return Err(bad());
                }
                Metric::Command(PrintedNumber::Total, prometheus_total(url, series))
            }
            Some((kind, command)) if !command.is_empty() => {
                Metric::Command(kind.parse().map_err(|_| bad())?, command.into())
            }
            _ => return Err(bad()),
        })
    }
}

/// The shell command that prints a counter of a Prometheus exporter: its sum over all labels, or one series where `series` has
/// its labels (the text format, prometheus.io/docs/instrumenting/exposition_formats). A counter that does not exist yet is 0.
fn prometheus_total(url: &str, series: &str) -> String {
    let labels = r#"^[{]([^"}]|"[^"]*")*[}]"#;
    format!(
        "curl -sSf '{url}' | awk -v s='{series}' 'index($0, s) == 1 {{ rest = substr($0, length(s) + 1); \
         if (rest ~ /^[ {{]/) {{ sub(/{labels}/, \"\", rest); split(rest, fields, \" \"); total += fields[1] }} }} \
         END {{ if (NR) printf \"%.15g\\n\", total }}'"
    )
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Wall => f.write_str("wall"),
            Metric::Cpu => f.write_str("cpu"),
            Metric::Bytes(bytes) => write!(f, "bytes:{}", Bytes(*bytes).compact()),
            Metric::Rate(pattern) => write!(f, "regex:{pattern}"),
            Metric::Time(pattern) => write!(f, "time:{pattern}"),
            Metric::Counter(name) => write!(f, "counter:{name}"),
            Metric::Command(number, command) => write!(f, "{number}:{command}"),
        }
    }
}
text_serde!(Metric);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_round_trip() {
        for text in [
            "wall",
            "cpu",
            "bytes:256M",
            r"regex:([0-9.]+) MB/s",
            "time:took ([0-9.]+)s",
            "counter:TcpExt.TCPBacklogDrop",
            "cmd-total:curl -s localhost:80/m",
        ] {
            assert_eq!(text.parse::<Metric>().unwrap().to_string(), text);
        }
        let counter: Metric = "prom:http://localhost:9100/metrics#requests_total".parse().unwrap();
        assert!(counter.to_string().starts_with("cmd-total:curl "), "{counter}");
        assert_eq!(counter.to_string().parse(), Ok(counter));
        for text in [
            "",
            "wal",
            "bytes:",
            "bytes:0",
            "regex:",
            "counter:",
            "counter",
            "cmd:",
            "command:x",
            "prom:x",
            "prom:x'#y",
        ] {
            assert!(text.parse::<Metric>().is_err(), "{text}");
        }
    }
}
