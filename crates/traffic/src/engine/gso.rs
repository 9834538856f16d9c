//! The kernel features required by the engine `gso`.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;

use bytegauge_sys::option;

/// The missing feature, if any, with the next step.
pub(super) fn missing_requirement() -> Option<String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let wanted = [
        (option::UDP_SEGMENT.to(1000), "UDP_SEGMENT, available since Linux 4.18"),
        (option::UDP_COALESCE.to(true), "UDP_GRO, available since Linux 5.0"),
    ];
    let tried = wanted.into_iter().map(|(option, since)| (option::set(socket.as_fd(), &option), since));
    lacking(tried)
}

fn lacking<E>(tried: impl IntoIterator<Item = (Result<(), E>, &'static str)>) -> Option<String> {
    let (_, since) = tried.into_iter().find(|(set, _)| set.is_err())?;
    Some(format!("engine gso: this kernel has no {since}: use --engine mmsg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_kernel_feature_is_named() {
        assert_eq!(lacking([(Ok::<(), ()>(()), "A"), (Ok(()), "B")]), None);
        let expected = "engine gso: this kernel has no B: use --engine mmsg";
        assert_eq!(lacking([(Ok(()), "A"), (Err(()), "B")]).as_deref(), Some(expected));
    }
}
