//! Whether a session may be resumed here: its machine is the one that this process runs on, in the same boot.
//!
//! A result holds for one machine in one boot: the next boot has another memory layout, and another kernel or CPU is
//! another experiment. Compares recorded facts only; a fact that is unknown then or now decides
//! nothing.

use serde_json::Value;

/// Facts that do not change until the next boot, and the text of a difference. The CPU may change within a boot:
/// where a virtual machine is moved to another host.
const KEPT: [(&str, &str); 3] = [
    ("/boot_id", "in another boot, or on another machine"),
    ("/kernel_release", "under another kernel"),
    ("/cpu/model", "on another CPU"),
];

/// Where the facts of other hosts are, among those of a machine: by the places of their agents.
pub(crate) const FAR_HOSTS: &str = "far_hosts";

/// The place where the session was measured, if it was not here in this boot.
pub(crate) fn elsewhere(recorded: &Value, now: &Value) -> Option<&'static str> {
    let known = |facts: &Value, name: &str| facts.pointer(name).filter(|fact| !fact.is_null()).cloned();
    let differs = |name: &str| known(recorded, name).zip(known(now, name)).is_some_and(|(then, now)| then != now);
    let near = KEPT.iter().find(|(name, _)| differs(name)).map(|(_, words)| *words);
    near.or_else(|| far_elsewhere(recorded, now))
}

/// Whether a far host is another one now, or was booted again.
fn far_elsewhere(recorded: &Value, now: &Value) -> Option<&'static str> {
    let then = recorded.get(FAR_HOSTS)?.as_object()?;
    let boot = |host: &Value| host.pointer("/machine/boot_id").filter(|id| !id.is_null()).cloned();
    let is_other = |(place, host): (&String, &Value)| {
        let now = now.get(FAR_HOSTS).and_then(|hosts| hosts.get(place));
        now.and_then(boot).zip(boot(host)).is_some_and(|(now, then)| now != then)
    };
    then.iter().any(is_other).then_some("with a far host in another boot, or with another one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(recorded: &Value, expected: Option<&str>) {
        let now = json!({"boot_id": "b1", "kernel_release": "6.18.1", "cpu": {"model": "Example CPU"}, "load": 1});
        assert_eq!(elsewhere(recorded, &now), expected, "{recorded}");
    }

    #[test]
    fn what_stays_until_the_next_boot_is_compared() {
        let here = json!({"boot_id": "b1", "kernel_release": "6.18.1", "cpu": {"model": "Example CPU"}, "load": 3});
        check(&here, None);
        for (place, value, expected) in [
            ("/boot_id", "b2", "in another boot, or on another machine"),
            ("/kernel_release", "6.1.0", "under another kernel"),
            ("/cpu/model", "Other CPU", "on another CPU"),
        ] {
            let mut other = here.clone();
            *other.pointer_mut(place).expect("a fact") = json!(value);
            check(&other, Some(expected));
        }
    }

    #[test]
    fn a_far_host_is_compared_too() {
        let with = |boot: &str| json!({"boot_id": "b1", "far_hosts": {"192.0.2.7:1": {"machine": {"boot_id": boot}}}});
        assert_eq!(elsewhere(&with("b2"), &with("b2")), None);
        assert!(elsewhere(&with("b2"), &with("b3")).is_some_and(|words| words.contains("far host")));
        assert_eq!(elsewhere(&with("b2"), &json!({"boot_id": "b1"})), None);
    }

    #[test]
    fn what_is_unknown_decides_nothing() {
        check(&json!(null), None);
        check(&json!({"boot_id": null, "cpu": {"model": null}}), None);
    }
}
