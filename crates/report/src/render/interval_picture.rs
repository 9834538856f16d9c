//! Intervals drawn on one scale of characters: `├────┤`.

use crate::results::OptionResult;
use crate::words::interval_rounding::ShareScale;

/// Narrower pictures show nothing.
pub const WIDTH_MIN: usize = 12;
/// Wider ones show no more.
pub const WIDTH_MAX: usize = 60;
/// Ends of the scale, as shares: the first that holds all intervals.
const ENDS: [f64; 16] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0, 19.0, 49.0, 99.0];

/// The scale of the intervals of a test, from 0 on.
pub struct Picture {
    end: f64,
    width: usize,
    scale: ShareScale,
}

impl Picture {
    /// The scale that holds these options in that width; `None` without an interval.
    pub fn of(options: &[&OptionResult], scale: ShareScale, width: usize) -> Option<Picture> {
        let most = |ends: fn(&OptionResult) -> Option<f64>| {
            options.iter().filter_map(|option| ends(option)).filter(|end| end.is_finite()).fold(0.0, f64::max)
        };
        let limit = if scale.multiples { f64::INFINITY } else { 4.0 };
        // A wide interval does not hide the others.
        let wanted =
            most(|option| option.slower_upper).min((most(|option| option.slower_lower) * 3.0).max(0.5)).min(limit);
        let end = ENDS.into_iter().find(|end| *end >= wanted).unwrap_or(wanted);
        let any = options.iter().any(|option| option.slower_upper.is_some());
        (any && width >= WIDTH_MIN).then_some(Picture { end, width: width.min(WIDTH_MAX), scale })
    }

    /// The numbers above the scale: its beginning, its middle and its end.
    pub fn heading(&self) -> String {
        let at = |share: f64| match self.scale.multiples {
            true => format!("{}×", (1.0 + share).round()),
            false => format!("{} %", (share * 1000.0).round() / 10.0),
        };
        let (first, middle, last) = (at(0.0), at(self.end / 2.0), at(self.end));
        let room = self.width.saturating_sub(first.chars().count() + last.chars().count());
        let middle = if room > middle.chars().count() + 4 { middle } else { String::new() };
        let before = (self.width / 2).saturating_sub(first.chars().count() + middle.chars().count() / 2);
        let line = format!("{first}{}{middle}", " ".repeat(before));
        let after = self.width.saturating_sub(line.chars().count() + last.chars().count());
        format!("{line}{}{last}", " ".repeat(after))
    }

    /// The interval of an option; empty without one.
    pub fn line(&self, option: &OptionResult) -> String {
        let Some((lower, upper)) = option.slower_lower.zip(option.slower_upper) else { return String::new() };
        let place = |share: f64| ((share / self.end).min(1.0) * (self.width - 1) as f64).round() as usize;
        let (from, to) = (place(lower), place(upper));
        let is_cut = upper > self.end;
        let mut line = " ".repeat(from);
        if from == to {
            line.push(if is_cut { '▶' } else { '┼' });
            return line;
        }
        line.push('├');
        line.push_str(&"─".repeat(to - from - 1));
        line.push(if is_cut { '▶' } else { '┤' });
        line
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{CellId, Spec};

    use super::*;
    use crate::results::OptionStatus;

    fn option(lower: f64, upper: f64) -> OptionResult {
        OptionResult {
            id: CellId("c1".into()),
            label: String::new(),
            settings: Spec::default(),
            status: OptionStatus::Undecided,
            rate: None,
            trials: 1,
            slower_lower: Some(lower),
            slower_upper: Some(upper),
            harm: Vec::new(),
            reason: None,
        }
    }

    #[test]
    fn intervals_are_drawn_to_one_scale() {
        let (narrow, wide) = (option(0.0, 0.1), option(0.5, 1.0));
        let picture = Picture::of(&[&narrow, &wide], ShareScale::default(), 21).unwrap();
        assert_eq!(picture.line(&narrow), "├─┤");
        assert_eq!(picture.line(&wide), "          ├─────────┤");
        assert_eq!(picture.heading().chars().count(), 21);
        // An interval without an end goes on beyond the scale.
        assert!(picture.line(&option(0.9, f64::INFINITY)).ends_with("├─▶"), "{}", picture.line(&option(0.9, 9.0)));
        assert!(Picture::of(&[&narrow], ShareScale::default(), 5).is_none());
    }
}
