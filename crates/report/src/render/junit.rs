//! JUnit XML, which services for continuous integration show: a test case a question, failed where something is worse,
//! skipped where nothing is proven, in error where nothing could be measured.

use std::fmt::Write as _;

use bytegauge_model::CellKind;

use crate::View;

/// What stands beside a proof that hangs on which trials of one choice are looked at.
const DOUBT: &str = "proven, and not by the second trials of the choice that every block measured twice: trust it less";

/// How a question ended.
enum Case {
    Passed,
    /// Passed, and by the second trials of a choice it would not have.
    Doubted(&'static str),
    Skipped(String),
    Failed(String),
    Error(String),
}

/// The questions of a session.
pub fn render(view: &View) -> String {
    let cases = match &view.versus {
        Some(versus) => vec![("b against a".to_owned(), of_two(versus), versus.text.clone())],
        None => view.groups.iter().map(|group| of_group(view, group)).collect(),
    };
    let count = |is: fn(&Case) -> bool| cases.iter().filter(|(_, case, _)| is(case)).count();
    let suite = format!("bytegauge {}", view.plan.name);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    let seconds = view.elapsed_ns.map_or(0.0, |ns| ns as f64 / 1e9);
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\" timestamp=\"{}\">",
        escaped(&suite),
        cases.len(),
        count(|case| matches!(case, Case::Failed(_))),
        count(|case| matches!(case, Case::Error(_))),
        count(|case| matches!(case, Case::Skipped(_))),
        escaped(view.started.trim_end_matches('Z'))
    );
    for (name, case, text) in &cases {
        let _ = writeln!(out, "    <testcase classname=\"{}\" name=\"{}\" time=\"0\">", escaped(&suite), escaped(name));
        let _ = match case {
            Case::Doubted(why) => {
                writeln!(out, "      <properties><property name=\"doubt\" value=\"{}\"/></properties>", escaped(why))
            }
            Case::Passed => Ok(()),
            Case::Skipped(why) => writeln!(out, "      <skipped message=\"{}\"/>", escaped(why)),
            Case::Failed(why) => writeln!(out, "      <failure message=\"{}\"/>", escaped(why)),
            Case::Error(why) => writeln!(out, "      <error message=\"{}\"/>", escaped(why)),
        };
        let _ = writeln!(out, "      <system-out>{}</system-out>\n    </testcase>", escaped(text));
    }
    out + "  </testsuite>\n</testsuites>\n"
}

fn of_two(versus: &crate::view::document::VersusView) -> Case {
    let failed = [&versus.a, &versus.b].into_iter().any(|side| side.trials == 0);
    match versus.verdict {
        _ if failed => Case::Error(versus.text.clone()),
        "worse" => Case::Failed(versus.text.clone()),
        "open" => Case::Skipped(versus.text.clone()),
        _ => Case::Passed,
    }
}

fn of_group(view: &View, group: &crate::view::document::GroupView) -> (String, Case, String) {
    let candidates = || view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Candidate);
    let recommendation = &group.recommendation;
    let case = match () {
        () if candidates().all(|cell| cell.trials == 0) => Case::Error(
            candidates().find_map(|cell| cell.reason.clone()).unwrap_or_else(|| "nothing was measured".into()),
        ),
        () if recommendation.proven && recommendation.survives_exchange == Some(false) => Case::Doubted(DOUBT),
        () if group.varied.is_empty() || recommendation.proven => Case::Passed,
        () => Case::Skipped(recommendation.text.clone()),
    };
    (format!("{} ({})", group.label, group.id), case, recommendation.text.clone())
}

/// Text as XML 1.0 can hold it: of control characters it knows three, and these as spaces.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
