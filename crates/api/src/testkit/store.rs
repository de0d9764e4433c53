//! What every checkpoint store must pass.

#![allow(clippy::disallowed_methods, reason = "that of several creators one wins is tried by threads at the same time")]

use std::sync::{Arc, Barrier};
use std::thread;

use crate::{CheckpointStore, StoreError};

/// Creators of one object at the same time.
const CREATORS: usize = 6;
/// How often unfinished objects are cleared until they must be gone: servers tell times in whole seconds.
const CLEARS_MAX: usize = 20_000;

/// A store under test.
pub struct StoreCase<'a> {
    /// Opens the place as one more process would.
    pub open: &'a dyn Fn() -> Arc<dyn CheckpointStore>,
    /// Unfinished objects that lie there, seen from outside; always 0 where nothing of a writer is outside before it finishes.
    pub unfinished: &'a dyn Fn() -> usize,
    /// Bytes after which a writer has begun its object outside.
    pub large: usize,
    /// Whether the writer of a process that began later is spared by the clearing.
    pub spares_newer: bool,
}

/// Checks every promise of [`CheckpointStore`]. The place must be empty.
///
/// # Panics
/// When one is broken.
pub fn check_store(case: &StoreCase<'_>) {
    let (one, other) = ((case.open)(), (case.open)());
    assert!(!one.describe().is_empty());
    nothing_is_there(&*one);
    objects_are_created_once(&*one, &*other);
    stretches_are_read(&*one);
    listings_are_sorted_and_keep_to_folders(&*one, &*other);
    writers_make_whole_objects(case, &*one, &*other);
    what_is_removed_is_gone(&*one, &*other);
    of_creators_at_the_same_time_one_wins(case);
    what_was_left_unfinished_is_cleared(case);
}

/// Creates, and finds out by reading when the answer was lost.
fn put(store: &dyn CheckpointStore, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
    settled(store, path, bytes, store.put(path, bytes))
}

fn settled(store: &dyn CheckpointStore, path: &str, bytes: &[u8], answer: Result<(), StoreError>) -> Result<(), StoreError> {
    match answer {
        Err(StoreError::Unknown(why)) => match store.read(path, 0, None) {
            Ok(found) if found == bytes => Ok(()),
            Ok(_) => Err(StoreError::Exists),
            Err(error) => panic!("{path}: {why}; then {error}"),
        },
        answer => answer,
    }
}

fn write(store: &dyn CheckpointStore, path: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
    let mut writer = store.writer(path)?;
    for part in parts {
        writer.append(part)?;
    }
    settled(store, path, &parts.concat(), writer.finish())
}

/// Bytes that differ from place to place.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at ^ (at >> 8) ^ (at >> 16)).wrapping_mul(31).wrapping_add(seed) % 251) as u8).collect()
}

fn nothing_is_there(store: &dyn CheckpointStore) {
    assert_eq!(store.list("ledger/"), Ok(Vec::new()));
    assert_eq!(store.read("ledger/0/1", 0, None), Err(StoreError::Absent));
    assert_eq!(store.read("ledger/0/1", 3, Some(0)), Err(StoreError::Absent));
    assert_eq!(store.remove("ledger/0/1"), Ok(()), "nothing to be removed is no error");
    assert_eq!(store.clear_unfinished(), Ok(()));
}

fn objects_are_created_once(one: &dyn CheckpointStore, other: &dyn CheckpointStore) {
    assert_eq!(put(one, "ledger/0/1", b"first"), Ok(()));
    assert_eq!(other.read("ledger/0/1", 0, None).as_deref(), Ok(&b"first"[..]), "what was created is seen by all");
    for store in [one, other] {
        assert_eq!(put(store, "ledger/0/1", b"second"), Err(StoreError::Exists), "nothing is created twice");
        assert_eq!(write(store, "ledger/0/1", &[b"third"]), Err(StoreError::Exists), "nothing is created twice, also not by a writer");
        // Where the answer was lost, equal bytes tell nothing.
        let again = store.put("ledger/0/1", b"first");
        assert!(
            matches!(again, Err(StoreError::Exists | StoreError::Unknown(_))),
            "nothing is created twice, also not the same: {again:?}"
        );
    }
    assert_eq!(one.read("ledger/0/1", 0, None).as_deref(), Ok(&b"first"[..]), "nothing changes");
}

