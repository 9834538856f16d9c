//! One group in several sessions: the choice of each session, and the result over all of them.
//!
//! Groups with the same conditions are the same group. The choices that all sessions with it confirmed are compared; the
//! sessions are the replicates (`bytegauge_stats::across`). A session interrupted before its first analysis is left out. Never
//! pools the blocks of two sessions.

use bytegauge_model::{GroupId, SessionId, SessionRecord, Spec};
use bytegauge_report::view::numbers::schema::present_levels;
use bytegauge_report::view::{is_default, rfc3339, varied};
use bytegauge_report::words::interval_rounding::{NOTHING, at_most, percent};
use bytegauge_report::words::option_label;
use bytegauge_report::words::paint::{Paint, TerminalStyle, wrap};
use bytegauge_report::words::phrase::grouped;
use bytegauge_report::{ConfirmedCell, Report, SessionData, SessionGroup, Settings};
use bytegauge_stats::across::{Across, Replicate, across};
use bytegauge_stats::recommendation::{Candidate, named};
use serde::Serialize;

/// The results of several sessions together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AcrossView {
    /// The plan's name, of the first session.
    pub plan: String,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Confidence of every bound, as a share.
    pub level: f64,
    /// The sessions, in the order in which they were given.
    pub sessions: Vec<AcrossSession>,
    /// Number of boots of machines in which they were measured.
    pub boots: usize,
    /// The tests that more than one of them has.
    pub tests: Vec<AcrossTest>,
}

/// One of the sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AcrossSession {
    /// Its number.
    pub session: SessionId,
    /// When it began, RFC 3339, UTC.
    pub started: String,
}

/// One test in all sessions that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AcrossTest {
    /// The title of the test in the first session that has it.
    pub title: String,
    /// The conditions.
    #[serde(serialize_with = "present_levels")]
    pub environment: Spec,
    /// The result of each session.
    pub sessions: Vec<AcrossResult>,
    /// Options that all of them confirmed.
    pub compared: usize,
    /// `certain` where one option is within the margin over all sessions, `no-result` for fewer than three sessions.
    pub state: AcrossState,
    /// The option over all sessions: of those significantly within the margin the default, then the
    /// smallest; else the default, unless it is significantly slower or another has a much smaller bound; else
    /// the one with the smallest bound, or the best on average. An option with trials that moved nothing is chosen last. `null` if they confirmed no two options in common.
    pub recommended: Option<String>,
    /// Whether it leaves everything that varies to the system.
    pub changes_nothing: bool,
    /// It is at most this much slower than the best of those compared in the mean session, with the sessions as replicates; as a
    /// share. `null` for fewer than three sessions.
    pub slower_upper: Option<f64>,
    /// Sessions that recommend the same option by themselves.
    pub recommended_in: usize,
    /// The spread of differences between options that is due to differences between sessions alone, as a share.
    pub between: Option<f64>,
}

/// How certain a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcrossState {
    /// One option is within the margin of the best.
    Certain,
    /// Several may be.
    Undecided,
    /// Nothing was compared.
    NoResult,
}

/// The result of one session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AcrossResult {
    /// The session.
    pub session: SessionId,
    /// The test.
    pub test: GroupId,
    /// How far it was decided.
    pub state: AcrossState,
    /// Its recommended option.
    pub recommended: Option<String>,
    /// The upper end of that option's interval, as a share.
    pub slower_upper: Option<f64>,
}

/// One group of one session.
struct GroupAnswer {
    title: String,
    result: AcrossResult,
    /// The recommended option of the session.
    named: Option<Spec>,
    group: SessionGroup,
}

impl GroupAnswer {
    /// The places of its compared cells.
    fn present(&self) -> impl Iterator<Item = usize> {
        let verdict = &self.group.verdict;
        verdict.present.iter().copied().filter(|&at| verdict.excess[at].is_some())
    }

    /// The place of the compared cell with these choices.
    fn place(&self, choices: &Spec) -> Option<usize> {
        self.present().find(|&at| self.group.cells[at].choices == *choices)
    }
}

