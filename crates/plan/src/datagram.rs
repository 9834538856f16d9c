//! Datagrams that cannot be measured: sizes over a protocol's limit, sends that the kernel would not segment, batches that
//! are never filled.

use bytegauge_model::catalog::Batches;
use bytegauge_model::{Engine, LINK_MTU, Spec, Transport, Workload};

use crate::capabilities::Catalog;

/// Most datagrams that one send is segmented into on every kernel that supports it (`UDP_MAX_SEGMENTS`, include/linux/udp.h).
const SEGMENTS_MAX: u64 = 64;

/// Why a cell's datagrams cannot be sent, with the next step.
pub(crate) fn unsendable(levels: &Spec, transport: &Transport, catalog: &Catalog) -> Option<String> {
    let most = transport.datagram_max()?;
    let over = sizes(levels).find(|(_, size)| *size > most);
    if let Some((flag, size)) = over {
        return Some(format!(
            "a datagram of {size} B is over the limit of {transport}, {most} B: use a smaller --{flag}"
        ));
    }
    let size = levels.write_size()?;
    let engine = levels.engine().filter(|engine| engine.can().batches == Batches::Cuts)?;
    // Two headers a datagram, of IP and of UDP; the interface's MTU counts the IP packet.
    let headers = if *transport == Transport::Udp { 28 } else { 48 };
    if let Some((whose, mtu)) = mtu(levels, catalog).filter(|(_, mtu)| size + headers > *mtu) {
        return Some(format!(
            "engine {engine} cannot cut datagrams of {size} B: with {headers} B of headers they are over the {whose}'s MTU \
             of {mtu} B (UDP_SEGMENT): use a smaller --write-size, or --engine mmsg"
        ));
    }
    let batch = levels.batch()?;
    if batch > SEGMENTS_MAX {
        return Some(format!(
            "engine {engine} cuts one send into at most {SEGMENTS_MAX} datagrams, not {batch}: use a smaller --batch, or auto"
        ));
    }
    (batch * size > most).then(|| {
        format!(
            "engine {engine} sends at most {most} B at once, not {batch} datagrams of {size} B: use a smaller --batch, or auto"
        )
    })
}

/// Why no system call of an end of calls can ever move more than one datagram, although its engine supports many: no two
/// are ready at once. Such a cell would measure `plain` under another name.
pub(crate) fn unbatchable(levels: &Spec) -> Option<String> {
    let batching = |engine: Option<Engine>| engine.filter(|engine| engine.can().batches == Batches::Calls);
    if levels.workload() != Workload::Call || levels.batch() == Some(1) {
        return None;
    }
    let depth = levels.depth().unwrap_or(0).max(1);
    let requests = (levels.flows().unwrap_or(0).max(1) + levels.competing_flows().unwrap_or(0)) * depth;
    if let Some(engine) = batching(levels.server_engine()).filter(|_| requests == 1) {
        return Some(format!(
            "engine {engine} of the server cannot batch, since one flow keeps one call outstanding: use more \
             --flows, a larger --depth, or --server-engine plain"
        ));
    }
    // A client's system call is one flow's.
    let engine = batching(levels.client_engine()).filter(|_| depth == 1)?;
    Some(format!(
        "engine {engine} of the client cannot batch, since a flow keeps one call outstanding: use a larger \
         --depth, or --client-engine plain"
    ))
}

/// The sizes of a cell's datagrams, and the flags that set them.
fn sizes(levels: &Spec) -> impl Iterator<Item = (&'static str, u64)> {
    let flags = [("write_size", "write-size"), ("request", "request"), ("response", "response")];
    flags.into_iter().filter_map(|(name, flag)| Some((flag, levels.get(name).number()?)))
}

/// The MTU of the path, and its owner: an emulated link, or this host's loopback unless they go to another host.
fn mtu(levels: &Spec, catalog: &Catalog) -> Option<(&'static str, u64)> {
    match levels.emulated_link() {
        Some(_) => Some(("link", LINK_MTU)),
        None => Some(("loopback", catalog.loopback_mtu.filter(|_| levels.far().is_none())?)),
    }
}

