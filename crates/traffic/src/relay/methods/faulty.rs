//! A relay with a planted fault that reports success, to test that the harness detects it.

use std::io;

use bytegauge_sys::socket;

use crate::planted_fault::PlantedFault;
use crate::relay::threads::ThreadWay;

/// Buffer of a direction.
const BUFFER: usize = 16 << 10;

/// One direction with the fault: bytes that are dropped and counted as given, or a flipped bit.
pub(in crate::relay) fn copy(way: &mut ThreadWay<'_>, plant: PlantedFault) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut share = way.share();
    loop {
        let n = match socket::receive(way.from(), &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if way.goes_on_after(&error) => continue,
            Err(error) => return Err(error),
        };
        let before = way.passed.taken;
        way.passed.taken += n as u64;
        share.count(n, buffer.len());
        // In an echo the same byte passes twice, and a bit flipped twice is unchanged.
        let reaches = |offset: u64| way.is_up() && (before..before + n as u64).contains(&offset);
        let mut rest = &mut buffer[..n];
        match plant {
            PlantedFault::RelayLoses { offset } if reaches(offset) => rest = &mut rest[1..],
            PlantedFault::RelayCorrupts { offset } if reaches(offset) => rest[(offset - before) as usize] ^= 1,
            _ => {}
        }
        let mut rest: &[u8] = rest;
        while !rest.is_empty() {
            rest = &rest[socket::send(way.to(), rest)?..];
        }
        share.count(n, n);
        way.passed.given += n as u64;
    }
}
