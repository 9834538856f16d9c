//! Tests of the resolution of plans.

use bytegauge_model::{Arrivals, Work};

use super::*;
use crate::built_in;
use crate::file::parse;

fn plan_of(text: &str) -> Result<Plan, PlanError> {
    resolve(&parse("t", text).unwrap(), &Catalog::default(), 1)
}

fn check_error(text: &str, expected: &str) {
    assert_eq!(plan_of(text).expect_err(text).to_string(), expected, "{text}");
}

#[test]
fn every_ready_plan_resolves_within_its_budget() {
    for (name, _) in built_in::PLANS {
        let spec = built_in::shown(name).unwrap();
        let plan = resolve(&spec, &Catalog::default(), 1).unwrap();
        let schedule = plan.schedule();
        assert!(schedule.blocks >= plan.design.blocks_min, "{name}: {schedule:?}");
        assert!(schedule.total_ns() <= plan.budget_ns, "{name}: {schedule:?}");
        assert_eq!(spec.budget_ns, Some(plan.budget_ns), "{name}: {:?}", plan.notes);
        assert!(!plan.notes.iter().any(|note| note.contains("too short")), "{name}: {:?}", plan.notes);
    }
}

#[test]
fn repeated_tests_are_left_out_with_a_note() {
    let plan = |second: &str| {
        let head = "transport = \"unix\"\nprofile = \"sum\"\nwrite_size = \"64K\"\n[[part]]\nread_size = \"4K,64K\"\n";
        let spec = parse("t", &format!("{head}[[part]]\nread_size = \"{second}\"")).unwrap();
        resolve(&spec, &Catalog::default(), 1).unwrap()
    };
    let (same, other) = (plan("64K"), plan("1M"));
    assert_eq!((same.cells.len(), other.cells.len()), (2, 2));
    let count = |plan: &Plan| plan.notes.iter().filter(|note| *note == ASKED_BEFORE).count();
    assert_eq!((count(&same), count(&other)), (0, 1));
}

#[test]
fn conditions_make_groups_and_choices_make_cells() {
    let plan =
        plan_of("transport = \"unix,tcp\"\nread-size = \"4K,8K\"\nwrite-size = \"64K\"\nprofile = \"drain,sum\"");
    let plan = plan.unwrap();
    assert_eq!((plan.groups.len(), plan.cells.len(), plan.families.len()), (4, 8, 2));
    assert_eq!(plan.groups[1].factors.work(), Some(Work::Sum));
    assert!(!plan.families[0].is_screened());
}

#[test]
fn what_the_peer_decides_makes_groups() {
    let text = "transport = \"unix\"\nprofile = \"sum\"\nread-size = \"4K,8K\"";
    let shape = |more: &str| {
        let plan = plan_of(&format!("{text}\n{more}")).unwrap();
        (plan.groups.len(), plan.cells.len(), plan.families.iter().map(|family| family.choices).max())
    };
    assert_eq!(shape("role = \"reader\""), (1, 2, Some(2)));
    assert_eq!(shape("role = \"reader\"\nwrite-size = \"4K,64K\""), (2, 4, Some(2)));
    assert_eq!(shape("role = \"writer\"\nwrite-size = \"4K,64K,1M\""), (2, 6, Some(3)));
    assert_eq!(shape("role = \"both\"\nwrite-size = \"4K,64K\""), (1, 4, Some(4)));
    assert_eq!(shape("role = \"reader,both\"\nwrite-size = \"4K,64K\""), (3, 8, Some(4)));
}

#[test]
fn steady_paths_are_warmed_before_they_are_measured() {
    let text = "transport = \"unix\"\nprofile = \"sum\"\nread-size = \"4K,8K\"\nwrite-size = \"64K\"";
    let plan = |more: &str| plan_of(&format!("{text}\nplacement = \"cross-core\"\n{more}")).unwrap();
    let (steady, fresh) = (plan(""), plan("connection-age = \"fresh\""));
    let lengths = |plan: &Plan| {
        let conditions = &plan.groups[0].factors;
        (plan.design.confirm_warmup_ns(conditions, Some(2_500_000)), plan.families[0].trial_ns)
    };
    assert_eq!(lengths(&steady), (50_000_000, 25_000_000));
    assert_eq!(lengths(&fresh), (2_500_000, 6_000_000));
    assert_eq!(steady.schedule().calibrate_ns, 0);
    assert!(fresh.schedule().calibrate_ns > 0);
    assert!(steady.schedule().confirm_round_ns > 3 * 75_000_000);
}

