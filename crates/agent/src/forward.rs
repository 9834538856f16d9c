//! Addresses that an agent's ends may connect to: the caller's own, and those that the agent's owner allows. An agent is no
//! open proxy.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Lower ports are for privileged servers (`net.ipv4.ip_unprivileged_port_start`), which ends of a session are not.
const PRIVILEGED: u16 = 1024;

/// An address that an agent's owner allows ends to connect to, with one port or all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    address: IpAddr,
    port: Option<u16>,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Forward, String> {
        if let Ok(place) = text.parse::<SocketAddr>() {
            return Ok(Forward { address: place.ip().to_canonical(), port: Some(place.port()) });
        }
        let address = text.parse::<IpAddr>().map_err(|_| {
            format!("{text} is no address: give for example 192.0.2.7, 192.0.2.7:4711 or [2001:db8::7]:4711")
        })?;
        Ok(Forward { address: address.to_canonical(), port: None })
    }
}

/// The address that an end connects to for a caller. This is the one rule for all connections of an agent, in any role: a
/// port from 1024 on of the caller's own address, or an address that the agent's owner allows.
///
/// # Errors
/// The allowed addresses, as a text for the caller's user.
pub(super) fn admitted(named: SocketAddr, caller: IpAddr, allowed: &[Forward]) -> Result<SocketAddr, String> {
    let place = SocketAddr::new(named.ip().to_canonical(), named.port());
    let is_callers = place.ip() == caller && place.port() >= PRIVILEGED;
    let is_named = |forward: &Forward| {
        forward.address == place.ip() && forward.port.map_or(place.port() >= PRIVILEGED, |port| port == place.port())
    };
    if is_callers || allowed.iter().any(is_named) {
        return Ok(place);
    }
    Err(format!(
        "the agent's ends connect to the caller's own address ({caller}, ports from {PRIVILEGED} on) and not to {place}: start \
         it with --relay-to {place} if they may"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_connect_to_caller_or_allowed_places() {
        let caller: IpAddr = [192, 0, 2, 9].into();
        let allowed: Vec<Forward> =
            ["198.51.100.7", "203.0.113.5:80", "[2001:db8::7]:4711"].map(|text| text.parse().unwrap()).to_vec();
        let check = |place: &str, expected: bool| {
            let named = place.parse().unwrap();
            match (admitted(named, caller, &allowed), expected) {
                (Ok(_), true) => {}
                (Err(reason), false) => {
                    assert!(reason.contains("--relay-to") && reason.contains("192.0.2.9"), "{reason}");
                }
                (actual, _) => panic!("{place}: {actual:?}"),
            }
        };
        check("192.0.2.9:40000", true);
        check("192.0.2.9:1024", true);
        check("192.0.2.9:1023", false);
        check("[::ffff:192.0.2.9]:40000", true);
        check("192.0.2.8:40000", false);
        check("127.0.0.1:40000", false);
        check("198.51.100.7:9000", true);
        check("198.51.100.7:22", false);
        check("203.0.113.5:80", true);
        check("203.0.113.5:8080", false);
        check("[2001:db8::7]:4711", true);
        check("[2001:db8::7]:4712", false);
        assert!(admitted("127.0.0.1:40000".parse().unwrap(), caller, &[]).is_err());
        for text in ["", "example.com", "192.0.2.7:", "192.0.2.7:99999", "192.0.2.0/24"] {
            assert!(text.parse::<Forward>().unwrap_err().contains("192.0.2.7:4711"), "{text}");
        }
    }
}
