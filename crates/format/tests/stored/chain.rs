//! The chain of ledger entries: whatever is changed, left out, added or moved is named.

use staunch_format::Sha256;
use staunch_format::ledger::{Body, Chain, LedgerEntry};
use staunch_types::{Error, Generation, LedgerSeq, Name};

use crate::samples;

/// The first break of a ledger, as `seq: reason`.
fn first_break(ledger: &[Vec<u8>]) -> Option<String> {
    let mut chain = Chain::new();
    ledger.iter().find_map(|bytes| chain.push(bytes).err()).map(|broken| format!("{}: {}", broken.seq, broken.reason))
}

/// The sample's entries, changed by `change`, each with the right hash of the one before.
fn linked(change: impl Fn(&mut LedgerEntry)) -> Vec<Vec<u8>> {
    let mut previous = Sha256::default();
    let mut ledger = Vec::new();
    for mut entry in samples::ledger() {
        entry.previous = previous;
        change(&mut entry);
        let bytes = entry.encode().expect("encodes");
        previous = LedgerEntry::hash(&bytes);
        ledger.push(bytes);
    }
    ledger
}

fn sample() -> Vec<Vec<u8>> {
    linked(|_| ())
}

#[test]
fn an_unbroken_ledger_is_accepted_from_its_start_and_from_any_known_entry() {
    let ledger = sample();
    assert_eq!(first_break(&ledger), None);
    for known in 1..ledger.len() {
        let mut chain = Chain::after(LedgerSeq(known as u64), LedgerEntry::hash(&ledger[known - 1]));
        ledger[known..].iter().for_each(|bytes| drop(chain.push(bytes).expect("follows")));
        assert_eq!((chain.head(), chain.hash()), (LedgerSeq(5), LedgerEntry::hash(&ledger[4])));
    }
}

#[test]
fn an_entry_left_out_doubled_or_moved_is_named() {
    let ledger = sample();
    let without =
        |at: usize| ledger.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>();
    for at in 0..4 {
        assert_eq!(first_break(&without(at)), Some(format!("{}: it calls itself entry {}", at + 1, at + 2)));
    }
    let mut doubled = ledger.clone();
    doubled.insert(2, ledger[1].clone());
    assert_eq!(first_break(&doubled).as_deref(), Some("3: it calls itself entry 2"));
    let mut moved = ledger.clone();
    moved.swap(2, 3);
    assert_eq!(first_break(&moved).as_deref(), Some("3: it calls itself entry 4"));
}

#[test]
fn an_entry_rewritten_with_right_checksums_breaks_the_chain_at_the_next() {
    for at in 0..4 {
        let mut entry = samples::ledger().remove(at);
        entry.wall_ms += 1;
        let mut ledger = sample();
        ledger[at] = entry.encode().expect("encodes");
        let broken = first_break(&ledger).expect("broken");
        assert!(broken.starts_with(&format!("{}: it follows an entry with hash", at + 2)), "{broken}");
    }
}

#[test]
fn a_damaged_entry_is_named_and_nothing_follows_it() {
    let mut ledger = sample();
    ledger[1][50] ^= 1;
    let mut chain = Chain::new();
    chain.push(&ledger[0]).expect("sound");
    let broken = chain.push(&ledger[1]).expect_err("damaged");
    assert!(broken.reason.contains("damaged"), "{broken}");
    assert_eq!(Error::from(broken).code(), "C105");
    chain.push(&sample()[1]).expect_err("nothing follows a break");
    assert_eq!(chain.head(), LedgerSeq(1));
}

#[test]
fn generations_jobs_and_beginnings_that_cannot_be_are_named() {
    type Case = (fn(&mut LedgerEntry), &'static str);
    let cases: [Case; 5] = [
        (
            |e| {
                if e.seq.0 == 4 {
                    e.generation = Generation(2)
                }
            },
            "4: it claims generation 2, but the last was 2",
        ),
        (
            |e| {
                if e.seq.0 == 3 {
                    e.generation = Generation(1)
                }
            },
            "3: it is of generation 1, but the last claim was of 2",
        ),
        (
            |e| {
                if e.seq.0 == 2 {
                    e.generation = Generation(3)
                }
            },
            "2: it seals for generation 2, but is of generation 3",
        ),
        (
            |e| {
                if e.seq.0 == 5 {
                    e.job = Name::new("other").expect("a name")
                }
            },
            "5: it belongs to the job \"other\", not to \"payment-totals\"",
        ),
        (
            |e| {
                if e.seq.0 == 1 {
                    e.body = Body::Stopped(staunch_format::ledger::Stopped { reason: "?".into() })
                }
            },
            "1: a ledger begins with a claim",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(first_break(&linked(change)).as_deref(), Some(expected));
    }
}