#[test]
fn one_ended_sources_have_no_writer() {
    let plan =
        plan_of("transport = \"unix,/dev/zero\"\nread-size = \"4K\"\nwrite-size = \"4K,8K\"\nprofile = \"drain,program,parser\"")
            .unwrap();
    let device: Vec<_> = plan.cells.iter().filter(|c| c.factors.get("transport") == "/dev/zero".into()).collect();
    // Three profiles, one cell each.
    assert_eq!(device.len(), 3);
    assert!(device.iter().all(|cell| cell.factors.write_size().is_none()));
    assert_eq!(plan.notes[plan.notes.len() - 1..], ["write-size does not apply to /dev/zero: collapsed there"]);
}

#[test]
fn contradictions_are_wrong_usage() {
    check_error(
        "transport = \"/dev/zero\"\nwrite-size = 4096",
        "--write-size fits none of the chosen transports (/dev/zero): it applies to unix, tcp, tcp6, mptcp, unix-seqpacket, vsock, pipe, udp, udp6, unix-dgram",
    );
    check_error(
        "profile = \"sum\"\nwork = \"copy\"",
        "--work is set by the profiles already: leave out --profile or --work",
    );
    check_error("profile = \"summ\"", "no profile is called `summ`: did you mean `sum`?");
    let error = plan_of("read-size = \"1..16M\"\nwrite-size=\"1..16M\"\ntime = \"1s\"").unwrap_err().to_string();
    assert!(error.starts_with("a budget of 1 s is too short for 625 options in 1 test: give --time "), "{error}");
}

#[test]
fn too_many_cells_are_refused_and_not_made() {
    let text = "workload = \"call\"\ntransport = \"tcp\"\nprofile = \"rpc\"\nserver-engine = \"blocking\"\n\
                    request = \"1..16M\"\nresponse = \"1..16M\"\nflows = \"1..1024\"\ndepth = \"1..1024\"\nthink-time = \"1ns..1s\"";
    check_error(
        text,
        "the cells are too many (100000 at most): use shorter lists or ranges, above all of --think-time, which has 31 levels",
    );
    let part = text.replace("workload = \"call\"\n", "");
    let parts = format!("workload = \"call\"\n[[part]]\n{part}\n[[part]]\n{part}");
    let error = plan_of(&parts).unwrap_err().to_string();
    assert!(error.starts_with("the cells are too many"), "{error}");
}

#[test]
fn calls_are_crossed_by_their_own_factors() {
    let plan = plan_of(
        "workload = \"call\"\ntransport = \"tcp\"\nserver-engine = \"blocking,epoll\"\nprofile = \"rpc,many-idle\"",
    )
    .unwrap();
    assert_eq!((plan.groups.len(), plan.cells.len(), plan.families.len()), (2, 4, 1));
    let profiles: Vec<_> = plan.groups.iter().map(|group| group.factors.get("profile").to_string()).collect();
    assert_eq!(profiles, ["rpc", "many-idle"]);
    assert_eq!(plan.groups[1].factors.idle_flows(), Some(1000));
    assert_eq!(plan.families[0].trial_ns, 50_000_000);
    let threads: Vec<_> = plan.cells.iter().map(|cell| cell.factors.server_threads()).collect();
    assert_eq!(threads, [None, Some(1), None, Some(1)]);
    assert!(plan.cells.iter().all(|cell| cell.factors.workload() == Workload::Call));
    assert!(plan.cells.iter().all(|cell| !cell.factors.states("write_size")));
}

#[test]
fn a_search_is_a_condition_with_its_time() {
    let text = "workload = \"call\"\ntransport = \"unix\"\nprofile = \"rpc\"\nserver-engine = \"blocking,epoll\"";
    let (plain, searching) = (plan_of(text).unwrap(), plan_of(&format!("{text}\nslo = \"p99=2ms\"")).unwrap());
    assert_eq!((searching.groups.len(), searching.cells.len()), (1, 2));
    for cell in &searching.cells {
        assert_eq!((cell.factors.call_rate(), cell.factors.think_time()), (None, None));
        assert_eq!(cell.factors.arrivals(), Some(Arrivals::Constant));
        assert!(!cell.factors.offers_load() && cell.factors.slo().is_some());
    }
    let round_ns = |plan: &Plan| plan.schedule().confirm_round_ns;
    assert!(round_ns(&searching) > 5 * round_ns(&plain), "{} {}", round_ns(&searching), round_ns(&plain));
    assert!(searching.budget_ns > plain.budget_ns);
    let both = plan_of(&format!("{text}\nslo = \"none,p99=2ms\"\nrate = \"max,10k\"")).unwrap();
    assert_eq!(both.groups.len(), 3);
    let error = plan_of(&format!("{text}\nslo = \"p99.99=2ms\"\ntime = \"20s\"")).unwrap_err().to_string();
    assert!(error.starts_with("a budget of 20 s is too short for 2 options in 1 test: give --time "), "{error}");
}

