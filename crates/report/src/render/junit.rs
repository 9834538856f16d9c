//! JUnit XML, which services for continuous integration show: a test case per test, failed if something is worse, skipped if
//! the result is inconclusive, in error if nothing could be measured.

use std::io;

use bytegauge_model::escape;
use quick_xml::Writer;
use quick_xml::events::BytesText;

use crate::Report;
use crate::results::{Claim, InvalidReason, Test};
use crate::view::numbers::{Verdict, VersusView};

/// A test case: its name, the element that reports its failure (none if it passed), and its text, the reason of a failure.
type Case = (String, Option<&'static str>, String);

const FAILURE: Option<&str> = Some("failure");
const ERROR: Option<&str> = Some("error");
const SKIPPED: Option<&str> = Some("skipped");

/// The tests of a session.
pub fn render(view: &Report) -> String {
    let cases = match &view.versus {
        Some(versus) => vec![("B against A".to_owned(), of_two(versus), view.sentence.clone())],
        None => view.tests.iter().map(|test| of_test(view, test)).collect(),
    };
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.create_element("testsuites")
        .write_inner_content(|xml| suite(xml, view, &cases))
        .expect("memory takes an event");
    let xml = String::from_utf8(xml.into_inner()).expect("names and texts are UTF-8");
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{xml}\n")
}

/// Hidden characters, most of which XML 1.0 refuses, are escaped here; `quick-xml` escapes the rest.
fn suite(xml: &mut Writer<Vec<u8>>, view: &Report, cases: &[Case]) -> io::Result<()> {
    let count = |outcome| cases.iter().filter(|case| case.1 == outcome).count().to_string();
    let suite = escape::line(&format!("bytegauge {}", view.plan.name)).into_owned();
    let about = [
        ("name", suite.as_str()),
        ("tests", &cases.len().to_string()),
        ("failures", &count(FAILURE)),
        ("errors", &count(ERROR)),
        ("skipped", &count(SKIPPED)),
        ("time", &format!("{:.3}", view.elapsed_ns.map_or(0.0, |ns| ns as f64 / 1e9))),
        ("timestamp", &escape::line(view.started.trim_end_matches('Z'))),
    ];
    xml.create_element("testsuite").with_attributes(about).write_inner_content(|xml| {
        for (name, outcome, text) in cases {
            let about = [("classname", suite.as_str()), ("name", &escape::line(name)), ("time", "0")];
            xml.create_element("testcase").with_attributes(about).write_inner_content(|xml| {
                if let Some(outcome) = outcome {
                    xml.create_element(*outcome).with_attribute(("message", &*escape::line(text))).write_empty()?;
                }
                xml.create_element("system-out").write_text_content(BytesText::new(&escape::lines(text)))?;
                Ok(())
            })?;
        }
        Ok(())
    })?;
    Ok(())
}

fn of_two(versus: &VersusView) -> Option<&'static str> {
    let failed = [&versus.a, &versus.b].into_iter().any(|side| side.trials == 0);
    match versus.difference.verdict {
        _ if failed => ERROR,
        Verdict::Worse => FAILURE,
        Verdict::Open => SKIPPED,
        Verdict::Better | Verdict::Equivalent => None,
    }
}

fn of_test(view: &Report, test: &Test) -> Case {
    let decision = view.decisions.iter().find(|decision| decision.test == test.id);
    let text = decision.map_or_else(String::new, |decision| format!("{}: {}", decision.set, decision.why));
    let outcome = match &test.claim {
        Claim::Invalid { reason: InvalidReason::NothingMeasured } => ERROR,
        Claim::Use { .. } => None,
        Claim::Invalid { reason: InvalidReason::OneOption } if test.varied.is_empty() => None,
        _ => SKIPPED,
    };
    (format!("{} ({})", test.title, test.id), outcome, text)
}
