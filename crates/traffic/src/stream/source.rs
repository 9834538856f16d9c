//! The source of a stream: a flow that always sends, what its thread fills, and the file that it may send from.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use bytegauge_model::named_levels::FILE_LEN;
use bytegauge_model::{Engine, Fill, SendFrom, Tls};
use bytegauge_sys::file;

use crate::flow::{Flow, Want};
use crate::pace::spin_ns;
use crate::pattern::Pattern;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::urgent::UrgentWriter;
use crate::{EndError, lock};

/// One flow's writer.
#[derive(Debug)]
pub struct SourceFlow {
    size: usize,
    fill: Fill,
    call_work_ns: u64,
    /// The bytes of each message, where they are read from a file.
    file: Option<Arc<SourceFile>>,
    verify: Option<Pattern>,
    corrupt_at: Option<u64>,
    offset: u64,
    turn: u8,
    urgent: Option<UrgentWriter>,
}

impl SourceFlow {
    /// The writer of flow number `flow`, whose buffers have `size` bytes.
    pub fn new(setup: &Setup, flow: usize, size: usize) -> SourceFlow {
        let corrupt_at = match setup.planted() {
            Some(PlantedFault::Corrupt(offset)) if flow == 0 => Some(offset),
            _ => None,
        };
        SourceFlow {
            size,
            fill: setup.writer_work(),
            call_work_ns: setup.call_work_ns(),
            file: None,
            verify: pattern(setup, flow),
            corrupt_at,
            offset: 0,
            turn: 0,
            urgent: UrgentWriter::of(setup),
        }
    }

    /// The same, which reads every message from a file.
    pub(crate) fn reading(self, file: Option<Arc<SourceFile>>) -> SourceFlow {
        SourceFlow { file, ..self }
    }

    /// The next message of a stream with urgent ones.
    #[cold]
    fn compose_marked(&mut self, room: &mut [u8]) -> usize {
        let begun = self.urgent.as_mut().map(UrgentWriter::begin);
        let size = begun.and_then(|(_, size)| size).unwrap_or(self.size);
        self.fill(&mut room[..size]);
        if let Some((beginning, _)) = begun {
            room[..beginning.len()].copy_from_slice(&beginning);
        }
        size
    }

    // A part of the measured loop, although messages with marks use it too.
    #[inline(always)]
    fn fill(&mut self, buffer: &mut [u8]) {
        match self.fill {
            Fill::None => {}
            // Its bytes come from the file.
            Fill::Touch if self.file.is_some() => {}
            Fill::Touch => {
                self.turn = self.turn.wrapping_add(1);
                buffer.fill(self.turn);
                std::hint::black_box(&mut *buffer);
            }
            Fill::NsPerByte(ns) => spin_ns(ns * buffer.len() as f64),
        }
        self.begin_in_place();
        if let Some(file) = &self.file {
            file.read(self.offset, buffer);
        } else if let Some(pattern) = &self.verify {
            pattern.fill(self.offset, buffer);
        }
        if let Some(at) = self.corrupt_at.and_then(|at| at.checked_sub(self.offset))
            && let Some(byte) = buffer.get_mut(at as usize)
        {
            *byte ^= 1;
        }
    }
}

impl Flow for SourceFlow {
    #[inline]
    fn want(&mut self, _now_ns: u64) -> Want {
        Want::Send
    }

    fn room(&self) -> usize {
        self.size
    }

    #[inline]
    fn compose(&mut self, room: &mut [u8], is_new: bool) -> usize {
        if is_new {
            // A page that was never written is the kernel's one page of zeros, which costs less to read.
            room[..self.size].fill(0);
        }
        if self.urgent.is_some() {
            return self.compose_marked(room);
        }
        self.fill(&mut room[..self.size]);
        self.size
    }

    fn begin_in_place(&mut self) {
        if self.call_work_ns > 0 {
            spin_ns(self.call_work_ns as f64);
        }
    }

    #[inline]
    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.offset += n as u64;
    }

    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        true
    }
}

/// The length in verify mode, in which each trial has a file of its own, bytes.
const VERIFIED_LEN: u64 = 1 << 20;

/// Bytes that are written at once when the file is made.
const PIECE: usize = 1 << 16;

/// The file of all trials of a process that compare no bytes: made once.
static SHARED: Mutex<Option<Arc<SourceFile>>> = Mutex::new(None);