impl AcrossView {
    /// The result of the sessions together.
    pub fn of(sessions: &[SessionData], settings: &Settings) -> AcrossView {
        let margin = settings.margin.or(sessions.first().map(|session| session.record.margin)).unwrap_or(0.05);
        let asked: Vec<GroupAnswer> = sessions.iter().flat_map(|session| asked(session, settings)).collect();
        let by_test = grouped(asked.iter().map(|one| (&one.group.conditions, one)));
        let several = by_test.iter().filter(|(_, answers)| answers.len() > 1);
        let mut boots: Vec<_> = sessions.iter().map(|session| session.record.machine.get("boot_id")).collect();
        boots.sort_by_key(|boot| boot.map(ToString::to_string));
        boots.dedup();
        AcrossView {
            plan: sessions.first().map_or_else(String::new, |session| session.record.plan_name.clone()),
            margin,
            level: settings.confidence(),
            boots: boots.len(),
            sessions: sessions.iter().map(|session| started(&session.record)).collect(),
            tests: several.map(|(_, answers)| test(answers, (settings.confidence(), margin))).collect(),
        }
    }
}

fn started(record: &SessionRecord) -> AcrossSession {
    AcrossSession { session: record.id, started: rfc3339(record.started_unix_ns) }
}

/// The result of a session for each of its groups.
fn asked(session: &SessionData, settings: &Settings) -> Vec<GroupAnswer> {
    let view = Report::of(session, settings);
    let groups = SessionGroup::all_of(session, settings).into_iter();
    let confirmed = groups.filter(|group| group.verdict.present.len() > 1 && group.proves);
    confirmed.filter_map(|group| answer(group, session.record.id, &view)).collect()
}

fn answer(group: SessionGroup, session: SessionId, view: &Report) -> Option<GroupAnswer> {
    let test = view.test(&group.id)?;
    let option = test.safest();
    let named = option.and_then(|option| group.cells.iter().find(|cell| cell.id == option.id));
    Some(GroupAnswer {
        title: test.title.clone(),
        result: AcrossResult {
            session,
            test: test.id.clone(),
            state: match (test.is_decided(), test.is_compared()) {
                (true, _) => AcrossState::Certain,
                (false, true) => AcrossState::Undecided,
                (false, false) => AcrossState::NoResult,
            },
            recommended: None,
            slower_upper: option.and_then(|option| option.slower_upper),
        },
        named: named.map(|cell| cell.choices.clone()),
        group,
    })
}

fn test(asked: &[&GroupAnswer], (level, margin): (f64, f64)) -> AcrossTest {
    let first = asked[0];
    let in_all = |at: usize| {
        let own = &first.group.cells[at];
        let each = asked.iter().map(|one| Some(one.group.cells[one.place(&own.choices)?].unfit));
        Some(ConfirmedCell { unfit: each.collect::<Option<Vec<bool>>>()?.contains(&true), ..own.clone() })
    };
    let common: Vec<ConfirmedCell> = first.present().filter_map(in_all).collect();
    let replicate = |one: &&GroupAnswer| {
        let at: Vec<usize> = common.iter().filter_map(|cell| one.place(&cell.choices)).collect();
        let verdict = &one.group.verdict;
        let error = |i: usize, j: usize| verdict.pair(i, j).map_or(0.0, |pair| pair.error);
        Replicate {
            means: at.iter().filter_map(|&i| verdict.excess[i]).collect(),
            errors: at.iter().map(|&i| at.iter().map(|&j| error(i, j)).collect()).collect(),
        }
    };
    let judged = across(&asked.iter().map(replicate).collect::<Vec<_>>(), level);
    // All options of a test have one kind of label.
    let of_cells = |one: &'_ &'_ GroupAnswer| -> Vec<Spec> {
        one.present().map(|at| one.group.cells[at].choices.clone()).chain(one.named.clone()).collect()
    };
    let names: Vec<Spec> = asked.iter().flat_map(of_cells).collect();
    let names: Vec<&Spec> = names.iter().collect();
    let varied = varied(&names, |_, _| true);
    let chosen = chosen(&judged, &common, &varied, margin).filter(|_| common.len() > 1);
    let bound = chosen.and_then(|cell| judged.upper.as_ref().map(|upper| upper[cell].exp_m1()));
    let label = |cell: usize| option_label(&varied, &common[cell].choices);
    let own_label = |one: &GroupAnswer| one.named.as_ref().map(|levels| option_label(&varied, levels));
    let same = |one: &&&GroupAnswer| chosen.is_some_and(|cell| one.named.as_ref() == Some(&common[cell].choices));
    let within = bound.is_some_and(|bound| bound <= margin) && chosen.is_some_and(|cell| !common[cell].unfit);
    AcrossTest {
        title: first.title.clone(),
        environment: first.group.conditions.clone(),
        sessions: asked.iter().map(|one| AcrossResult { recommended: own_label(one), ..one.result.clone() }).collect(),
        compared: common.len(),
        state: match bound {
            _ if within => AcrossState::Certain,
            Some(_) => AcrossState::Undecided,
            None => AcrossState::NoResult,
        },
        recommended: chosen.map(label),
        changes_nothing: chosen.is_some_and(|cell| is_default(&common[cell].choices, &varied)),
        slower_upper: bound.filter(|bound| bound.is_finite()),
        recommended_in: asked.iter().filter(same).count(),
        between: judged.between.filter(|_| common.len() > 1).map(f64::exp_m1),
    }
}

