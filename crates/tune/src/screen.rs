//! The screen of a session that changed options of a program's sockets: a row for each change, and the line to change.
//!
//! Lays out the numbers of the report and computes no statistics.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::option::Switching;
use bytegauge_model::socket_changes::AS_IT_IS;
use bytegauge_model::sockets_seen::{OpenedSocket, Opening};
use bytegauge_model::unit::counted;
use bytegauge_model::{CellKind, ChangedProgram, Counted, Metric, SocketChanges};
use bytegauge_report::Report;
use bytegauge_report::document::{LINK_DELAY, NextStep};
use bytegauge_report::render::TerminalStyle;
use bytegauge_report::results::Test;
use bytegauge_report::view::numbers::{
    CellView, ChangeEffect, ChangeView, ChangesView, ServiceView, VersusCost, promising,
};
use bytegauge_report::words::interval_rounding::{ShareScale, at_most, reversed};
use bytegauge_report::words::number::{number, rate, time};
use bytegauge_report::words::paint::wrap;
use bytegauge_report::words::phrase::{capital, join};
use bytegauge_report::words::{change_label, code_line};

use crate::watched::sentence;

/// Room for the name of a section.
const NAME: usize = 11;

/// Cautions below the results.
const CAUTIONS_MAX: usize = 2;

/// More changes that were dropped are counted instead of named, and more reasons why changes were not tried.
const NAMED_MAX: usize = 3;

/// Longer lines of text are hard to read.
const TEXT_MAX: usize = 100;

/// The estimate of a change of the cost, and its interval.
fn ends(change: &ChangeView) -> [f64; 3] {
    [change.change, change.lower, change.upper].map(|share| share.unwrap_or(f64::NAN))
}

/// The result of a session; `None` if it changed no options. With `full` it names all of them, and what rarely matters.
#[must_use]
pub fn render(view: &Report, style: &TerminalStyle, full: bool) -> Option<String> {
    let changes = view.changes().filter(|changes| !changes.changes.is_empty())?;
    let (width, program) = (style.columns.clamp(40, TEXT_MAX), style.program.as_str());
    let screen = Screen { view, changes, task: changes.task.as_ref()?, test: None, width, program, full };
    Some(screen.lines().join("\n") + "\n")
}

struct Screen<'a> {
    view: &'a Report,
    changes: &'a ChangesView,
    task: &'a SocketChanges,
    /// The test that is shown, where a session has several; else all.
    test: Option<&'a Test>,
    width: usize,
    /// The words by which the user calls the product.
    program: &'a str,
    full: bool,
}

