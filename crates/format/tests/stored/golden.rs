//! Bytes of each format version, as they were written once: they must be readable for ever.
//!
//! A new version gets new files; these are never written again.

use serde_json::{Value, json};
use staunch_format::block::{BlockReader, Change};
use staunch_format::ledger::{Chain, LedgerEntry};
use staunch_format::manifest::Manifest;
use staunch_format::value::Decoder;

use crate::samples::{self, Account};

macro_rules! golden {
    ($name:literal) => {
        (include_bytes!(concat!("../golden/", $name, ".bin")).as_slice(), include_str!(concat!("../golden/", $name, ".json")))
    };
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("the expected JSON is JSON")
}

#[test]
fn a_manifest_of_version_1_is_read() {
    let (bytes, json) = golden!("manifest-1");
    assert_eq!(Manifest::to_json(bytes).expect("readable"), parsed(json));
    assert_eq!(Manifest::decode(bytes).expect("readable"), samples::manifest());
}

#[test]
fn a_manifest_of_version_2_is_read_with_its_database() {
    let (bytes, json) = golden!("manifest-2");
    assert_eq!(Manifest::to_json(bytes).expect("readable"), parsed(json));
    assert_eq!(Manifest::decode(bytes).expect("readable"), samples::manifest_with_database());
    assert_eq!(samples::manifest_with_database().database_files().count(), 2);
}

#[test]
fn ledger_entries_of_version_1_are_read_and_form_a_chain() {
    let mut chain = Chain::new();
    let entries = [golden!("ledger-1-1"), golden!("ledger-1-2"), golden!("ledger-1-3"), golden!("ledger-1-4"), golden!("ledger-1-5")];
    for ((bytes, json), expected) in entries.into_iter().zip(samples::ledger()) {
        assert_eq!(LedgerEntry::to_json(bytes).expect("readable"), parsed(json));
        // The chain checks the hash of the entry before, which is that of the stored bytes; today's bytes of a sample have fields more.
        let entry = chain.push(bytes).expect("the next entry of the chain");
        assert_eq!(LedgerEntry { previous: expected.previous, ..entry }, expected);
    }
    assert_eq!(chain.head().0, 5);
}

#[test]
fn a_state_block_of_version_1_is_read() {
    let (bytes, json) = golden!("block-1");
    assert_eq!(block_as_json(bytes), parsed(json));
    let reader = BlockReader::open(bytes).expect("whole");
    let (keys, values) = (Decoder::new(reader.key_schema()), Decoder::new(reader.value_schema()));
    let mut accounts = 0;
    for entry in reader.entries(samples::BLOCK_GROUPS) {
        if let Change::Put { key, value } = entry.expect("readable").change {
            let id = keys.decode::<u64>(key).expect("readable");
            assert_eq!(values.decode::<Account>(value).expect("readable"), Account::new(id as u32));
            accounts += 1;
        }
    }
    assert_eq!(accounts, 4);
}

pub(crate) fn block_as_json(bytes: &[u8]) -> Value {
    let reader = BlockReader::open(bytes).expect("whole");
    let (keys, values) = (Decoder::new(reader.key_schema()), Decoder::new(reader.value_schema()));
    let key_json = |key| keys.decode_json(key).expect("readable");
    let entries: Vec<Value> = reader
        .entries(samples::BLOCK_GROUPS)
        .map(|entry| {
            let entry = entry.expect("readable");
            let change = match entry.change {
                Change::Put { key, value } => json!({"put": [key_json(key), values.decode_json(value).expect("readable")]}),
                Change::Delete { key } => json!({"delete": key_json(key)}),
                Change::Clear => json!("clear"),
            };
            json!({"group": entry.group.0, "namespace": entry.namespace, "change": change})
        })
        .collect();
    json!({"state": reader.state(), "entries": entries})
}