/// As in one session: of those within the margin the default, then the smallest; else the default if it is not excluded, else
/// the one with the smallest bound, or with too few sessions the best on average. A choice that was unfit in a session is skipped.
fn chosen(judged: &Across, common: &[ConfirmedCell], varied: &[String], margin: f64) -> Option<usize> {
    let bound = |cell: usize| judged.upper.as_ref().map(|upper| upper[cell]);
    let leaves_defaults = |cell: usize| is_default(&common[cell].choices, varied);
    let footprint = |cell: usize| common[cell].footprint_bytes.unwrap_or(f64::INFINITY);
    let mut ranked: Vec<usize> = (0..common.len()).collect();
    ranked.sort_by(|&a, &b| leaves_defaults(b).cmp(&leaves_defaults(a)).then(footprint(a).total_cmp(&footprint(b))));
    let candidate = |&cell: &usize| Candidate {
        is_default: leaves_defaults(cell),
        proven: !common[cell].unfit && bound(cell).is_some_and(|bound| bound <= margin.ln_1p()),
        may_be_best: !common[cell].unfit && !judged.worse[cell],
        bound: bound(cell),
    };
    let candidates: Vec<Candidate> = ranked.iter().map(candidate).collect();
    let far = |place: &usize| {
        let cell = ranked[*place];
        (common[cell].unfit, bound(cell).unwrap_or(judged.excess[cell]))
    };
    let closest = (0..ranked.len()).min_by(|a, b| far(a).0.cmp(&far(b).0).then_with(|| far(a).1.total_cmp(&far(b).1)));
    named(&candidates, closest).map(|place| ranked[place])
}

// Several sessions: a line per group, and the result of each session.

/// Indentation of a group's lines.
const INDENT: usize = 4;

/// The result over the sessions.
pub fn render(view: &AcrossView, style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    let width = style.columns.clamp(60, 100);
    let mut lines = vec![paint.bold(&head(view)), String::new()];
    if view.tests.is_empty() {
        lines.extend(wrap(
            "no test has a result in more than one of these sessions; measure one plan several times",
            width,
        ));
    }
    for test in &view.tests {
        lines.extend(lines_of_test(test, width, &paint));
    }
    if !view.tests.is_empty() {
        lines.push(String::new());
        lines.extend(wrap(&legend(view), width).iter().map(|line| paint.dim(line)));
    }
    lines.join("\n") + "\n"
}

fn head(view: &AcrossView) -> String {
    let days = || view.sessions.iter().filter_map(|session| session.started.get(..10));
    let days = days().min().zip(days().max()).map_or_else(String::new, |(first, last)| match first == last {
        true => format!(" · {first}"),
        false => format!(" · {first} to {last}"),
    });
    let boots = if view.boots == 1 { "one boot".to_owned() } else { format!("{} boots", view.boots) };
    format!("bytegauge {} · {} sessions in {boots}{days}", view.plan, view.sessions.len())
}