#[test]
fn factors_without_effect_are_wrong_usage() {
    let check = |text: &str, expected: &str| check_error(&format!("workload = \"call\"\n{text}"), expected);
    check("transport = \"tcp,pipe\"", "--transport: pipe does not carry the workload call: use unix, tcp or tcp6");
    check("arrivals = \"poisson\"", "--arrivals has no effect without --rate or --slo");
    let none = "has no effect without --slo none (a search sets the rates itself): leave one of them out";
    check("slo = \"p99=2ms\"\nrate = \"10k\"", &format!("--rate {none}"));
    let neither = none.replace("--slo none", "--slo none and --max-loss none");
    check("slo = \"p99=2ms\"\nthink-time = \"1ms\"", &format!("--think-time {neither}"));
    check_error(
        "workload = \"stream\"\ntransport = \"udp\"\nmax-loss = \"1%\"\nthink-time = \"1ms\"",
        &format!("--think-time {neither}"),
    );
    check("rcvbuf-on = \"client\"", "--rcvbuf-on has no effect without a size in --rcvbuf");
    check(
        "server-engine = \"blocking\"\nserver-threads = 2",
        "--server-threads has no effect without another --server-engine",
    );
    check(
        "transport = \"unix\"\nlinger = 0",
        "--linger fits none of the chosen transports (unix): it applies to tcp, tcp6, mptcp",
    );
    check("profile = \"drain\"", "no profile is called `drain`: known are echo, rpc, tls-rpc, many-idle");
    check(
        "profile = \"rpc\"\nidle-flows = 10",
        "--idle-flows is set by the profiles already: leave out --profile or --idle-flows",
    );
}

#[test]
fn a_missing_engine_is_skipped_with_its_reason() {
    let reason = "epoll is unavailable here: use another --server-engine";
    let catalog =
        Catalog { missing: [(("engine", "epoll:edge".to_owned()), reason.to_owned())].into(), ..Catalog::default() };
    let text =
        "workload = \"call\"\ntransport = \"unix\"\nprofile = \"rpc,echo\"\nserver-engine = \"blocking,epoll:edge\"";
    let plan = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap();
    assert_eq!((plan.skipped.len(), plan.notes.as_slice()), (2, [format!("skipped: {reason}")].as_slice()));
}

#[test]
fn files_of_idle_and_competing_connections_count() {
    let catalog = Catalog { open_files_max: Some(2000), ..Catalog::default() };
    let text = "workload = \"call\"\nflows = 100\nidle-flows = 1000\ncompeting-flows = 50";
    let error = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap_err().to_string();
    assert!(error.contains("1150 flows need 2314 open files, the hard limit is 2000"), "{error}");
}

#[test]
fn missing_features_are_skipped_with_a_note() {
    let catalog = Catalog {
        missing: [(("placement", "cross-core".to_owned()), "one CPU only".to_owned())].into(),
        open_files_max: Some(1000),
        ..Catalog::default()
    };
    let text = "transport = \"unix\"\nread-size = \"4K\"\nwrite-size = \"4K\"\nprofile = \"drain,program,parser\"\nplacement = \"cross-core,same-cpu\"";
    let plan = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap();
    assert_eq!(plan.skipped.len(), 3);
    assert_eq!(plan.notes, ["skipped: one CPU only"]);
    let error = resolve(&parse("t", &format!("{text}\nflows = 600")).unwrap(), &catalog, 1).unwrap_err();
    assert!(error.to_string().contains("one CPU only"), "{error}");
    let text = "transport = \"unix\"\nplacement = \"same-cpu\"\nflows = 600";
    let error = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap_err().to_string();
    assert!(error.contains("600 flows need 1264 open files, the hard limit is 1000"), "{error}");
}

#[test]
fn a_missing_screen_moves() {
    let missing = [(("placement", "cross-core".to_owned()), "one CPU only".to_owned())].into();
    let catalog = Catalog { missing, ..Catalog::default() };
    let plan = resolve(&built_in::find("buffer-grid").unwrap(), &catalog, 1).unwrap();
    let family = &plan.families[0];
    assert!(!family.screened.is_empty());
    assert!(family.screened.iter().all(|group| plan.measurable(group).next().is_some()));
}

#[test]
fn screening_takes_the_extremes() {
    let plan = plan_of("transport = \"unix\"\nprofile = \"drain,program,parser\"\nplacement = \"cross-core,same-cpu\"")
        .unwrap();
    let family = &plan.families[0];
    assert!(family.is_screened());
    let shown: Vec<_> = family
        .screened
        .iter()
        .filter_map(|id| plan.group(id))
        .map(|g| format!("{}/{}", g.factors.get("placement"), g.factors.get("profile")))
        .collect();
    assert_eq!(shown, ["cross-core/drain", "cross-core/parser"]);
}
