//! The memory of the recommended buffers with many connections.

use bytegauge_model::footprint::{BUFFERS, FactorBuffer};
use bytegauge_model::unit::about_bytes;
use bytegauge_model::{Level, Transport};
use serde_json::Value;

use super::super::document::{Finding, FindingKind, OptionResult, OptionStatus, Severity, Test, View, spec};
use super::build::found;
use super::is_peers_size;
use super::outcome::more;
use crate::phrase;

/// A large number of connections of one server.
const CONNECTIONS: u64 = 1000;

/// Smaller buffers are not reported, bytes.
const BUFFER_LARGE: u64 = 256 << 10;

/// Smaller ones are notes in a session with several tests, bytes.
const BUFFER_HUGE: u64 = 1 << 20;

/// How much a buffer matters.
fn severity(view: &View, bytes: u64) -> Severity {
    if bytes >= BUFFER_HUGE || view.tests.len() == 1 { Severity::Result } else { Severity::Note }
}

/// At most one finding for the buffers of the program, and one for each buffer of the kernel.
pub fn findings(view: &View) -> Vec<Finding> {
    let recommended: Vec<(&Test, &OptionResult)> = view.tests.iter().filter_map(recommended).collect();
    let kernel = BUFFERS.iter().filter_map(|buffer| of_kernel(view, &recommended, buffer));
    of_program(view, &recommended).into_iter().chain(kernel).collect()
}

fn recommended(test: &Test) -> Option<(&Test, &OptionResult)> {
    Some((test, test.recommended_option().filter(|_| test.is_compared())?))
}

/// The largest recommended read or write buffer of the program.
fn of_program(view: &View, recommended: &[(&Test, &OptionResult)]) -> Option<Finding> {
    if view.check.is_some() {
        return None;
    }
    let sizes = recommended.iter().flat_map(|(test, own)| {
        let factors = ["read_size", "write_size"].into_iter();
        factors.filter_map(move |factor| Some((size(test, own, factor)?, factor, *test, *own)))
    });
    let (bytes, factor, test, own) =
        sizes.max_by_key(|(bytes, ..)| *bytes).filter(|(bytes, ..)| *bytes >= BUFFER_LARGE)?;
    let smaller = smaller(test, factor, bytes);
    let (each, all) = (phrase::level(factor, &Level::Number(bytes)), about_bytes(bytes * CONNECTIONS));
    let saving = smaller.map_or_else(String::new, |(smaller, option)| {
        let level = phrase::level(factor, &Level::Number(smaller));
        let upper = view.scale.at_most(option.slower_upper.unwrap_or(f64::INFINITY));
        let how = match option.status {
            OptionStatus::Best => "as good".to_owned(),
            _ => format!("undecided, at most {}", more(test.compares, view.scale, &upper)),
        };
        format!("; {level} takes {} ({how})", about_bytes(smaller * CONNECTIONS))
    });
    let finding = found(FindingKind::Memory, severity(view, bytes))
        .test(&test.id)
        .option(&own.id)
        .number("bytes", Some(bytes as f64))
        .number("connections", Some(CONNECTIONS as f64))
        .number("smaller_bytes", smaller.map(|(bytes, _)| bytes as f64))
        .name("factor", factor);
    let of_test = if view.tests.len() > 1 { format!("{}: ", test.name) } else { String::new() };
    Some(
        finding
            .with_text(format!("{of_test}{CONNECTIONS} connections with a buffer of {each} each take {all}{saving}.")),
    )
}

/// The smaller size to use where memory is short: the smallest that is as good, else the one that can be slower by the least.
fn smaller<'a>(test: &'a Test, factor: &str, bytes: u64) -> Option<(u64, &'a OptionResult)> {
    let sized = test.options.iter().filter_map(|option| Some((size(test, option, factor)?, option)));
    let (good, open): (Vec<_>, Vec<_>) = sized
        .filter(|(size, option)| *size < bytes && matches!(option.status, OptionStatus::Best | OptionStatus::Tied))
        .partition(|(_, option)| option.status == OptionStatus::Best);
    let upper = |option: &OptionResult| option.slower_upper.unwrap_or(f64::INFINITY);
    let smallest = good.into_iter().min_by_key(|(size, _)| *size);
    smallest.or_else(|| open.into_iter().min_by(|a, b| upper(a.1).total_cmp(&upper(b.1))))
}

/// A size that the user's program sets in each connection.
fn size(test: &Test, option: &OptionResult, factor: &str) -> Option<u64> {
    let conditions = spec(&test.environment);
    let own = spec(&option.settings);
    let transport = conditions.transport().or(own.transport());
    let connects = transport.is_some_and(Transport::two_ended) && !is_peers_size(&conditions, factor);
    // sendfile(2) takes the pages of the file: the program has no buffer.
    let by_kernel = [&own, &conditions].iter().any(|spec| spec.get("send_from").name() == Some("sendfile"));
    let has_buffer = connects && !(factor == "write_size" && by_kernel);
    option.settings.get(factor).and_then(Value::as_u64).filter(|_| has_buffer)
}

/// The size that a buffer of the kernel had at the end of a trial, where the recommended option leaves it at its default.
fn of_kernel(view: &View, recommended: &[(&Test, &OptionResult)], buffer: &FactorBuffer) -> Option<Finding> {
    let seen = recommended.iter().filter_map(|(test, own)| {
        own.settings.get(buffer.factor)?;
        let cell = view.cell(&own.id)?;
        let spec = cell.spec();
        let option = cell.counters.options.get(buffer.factor).filter(|_| spec.get(buffer.factor).is_auto())?;
        let bytes = if buffer.is_of_source(&spec) { &option.source } else { &option.sink }.as_u64()?;
        Some((bytes, *test, *own))
    });
    let (bytes, test, own) = seen.max_by_key(|(bytes, ..)| *bytes).filter(|(bytes, ..)| *bytes >= BUFFER_LARGE)?;
    let finding = found(FindingKind::Memory, severity(view, bytes))
        .test(&test.id)
        .option(&own.id)
        .number("bytes", Some(bytes as f64))
        .name("factor", buffer.factor);
    let name = phrase::in_code(buffer.factor);
    Some(finding.with_text(format!("{name} at its default grew to {} per connection.", about_bytes(bytes))))
}