fn lines_of_test(test: &AcrossTest, width: usize, paint: &Paint) -> Vec<String> {
    let sessions = test.sessions.len();
    let is_decided = test.state == AcrossState::Certain;
    let state = if is_decided { "certain" } else { "undecided" };
    let own = test.recommended.as_ref().map(|option| match test.slower_upper {
        Some(bound) => {
            let is_default = test.changes_nothing && !is_decided;
            let why = if is_default { " (the default; no option is significantly better)" } else { "" };
            let how = match bound {
                bound if bound <= NOTHING => "the fastest".to_owned(),
                bound => format!("at most {} slower than the best", at_most(bound)),
            };
            let named = if is_decided { "use" } else { "can lose least:" };
            format!("{named} {option}, {how} in the mean of {sessions} sessions{why}")
        }
        None => format!("{option} is the best on average; {sessions} sessions are too few for an interval, measure 3"),
    });
    let between = test.between.filter(|share| *share > NOTHING);
    let between = between.map_or_else(String::new, |share| format!("; sessions differ by {}", percent(share)));
    let text = own.map_or_else(
        || "no two options were confirmed in all sessions".to_owned(),
        |own| format!("{state}: {own}; recommended in {} of {sessions}{between}", test.recommended_in),
    );
    let mut lines = vec![paint.bold(&test.title)];
    let indented = |text: &str| {
        wrap(text, width - INDENT).into_iter().map(|line| format!("{:INDENT$}{line}", "")).collect::<Vec<_>>()
    };
    lines.extend(indented(&text));
    let each: Vec<String> = test.sessions.iter().map(of_session).collect();
    lines.extend(indented(&each.join("; ")).iter().map(|line| paint.dim(line)));
    lines
}

fn of_session(result: &AcrossResult) -> String {
    let option = result.recommended.as_deref().unwrap_or("no result");
    let bound = match (result.state, result.slower_upper) {
        (AcrossState::Certain, _) => " (certain)".to_owned(),
        (_, Some(bound)) => format!(" (at most {} slower)", at_most(bound)),
        _ => String::new(),
    };
    format!("session {}: {option}{bound}", result.session)
}

fn legend(view: &AcrossView) -> String {
    format!(
        "certain: within {} of the best option, at {} confidence. Only options that every session confirmed are compared, \
         and each session counts once. “sessions differ by”: how much more a difference of two options varies between \
         sessions than their own trials explain.",
        percent(view.margin),
        percent(view.level)
    )
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{CellId, Level};

    use super::*;

    const MARGIN: f64 = 0.05;

    /// Which of `auto`, 64 KiB and 1 MiB is named, given bounds of the mean session, and which are significantly slower or unfit.
    fn check(bounds: Option<[f64; 3]>, slower: [bool; 3], unfit: [bool; 3], expected: &str) {
        let sizes = [Level::auto(), Level::Number(65_536), Level::Number(1 << 20)];
        let choice = |(level, unfit): (&Level, bool)| {
            let choices = Spec::from([("workload", "stream".into()), ("rcvbuf", level.clone())]);
            // The size that autotuning reached is larger than any.
            let footprint_bytes = Some(level.number().unwrap_or(4 << 20) as f64);
            ConfirmedCell { id: CellId("c".into()), choices, footprint_bytes, unfit }
        };
        let common: Vec<ConfirmedCell> = sizes.iter().zip(unfit).map(choice).collect();
        let judged = Across {
            sessions: 5,
            excess: vec![0.02, 0.01, 0.0],
            upper: bounds.map(|bounds| bounds.map(f64::ln_1p).to_vec()),
            worse: slower.to_vec(),
            between: None,
        };
        let named = chosen(&judged, &common, &["rcvbuf".into()], MARGIN).map(|cell| sizes[cell].to_string());
        assert_eq!(named.as_deref(), Some(expected), "{bounds:?} {slower:?} {unfit:?}");
    }

    #[test]
    fn the_default_is_named_unless_slower() {
        let none = [false; 3];
        let [auto, small, large] =
            ["auto".to_owned(), Level::Number(65_536).to_string(), Level::Number(1 << 20).to_string()];
        // All are within the margin; the smallest, if the default is not; the smallest bound, if nothing is significant.
        check(Some([0.04, 0.03, 0.01]), none, none, &auto);
        check(Some([0.30, 0.04, 0.01]), none, none, &small);
        check(Some([0.12, 0.30, 0.10]), none, none, &auto);
        check(Some([0.30, 0.30, 0.10]), none, none, &large);
        check(Some([0.12, 0.30, 0.10]), [true, false, false], none, &large);
        check(None, none, none, &large);
        // A trial that moved nothing is in no bound.
        check(Some([0.04, 0.03, 0.01]), none, [true, false, false], &small);
        check(Some([0.12, 0.30, 0.10]), none, [true, false, true], &small);
        check(Some([0.12, 0.30, 0.10]), none, [true; 3], &large);
    }
}
