//! Reads the output of `iperf3 --json`: one document, or several one after the other. Each is a trial.

use serde_json::Value;

use super::arrange::arrange;
use super::mapping::Mapping;
use super::observation::Shelf;
use super::target;
use super::{Format, ImportDraft, ImportError, Parser, is_external_json};

/// Documents of `iperf3 --json`.
pub(super) struct Iperf3Json;

impl Parser for Iperf3Json {
    fn format(&self) -> Format {
        Format::Iperf3
    }

    fn recognises(&self, text: &str, first: &str) -> bool {
        is_external_json(first) && text.contains("\"test_start\"")
    }

    fn parse(&self, text: &str, map: &[(String, String)], name: Option<String>) -> Result<ImportDraft, ImportError> {
        let mapping = Mapping::new(map)?;
        if let Some(pair) = mapping.columns.first() {
            let (ours, theirs) = (pair.ours.to_owned(), pair.theirs.to_owned());
            return Err(ImportError::MapUseless { ours, theirs, format: Format::Iperf3 });
        }
        let (mut rows, mut shelf) = (Vec::new(), Shelf::default());
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut line = 1;
        while let Some(document) = documents.next() {
            let at_line = |reason| ImportError::Line { line, reason };
            let document = document.map_err(|error| at_line(format!("it is not JSON: {error}")))?;
            let mut fields = mapping.constants()?;
            for (name, value) in values(&document).map_err(at_line)? {
                let target = target::ours(name).map_err(at_line)?;
                if !mapping.levels.iter().any(|pair| pair.target.key() == target.key()) {
                    fields.set(target, &value).map_err(at_line)?;
                }
            }
            rows.push(fields.finish(line, &mut shelf).map_err(at_line)?);
            line = 1 + text[..documents.byte_offset()].bytes().filter(|byte| *byte == b'\n').count() as u64;
        }
        let mut draft = arrange(rows, name, Vec::new())?;
        draft
            .session
            .notes
            .push("imported from iperf3: the machines are not known; reads have the size of writes".into());
        Ok(draft)
    }
}

/// The values of a document, by names of bytegauge.
fn values(document: &Value) -> Result<Vec<(&'static str, String)>, String> {
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        return Err(format!("this test of iperf3 failed: {error}"));
    }
    let at = |path: &str| document.pointer(path).filter(|value| !value.is_null());
    let number = |path: &str| at(path).and_then(Value::as_f64);
    let start = "/start/test_start";
    let protocol = at(&format!("{start}/protocol")).and_then(Value::as_str).unwrap_or("TCP").to_ascii_lowercase();
    // Bytes that arrived. Over UDP `sum` has them with the loss; over TCP the receiver counts them.
    let sum = ["/end/sum_received", "/end/sum"]
        .into_iter()
        .find(|path| number(&format!("{path}/bytes")).is_some_and(|n| n > 0.0));
    let sum = sum.ok_or("it has no `end.sum_received` with bytes: the test did not end")?;
    let field = |name: &str| number(&format!("{sum}/{name}")).ok_or_else(|| format!("`{sum}/{name}` is missing"));
    let (bytes, seconds) = (field("bytes")?, field("seconds")?);
    let lost = number(&format!("{sum}/lost_percent")).unwrap_or(0.0);
    let size = number(&format!("{start}/blksize")).unwrap_or(131_072.0) as u64;
    let streams = number(&format!("{start}/num_streams")).unwrap_or(1.0) as u64;
    let host = at("/start/connecting_to/host").and_then(Value::as_str);
    let mut values = vec![
        ("transport", protocol),
        ("read_size", size.to_string()),
        ("write_size", size.to_string()),
        ("flows", streams.to_string()),
        ("bytes", ((bytes * (1.0 - lost / 100.0)) as u64).to_string()),
        ("duration_sec", seconds.to_string()),
    ];
    values.extend(host.map(|host| ("machine", format!("to {host}"))));
    let congestion = at("/end/sender_tcp_congestion").and_then(Value::as_str);
    values.extend(congestion.map(|name| ("congestion", name.to_owned())));
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_give_their_receiver_s_bytes() {
        let document = serde_json::json!({
            "start": {"connecting_to": {"host": "10.0.0.2"}, "test_start": {"protocol": "TCP", "num_streams": 4, "blksize": 131072}},
            "end": {"sum_received": {"bytes": 1_000_000, "seconds": 2.0}, "sender_tcp_congestion": "cubic"},
        });
        let values = values(&document).unwrap();
        for pair in [
            ("transport", "tcp"),
            ("flows", "4"),
            ("bytes", "1000000"),
            ("machine", "to 10.0.0.2"),
            ("congestion", "cubic"),
        ] {
            assert!(values.contains(&(pair.0, pair.1.to_owned())), "{pair:?}: {values:?}");
        }
    }

    #[test]
    fn failed_tests_are_refused_with_their_error() {
        let refused = |document| values(&document).unwrap_err();
        assert!(refused(serde_json::json!({"error": "the server is busy"})).contains("the server is busy"));
        assert!(refused(serde_json::json!({"end": {}})).contains("did not end"));
    }
}
