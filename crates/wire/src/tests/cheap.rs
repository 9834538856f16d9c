//! Cheap substitutes for the cryptography of a line, so that the fuzzer reaches 10^8 openings. They keep no secret.
//!
//! The logic around them is the same: keys are fresh, a seal depends on key, number and every byte, and a seal that was made with
//! another key or number does not open. Only for tests and the fuzzer.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};

const KEY: usize = 32;
const TAG: usize = 16;

thread_local! {
    static IN_USE: Cell<bool> = const { Cell::new(false) };
}

/// Makes handshakes of this thread use the substitutes while `what` runs.
pub(crate) fn with<R>(what: impl FnOnce() -> R) -> R {
    let before = IN_USE.replace(true);
    let done = what();
    IN_USE.set(before);
    done
}

/// Whether this thread's handshakes use the substitutes.
pub(crate) fn in_use() -> bool {
    IN_USE.get()
}

/// Resolves every name of a primitive to a substitute.
pub(crate) struct Cheap;

impl CryptoResolver for Cheap {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Numbers))
    }

    fn resolve_dh(&self, _choice: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(Exchange([0; KEY])))
    }

    fn resolve_hash(&self, _choice: &HashChoice) -> Option<Box<dyn Hash>> {
        Some(Box::new(Mixed(SEED)))
    }

    fn resolve_cipher(&self, _choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        Some(Box::new(Seal(0)))
    }
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Adds bytes to a state. Two inputs of one length that differ in one word give different states: each step is a bijection.
fn mixed(state: u64, bytes: &[u8]) -> u64 {
    let add = |state: u64, word: u64| (state ^ word).wrapping_mul(SEED).rotate_left(29);
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(add(state, bytes.len() as u64), add)
}

/// Fills bytes from a state.
fn fill(state: u64, out: &mut [u8]) {
    for (place, chunk) in out.chunks_mut(8).enumerate() {
        let word = mixed(state, &[place as u8]).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Numbers that differ between processes, so that no input of the fuzzer can hold a seal of the next run.
struct Numbers;

impl Random for Numbers {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        static SECRET: OnceLock<[u8; KEY]> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let secret = SECRET.get_or_init(|| crate::random().unwrap_or([7; KEY]));
        fill(mixed(NEXT.fetch_add(1, Ordering::Relaxed), secret), dest);
        Ok(())
    }
}

/// A key exchange: both sides have the difference of their keys.
struct Exchange([u8; KEY]);

impl Dh for Exchange {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY
    }

    fn priv_len(&self) -> usize {
        KEY
    }

    fn set(&mut self, privkey: &[u8]) {
        self.0.copy_from_slice(privkey);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        rng.try_fill_bytes(&mut self.0)
    }

    fn pubkey(&self) -> &[u8] {
        &self.0
    }

    fn privkey(&self) -> &[u8] {
        &self.0
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), Error> {
        out.iter_mut().zip(self.0.iter().zip(pubkey)).for_each(|(out, (ours, theirs))| *out = ours ^ theirs);
        Ok(())
    }
}

/// A hash.
struct Mixed(u64);

impl Hash for Mixed {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        KEY
    }

    fn reset(&mut self) {
        self.0 = SEED;
    }

    fn input(&mut self, data: &[u8]) {
        self.0 = mixed(self.0, data);
    }

    fn result(&mut self, out: &mut [u8]) {
        fill(self.0, &mut out[..KEY]);
    }
}

/// A cipher that leaves the text as it is, and adds a seal.
struct Seal(u64);

impl Seal {
    fn of(&self, nonce: u64, authtext: &[u8], text: &[u8]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        fill(mixed(mixed(mixed(self.0, &nonce.to_le_bytes()), authtext), text), &mut tag);
        tag
    }
}

impl Cipher for Seal {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; KEY]) {
        self.0 = mixed(SEED, key);
    }

    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let len = plaintext.len();
        out[..len].copy_from_slice(plaintext);
        out[len..len + TAG].copy_from_slice(&self.of(nonce, authtext, plaintext));
        len + TAG
    }

    fn decrypt(&self, nonce: u64, authtext: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (text, tag) = ciphertext.split_at_checked(ciphertext.len().wrapping_sub(TAG)).ok_or(Error::Decrypt)?;
        if *tag != self.of(nonce, authtext, text) {
            return Err(Error::Decrypt);
        }
        out[..text.len()].copy_from_slice(text);
        Ok(text.len())
    }
}
