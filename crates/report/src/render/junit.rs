//! JUnit XML, which services for continuous integration show: a test case per test, failed if something is worse, skipped if
//! the result is inconclusive, in error if nothing could be measured.

use crate::Report;
use crate::results::{Claim, InvalidReason, Test};
use crate::view::numbers::{Verdict, VersusView};
use bytegauge_model::escape;
use quick_xml::Writer;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};

/// The outcome of a test.
enum Case {
    Passed,
    Skipped(String),
    Failed(String),
    Error(String),
}

/// The tests of a session.
pub fn render(view: &Report) -> String {
    let cases = match &view.versus {
        Some(versus) => vec![("B against A".to_owned(), of_two(view, versus), view.sentence.clone())],
        None => view.tests.iter().map(|test| of_test(view, test)).collect(),
    };
    let count = |is: fn(&Case) -> bool| cases.iter().filter(|(_, case, _)| is(case)).count().to_string();
    let mut xml = Xml(Writer::new_with_indent(Vec::new(), b' ', 2));
    let suite = format!("bytegauge {}", view.plan.name);
    xml.open("testsuites", &[]);
    xml.open(
        "testsuite",
        &[
            ("name", &suite),
            ("tests", &cases.len().to_string()),
            ("failures", &count(|case| matches!(case, Case::Failed(_)))),
            ("errors", &count(|case| matches!(case, Case::Error(_)))),
            ("skipped", &count(|case| matches!(case, Case::Skipped(_)))),
            ("time", &format!("{:.3}", view.elapsed_ns.map_or(0.0, |ns| ns as f64 / 1e9))),
            ("timestamp", view.started.trim_end_matches('Z')),
        ],
    );
    for (name, case, text) in &cases {
        xml.open("testcase", &[("classname", &suite), ("name", name), ("time", "0")]);
        match case {
            Case::Passed => {}
            Case::Skipped(why) => xml.empty("skipped", &[("message", why)]),
            Case::Failed(why) => xml.empty("failure", &[("message", why)]),
            Case::Error(why) => xml.empty("error", &[("message", why)]),
        }
        xml.text("system-out", text);
        xml.close("testcase");
    }
    xml.close("testsuite");
    xml.close("testsuites");
    xml.document()
}

/// Writes XML 1.0 to memory, which cannot fail. Hidden characters, most of which XML refuses, are escaped here; `quick-xml`
/// escapes the rest.
struct Xml(Writer<Vec<u8>>);

impl Xml {
    fn open(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.write(Event::Start(element(name, attributes)));
    }

    fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.write(Event::Empty(element(name, attributes)));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.open(name, &[]);
        self.write(Event::Text(BytesText::new(&escape::lines(text))));
        self.close(name);
    }

    fn close(&mut self, name: &str) {
        self.write(Event::End(BytesEnd::new(name)));
    }

    fn write(&mut self, event: Event<'_>) {
        self.0.write_event(event).expect("memory takes an event");
    }

    fn document(self) -> String {
        let xml = String::from_utf8(self.0.into_inner()).expect("names and texts are UTF-8");
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{xml}\n")
    }
}

fn element<'a>(name: &'a str, attributes: &[(&str, &str)]) -> BytesStart<'a> {
    let mut element = BytesStart::new(name);
    for (name, value) in attributes {
        element.push_attribute((*name, &*escape::line(value)));
    }
    element
}

fn of_two(view: &Report, versus: &VersusView) -> Case {
    let failed = [&versus.a, &versus.b].into_iter().any(|side| side.trials == 0);
    let text = view.sentence.clone();
    match versus.difference.verdict {
        _ if failed => Case::Error(text),
        Verdict::Worse => Case::Failed(text),
        Verdict::Open => Case::Skipped(text),
        Verdict::Better | Verdict::Equivalent => Case::Passed,
    }
}

fn of_test(view: &Report, test: &Test) -> (String, Case, String) {
    let decision = view.decisions.iter().find(|decision| decision.test == test.id);
    let text = decision.map_or_else(String::new, |decision| format!("{}: {}", decision.set, decision.why));
    let case = match &test.claim {
        Claim::Invalid { reason: InvalidReason::NothingMeasured } => Case::Error(text.clone()),
        Claim::Use { .. } => Case::Passed,
        Claim::Invalid { reason: InvalidReason::OneOption } if test.varied.is_empty() => Case::Passed,
        _ => Case::Skipped(text.clone()),
    };
    (format!("{} ({})", test.title, test.id), case, text)
}
