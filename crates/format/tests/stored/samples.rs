//! One of everything that is stored. The golden files of version 1 hold exactly these.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use staunch_format::block::BlockWriter;
use staunch_format::ledger::{
    Body, Claimed, CommitOutcome, CommittableTotal, Committed, LedgerEntry, ManifestName, OperatorTotal, Origin, Outcome, Sealed,
    SourceReads, Stopped,
};
use staunch_format::manifest::{
    ChainPlan, Committable, DatabaseFile, DatabasePart, DatabaseState, Inline, Manifest, OperatorPart, Segment, SourcePart, Split,
    StatePart, StateSchemas, TaskPart,
};
use staunch_format::value::{Encoder, ValueError};
use staunch_format::{Attempt, CommittableId, Opaque, OperatorCounts, Reason, Sha256, SplitRange};
use staunch_types::{Digest, Epoch, Generation, KeyGroup, KeyGroupRange, LedgerSeq, Name, TaskId};

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn digest(records: &[&str]) -> Digest {
    let mut digest = Digest::default();
    records.iter().for_each(|record| digest.add(record.as_bytes()));
    digest
}

fn attempt(epoch: u64, generation: u64) -> Attempt {
    Attempt { epoch: Epoch(epoch), generation: Generation(generation) }
}

fn committable_id(number: u32) -> CommittableId {
    CommittableId { sink: name("totals"), attempt: attempt(7, 2), task: TaskId { chain: 1, index: 3 }, number }
}

fn range() -> SplitRange {
    SplitRange { split: "payments-0".into(), from: 100, to: 250, digest: digest(&["a", "bb"]) }
}

pub(crate) fn manifest() -> Manifest {
    let mut keys = Encoder::new();
    let mut values = Encoder::new();
    keys.encode(&7u64, &mut Vec::new()).expect("encodes");
    values.encode(&Account::new(1), &mut Vec::new()).expect("encodes");
    let counts = OperatorCounts { records_in: 10, records_out: 8, late: 1, rejected: 1 };
    let segment = Segment {
        path: "state/e0000000007-g2/1-3".into(),
        offset: 4_096,
        length: 1_000_000,
        crc: 0xDEAD_BEEF,
        groups: KeyGroupRange { start: 64, end: 128 },
        epoch: Epoch(7),
    };
    let states = vec![StatePart {
        name: "sum".into(),
        schemas: Some(StateSchemas { key: keys.schema(), value: values.schema() }),
        segments: vec![Segment { epoch: Epoch(5), ..segment.clone() }, segment],
    }];
    let inline = vec![Inline { kind: "watermark".into(), bytes: Opaque(vec![0, 1, 255]) }];
    Manifest {
        job: name("payment-totals"),
        fingerprint: 0x0123_4567_89AB_CDEF,
        code_version: "1.2.0".into(),
        attempt: attempt(7, 2),
        reason: Reason::Interval,
        wall_ms: 1_764_374_400_000,
        key_groups: 256,
        chains: vec![
            ChainPlan { operators: vec![name("payments")], parallelism: 2 },
            ChainPlan { operators: vec![name("total"), name("totals")], parallelism: 4 },
        ],
        operators: vec![
            OperatorPart {
                name: name("payments"),
                kind: "source".into(),
                tasks: vec![TaskPart {
                    task: TaskId { chain: 0, index: 1 },
                    inline: inline.clone(),
                    states: vec![],
                    database: None,
                    reads: vec![range()],
                    counts,
                }],
            },
            OperatorPart {
                name: name("total"),
                kind: "window".into(),
                tasks: vec![TaskPart { task: TaskId { chain: 1, index: 3 }, inline, states, database: None, reads: vec![], counts }],
            },
        ],
        sources: vec![SourcePart {
            name: name("payments"),
            state: Some(Opaque(b"known".to_vec())),
            unassigned: vec![Split { id: "payments-9".into(), bytes: Opaque(vec![9]) }],
        }],
        committables: vec![Committable {
            id: committable_id(0),
            kind: "csv".into(),
            body: Opaque(vec![1, 2, 3]),
            description: "totals/part-7-2-3.csv".into(),
            digest: digest(&["x,1", "y,2"]),
        }],
    }
}

