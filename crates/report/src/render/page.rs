//! Sessions as one page for a browser: the built page of `page/`, with the documents inside. It needs no network and allows
//! none; it draws only data of the documents.

use std::borrow::Cow;
use std::io::{Read, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytegauge_model::escape;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::Report;

/// The page as `page/` builds it: `cargo xtask page`.
pub const TEMPLATE: &str = include_str!("../../page/page.html");

/// The place of the documents, before their data and after.
const SLOT: [&str; 2] = ["<script type=\"application/json\" id=\"sessions\">", "</script>"];

/// The place as the page is built.
const EMPTY: &str = "[]";

/// The page of some sessions, of which it opens the first.
pub fn render(views: &[Report]) -> String {
    TEMPLATE.replacen(&SLOT.join(EMPTY), &SLOT.join(&packed(&documents(views))), 1)
}

/// The documents of some sessions, as embedded in a page: within a string of JSON `<` is escaped, so that no name can end the element.
pub fn documents(views: &[Report]) -> String {
    let mut documents = serde_json::to_value(views).expect("a view is plain data");
    shorten(&mut documents);
    documents.to_string().replace('<', "\\u003c")
}

/// Data as a page stores it, compressed to a fifth: gzip in base64.
fn packed(json: &str) -> String {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let bytes = packer.write_all(json.as_bytes()).and_then(|()| packer.finish());
    BASE64_STANDARD.encode(bytes.expect("memory takes all bytes"))
}

/// The documents in a page as JSON, for programs that read pages; `None` if it has none.
pub fn documents_in(page: &str) -> Option<String> {
    unpacked(page, SLOT[0])
}

/// The text in the element that begins with `start`.
fn unpacked(page: &str, start: &str) -> Option<String> {
    let (data, _) = page.split_once(start)?.1.split_once(SLOT[1])?;
    let bytes = BASE64_STANDARD.decode(data).ok()?;
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Significant digits of a number that is no integer: three are shown, and sums of them stay exact enough.
const DIGITS: usize = 6;

/// Prepares data for a page. It shows strings unchanged, so hidden characters are escaped, also in keys. Unknown values, half of a
/// document's keys, are left out; a list keeps its places. Numbers that are no integers are rounded: their other digits are noise,
/// and a tenth of a page.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(escaped) = escape::lines(text) {
                *text = escaped;
            }
        }
        Value::Number(number) if number.is_f64() => {
            let short = number.as_f64().and_then(|exact| format!("{exact:.*e}", DIGITS - 1).parse::<f64>().ok());
            if let Some(short) = short.and_then(serde_json::Number::from_f64) {
                *number = short;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(shorten),
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(shorten);
            if map.keys().any(|key| key.contains(escape::is_hidden)) {
                let entries = std::mem::take(map).into_iter();
                map.extend(entries.map(|(key, value)| (escape::line(&key).into_owned(), value)));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_six_digits() {
        let mut value = serde_json::json!([1_234_567.891, -0.000_123_456_78, 12_345_678, { "a": 0.5 }]);
        shorten(&mut value);
        assert_eq!(value, serde_json::json!([1_234_570.0, -0.000_123_457, 12_345_678, { "a": 0.5 }]));
    }

    #[test]
    fn template_has_its_place_after_its_policy() {
        let policy = TEMPLATE.find("Content-Security-Policy").expect("a policy");
        assert_eq!(TEMPLATE.matches(&SLOT.join(EMPTY)).count(), 1);
        assert!(policy < TEMPLATE.find(&SLOT.join(EMPTY)).expect("a place"));
        assert!(TEMPLATE.contains("default-src 'none'") && !TEMPLATE.contains("connect-src"));
        let program = unpacked(TEMPLATE, "<script type=\"text/plain\" id=\"program\">").expect("the program");
        for address in ["src=\"http", "href=\"http", "@import", "url(http", "-inline'", "-eval'"] {
            assert!(!TEMPLATE.contains(address) && !program.contains(address), "{address}");
        }
    }

    #[test]
    fn unknown_values_are_kept_only_in_lists() {
        let mut value = serde_json::json!({ "a": null, "b": [null, { "c": null, "d": 1 }] });
        shorten(&mut value);
        assert_eq!(value, serde_json::json!({ "b": [null, { "d": 1 }] }));
    }
}
