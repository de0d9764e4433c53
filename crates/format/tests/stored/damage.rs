//! Manifests and entries that are damaged, cut, of another kind or of another version.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use staunch_format::block::{BLOCK_FRAME, BlockReader};
use staunch_format::frame::{FrameKind, HEADER_BYTES};
use staunch_format::ledger::{LEDGER_FRAME, LedgerEntry};
use staunch_format::manifest::{MANIFEST_FRAME, Manifest};
use staunch_format::value::Encoder;
use staunch_types::{Error, ErrorKind};

use crate::samples;

type Open = fn(&[u8]) -> Result<(), Error>;

/// Everything stored, with how it is read.
fn stored() -> Vec<(Vec<u8>, Open)> {
    let entries = samples::ledger().into_iter().map(|entry| entry.encode().expect("encodes"));
    let mut all: Vec<(Vec<u8>, Open)> = entries.map(|bytes| (bytes, (|bytes| LedgerEntry::decode(bytes).map(drop)) as Open)).collect();
    all.push((samples::manifest().encode().expect("encodes"), |bytes| Manifest::decode(bytes).map(drop)));
    all.push((samples::block(), |bytes| BlockReader::open(bytes).map(drop)));
    all
}

#[test]
fn what_was_encoded_is_decoded() {
    let manifest = samples::manifest();
    assert_eq!(Manifest::decode(&manifest.encode().expect("encodes")), Ok(manifest));
    for entry in samples::ledger() {
        let bytes = entry.encode().expect("encodes");
        assert_eq!(LedgerEntry::decode(&bytes), Ok(entry.clone()));
        assert_eq!(entry.encode(), Ok(bytes), "the same entry has the same bytes");
    }
}

#[test]
fn every_changed_byte_and_every_cut_is_detected() {
    for (bytes, open) in stored() {
        open(&bytes).expect("whole");
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] ^= mask;
                assert_eq!(open(&changed).expect_err("changed").kind(), ErrorKind::Corrupt, "byte {at}");
            }
            assert_eq!(open(&bytes[..at]).expect_err("cut").kind(), ErrorKind::Corrupt, "{at} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(open(&longer).expect_err("longer").code(), "C102");
    }
}

#[test]
fn one_kind_is_never_read_as_another() {
    let manifest = samples::manifest().encode().expect("encodes");
    let error = LedgerEntry::decode(&manifest).expect_err("a manifest");
    assert_eq!(error.code(), "C101");
    assert!(error.what().contains("no ledger entry: expected the first bytes \"STNL\", found \"STNM\""), "{error}");
}

#[test]
fn a_newer_version_is_named_and_not_guessed_at() {
    for (kind, open) in [
        (MANIFEST_FRAME, (|bytes| Manifest::decode(bytes).map(drop)) as Open),
        (LEDGER_FRAME, |bytes| LedgerEntry::decode(bytes).map(drop)),
        (BLOCK_FRAME, |bytes| BlockReader::open(bytes).map(drop)),
    ] {
        let newer = FrameKind { version: kind.version + 1, ..kind }.seal(0, |out| out.extend(b"who knows"));
        let error = open(&newer).expect_err("newer");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "C103"));
        let text = format!("version {}; this program reads versions 1 to {}", kind.version + 1, kind.version);
        assert!(error.what().contains(&text), "{error}");
    }
}

#[test]
fn a_field_of_a_later_program_is_passed_over_and_shown() {
    #[derive(Serialize, Deserialize)]
    struct Later {
        #[serde(flatten)]
        entry: LedgerEntry,
        added: String,
    }
    let entry = samples::ledger().remove(0);
    let later = Later { entry: entry.clone(), added: "new".into() };
    let mut encoder = Encoder::new();
    let mut value = Vec::new();
    encoder.encode(&later, &mut value).expect("encodes");
    let schema = encoder.schema().to_bytes();
    let bytes = LEDGER_FRAME.seal(0, |out| {
        assert!((0x80..0x4000).contains(&schema.len()), "the length below has two bytes");
        out.extend([schema.len() as u8 | 0x80, (schema.len() >> 7) as u8]);
        out.extend(&schema);
        out.extend(&value);
    });
    assert_eq!(LedgerEntry::decode(&bytes), Ok(entry));
    assert_eq!(LedgerEntry::to_json(&bytes).expect("readable")["added"], Value::from("new"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_changed_body_with_a_right_checksum_never_panics(at: prop::sample::Index, byte: u8, cut: Option<prop::sample::Index>) {
        for (bytes, open) in stored() {
            let kind = [MANIFEST_FRAME, LEDGER_FRAME, BLOCK_FRAME].into_iter().find(|kind| bytes.starts_with(&kind.magic));
            let mut body = bytes[HEADER_BYTES..].to_vec();
            let at = at.index(body.len());
            body[at] = byte;
            if let Some(cut) = cut {
                body.truncate(cut.index(body.len()));
            }
            let changed = kind.expect("one of these").seal(0, |out| out.extend(&body));
            let _ = open(&changed);
            let _ = Manifest::to_json(&changed);
            let _ = LedgerEntry::to_json(&changed);
        }
    }
}