/// A ledger of five entries: claim, seal, record of commits, claim by a fork of the program's, stop.
pub(crate) fn ledger() -> Vec<LedgerEntry> {
    let claimed = |origin, claimant| {
        Body::Claimed(Claimed {
            claimant,
            origin,
            fingerprint: 0x0123_4567_89AB_CDEF,
            code_version: "1.2.0".into(),
            config: Sha256::of(b"parallelism = 2"),
        })
    };
    let sealed = Body::Sealed(Sealed {
        attempt: attempt(7, 2),
        reason: Reason::Savepoint,
        settled: Epoch(6),
        manifest: ManifestName { path: "manifests/e0000000007-g2".into(), length: 1_234, sha256: Sha256::of(b"manifest") },
        sources: vec![SourceReads { source: name("payments"), ranges: vec![range()] }],
        operators: vec![OperatorTotal {
            operator: name("total"),
            counts: OperatorCounts { records_in: 10, records_out: 8, late: 1, rejected: 1 },
        }],
        committables: (0..3)
            .map(|number| CommittableTotal {
                id: committable_id(number),
                kind: "csv".into(),
                description: format!("totals/part-7-2-3-{number}.csv"),
                digest: digest(&["x,1"]),
                // An entry of before the field existed.
                body: Opaque::default(),
            })
            .collect(),
    });
    let outcome = |number, outcome| CommitOutcome { id: committable_id(number), digest: digest(&["x,1"]), outcome };
    let committed = Body::Committed(Committed {
        epoch: Epoch(7),
        outcomes: vec![
            outcome(0, Outcome::Committed { proof: "renamed".into(), place: Opaque::default() }),
            outcome(1, Outcome::Resent { proof: "renamed after rewriting".into(), place: Opaque::default() }),
            outcome(2, Outcome::AcceptedLost { by: "ada".into(), reason: "paid by hand".into() }),
        ],
    });
    let bodies = [
        (2, claimed(Origin::Empty, u128::MAX - 1)),
        (2, sealed),
        (2, committed),
        (3, claimed(Origin::Epoch(Epoch(7)), 5)),
        (3, Body::Stopped(Stopped { reason: "end of input".into() })),
    ];
    let mut previous = Sha256::default();
    let mut entries = Vec::new();
    for (seq, (generation, body)) in (1..).zip(bodies) {
        let entry = LedgerEntry {
            seq: LedgerSeq(seq),
            previous,
            job: name("payment-totals"),
            generation: Generation(generation),
            wall_ms: 1_764_374_400_000 + seq as i64,
            body,
        };
        previous = LedgerEntry::hash(&entry.encode().expect("encodes"));
        entries.push(entry);
    }
    entries
}

/// A value with every shape that the value format has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    id: u32,
    numbers: (i8, i16, i32, i64, i128, u8, u16, u64, u128, f32, f64),
    letter: char,
    flag: bool,
    unit: (),
    hash: [u8; 8],
    bytes: Vec<u8>,
    opaque: Opaque,
    parent: Option<Box<Account>>,
    kinds: Vec<Kind>,
    #[serde(default)]
    counts: BTreeMap<String, u64>,
    free: serde_json::Value,
    skipping: Skipping,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Skipping {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<u8>,
    last: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Open,
    Closed(i64),
    Moved(u8, String),
    Named { at: u16 },
}

impl Account {
    pub(crate) fn new(id: u32) -> Account {
        Account {
            id,
            numbers: (-1, -2, -3, -4, i128::MIN, 1, 2, u64::MAX, u128::MAX, 0.5, -0.25),
            letter: 'ß',
            flag: true,
            unit: (),
            hash: [7; 8],
            bytes: vec![1, 2, 3],
            opaque: Opaque(vec![0xAB]),
            parent: (id > 10).then(|| Box::new(Account::new(id - 10))),
            kinds: vec![Kind::Open, Kind::Closed(-9), Kind::Moved(1, "x".into()), Kind::Named { at: 300 }],
            counts: [("a".into(), 1), ("b".repeat(200), 2)].into(),
            free: json!({"list": [1, -1, null, "x", {"y": 1.5}], "id": id}),
            skipping: Skipping { first: id.is_multiple_of(2).then_some(1), last: 2 },
        }
    }
}

pub(crate) const BLOCK_GROUPS: KeyGroupRange = KeyGroupRange { start: 10, end: 20 };

pub(crate) fn block() -> Vec<u8> {
    let (mut keys, mut values) = (Encoder::new(), Encoder::new());
    let mut writer = BlockWriter::new("accounts", BLOCK_GROUPS);
    let mut write = |writer: &mut BlockWriter| -> Result<(), ValueError> {
        for id in [2, 1, 25, 40] {
            let account = Account::new(id);
            let group = KeyGroup(10 + (id % 3) as u16);
            writer.put(group, 60_000, |out| keys.encode(&account.id, out), |out| values.encode(&account, out))?;
        }
        writer.delete(KeyGroup(19), 0, |out| keys.encode(&3u32, out))
    };
    write(&mut writer).expect("encodes");
    writer.clear(KeyGroup(19), -60_000);
    writer.finish(&keys.schema(), &values.schema())
}

/// The same, with the keyed state of one task in a database; since version 2.
pub(crate) fn manifest_with_database() -> Manifest {
    let mut manifest = manifest();
    let task = &mut manifest.operators[1].tasks[0];
    let schemas = || {
        let (mut keys, mut values) = (Encoder::new(), Encoder::new());
        keys.encode(&7u64, &mut Vec::new()).expect("written");
        values.encode(&Account::new(7), &mut Vec::new()).expect("written");
        StateSchemas { key: keys.schema(), value: values.schema() }
    };
    let file = |name: &str, length| DatabaseFile {
        name: name.into(),
        path: format!("state/e0000000007-g2-t1.3-total/{name}"),
        length,
        crc: 0xC0FF_EE00,
    };
    task.database = Some(DatabasePart {
        kind: "rocksdb".into(),
        groups: BLOCK_GROUPS,
        states: ["total", "total/pieces"].map(|name| DatabaseState { name: name.into(), schemas: schemas() }).into(),
        files: vec![file("000012.sst", 1 << 20), file("CURRENT", 16)],
    });
    manifest
}