/// A note on a cell's datagrams that can be sent, if any.
pub(crate) fn note(levels: &Spec, transport: &Transport, catalog: &Catalog) -> Option<String> {
    let headers = if *transport == Transport::Udp { 28 } else { 48 };
    let size = sizes(levels).map(|(_, size)| size).max().filter(|_| transport.is_udp())?;
    let (whose, mtu) = mtu(levels, catalog).filter(|(_, mtu)| size + headers > *mtu)?;
    Some(format!("datagrams of {size} B are over the {whose}'s MTU of {mtu} B: IP cuts each into fragments"))
}

#[cfg(test)]
mod tests {
    use crate::capabilities::Catalog;
    use crate::file::parse;
    use crate::resolve::resolve;

    fn check(text: &str, mtu: u64, expected: &str) {
        let text = format!("transport = \"udp\"\nprofile = \"drain\"\n{text}");
        let catalog = Catalog { loopback_mtu: Some(mtu), ..Catalog::default() };
        let answer = match resolve(&parse("t", &text).unwrap(), &catalog, 1) {
            Ok(plan) => plan.notes.join("; "),
            Err(error) => error.to_string(),
        };
        assert!(answer.contains(expected), "{text}: {answer}");
        assert!(!expected.is_empty() || answer.is_empty(), "{text}: {answer}");
    }

    #[test]
    fn sizes_over_the_limit_are_refused() {
        check("write-size = 65507", 65_536, "");
        check("write-size = 65508", 65_536, "a datagram of 65508 B is over the limit of udp, 65507 B: use a smaller");
        check("write-size = \"1000,1M\"\nengine = \"plain\"", 65_536, "skipped: a datagram of 1048576 B is over");
    }

    #[test]
    fn sends_that_cannot_be_segmented_are_refused() {
        check("write-size = 1000\nengine = \"gso\"\nbatch = 64", 65_536, "");
        check("write-size = 64\nengine = \"gso\"\nbatch = 65", 65_536, "into at most 64 datagrams, not 65");
        check("write-size = 1472\nengine = \"gso\"\nbatch = 45", 65_536, "at most 65507 B at once, not 45 datagrams");
        check("write-size = 1473\nengine = \"gso\"", 1500, "over the loopback's MTU of 1500 B (UDP_SEGMENT)");
    }

    #[test]
    fn calls_have_the_same_limits() {
        let check = |text: &str, expected: &str| {
            let text = format!("workload = \"call\"\ntransport = \"udp\"\n{text}");
            let plan =
                resolve(&parse("t", &text).unwrap(), &Catalog { loopback_mtu: Some(1500), ..Catalog::default() }, 1);
            let answer = plan.map_or_else(|error| error.to_string(), |plan| plan.notes.join("; "));
            assert!(answer.contains(expected), "{text}: {answer}");
        };
        check("request = 65508", "a datagram of 65508 B is over the limit of udp, 65507 B: use a smaller --request");
        check("request = 1\nresponse = 65508", "use a smaller --response");
        check("request = 4096", "datagrams of 4096 B are over the loopback's MTU");
        check("request = 4096\nlink-delay = \"1ms\"", "datagrams of 4096 B are over the link's MTU of 1500 B");
        check(
            "client-engine = \"uring\"",
            "--client-engine: uring:multishot does not carry udp: use one of plain, mmsg",
        );
        check("server-engine = \"epoll\"", "use one of uring:plain, uring:multishot, plain, mmsg");
        check("server-engine = \"plain\"\nbatch = 8", "--batch has no effect without");
        check("request-chunk = 8", "--request-chunk fits none of the chosen transports (udp)");
        check("connect-per-call = true", "--connect-per-call fits none of the chosen transports (udp)");
    }

