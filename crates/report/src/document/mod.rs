//! The fourth stage: the document of a session. Its numbers, tests and findings with every sentence, built once. Renderers lay it
//! out and decide nothing.

mod decision;
mod details;
mod finding_texts;
mod further_steps;
mod matrix;
mod next;
mod scope;
mod sentence;
mod tables;
mod title;

use std::ops::Deref;

use bytegauge_model::{AnalysisProgress, GroupId};
pub use decision::{Decision, avoided};
pub use details::harness_cost;
pub use further_steps::LINK_DELAY;
pub use matrix::{Matrix, MatrixCell, MatrixRow};
pub use next::step;
use schemars::JsonSchema;
use serde::Serialize;
pub use tables::{Headed, TestTexts};

use crate::SessionData;
use crate::findings::{self, Finding, Severity};
use crate::results::{self, Claim, InvalidReason, Test, is_answered};
use crate::view::Settings;
use crate::view::numbers::{Verdict, View};

/// Cautions of the screen.
const CAUTIONS_MAX: usize = 3;

/// The whole report of one session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The numbers.
    #[serde(flatten)]
    pub view: View,
    /// The plan, the session, its duration, and the machine.
    pub heading: String,
    /// The result in a sentence that one can quote.
    pub sentence: String,
    /// The tests with their options, in the order of the plan.
    pub tests: Vec<Test>,
    /// What to set in each test, and how certain it is.
    pub decisions: Vec<Decision>,
    /// How much slower each option of each test is, where tests share their options.
    pub matrix: Option<Matrix>,
    /// The table and the lines of each test.
    pub texts: Vec<TestTexts>,
    /// The worst limitations of the results.
    pub cautions: Vec<String>,
    /// Facts that decide how to read the results, the most serious first.
    pub findings: Vec<ReportedFinding>,
    /// The conditions for which the results are valid, a sentence each.
    pub scope: Vec<String>,
    /// The next steps, the most useful first.
    pub next: Vec<NextStep>,
}

/// A finding with its sentence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReportedFinding {
    /// Its kind and numbers.
    #[serde(flatten)]
    pub finding: Finding,
    /// The sentence.
    pub text: String,
}

/// A next step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NextStep {
    /// The command; `null` for a step without one.
    pub command: Option<String>,
    /// What it is for.
    pub text: String,
    /// How long it takes: `≤ 170 s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<String>,
    /// Whether it continues the session.
    #[serde(skip)]
    pub continues: bool,
}

impl NextStep {
    /// The command as the user types it: `program` is how the product was called, with the option that finds its store.
    pub fn typed(&self, program: &str) -> Option<String> {
        self.command.as_ref().map(|command| command.replacen("bytegauge", program, 1))
    }
}

/// The results of the stages before, as sentences are made of them.
pub(crate) struct Results<'a> {
    pub view: &'a View,
    pub tests: &'a [Test],
    pub findings: &'a [Finding],
}

impl Deref for Results<'_> {
    type Target = View;

    fn deref(&self) -> &View {
        self.view
    }
}

impl Results<'_> {
    /// The test of that id.
    pub fn test(&self, id: &GroupId) -> Option<&Test> {
        self.tests.iter().find(|test| test.id == *id)
    }
}

/// A report is its numbers, and more.
impl Deref for Report {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Report {
    /// The report of a stored session.
    pub fn of(session: &SessionData, settings: &Settings) -> Report {
        Report::new(View::of(session, settings), None)
    }

    /// The report of settled numbers, compared with an earlier session of the same plan where there is one.
    pub fn new(view: View, before: Option<&Report>) -> Report {
        let tests = results::tests(&view, title::names(&view));
        let mut findings = findings::findings(&view, &tests);
        let of = |before: &&Report| findings::of_earlier((&view, &tests), (&before.view, &before.tests));
        findings.extend(before.iter().flat_map(of));
        findings
            .sort_by(|a, b| (a.severity, a.rank()).cmp(&(b.severity, b.rank())).then(b.size().total_cmp(&a.size())));
        let results = Results { view: &view, tests: &tests, findings: &findings };
        let decisions: Vec<Decision> = tests.iter().map(|test| decision::decision(&results, test)).collect();
        let texts = tests.iter().map(|test| tables::texts(&results, test)).collect();
        let reported: Vec<ReportedFinding> = finding_texts::reported(&results);
        let (heading, sentence) = (title::heading(&results), sentence::sentence(&results));
        let (matrix, cautions) = (matrix::matrix(&results), finding_texts::cautions(&results, CAUTIONS_MAX));
        let (scope, next) = (scope::lines(&results), next::next(&results));
        Report { heading, sentence, decisions, matrix, texts, cautions, findings: reported, scope, next, tests, view }
    }

    /// The test of that id.
    pub fn test(&self, id: &GroupId) -> Option<&Test> {
        self.tests.iter().find(|test| test.id == *id)
    }

    /// The findings that may change what a user does.
    pub fn warnings(&self) -> impl Iterator<Item = &ReportedFinding> {
        self.findings.iter().filter(|finding| finding.finding.severity <= Severity::Warning)
    }
}

// The progress of a session at an analysis: which tests have a result, and which need no more blocks.

/// Analyses a session up to the last analysis that its tests completed. The report and the end of a session follow one rule.
#[must_use]
pub fn progress(session: &SessionData, settings: &Settings) -> AnalysisProgress {
    let view = Report::of(session, &Settings { is_running: true, ..*settings });
    if let Some(versus) = &view.versus {
        let is_decided = versus.difference.verdict != Verdict::Open;
        // Where a side came to nothing, more pairs show nothing.
        let settled = (is_decided || versus.blocks == 0).into();
        return AnalysisProgress { tests: 1, decided: is_decided.into(), settled };
    }
    let mut progress = AnalysisProgress { tests: 0, decided: 0, settled: 0 };
    let compares = |test: &Test| {
        !matches!(test.claim, Claim::Invalid { reason: InvalidReason::OneOption | InvalidReason::NothingMeasured })
    };
    for (test, group) in view.tests.iter().zip(&view.groups).filter(|(test, _)| compares(test)) {
        let is_decided = is_answered(&view, test);
        progress.tests += 1;
        progress.decided += usize::from(is_decided);
        progress.settled += usize::from(is_decided || group.recommendation.more_blocks.is_none());
    }
    progress
}
