//! A kernel that refuses chosen system calls: a seccomp(2) filter returns an error number instead of making them.
//!
//! So a test shows on every machine what a user of an older kernel, of a kernel without a module, or without privileges sees.

use std::collections::BTreeMap;
use std::process::Command;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::bench::{BINARY, Bench, Ran};

/// A system call, by some of its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    call: i64,
    /// Position and value of each argument that decides; the others may have any value.
    arguments: [Option<(u8, u64)>; 2],
}

impl Refused {
    /// Any call of this number.
    pub const fn call(call: i64) -> Refused {
        Refused { call, arguments: [None, None] }
    }

    /// A call with an argument, counted from 0.
    pub const fn with(call: i64, at: u8, value: u64) -> Refused {
        Refused { call, arguments: [Some((at, value)), None] }
    }

    /// setsockopt(2) of an option.
    pub const fn option(level: i32, number: i32) -> Refused {
        Refused { call: libc::SYS_setsockopt, arguments: [Some((1, level as u64)), Some((2, number as u64))] }
    }

    fn rule(&self) -> Option<SeccompRule> {
        let is = |(at, value)| SeccompCondition::new(at, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
        let conditions: Vec<_> = self.arguments.into_iter().flatten().map(|argument| is(argument).unwrap()).collect();
        // Without a condition the call has no rule, and every one of it matches.
        (!conditions.is_empty()).then(|| SeccompRule::new(conditions).unwrap())
    }
}

/// Runs the binary, and waits, where the kernel answers these calls with an error number.
pub fn run(bench: &Bench, refused: &[Refused], errno: i32, words: &str) -> Ran {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in refused {
        rules.entry(call.call).or_default().extend(call.rule());
    }
    let architecture = std::env::consts::ARCH.try_into().expect("an architecture with filters");
    let answer = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture).expect("a filter");
    let program = BpfProgram::try_from(filter).expect("a program");
    std::thread::scope(|scope| {
        // A filter holds for its thread and what that starts, for ever.
        let filtered = scope.spawn(|| {
            seccompiler::apply_filter(&program).expect("a kernel with seccomp");
            let mut command = Command::new(BINARY);
            command.args(words.split_whitespace());
            bench.spawn(command, words.to_owned()).wait()
        });
        filtered.join().unwrap()
    })
}