/// A file in memory.
#[derive(Debug)]
pub struct SourceFile {
    file: File,
    len: u64,
}

impl SourceFile {
    /// The file of an end, where its writers have one.
    ///
    /// # Errors
    /// [`EndError::Missing`] if the setup cannot send from a file, [`EndError::Io`] if none can be made.
    pub(crate) fn of(setup: &Setup) -> Result<Option<Arc<SourceFile>>, EndError> {
        if setup.send_from() == SendFrom::Memory {
            return Ok(None);
        }
        unfit(setup).map_or(Ok(()), |reason| Err(EndError::Missing(reason)))?;
        let made = |pattern: &Pattern, len| {
            SourceFile::filled(pattern, len).map(Arc::new).map_err(EndError::io("making a file in memory"))
        };
        if let Some(pattern) = pattern(setup, 0) {
            return made(&pattern, VERIFIED_LEN).map(Some);
        }
        let mut shared = lock(&SHARED);
        if shared.is_none() {
            *shared = Some(made(&Pattern::new(setup.seed, 0), FILE_LEN)?);
        }
        Ok(shared.clone())
    }

    fn filled(pattern: &Pattern, len: u64) -> io::Result<SourceFile> {
        let file = file::in_memory(c"bytegauge")?;
        let mut piece = vec![0; PIECE];
        for at in (0..len).step_by(PIECE) {
            pattern.fill(at, &mut piece);
            file.write_all_at(&piece, at)?;
        }
        Ok(SourceFile { file, len })
    }

    /// Reads the bytes of a stream from `offset` on by pread(2).
    pub(crate) fn read(&self, offset: u64, mut buffer: &mut [u8]) {
        let mut at = offset % self.len;
        while !buffer.is_empty() {
            let here = buffer.len().min(self.left(at));
            let (part, rest) = buffer.split_at_mut(here);
            self.file.read_exact_at(part, at).expect("a file in memory can be read");
            (buffer, at) = (rest, 0);
        }
    }

    /// The position of a stream's offset in the file, and the bytes from there to its end.
    pub(crate) fn position(&self, offset: u64) -> (u64, usize) {
        let at = offset % self.len;
        (at, self.left(at))
    }

    fn left(&self, at: u64) -> usize {
        (self.len - at) as usize
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The pattern of a flow in verify mode. A file has one for all flows, which begins again at its end.
pub(crate) fn pattern(setup: &Setup, flow: usize) -> Option<Pattern> {
    let of_file = setup.send_from() != SendFrom::Memory;
    let pattern = || match of_file {
        true => Pattern::new(setup.seed, 0).repeating(VERIFIED_LEN),
        false => Pattern::new(setup.seed, flow),
    };
    setup.verify.then(pattern)
}

/// Memory of an end for the file, bytes.
pub fn memory(setup: &Setup) -> u64 {
    if setup.send_from() == SendFrom::Memory { 0 } else { FILE_LEN }
}

fn unfit(setup: &Setup) -> Option<String> {
    if setup.spec.zerocopy() == Some(true) {
        return Some("MSG_ZEROCOPY sends memory: leave out --zerocopy or --send-from".into());
    }
    match (setup.send_from(), setup.engine(), setup.tls()) {
        (SendFrom::Sendfile, _, Tls::Rustls) => {
            Some("rustls encrypts memory: use --send-from file, or sendfile with --tls kernel".into())
        }
        (SendFrom::Sendfile, engine, _) if engine != Engine::Blocking => {
            Some(format!("engine {engine} does not send by sendfile(2): use --engine blocking, or --send-from file"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod file_tests {
    use super::*;

    #[test]
    fn reads_begin_again_at_the_end() {
        let pattern = Pattern::new(3, 0).repeating(2 * PIECE as u64);
        let file = SourceFile::filled(&pattern, 2 * PIECE as u64).unwrap();
        for (offset, len) in [(0, 10), (2 * PIECE as u64 - 5, 10), (7 * PIECE as u64 + 3, 5 * PIECE)] {
            let mut bytes = vec![0; len];
            file.read(offset, &mut bytes);
            assert_eq!(pattern.check(offset, &bytes), Ok(()), "{offset}");
        }
        assert_eq!(file.position(5 * PIECE as u64 + 1), (PIECE as u64 + 1, PIECE - 1));
    }
}
