//! Tests every implementation with every set-up, user data and mode of this machine: all counts agree.

use super::*;

const IMPLEMENTATIONS: [Implementation; 3] = [Implementation::Raw, Implementation::Library, Implementation::Liburing];
const USER_DATA: [UserData; 3] = [UserData::None, UserData::Unique, UserData::Boxed];

fn setups(entries: u32) -> Vec<NopSetup> {
    let plain = NopSetup { entries, ..NopSetup::default() };
    let single = NopSetup { single_issuer: true, ..plain };
    vec![
        plain,
        single,
        NopSetup { coop: true, ..plain },
        NopSetup { no_sqarray: true, ..single },
        NopSetup { registered: true, ..plain },
        NopSetup { registered: true, no_sqarray: true, ..single },
        NopSetup { sqpoll: true, ..plain },
        NopSetup { sqpoll: true, no_sqarray: true, ..plain },
    ]
}

/// A ring, unless this machine or build does not have it, with a reason that contains the next step; without io_uring, the caller
/// has it.
fn opened(implementation: Implementation, setup: &NopSetup, terms: &NopTerms) -> Option<Box<dyn NopRing>> {
    match open(implementation, setup, terms) {
        Ok(ring) => Some(ring),
        Err(lacking) => {
            let message = lacking.to_string();
            assert!(
                matches!(lacking, MissingRing::Uring(_)) || message.contains("--setup") || message.contains("install"),
                "{message}"
            );
            eprintln!("SKIPPED: {implementation:?} {setup:?}: {message}");
            None
        }
    }
}

#[test]
fn submissions_are_completed_and_checked() {
    for implementation in IMPLEMENTATIONS {
        for setup in setups(8).iter().chain(&setups(1)) {
            for (user_data, checked) in USER_DATA.iter().flat_map(|data| [(*data, false), (*data, true)]) {
                for batch in [1, setup.entries] {
                    let terms = NopTerms { batch, user_data, checked };
                    let Some(mut ring) = opened(implementation, setup, &terms) else { continue };
                    assert_eq!(ring.completion_entries(), 2 * setup.entries);
                    for rounds in [1, 3, 50] {
                        let lap = ring
                            .run(rounds, true)
                            .unwrap_or_else(|e| panic!("{implementation:?} {setup:?} {terms:?}: {e}"));
                        let nops = rounds * u64::from(batch);
                        assert_eq!((lap.submitted, lap.completed), (nops, nops), "{implementation:?} {setup:?}");
                        assert_eq!(lap.checked, if checked { nops } else { 0 });
                        assert!(setup.sqpoll || lap.enters >= rounds, "{lap:?}");
                    }
                    assert!(!ring.overflowed());
                }
            }
        }
    }
}

#[test]
fn a_full_batch_is_one_system_call() {
    let setup = NopSetup { entries: 64, single_issuer: true, ..NopSetup::default() };
    let terms = NopTerms { batch: 64, user_data: UserData::None, checked: false };
    for implementation in IMPLEMENTATIONS {
        let Some(mut ring) = opened(implementation, &setup, &terms) else { continue };
        let lap = ring.run(100, true).unwrap();
        assert_eq!((lap.enters, lap.completed), (100, 6400), "{implementation:?}");
    }
}

#[test]
fn overflowed_completions_are_kept() {
    let setup = NopSetup { entries: 4, ..NopSetup::default() };
    let terms = NopTerms { batch: 4, user_data: UserData::None, checked: false };
    for implementation in IMPLEMENTATIONS.into_iter().chain([Implementation::LiburingUndrained]) {
        let Some(mut ring) = opened(implementation, &setup, &terms) else { continue };
        let mut rounds = 0;
        while !ring.overflowed() {
            let lap = ring.run(1, false).unwrap();
            assert_eq!((lap.submitted, lap.completed), (4, 0));
            rounds += 1;
            assert!(rounds < 10, "{implementation:?} never overflows");
        }
        // The completion queue has twice the size of the submission queue.
        assert_eq!(rounds, 3, "{implementation:?}");
        ring.run(100, false).unwrap();
        assert_eq!(ring.take_rest(412).unwrap(), 412, "{implementation:?}");
        assert!(!ring.overflowed());
    }
}

#[test]
fn the_published_loop_takes_nothing() {
    let setup = NopSetup { entries: 4, ..NopSetup::default() };
    let terms = NopTerms { batch: 4, user_data: UserData::None, checked: false };
    let Some(mut ring) = opened(Implementation::LiburingUndrained, &setup, &terms) else { return };
    let lap = ring.run(10, true).unwrap();
    assert_eq!((lap.submitted, lap.completed), (40, 0));
    assert!(ring.overflowed());
    assert_eq!(ring.take_rest(40).unwrap(), 40);
}

#[test]
fn wrong_user_data_is_found() {
    let setup = NopSetup { entries: 8, ..NopSetup::default() };
    for implementation in IMPLEMENTATIONS {
        for user_data in USER_DATA {
            let terms = NopTerms { batch: 8, user_data, checked: true };
            let Some(mut ring) = opened(implementation, &setup, &terms) else { continue };
            ring.run(2, true).unwrap();
            ring.plant_fault();
            let trouble = ring.run(2, true).unwrap_err();
            assert!(matches!(trouble, Trouble::Wrong { .. }), "{implementation:?} {user_data:?}: {trouble}");
        }
    }
}

#[test]
fn cpu_time_of_sqpoll_threads_is_read() {
    let setup = NopSetup { entries: 64, sqpoll: true, ..NopSetup::default() };
    let terms = NopTerms { batch: 64, user_data: UserData::None, checked: false };
    std::thread::spawn(move || {
        let Some(mut ring) = opened(Implementation::Raw, &setup, &terms) else { return };
        ring.run(1000, true).unwrap();
        assert!(crate::uring::helper_cpu_ns().is_none_or(|ns| ns > 0));
    })
    .join()
    .unwrap();
}