fn stretches_are_read(store: &dyn CheckpointStore) {
    let all = pattern(1000, 1);
    put(store, "state/e1/a", &all).expect("created");
    for (offset, bytes) in [(0, None), (0, Some(1000)), (0, Some(1)), (999, Some(1)), (500, None), (500, Some(100)), (990, Some(100))] {
        let end = bytes.map_or(1000, |bytes: u64| (offset + bytes).min(1000)) as usize;
        assert_eq!(store.read("state/e1/a", offset, bytes).as_deref(), Ok(&all[offset as usize..end]), "{bytes:?} bytes from {offset}");
    }
    for (offset, bytes) in [(0, Some(0)), (1000, None), (1000, Some(1)), (2000, Some(5))] {
        assert_eq!(store.read("state/e1/a", offset, bytes), Ok(Vec::new()), "{bytes:?} bytes from {offset}");
    }
    put(store, "state/e1/empty", b"").expect("created");
    assert_eq!(store.read("state/e1/empty", 0, None), Ok(Vec::new()));
}

fn listings_are_sorted_and_keep_to_folders(one: &dyn CheckpointStore, other: &dyn CheckpointStore) {
    for path in ["list/b", "list/a/2", "list/a/10", "lists/c", "list/a-1", "list/job~0f/x"] {
        put(one, path, path.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let listed = |prefix: &str| {
        let found = other.list(prefix).expect("a listing");
        assert!(found.iter().all(|object| object.bytes == object.path.len() as u64), "{found:?}");
        found.into_iter().map(|object| object.path).collect::<Vec<String>>()
    };
    assert_eq!(listed("list/"), ["list/a-1", "list/a/10", "list/a/2", "list/b", "list/job~0f/x"]);
    assert_eq!(listed("list/a/"), ["list/a/10", "list/a/2"]);
    assert_eq!(listed("lis/"), [""; 0]);
}

fn writers_make_whole_objects(case: &StoreCase<'_>, one: &dyn CheckpointStore, other: &dyn CheckpointStore) {
    assert_eq!(write(one, "state/e2/empty", &[]), Ok(()));
    assert_eq!(other.read("state/e2/empty", 0, None), Ok(Vec::new()));
    let (large, small) = (pattern(case.large + 12_345, 2), pattern(777, 3));
    let parts = [&large[..], &small, b"", &large, &small];
    let mut writer = one.writer("state/e2/large").expect("a writer");
    for part in parts {
        writer.append(part).expect("room");
        assert_eq!(other.read("state/e2/large", 0, None), Err(StoreError::Absent), "nothing is visible before it is finished");
        assert!(other.list("state/e2/").expect("a listing").iter().all(|object| object.path == "state/e2/empty"));
    }
    let whole = parts.concat();
    settled(one, "state/e2/large", &whole, writer.finish()).expect("finished");
    assert!(other.read("state/e2/large", 0, None).as_deref() == Ok(&whole[..]), "other bytes came back");
    let (from, bytes) = (large.len() as u64 - 5, 1000);
    let stretch = other.read("state/e2/large", from, Some(bytes));
    assert!(stretch.as_deref() == Ok(&whole[from as usize..(from + bytes) as usize]), "another stretch came back");
    assert_eq!(other.list("state/e2/").expect("a listing").last().map(|object| object.bytes), Some(whole.len() as u64));

    let mut late = other.writer("state/e2/large").expect("a writer");
    late.append(&large).expect("room");
    assert_eq!(
        settled(other, "state/e2/large", &large, late.finish()),
        Err(StoreError::Exists),
        "nothing is created twice, also not by a writer"
    );
    assert!(one.read("state/e2/large", 0, None).as_deref() == Ok(&whole[..]), "the object was changed");

    let mut dropped = one.writer("state/e2/dropped").expect("a writer");
    dropped.append(&large).expect("room");
    drop(dropped);
    assert_eq!(other.read("state/e2/dropped", 0, None), Err(StoreError::Absent));
    assert_eq!(put(other, "state/e2/dropped", b"x"), Ok(()), "a dropped writer leaves the path free");
}

fn what_is_removed_is_gone(one: &dyn CheckpointStore, other: &dyn CheckpointStore) {
    put(one, "gone/a", b"1").expect("created");
    assert_eq!(other.remove("gone/a"), Ok(()));
    assert_eq!(one.read("gone/a", 0, None), Err(StoreError::Absent));
    assert_eq!(one.list("gone/"), Ok(Vec::new()));
    assert_eq!(put(one, "gone/a", b"2"), Ok(()));
    assert_eq!(other.read("gone/a", 0, None).as_deref(), Ok(&b"2"[..]));
}

fn of_creators_at_the_same_time_one_wins(case: &StoreCase<'_>) {
    for (round, large) in [(0, false), (1, false), (2, false), (3, true)] {
        let path = format!("race/{round}");
        let stores: Vec<Arc<dyn CheckpointStore>> = (0..CREATORS).map(|_| (case.open)()).collect();
        let gate = Barrier::new(CREATORS);
        let create = |store: &dyn CheckpointStore, bytes: Vec<u8>| {
            gate.wait();
            let answer = if large { write(store, &path, &[&bytes]) } else { put(store, &path, &bytes) };
            assert!(matches!(answer, Ok(()) | Err(StoreError::Exists)), "{path}: {answer:?}");
            answer.is_ok()
        };
        let all: Vec<Vec<u8>> = (0..CREATORS).map(|seed| pattern(if large { case.large + 1 } else { 100 }, seed)).collect();
        let won: Vec<bool> = thread::scope(|scope| {
            let create = &create;
            let running: Vec<_> =
                stores.iter().zip(&all).map(|(store, bytes)| scope.spawn(move || create(&**store, bytes.clone()))).collect();
            running.into_iter().map(|thread| thread.join().expect("a creator")).collect()
        });
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{path}: {won:?}");
        let winner = won.iter().position(|won| *won).expect("one won");
        assert!(stores[0].read(&path, 0, None).as_deref() == Ok(&all[winner][..]), "{path}: the object is not that of the winner");
    }
}

fn what_was_left_unfinished_is_cleared(case: &StoreCase<'_>) {
    let large = pattern(case.large + 1, 5);
    let begin = |store: &Arc<dyn CheckpointStore>, path: &str| {
        let mut writer = store.writer(path).expect("a writer");
        writer.append(&large).expect("room");
        writer
    };
    let (old, present) = ((case.open)(), (case.open)());
    let (left, own) = (begin(&old, "state/e3/left"), begin(&present, "state/e3/own"));
    let mut clears = 0;
    // That of our own stays.
    while (case.unfinished)() > 1 || clears == 0 {
        clears += 1;
        assert!(clears < CLEARS_MAX, "{} unfinished objects are never cleared", (case.unfinished)());
        put(&*present, &format!("ledger/1/{clears}"), b"a claim").expect("created");
        present.clear_unfinished().expect("cleared");
    }
    settled(&*present, "state/e3/own", &large, own.finish()).expect("a clearing spares the writers of its own process");
    let visible = left.finish().is_ok();
    assert_eq!(present.read("state/e3/left", 0, None).is_ok(), visible, "whoever is told that his object was not created must be right");
    if case.spares_newer {
        let newer = (case.open)();
        put(&*newer, "ledger/2/1", b"a claim").expect("created");
        let writer = begin(&newer, "state/e3/newer");
        present.clear_unfinished().expect("cleared");
        settled(&*newer, "state/e3/newer", &large, writer.finish()).expect("a clearing spares writers of newer generations");
    }
    assert_eq!((case.unfinished)(), 0);
}
