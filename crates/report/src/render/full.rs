//! A session on a terminal with every detail once (`--full`), or one of its tests (`--group`).

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::counted;

use super::layout::Layout;
use super::screen;
use crate::Report;
use crate::document::{TestTexts, harness_cost};
use crate::results::{OptionResult, Test};
use crate::view::numbers::{EnvironmentView, Note};
use crate::words::number::share;
use crate::words::paint::{TerminalStyle, wrap};
use crate::words::table::{self, Column};

/// The results with the table of every test, every finding, and the details of the measurement.
pub fn full(report: &Report, style: &TerminalStyle) -> String {
    let layout = Layout::of(style);
    let mut out = layout.heading(&report.heading);
    out.push(String::new());
    out.extend(layout.paragraph(&report.sentence));
    out.push(String::new());
    if report.tests.len() > 1 {
        out.extend(layout.decisions(report, &report.decisions.iter().collect::<Vec<_>>()));
        out.push(String::new());
        if let Some(matrix) = &report.matrix {
            out.extend(layout.matrix(matrix));
            out.push(String::new());
        }
    }
    for test in &report.tests {
        out.extend(of_test(report, test, &layout));
    }
    out.extend(findings(report, None, &layout));
    out.extend(section("Valid for", &report.scope, &layout));
    out.extend(details(report, style, &layout));
    out.push(String::new());
    out.extend(layout.next(&report.next.iter().collect::<Vec<_>>(), true));
    out.join("\n") + "\n"
}

/// One test with all columns, and its findings and notes; `None` where there is none of that name.
pub fn one_test(report: &Report, id: &str, style: &TerminalStyle) -> Option<String> {
    let test = report.tests.iter().find(|test| test.id.0 == id)?;
    let layout = Layout::of(style);
    let mut out = layout.heading(&report.heading);
    out.push(String::new());
    out.extend(of_test(report, test, &layout));
    out.extend(findings(report, Some(test), &layout));
    Some(out.join("\n") + "\n")
}

/// The options of a test with their intervals, then all columns, facts, counts and costs.
fn of_test(report: &Report, test: &Test, layout: &Layout) -> Vec<String> {
    let mut out = vec![layout.paint.bold(&test.title)];
    let decision = report.decisions.iter().find(|decision| decision.test == test.id);
    // The sentence of the session has that of its only test.
    if let Some(decision) = decision.filter(|_| report.versus.is_none() && report.tests.len() > 1) {
        out.extend(layout.paragraph(&format!("{}; {}.", decision.set, decision.why)));
    }
    out.extend(screen::one_test(report, test, layout, usize::MAX));
    if let Some(texts) = report.texts.iter().find(|texts| texts.test == test.id) {
        out.push(String::new());
        out.extend(columns(test, texts, layout));
        out.extend(texts.facts.iter().flat_map(|fact| layout.paragraph(&format!("{}: {}.", fact.heading, fact.text))));
        out.extend(texts.details.iter().flat_map(|text| layout.paragraph(text)));
    }
    out.push(String::new());
    out
}

/// The columns that the first table has no room for, with the names of the options.
fn columns(test: &Test, texts: &TestTexts, layout: &Layout) -> Vec<String> {
    let rows: Vec<&OptionResult> = texts.rows.iter().filter_map(|id| test.option(id)).collect();
    let mut columns = vec![Column::of("", false, &rows, |row| row.label.clone())];
    let shown = screen::fitting(texts, test, &rows, layout);
    let is_shown = |column: &&Column| shown.iter().any(|one| one.heading == column.heading);
    columns.extend(texts.columns.iter().filter(|column| !is_shown(column)).cloned());
    if columns.len() < 2 {
        return Vec::new();
    }
    table::fitted(&columns, layout.width - 2).into_iter().map(|line| format!("  {line}")).collect()
}

/// The findings and notes of one test; else every finding.
fn findings(report: &Report, test: Option<&Test>, layout: &Layout) -> Vec<String> {
    let is_shown = |id: Option<&bytegauge_model::GroupId>| test.is_none_or(|test| id == Some(&test.id));
    let shown = report.findings.iter().filter(|finding| is_shown(finding.finding.test.as_ref()));
    let mut texts: Vec<String> = shown.map(|finding| finding.text.clone()).collect();
    let is_own = |note: &&Note| test.is_some_and(|test| note.group.as_ref() == Some(&test.id));
    texts.extend(report.notes.iter().filter(is_own).map(|note| note.text.clone()));
    section("Findings", &texts, layout)
}

fn section(heading: &str, texts: &[String], layout: &Layout) -> Vec<String> {
    if texts.is_empty() {
        return Vec::new();
    }
    let items = texts.iter().flat_map(|text| {
        let lines = wrap(text, layout.text() - 4).into_iter().enumerate();
        lines.map(|(at, line)| format!("{}{line}", if at == 0 { "  " } else { "    " })).collect::<Vec<_>>()
    });
    [layout.paint.bold(heading)].into_iter().chain(items).chain([String::new()]).collect()
}

/// When it was measured, the cost of the harness, and the machine.
fn details(report: &Report, style: &TerminalStyle, layout: &Layout) -> Vec<String> {
    let mut out = vec![layout.paint.bold("Details of the measurement")];
    let mut line = |name: &str, text: &str| {
        for (at, line) in wrap(text, layout.text() - 12).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push(format!("  {} {line}", layout.paint.dim(&format!("{name:<9}"))));
        }
    };
    line("began", &status(report));
    line("harness", &harness_cost(&report.view).unwrap_or_else(|| "its cost is not known".into()));
    line("machine", &environment_text(&report.environment));
    for note in &report.notes {
        let test = note.group.as_ref().and_then(|id| report.test(id)).filter(|_| report.tests.len() > 1);
        let place = test.map_or_else(String::new, |test| format!("{}: ", test.name));
        line("note", &format!("{place}{}", note.text));
    }
    if let Some(store) = &style.store {
        line("results", store);
    }
    line("again", &format!("{} report {}", style.program, report.session));
    out
}

/// When it was measured, and how far.
fn status(report: &Report) -> String {
    let started = report.started.replace('T', " ").replace('Z', " UTC");
    let analyses = report.groups.iter().filter_map(|group| group.analysis.as_ref());
    let status = match analyses.max_by_key(|analysis| analysis.done) {
        Some(analysis) if analysis.of > 1 && report.status == SessionStatus::Complete => {
            format!("complete, after {} of at most {} analyses", analysis.done, analysis.of)
        }
        _ => report.status.name().to_owned(),
    };
    format!("{started} · {status}")
}

fn environment_text(environment: &EnvironmentView) -> String {
    let quiet = environment.quietness().unwrap_or("how quiet is not known");
    let reasons =
        if environment.reasons.is_empty() { String::new() } else { format!(": {}", environment.reasons.join(", ")) };
    let steal = environment.steal_share.filter(|share| *share > 0.0);
    let facts = [
        steal.map(|part| format!("steal {}", share(Some(part)))),
        environment.text(&["kernel_release"]).map(|kernel| format!("Linux {kernel}")),
        environment.text(&["cpu", "model"]).map(str::to_owned),
        environment.allowed_cpus().map(|cpus| counted(cpus, "CPU")),
        environment.congestion().map(|name| format!("TCP {name}")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" · {}", facts.join(" · ")) };
    format!("{quiet}{reasons}{facts}")
}