impl Screen<'_> {
    fn lines(&self) -> Vec<String> {
        let mut out = wrap(&self.view.heading, self.width);
        out.push(String::new());
        if let Some(service) = &self.task.service {
            let connections = counted(service.connections, "connection");
            out.extend(self.section("Service", &format!("{service}: {connections} at the start")));
            out.push(String::new());
        }
        for (on, seen) in self.task.seen() {
            let name = match on {
                None => "Program",
                Some(ChangedProgram::Client) => "Client",
                Some(_) => "Server",
            };
            out.extend(self.section(name, &sentence(seen)));
            seen.waits.diagnoses().iter().for_each(|one| out.extend(self.section("Waits", &one.text)));
        }
        let calls: Vec<String> = self.task.calls.iter().map(ToString::to_string).collect();
        if !calls.is_empty() {
            out.extend(self.section("Calls", &calls.join("; ")));
        }
        out.extend(self.task.watched.iter().map(|_| String::new()));
        let tests = self.view.tests.iter().map(Some);
        let tests: Vec<Option<&Test>> = if tests.len() > 1 { tests.collect() } else { vec![None] };
        for test in tests {
            let part = Screen { test, ..*self };
            out.extend(test.iter().map(|test| test.title.clone()));
            out.extend(part.table());
            out.push(String::new());
            part.results().iter().for_each(|(name, text)| out.extend(self.section(name, text)));
            out.extend(test.map(|_| String::new()));
        }
        self.circumstances().iter().for_each(|(name, text)| out.extend(self.section(name, text)));
        out.extend(self.next());
        out
    }

    /// The changes that are shown.
    fn changes(&self) -> impl Iterator<Item = &ChangeView> {
        let is_shown = |change: &&ChangeView| self.test.is_none_or(|test| test.option(&change.cell).is_some());
        self.changes.changes.iter().filter(is_shown)
    }

    /// What to do next: the change; else more runs where something is open, or other changes.
    fn next(&self) -> Vec<String> {
        let has_best = self.best().is_some();
        let is_left = self.changes.left_for().is_some();
        let is_open = self.changes.changes.iter().any(ChangeView::is_open);
        let is_useful = |step: &&NextStep| step.continues || has_best || !is_left && is_open;
        match self.view.next.iter().find(is_useful) {
            Some(step) => {
                let Some(command) = step.typed(self.program) else { return self.section("Next", &step.text) };
                // A command is never broken, so that it can be copied.
                let takes = step.takes.as_ref().map_or_else(String::new, |takes| format!("  # {takes}"));
                let text = if step.continues { Vec::new() } else { self.section("", &step.text) };
                [vec![format!("{:NAME$}{command}{takes}", "Next")], text].concat()
            }
            None if self.has_server() && self.changes().any(ChangeView::helps_over_loopback) => {
                let link = format!("--link-delay {LINK_DELAY}, and {{server}} as the server's address in the command");
                self.section("Next", &format!("see what helps over a network: the same with {link}"))
            }
            None if !is_open && !is_left => {
                self.section("Next", "nothing is left to decide; --option and --sysctl name other changes")
            }
            None => Vec::new(),
        }
    }

    /// A text under its name.
    fn section(&self, name: &str, text: &str) -> Vec<String> {
        let lines = wrap(text, self.width - NAME).into_iter().enumerate();
        lines.map(|(at, line)| format!("{:NAME$}{line}", if at == 0 { name } else { "" })).collect()
    }

    fn with(&self, effect: ChangeEffect) -> impl Iterator<Item = &ChangeView> {
        self.changes().filter(move |change| change.effect == effect)
    }

    /// The change to make.
    fn best(&self) -> Option<&ChangeView> {
        self.changes().find(|change| change.is_best)
    }

    /// Further changes that are shown to help, those that save most first. Another value of an option replaces a better one, and is
    /// only in the table.
    fn also_helping(&self) -> Vec<&ChangeView> {
        let mut better: Vec<&ChangeView> = self.with(ChangeEffect::Better).filter(|change| !change.is_best).collect();
        better.sort_by(|a, b| ends(a)[0].total_cmp(&ends(b)[0]));
        let options = |change: &ChangeView| self.task.named(&change.value).iter();
        let mut helping: Vec<&ChangeView> = self.best().into_iter().collect();
        for change in better {
            if helping.iter().all(|before| options(change).all(|one| options(before).all(|of| !of.replaces(one)))) {
                helping.push(change);
            }
        }
        helping.split_off(self.best().iter().count())
    }

    /// Whether the server can run at the other end of an emulated link.
    fn has_server(&self) -> bool {
        let mut flags = self.view.plan.asked.iter().flatten().take_while(|word| *word != "--");
        flags.any(|word| word == "--start" || word.starts_with("--start="))
    }

    /// A change as a row is headed.
    fn label(&self, value: &str) -> String {
        change_label(self.task, value)
    }

    fn metric(&self) -> Option<Metric> {
        self.view.tune.as_ref()?.metric.parse().ok()
    }

    /// What the numbers of the session count; events have no cost of a run.
    fn counted(&self) -> Counted {
        self.metric().map_or(Counted::Events, |metric| metric.counted())
    }

    /// The estimate of a change, and its interval: of the rate where the program, or a command, states one, and of the cost otherwise.
    fn shown(&self, change: &ChangeView) -> [f64; 3] {
        let [share, lower, upper] = ends(change);
        match self.counted() {
            Counted::Printed | Counted::Bytes => [reversed(share), reversed(upper), reversed(lower)],
            Counted::Runs | Counted::CpuTime | Counted::Events => [share, lower, upper],
        }
    }

    /// The median rate of a value: runs in a second where less time is better.
    fn per_second(&self, value: &str) -> Option<f64> {
        let is_it = |name: Option<&str>| name == Some(value);
        let is_shown = |cell: &&CellView| self.test.is_none_or(|test| test.id == cell.group);
        let mut cells = self.view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate).filter(is_shown);
        let cell = cells.find(|cell| is_it(cell.level("value").name()));
        let is_fact = value == AS_IT_IS && matches!(self.metric(), Some(Metric::Wall));
        let watched = || self.task.as_it_is_ns.or(self.task.watched_ns).filter(|_| is_fact);
        let median = cell.and_then(|cell| cell.estimate.median).filter(|median| *median > 0.0);
        median.or_else(|| Some(1e9 / watched()? as f64))
    }

    /// A rate, or the cost of a run that follows from it.
    fn cost(&self, per_second: Option<f64>) -> String {
        match (per_second, self.counted()) {
            (None, _) | (_, Counted::Events) => String::new(),
            (Some(per_second), Counted::Bytes) => rate("B/s", per_second),
            (per_second, Counted::Printed) => number(per_second),
            (Some(per_second), Counted::Runs | Counted::CpuTime) if per_second > 1.0 => {
                format!("{} ms", number(Some(1e3 / per_second)))
            }
            (Some(per_second), Counted::Runs | Counted::CpuTime) => format!("{} s", number(Some(1.0 / per_second))),
        }
    }

    fn table(&self) -> Vec<String> {
        let per_second = self.per_second(AS_IT_IS);
        let now = self.cost(per_second);
        let unit = match self.metric() {
            Some(Metric::Command(..)) => "as printed",
            _ if self.task.service.is_some() => "per GiB",
            _ => "of a run",
        };
        let head = match self.counted() {
            _ if now.is_empty() && self.changes().all(|one| self.cost(self.per_second(&one.value)).is_empty()) => {
                String::new()
            }
            Counted::Printed | Counted::Bytes => "rate".to_owned(),
            Counted::Runs | Counted::CpuTime | Counted::Events => format!("{} {unit}", self.changes.cost.noun()),
        };
        let mut rows = vec![[String::new(), head, "change in pairs (95 %)".to_owned()]];
        rows.push([self.label(AS_IT_IS), now, String::new()]);
        for change in self.changes() {
            if change.effect == ChangeEffect::NotMeasured {
                let own = self.cost(self.per_second(&change.value));
                if !change.dropped && !own.is_empty() {
                    rows.push([self.label(&change.value), own, "no interval yet".to_owned()]);
                }
                continue;
            }
            let mark = if change.is_best { "  <- use" } else { "" };
            let open = if change.effect == ChangeEffect::Undecided { "  undecided" } else { "" };
            let [share, lower, upper] = self.shown(change);
            let scale = ShareScale::of([share, lower, upper]);
            let shown = format!("{} ({}){open}{mark}", scale.signed(share), scale.signed_interval(lower, upper));
            // Times that follow from the change: medians of all runs may differ from it in their direction.
            let cost = self.cost(per_second.map(|now| now / (1.0 + ends(change)[0])));
            rows.push([self.label(&change.value), cost, shown]);
        }
        let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (first, second) = (wide(0), wide(1));
        let line = |[name, cost, change]: &[String; 3]| format!("  {name:first$}  {cost:>second$}   {change}");
        rows.iter().map(|row| line(row).trim_end().to_owned()).collect()
    }

    /// The conclusions, each under its name.
    fn results(&self) -> Vec<(&str, String)> {
        let mut out: Vec<(&str, String)> = self.usage().into_iter().map(|text| ("Use", text)).collect();
        let slow_reads = self.task.calls.iter().filter_map(|calls| Some((&calls.program, calls.slow_reads?)));
        let slow_reads = slow_reads.filter(|(_, reads)| reads.matters || self.full);
        out.extend(slow_reads.map(|(program, reads)| ("Buffer", format!("{program}: {reads}"))));
        out.extend(self.also_helping().into_iter().map(|change| match change.beyond_loopback {
            None => ("Also helps", self.code_and_gain(change)),
            // No line to copy: the gain is first.
            Some(sentence) => {
                let (gain, lines) = (self.gain(change), join(&code_line::lines(self.task, &change.value), "and"));
                ("Loopback", format!("{gain} over loopback: {lines}. {}", capital(sentence)))
            }
        }));
        let labels =
            |effect: ChangeEffect| self.with(effect).map(|change| self.label(&change.value)).collect::<Vec<_>>();
        let nothing = labels(ChangeEffect::Nothing);
        if !nothing.is_empty() {
            let most = self.with(ChangeEffect::Nothing).flat_map(ends).map(f64::abs).fold(0.0, f64::max);
            out.push(("No effect", format!("{}: at most ±{}", nothing.join("; "), at_most(most))));
        }
        let mut by_reason: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        // A fact without an interval has the reason.
        let is_stated = self.without_interval().is_some();
        for change in self.with(ChangeEffect::NotMeasured).filter(|change| !is_stated || !change.is_open()) {
            let name = match self.per_second(&change.value) {
                _ if change.dropped => "Dropped",
                None => "Skipped",
                Some(_) => "No result",
            };
            let why = change.reason.as_deref().unwrap_or("no run of it was complete");
            by_reason.entry((name, why)).or_default().push(self.label(&change.value));
        }
        let all = self.changes().count();
        let lines = by_reason.into_iter().map(|((name, why), labels)| match labels.len() {
            count if count > 1 && count == all => (name, format!("every change: {why}")),
            count if count > NAMED_MAX && !self.full => (name, format!("{count} changes (--full): {why}")),
            _ => (name, format!("{}: {why}", labels.join("; "))),
        });
        out.extend(lines);
        out
    }

    /// What holds for the whole session, each under its name.
    fn circumstances(&self) -> Vec<(&str, String)> {
        let is_in_table = self.with(ChangeEffect::NotMeasured).next().is_none();
        let ended = self.changes.left_for().filter(|_| is_in_table).map(|why| ("Ended", why.to_owned()));
        let mut out: Vec<(&str, String)> = ended.into_iter().collect();
        out.extend(self.not_inherited().map(|text| ("Unchanged", text)));
        let (all, shown) = (&self.changes.not_tried, if self.full { usize::MAX } else { 1 });
        let more = all.len().saturating_sub(shown);
        let more = if more > 0 { format!("; {more} more: --full") } else { String::new() };
        out.extend(all.iter().take(shown).map(|why| ("Not tried", format!("{why}{more}"))));
        let lasting = self.task.options().filter(|change| change.row().switching == Switching::Lasts);
        let lasting: BTreeSet<&str> = lasting.map(|change| change.row().name).collect();
        if self.task.service.is_some() && !lasting.is_empty() {
            let names = join(&lasting.into_iter().map(str::to_owned).collect::<Vec<_>>(), "and");
            let lasts = "did after it is set back: new ones may differ more";
            out.push(("Lasts", format!("connections keep a part of what {names} {lasts}")));
        }
        out.extend(self.changes.service.iter().map(|row| ("Moved", self.moved(row))));
        if (self.full || self.has_server())
            && self.task.service.is_none()
            && self.changes.on != "both"
            && self.task.options().next().is_some()
        {
            out.push(("Changed", format!("sockets of the {} alone (--on)", self.changes.on)));
        }
        let link = self.view.groups.iter().find_map(|group| group.factors.emulated_link());
        if let Some(link) = link {
            out.push(("Network", format!("an emulated link between the program and its server: {link}")));
        } else if !self.task.sysctls.is_empty() {
            let own = "the programs run in one of their own, and reach each other over its loopback";
            out.push(("Network", own.into()));
        }
        let cautions = if self.full { usize::MAX } else { CAUTIONS_MAX };
        out.extend(self.view.cautions.iter().take(cautions).map(|text| ("Caution", text.clone())));
        if let Some(ns) = self.task.filter_ns.filter(|_| self.full) {
            let cost = format!("the filter adds {ns} ns to each system call of the program, in all runs alike");
            out.push(("Cost", cost));
        }
        out
    }

    /// What the connections of a running program did with a value.
    fn moved(&self, row: &ServiceView) -> String {
        let label = self.label(&row.value);
        let moved = row.gib_per_s.map_or_else(String::new, |gib| rate("B/s", gib * (1_u64 << 30) as f64));
        let trip = row.rtt_us.map_or_else(String::new, |us| time(us * 1e3));
        let repeated = number(row.retransmitted_per_gib);
        format!("{label}: {moved}, {repeated} segments retransmitted per GiB, round trip {trip}")
    }

    /// What to change, and the gain. `None` where no change has an interval: the reason is a row of its own.
    fn usage(&self) -> Option<String> {
        if let Some(best) = self.best() {
            return Some(self.code_and_gain(best));
        }
        if let Some(fact) = self.without_interval() {
            return Some(fact);
        }
        if let Some(open) = promising(self.changes()) {
            return Some(format!(
                "undecided: {} may help, but runs differ too much to be certain",
                self.label(&open.value)
            ));
        }
        let is_open = self.with(ChangeEffect::Undecided).next().is_some() || self.changes().any(|one| one.dropped);
        let why = match is_open {
            _ if self.changes().any(ChangeView::helps_over_loopback) => "what helps was only shown over loopback",
            true => "no change is shown to help",
            false => "no change that was tried helps",
        };
        let is_judged = self.changes().any(|change| change.upper.is_some());
        is_judged.then(|| format!("keep the program as it is: {why}"))
    }

    /// What runs showed that are too few for an interval, as a fact: a change whose run took less than half of the time.
    fn without_interval(&self) -> Option<String> {
        let is_time = matches!(self.counted(), Counted::Runs | Counted::CpuTime);
        let now = self.per_second(AS_IT_IS).filter(|_| is_time && self.changes().all(|one| one.upper.is_none()))?;
        let rate = |change: &ChangeView| self.per_second(&change.value).unwrap_or(0.0);
        let is_open = |one: &&ChangeView| !one.dropped && one.left_for.is_none() && one.beyond_loopback.is_none();
        let open: Vec<&ChangeView> = self.changes().filter(is_open).collect();
        let most = open.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        // Of those with most of the gain, the removal of a call is the simpler change.
        let is_simpler =
            |one: &&&ChangeView| rate(one) > (now * rate(most)).sqrt() && self.task.only_removes(&one.value);
        let best = open.iter().find(is_simpler).unwrap_or(most);
        let [cost, as_it_is] = [rate(best), now].map(|per_second| self.cost(Some(per_second)));
        let why = best.reason.as_deref().unwrap_or_default();
        if rate(best) < 2.0 * now {
            let none = "keep the program as it is so far: no run with a change took less than half of";
            return Some(format!("{none} {as_it_is}; no interval yet: {why}"));
        }
        let is_cell = |cell: &&CellView| cell.id == best.cell;
        let runs = self.view.cells.iter().find(is_cell).map_or(0, |cell| cell.trials);
        let runs = if runs > 1 { format!("median of {runs} runs") } else { "one run".to_owned() };
        let label = self.label(&best.value);
        Some(format!("undecided: “{label}” took {cost} instead of {as_it_is} ({runs}); no interval yet: {why}"))
    }

    /// The connections that an option of a server does not reach.
    fn not_inherited(&self) -> Option<String> {
        let accepts = |socket: &OpenedSocket| socket.transport.is_unix() && socket.call == Opening::Listen;
        let is_accepted = self.changes.on != "client" && self.task.watched.as_ref()?.opened.keys().any(accepts);
        let text = "connections that it accepts over Unix sockets, which inherit no option";
        (is_accepted && self.task.options().next().is_some()).then(|| text.to_owned())
    }

    /// The lines of code that a change stands for, and its gain.
    fn code_and_gain(&self, change: &ChangeView) -> String {
        format!("{}: {}", join(&code_line::lines(self.task, &change.value), "and"), self.gain(change))
    }

    /// The gain of a change that is shown to save something, as a speed or as what it saves.
    fn gain(&self, change: &ChangeView) -> String {
        let [share, lower, upper] = ends(change);
        if self.changes.cost != VersusCost::Time {
            let scale = ShareScale::of([share, lower, upper]);
            return format!(
                "{} {} ({})",
                self.changes.cost.noun(),
                scale.signed(share),
                scale.signed_interval(lower, upper)
            );
        }
        let [gain, least, most] = [reversed(share), reversed(upper), reversed(lower)];
        // Small gains are percentages.
        let scale = ShareScale { multiples: gain >= 0.1 };
        match scale.multiples {
            true => format!("{} as fast ({})", scale.estimate(gain), scale.interval(least, most)),
            false => format!("{} faster ({})", scale.estimate(gain), scale.interval(least, most)),
        }
    }
}

#[cfg(test)]
mod tests;
