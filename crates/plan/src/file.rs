//! Plans as TOML. Every flag is a key of the same name; dashes and underscores are the same.
//!
//! Factors are at the top level (one crossing) or in `[[part]]` tables (several crossings in one
//! session). A level is written as a flag would take it, as a number, a switch, or a list of those.

use bytegauge_model::factor::{self, Factor};
use bytegauge_model::{Level, Workload, suggest};
use toml::{Table, Value};

use crate::PlanError;
use crate::spec::{DESIGN_KEYS, Part, PlanSpec, ProfileSpec, finalists, parse as parse_levels, time_ns};

/// Keys of a plan other than factors and those of its design.
const PLAN_KEYS: &[&str] = &["name", "summary", "workload", "wants", "profiles", "part"];

/// Keys of a part other than factors.
const PART_KEYS: &[&str] = &["screen", "finalists", "trial"];

/// Reads a plan. `place` names it in errors: a file or a ready plan's name.
///
/// # Errors
/// With the place, the key, and what would be right.
pub fn parse(place: &str, text: &str) -> Result<PlanSpec, PlanError> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        PlanError::Usage(format!("{place} is not a plan: {}", error.to_string().trim_end().replace('\n', "\n  ")))
    })?;
    if table.is_empty() {
        // A full disk may have cut it off; without a key it would mean all options of all transports.
        let write = "write at least its workload, such as workload = \"stream\"";
        return PlanError::usage(format!("the plan {place} is empty: {write}"));
    }
    let mut reader = Reader { place, workload: Workload::default() };
    // The meaning of a key depends on the workload, wherever it is in the file.
    if let Some(value) = table.get("workload") {
        reader.workload = reader.workload("workload", value)?;
    }
    reader.plan(&table)
}

struct Reader<'a> {
    place: &'a str,
    workload: Workload,
}

impl Reader<'_> {
    fn plan(&self, table: &Table) -> Result<PlanSpec, PlanError> {
        let stem = self.place.rsplit('/').next().unwrap_or(self.place).trim_end_matches(".toml");
        let mut spec = PlanSpec::named(stem, self.workload);
        let mut top = Part::default();
        for (key, value) in table {
            match dashed(key).as_str() {
                "name" => spec.name = self.text(key, value)?,
                "summary" => spec.summary = self.text(key, value)?,
                "workload" => {}
                "wants" => {
                    spec.wants.extend(self.factors(&self.text(key, value)?, &[])?.iter().map(|factor| factor.name));
                }
                "profiles" => spec.profiles = self.profiles(key, value)?,
                "part" => {}
                of_design if DESIGN_KEYS.contains(&of_design) => {
                    self.design(key, value, |text| spec.set_design(of_design, text))?;
                }
                _ => self.part_key(&mut top, key, value, &[PLAN_KEYS, &DESIGN_KEYS].concat())?,
            }
        }
        spec.parts = self.parts(table, &top)?;
        Ok(spec)
    }

    /// The parts, each on top of the levels at the top level.
    fn parts(&self, table: &Table, top: &Part) -> Result<Vec<Part>, PlanError> {
        let Some(value) = table.get("part") else { return Ok(vec![top.clone()]) };
        let tables = value.as_array().ok_or_else(|| self.bad("part", "is a list of tables: write [[part]]"))?;
        tables
            .iter()
            .map(|value| {
                let table = value.as_table().ok_or_else(|| self.bad("part", "is a list of tables: write [[part]]"))?;
                let mut part = top.clone();
                for (key, value) in table {
                    self.part_key(&mut part, key, value, &[])?;
                }
                Ok(part)
            })
            .collect()
    }

    fn part_key(&self, part: &mut Part, key: &str, value: &Value, also: &[&str]) -> Result<(), PlanError> {
        match dashed(key).as_str() {
            "screen" => {
                let table = value.as_table().ok_or_else(|| self.bad(key, "is a table of conditions"))?;
                for (name, value) in table {
                    for factor in self.factors(name, &[])? {
                        let levels = self.levels(factor, value)?;
                        part.screen.insert(factor.name, levels);
                    }
                }
            }
            "finalists" => part.finalists = Some(self.design(key, value, finalists)?),
            "trial" => part.trial_ns = Some(self.design(key, value, time_ns)?),
            _ => {
                for factor in self.factors(key, also)? {
                    let levels = self.levels(factor, value)?;
                    part.set(factor, levels);
                }
            }
        }
        Ok(())
    }

    /// The factors that a key sets: usually one, never none.
    fn factors(&self, key: &str, also: &[&str]) -> Result<Vec<&'static Factor>, PlanError> {
        let named = factor::named(self.workload, key);
        if let ([], Some(other)) = (named.as_slice(), factor::elsewhere(self.workload, key)) {
            return Err(PlanError::not_in_workload(&dashed(key), self.workload, other));
        }
        if named.is_empty() {
            let flags = factor::flags(self.workload);
            let known = flags.iter().map(String::as_str).chain([PART_KEYS, also].concat());
            let hint = suggest::hint(key, known.collect::<Vec<_>>());
            return PlanError::usage(format!("{}: no factor or key is called `{key}`{hint}", self.place));
        }
        Ok(named)
    }

    /// A level or a list of levels, in any of the shapes that TOML offers.
    fn levels(&self, factor: &'static Factor, value: &Value) -> Result<Vec<Level>, PlanError> {
        let text = match value {
            Value::Array(values) => {
                values.iter().map(|value| self.level_text(factor.name, value)).collect::<Result<Vec<_>, _>>()?.join(",")
            }
            value => self.level_text(factor.name, value)?,
        };
        parse_levels(factor, &text)
    }

    fn level_text(&self, key: &str, value: &Value) -> Result<String, PlanError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(number) => Ok(number.to_string()),
            Value::Boolean(on) => Ok(if *on { "on" } else { "off" }.into()),
            _ => Err(self.bad(key, "takes a level, a list or a range, such as \"1K..2M\" or [4096, 65536]")),
        }
    }

    fn profiles(&self, key: &str, value: &Value) -> Result<Vec<ProfileSpec>, PlanError> {
        let tables = value.as_table().ok_or_else(|| self.bad(key, "is a table: write [profiles.NAME]"))?;
        tables
            .iter()
            .map(|(name, value)| {
                let table = value.as_table().ok_or_else(|| self.bad(name, "is a table of conditions"))?;
                let mut sets = Vec::new();
                for (key, value) in table {
                    for factor in self.factors(key, &[])? {
                        let [level] = &self.levels(factor, value)?[..] else {
                            return Err(self.bad(key, "takes one level in a profile"));
                        };
                        if factor.role != factor::Role::Condition || factor.name == "transport" {
                            return Err(self.bad(key, "is a choice: a profile sets conditions only"));
                        }
                        sets.push((factor.name, level.clone()));
                    }
                }
                Ok(ProfileSpec { name: name.clone(), sets })
            })
            .collect()
    }

    fn workload(&self, key: &str, value: &Value) -> Result<Workload, PlanError> {
        let text = self.text(key, value)?;
        text.parse().map_err(|_| self.bad(key, "is \"stream\", \"call\" or \"ring\""))
    }

    /// The value of a key that a flag has as well.
    fn design<T>(
        &self,
        key: &str,
        value: &Value,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, PlanError> {
        let text = match value {
            Value::Float(number) => number.to_string(),
            other => self.level_text(key, other)?,
        };
        read(&text).map_err(|why| self.bad(key, &format!("is wrong: {why}")))
    }

    fn text(&self, key: &str, value: &Value) -> Result<String, PlanError> {
        value.as_str().map(str::to_owned).ok_or_else(|| self.bad(key, "takes a text in quotes"))
    }

    fn bad(&self, key: &str, expected: &str) -> PlanError {
        PlanError::Usage(format!("{}: `{key}` {expected}", self.place))
    }
}

