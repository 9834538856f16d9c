//! Sessions before and after: a line per test, the slowest first, then the verdict.

use bytegauge_report::view::numbers::difference::of_time;
use bytegauge_report::view::numbers::{SubjectDifference, Verdict};
use bytegauge_report::words::cost_words;
use bytegauge_report::words::interval_rounding::{ShareScale, percent};
use bytegauge_report::words::number::{common_unit, fixed, rate};
use bytegauge_report::words::paint::{Paint, TerminalStyle, wrap};

use super::{HistoryLine, HistoryView};

/// More lines than this fit no screen.
const LINES_MAX: usize = 12;

/// The tests, the basis and the verdict.
pub fn render(view: &HistoryView, style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    let width = style.columns.clamp(60, 100);
    let ids = |ids: &[bytegauge_model::SessionId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let head = format!("bytegauge {} · before: {} · after: {}", view.plan, ids(&view.before), ids(&view.after));
    let mut out = vec![paint.bold(&head), String::new()];
    let mut lines: Vec<&HistoryLine> = view.lines.iter().collect();
    lines.sort_by(|a, b| b.difference.longer.unwrap_or(0.0).total_cmp(&a.difference.longer.unwrap_or(0.0)));
    let scale = scale(&view.lines);
    for line in lines.iter().take(LINES_MAX) {
        out.extend(wrap(&line.label, width - 2).iter().map(|label| format!("  {}", paint.bold(label))));
        out.extend(
            wrap(&of_line(line, scale, unit(&view.lines, line)), width - 4).iter().map(|line| format!("    {line}")),
        );
    }
    if lines.len() > LINES_MAX {
        out.push(paint.dim(&format!("  … {} more: --format json", lines.len() - LINES_MAX)));
    }
    for lacks in ["after", "before"] {
        let of_side = view.not_compared.iter().filter(|test| test.lacks == lacks);
        let labels: Vec<&str> = of_side.map(|test| test.label.as_str()).collect();
        if !labels.is_empty() {
            let text = format!("Not compared, because there is no result {lacks}: {}.", labels.join("; "));
            out.extend(wrap(&text, width - 2).iter().map(|line| format!("  {line}")));
        }
    }
    out.push(String::new());
    let basis = format!(
        "Basis: one option of each test, the recommended one of session {} where there is one. Rates are medians. Intervals hold together at {}; \
         each session counts once.",
        view.before.last().map_or_else(String::new, ToString::to_string),
        percent(view.level)
    );
    out.extend(wrap(&basis, width).iter().map(|line| paint.dim(line)));
    out.extend(wrap(&format!("Result: {}.", view.text), width).iter().map(|line| paint.bold(line)));
    out.join("\n") + "\n"
}

/// The differences of all lines have one unit, so that they can be compared.
fn scale(lines: &[HistoryLine]) -> ShareScale {
    let each = lines.iter().flat_map(|line| [line.difference.longer, line.difference.lower, line.difference.upper]);
    ShareScale::of(each.flatten().map(of_time))
}

/// The unit of a line's rates: that of all lines where they can be read in it.
fn unit(lines: &[HistoryLine], line: &HistoryLine) -> Option<(f64, &'static str)> {
    let rates = |line: &HistoryLine| [line.rate_before, line.rate_after].into_iter().flatten();
    let alike = lines.iter().filter(|other| other.unit == line.unit).flat_map(rates);
    common_unit(line.unit, alike).or_else(|| common_unit(line.unit, rates(line)))
}

fn of_line(line: &HistoryLine, scale: ShareScale, unit: Option<(f64, &str)>) -> String {
    let shown = |per_second: Option<f64>| match (per_second, unit) {
        (None, _) => "–".into(),
        (Some(value), None) => rate(line.unit, value),
        (Some(value), Some((divisor, name))) => format!("{} {name}", fixed(value / divisor, 3)),
    };
    let SubjectDifference { longer, lower, upper, verdict } = line.difference;
    let [difference, lower, upper] = [longer, lower, upper].map(|longer| longer.map(of_time));
    let noun = cost_words(line.compares).noun;
    let difference = difference.map_or_else(|| "–".into(), |share| format!("{noun} {}", scale.signed(share)));
    let interval = match (lower, upper) {
        (Some(lower), Some(upper)) => format!(" ({})", scale.signed_interval(lower, upper)),
        _ => format!(", no interval ({} before)", bytegauge_model::unit::counted(line.sessions_before, "session")),
    };
    let verdict = match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Equivalent => "equivalent",
        Verdict::Open => "undecided",
    };
    format!("{} → {}: {difference}{interval}: {verdict}", shown(line.rate_before), shown(line.rate_after))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Cost;

    use super::*;
    use crate::history::NotCompared;

    fn line(label: &str, (rate_before, rate_after): (f64, f64), difference: SubjectDifference) -> HistoryLine {
        HistoryLine {
            compares: Cost::Time,
            label: label.into(),
            unit: "bytes/s",
            rate_before: Some(rate_before),
            rate_after: Some(rate_after),
            sessions_before: 5,
            sessions_after: 1,
            difference,
        }
    }

    #[test]
    fn half_the_time_is_the_reverse_of_twice() {
        for (longer, expected) in [(0.5, 0.5), (-1.0, -0.5), (-0.25, -0.2), (0.0, 0.0)] {
            assert!((of_time(longer) - expected).abs() < 1e-12, "{longer}");
        }
        let difference = SubjectDifference {
            longer: Some(-1.0),
            lower: Some(-1.2041),
            upper: Some(-0.8013),
            verdict: Verdict::Better,
        };
        let line = line("tcp", (1e9, 2e9), difference);
        let text = of_line(&line, scale(std::slice::from_ref(&line)), None);
        assert!(text.ends_with(": time −50 % (−54.7 % to −44.4 %): better"), "{text}");
    }

    #[test]
    fn every_test_is_listed_in_one_unit() {
        let gib = f64::from(1 << 30);
        let open = SubjectDifference { longer: Some(-1.0), lower: None, upper: None, verdict: Verdict::Open };
        let view = HistoryView {
            plan: "buffer-size".into(),
            before: vec![bytegauge_model::SessionId(1)],
            after: vec![bytegauge_model::SessionId(2)],
            margin: 0.05,
            level: 0.95,
            lines: vec![line("read", (0.5 * gib, gib), open), line("write", (2.0 * gib, 3.0 * gib), open)],
            not_compared: vec![
                NotCompared { label: "TCP: 4K".into(), lacks: "after" },
                NotCompared { label: "pipe".into(), lacks: "before" },
            ],
            verdict: Verdict::Open,
            lacking: 4,
            text: String::new(),
        };
        let text = render(&view, &TerminalStyle { columns: 80, ..TerminalStyle::default() });
        assert!(text.contains("no result after: TCP: 4K.") && text.contains("no result before: pipe."), "{text}");
        assert!(text.contains("0.500 GiB/s → 1.00 GiB/s") && !text.contains("MiB/s"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