    #[test]
    fn calls_over_datagrams_have_own_engines_and_batches() {
        let error =
            parse("t", "workload = \"call\"\ntransport = \"udp\"\nserver-engine = \"gso\"").unwrap_err().to_string();
        assert!(error.contains("engine `gso` does not carry the workload call"), "{error}");
        let text = "workload = \"call\"\ntransport = \"udp\"\nprofile = \"echo\"\nrequest = 100\nflows = 1\n\
                    batch = \"8,16\"\noutstanding = \"1,64\"\nalso = \"server-engine\"";
        let plan = resolve(&parse("t", text).unwrap(), &Catalog::default(), 1).unwrap();
        let engines: Vec<_> =
            plan.cells.iter().filter_map(|cell| Some(cell.factors.server_engine()?.to_string())).collect();
        assert_eq!(engines.len(), 1 + 2 + 2 + 2, "{engines:?}");
        assert!(plan.cells.iter().all(|cell| cell.factors.client_engine() == Some(bytegauge_model::Engine::Plain)));
    }

    #[test]
    fn a_batch_that_is_never_filled_is_skipped() {
        let check = |text: &str, expected: &str| {
            let text = format!("workload = \"call\"\ntransport = \"udp\"\nprofile = \"echo\"\nrequest = 100\n{text}");
            let answer = match resolve(&parse("t", &text).unwrap(), &Catalog::default(), 1) {
                Ok(plan) => {
                    format!("{} of {} skipped; {}", plan.skipped.len(), plan.cells.len(), plan.notes.join("; "))
                }
                Err(error) => error.to_string(),
            };
            assert!(answer.contains(expected), "{text}: {answer}");
        };
        let servers = "server-engine = \"plain,mmsg\"";
        check(
            &format!("{servers}\nflows = \"1,50\""),
            "1 of 4 skipped; skipped: engine mmsg of the server cannot batch",
        );
        check(&format!("{servers}\nflows = 1\ndepth = 2"), "0 of 2 skipped");
        check(&format!("{servers}\nflows = 1\ncompeting-flows = 1"), "0 of 2 skipped");
        check("server-engine = \"mmsg\"\nflows = 1\nbatch = 1", "0 of 1 skipped");
        let client = "server-engine = \"plain\"\nclient-engine = \"mmsg\"";
        check(&format!("{client}\nflows = 50\ndepth = \"1,2\""), "1 of 2 skipped; skipped: engine mmsg of the client");
    }

    #[test]
    fn idle_connections_are_none_of_datagrams() {
        let text = "workload = \"call\"\ntransport = \"udp,tcp\"\nrequest = 100";
        let mut spec = parse("t", text).unwrap();
        spec.add_lists("profile").unwrap();
        let plan = resolve(&spec, &Catalog::default(), 1).unwrap();
        let profiles = |transport: &str| -> Vec<String> {
            let groups =
                plan.groups.iter().filter(|group| group.factors.transport() == transport.parse().ok().as_ref());
            groups.map(|group| group.factors.get("profile").to_string()).collect()
        };
        assert_eq!((profiles("udp").join(","), profiles("tcp").join(",")), ("rpc".into(), "rpc,many-idle".into()));
    }

    #[test]
    fn sizes_over_the_mtu_are_noted() {
        check("write-size = 1472\nengine = \"plain\"", 1500, "");
        check("write-size = 1473\nengine = \"plain\"", 1500, "over the loopback's MTU of 1500 B: IP cuts each into");
    }

    #[test]
    fn batch_and_outstanding_belong_to_their_engines() {
        check("engine = \"plain\"\nbatch = 8", 65_536, "--batch has no effect without --engine mmsg or gso");
        check("outstanding = 8", 65_536, "--outstanding has no effect without --engine uring:plain or uring:multishot");
        let text = "transport = \"udp\"\nprofile = \"drain\"\nwrite-size = 1000\nengine = \"plain,mmsg,gso,uring\"\n\
                    batch = \"8,16\"\noutstanding = \"1,64\"\nalso = \"engine\"";
        let plan = resolve(&parse("t", text).unwrap(), &Catalog::default(), 1).unwrap();
        assert_eq!(plan.cells.len(), 1 + 2 + 2 + 2);
    }
}
