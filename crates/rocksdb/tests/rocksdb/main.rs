//! RocksDB behind the contract of a backend.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at the disk")]

use staunch_api::testkit::check_backend;
use staunch_rocksdb::RocksDb;

#[test]
fn rocksdb_keeps_all_promises_of_a_backend() {
    let directory = tempfile::tempdir().expect("a directory");
    let backend = RocksDb::default().memory(16 << 20).directory(directory.path());
    check_backend(&backend);
    drop(backend);
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, b"").expect("a file");
    let backend = RocksDb::default().directory(&file);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check_backend(&backend)));
    let text = caught.expect_err("refused");
    let text = text.downcast_ref::<String>().expect("a text");
    assert!(text.contains("S402") && text.contains("file"), "{text}");
}
