//! The promises of a checkpoint store hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use staunch_api::testkit::{StoreCase, check_store};
use staunch_api::{CheckpointStore, StoreError};
use staunch_objects::{Options, PART_BYTES, S3Store};
use staunch_store_testbed::{Faults, HttpProxy, Kind, S3};

/// Opens a store as a process of its own would.
pub(crate) fn open(endpoint: &str, address: &str) -> S3Store {
    static WRITERS: AtomicU64 = AtomicU64::new(0);
    let writer = format!("w{}", WRITERS.fetch_add(1, Ordering::Relaxed));
    let options = Options::new().endpoint(endpoint).credentials("test", "test", None);
    S3Store::open(address, &options, &writer).unwrap_or_else(|error| panic!("{error}"))
}

fn conforms(kind: Kind, every: u64) {
    let server = S3::start(kind).expect("a server");
    let proxy = HttpProxy::start(server.port(), &Faults { every, ..Faults::default() }).expect("a proxy");
    let endpoint = if every == 0 { server.endpoint() } else { proxy.endpoint() };
    let address = format!("s3://{}/some/where", server.bucket());
    check_store(&StoreCase {
        open: &|| Arc::new(open(&endpoint, &address)),
        unfinished: &|| server.uploads().expect("an answer"),
        large: PART_BYTES,
        // Of every upload moto says that it began in 2010.
        spares_newer: kind != Kind::Moto,
    });
    let tally = proxy.tally();
    println!("{kind:?}: {tally:?}");
    assert!(every == 0 || (tally.lost > 2 && tally.refused > 2), "the proxy did nothing: {tally:?}");
}

#[test]
fn a_bucket_of_moto_is_a_checkpoint_store() {
    conforms(Kind::Moto, 0);
}

#[test]
fn a_bucket_of_ministack_is_a_checkpoint_store() {
    conforms(Kind::Ministack, 0);
}

#[test]
fn a_bucket_of_moto_is_one_while_each_seventh_request_fails_or_loses_its_answer() {
    conforms(Kind::Moto, 7);
}

#[test]
fn a_bucket_of_ministack_is_one_while_each_seventh_request_fails_or_loses_its_answer() {
    conforms(Kind::Ministack, 7);
}

#[test]
fn while_each_third_request_fails_or_loses_its_answer_every_creation_is_told_right() {
    let server = S3::start(Kind::Ministack).expect("a server");
    let address = format!("s3://{}", server.bucket());
    let open = |endpoint: &str| open(endpoint, &address);
    let good = open(&server.endpoint());
    let proxy = HttpProxy::start(server.port(), &Faults { every: 3, ..Faults::default() }).expect("a proxy");
    let store = open(&proxy.endpoint());
    for n in 0..20 {
        let path = format!("a/{n}");
        let answer = store.put(&path, b"x");
        assert_eq!(answer, Ok(()), "{path}");
        assert_eq!(good.read(&path, 0, None).as_deref(), Ok(&b"x"[..]));
        assert_eq!(store.put(&path, b"x"), Err(StoreError::Exists), "{path}: equal bytes are not the mark");
    }
    assert!(proxy.tally().lost > 5, "{:?}", proxy.tally());
}

#[test]
fn more_objects_than_one_page_holds_are_all_listed() {
    let server = S3::start(Kind::Ministack).expect("a server");
    let store = open(&server.endpoint(), &format!("s3://{}/many", server.bucket()));
    let paths: Vec<String> = (0..1050).map(|n| format!("ledger/0000000/{n:010}")).collect();
    for path in &paths {
        store.put(path, b"").expect("created");
    }
    let listed: Vec<String> = store.list("ledger/").expect("a listing").into_iter().map(|object| object.path).collect();
    assert_eq!(listed, paths);
    let above = open(&server.endpoint(), &format!("s3://{}", server.bucket()));
    assert_eq!(above.folders().expect("folders"), ["many"]);
    assert_eq!(above.below("many").folders().expect("folders"), ["ledger"]);
    assert_eq!(above.below("many").list("ledger/").expect("a listing").len(), 1050);
}