fn dashed(key: &str) -> String {
    key.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_error(text: &str, expected: &str) {
        let error = parse("p.toml", text).expect_err(text).to_string();
        assert_eq!(error, expected, "{text}");
    }

    #[test]
    fn every_shape_of_a_level() {
        let spec = parse(
            "p.toml",
            "transport = [\"unix\", \"tcp\"]\nread-size = \"4K..16K\"\nwrite_size = [4096, \"64K\"]\nnodelay = true\n",
        )
        .unwrap();
        let part = &spec.parts[0];
        assert_eq!(spec.name, "p");
        assert_eq!(part.levels["read_size"].len(), 3);
        assert_eq!(part.levels["write_size"], [Level::Number(4096), Level::Number(65536)]);
        assert_eq!(part.levels["nodelay"], [Level::Switch(true)]);
    }

    #[test]
    fn the_workload_decides_what_a_key_means() {
        let spec = parse("p", "rate = \"20k\"\nengine = \"epoll\"\nworkload = \"call\"").unwrap();
        let levels = &spec.parts[0].levels;
        assert_eq!(levels["call_rate"], [Level::Number(20_000)]);
        assert_eq!(levels["server_engine"], levels["client_engine"]);
        let spec = parse("p", "rate = \"20K\"").unwrap();
        assert_eq!(spec.parts[0].levels["rate"], [Level::Number(20 << 10)]);
    }

    #[test]
    fn parts_extend_the_top_level() {
        let spec = parse("p", "flows = 4\n[[part]]\ntransport = \"unix\"\n[[part]]\ntransport = \"tcp\"\nflows = 2\n");
        let parts = spec.unwrap().parts;
        assert_eq!(parts[0].levels["flows"], [Level::Number(4)]);
        assert_eq!(parts[1].levels["flows"], [Level::Number(2)]);
        let spec = parse("p", "half-load = true\n[[part]]\nflows = 2\n").unwrap();
        assert!(spec.gentle, "{spec:?}");
    }

    #[test]
    fn errors_name_the_key_and_the_fix() {
        check_error("reed-size = 4096", "p.toml: no factor or key is called `reed-size`: did you mean `read-size`?");
        check_error(
            "read-size = \"1Q\"",
            "--read-size: `Q` in `1Q` is not a unit: use B, K, M, G (binary: 1K = 1024), or KiB, MiB, GiB",
        );
        check_error("read-size = -1", "--read-size: `-1` is negative: sizes, counts and durations start at 0");
        check_error("time = 60", "p.toml: `time` is wrong: `60` has no unit: use ns, us, ms, s, m, h");
        check_error("finalists = 1", "p.toml: `finalists` is wrong: `1` is out of range: use 2 to 64, or all");
        check_error("workload = \"strem\"", "p.toml: `workload` is \"stream\", \"call\" or \"ring\"");
        check_error("workload = 1", "p.toml: `workload` takes a text in quotes");
        check_error(
            "read-size = \"4K\"\nwrite-size = 1\nworkload = \"call\"",
            "--write-size has no meaning in the workload call: leave it out, or use the workload stream",
        );
        check_error(
            "[profiles.x]\nread-size = 4096",
            "p.toml: `read-size` is a choice: a profile sets conditions only",
        );
        assert!(parse("p.toml", "= 3").unwrap_err().to_string().starts_with("p.toml is not a plan: "));
    }
}
