use staunch_format::ledger::{CommittableTotal, ManifestName, OperatorTotal, SourceReads};
use staunch_format::manifest::{ChainPlan, Inline, TaskPart};
use staunch_format::{Attempt, OperatorCounts, SplitRange};
use staunch_types::{Digest, Generation, TaskId};

use super::*;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn digest(records: u64) -> Digest {
    Digest { records, bytes: 0, sum: 0 }
}

/// An epoch that read these positions of one split, a record each, and wrote `outputs`, of which each holds so many records.
fn seal(epoch: u64, reason: Reason, read: (u64, u64), given: u64, outputs: &[u64]) -> Sealed {
    let attempt = Attempt { epoch: Epoch(epoch), generation: Generation(1) };
    let range = SplitRange { split: "split".into(), from: read.0, to: read.1, digest: digest(read.1.saturating_sub(read.0)) };
    let total = |operator: &str, records: u64| OperatorTotal {
        operator: name(operator),
        counts: OperatorCounts { records_in: records, ..OperatorCounts::default() },
    };
    let output = |(number, records): (usize, &u64)| CommittableTotal {
        id: CommittableId { sink: name("sink"), attempt, task: TaskId { chain: 0, index: 0 }, number: number as u32 },
        kind: "files".into(),
        description: String::new(),
        digest: digest(*records),
        body: Default::default(),
    };
    Sealed {
        attempt,
        reason,
        settled: Epoch(0),
        manifest: ManifestName { path: String::new(), length: 0, sha256: Default::default() },
        operators: vec![total("source", range.digest.records), total("sink", given)],
        sources: vec![SourceReads { source: name("source"), ranges: vec![range] }],
        committables: outputs.iter().enumerate().map(output).collect(),
    }
}

/// A manifest in which the sink carries something over, or nothing.
fn manifest(carried: &[u8]) -> Manifest {
    let inline = Inline { kind: "carried".into(), bytes: staunch_format::Opaque(carried.to_vec()) };
    let task = TaskPart {
        task: TaskId { chain: 0, index: 0 },
        inline: vec![inline],
        states: Vec::new(),
        database: None,
        reads: Vec::new(),
        counts: OperatorCounts::default(),
    };
    Manifest {
        job: name("job"),
        fingerprint: 0,
        code_version: String::new(),
        attempt: Attempt { epoch: Epoch(1), generation: Generation(1) },
        reason: Reason::Interval,
        wall_ms: 0,
        key_groups: 1,
        chains: vec![ChainPlan { operators: vec![name("sink")], parallelism: 1 }],
        operators: vec![staunch_format::manifest::OperatorPart { name: name("sink"), kind: String::new(), tasks: vec![task] }],
        sources: Vec::new(),
        committables: Vec::new(),
    }
}

/// What is found in epochs that follow one another.
fn found(seals: &[Sealed]) -> Vec<String> {
    let mut line = Line::of(seals.iter());
    let mut errors = Vec::new();
    for sealed in seals {
        errors.extend(line.advance(sealed));
        errors.extend(line.left_over(sealed, None));
    }
    errors.iter().map(|error| format!("{} {}", error.code(), error.what())).collect()
}

#[test]
fn epochs_that_follow_one_another_are_no_finding() {
    let seals = [
        seal(1, Reason::Interval, (0, 10), 10, &[4, 6]),
        seal(2, Reason::Interval, (10, 10), 0, &[]),
        seal(4, Reason::Final, (10, 15), 5, &[5]),
    ];
    assert_eq!(found(&seals), Vec::<String>::new());
}

#[test]
fn a_stretch_that_is_read_twice_or_passed_over_is_found() {
    let twice = [seal(1, Reason::Interval, (0, 10), 0, &[]), seal(2, Reason::Interval, (8, 12), 0, &[])];
    assert_eq!(found(&twice), ["C308 source source read positions 8 to 10 of a split twice"]);
    let over = [seal(1, Reason::Interval, (0, 10), 0, &[]), seal(2, Reason::Interval, (12, 14), 0, &[])];
    assert_eq!(found(&over), ["C308 source source passed over positions 10 to 12 of a split"]);
    let back = [seal(1, Reason::Interval, (0, 10), 0, &[]), seal(2, Reason::Interval, (10, 9), 0, &[])];
    assert_eq!(found(&back), ["C308 source source went back from 10 to 9 in a split"]);
}

#[test]
fn records_that_a_source_read_and_did_not_hand_over_are_found() {
    let mut lost = seal(1, Reason::Interval, (0, 10), 0, &[]);
    lost.operators[0].counts.records_in = 9;
    assert_eq!(found(&[lost.clone()]), ["C309 source source read 10 records in epoch 1, but 9 went on and 0 were rejected"]);
    lost.operators[0].counts.rejected = 1;
    assert_eq!(found(&[lost]), Vec::<String>::new());
}

#[test]
fn outputs_with_more_records_than_the_sink_was_given_are_found() {
    let seals = [seal(1, Reason::Interval, (0, 10), 10, &[10]), seal(2, Reason::Interval, (10, 20), 10, &[11])];
    assert_eq!(found(&seals), ["C309 sink sink was given 20 records up to epoch 2, but its outputs hold 21"]);
}

#[test]
fn records_that_a_sink_holds_back_are_found_when_nothing_may_be_carried_over() {
    // A sink that writes a file on over several epochs: at the end nothing may be left.
    let rolling = |last: u64| [seal(1, Reason::Interval, (0, 10), 10, &[]), seal(2, Reason::Final, (10, 20), 10, &[last])];
    assert_eq!(found(&rolling(20)), Vec::<String>::new());
    assert_eq!(found(&rolling(19)), ["C309 sink sink was given 20 records up to epoch 2, but its outputs hold 19"]);

    let open = seal(1, Reason::Interval, (0, 10), 10, &[3]);
    let mut line = Line::of([&open].into_iter());
    assert!(line.advance(&open).is_empty());
    assert_eq!(line.left_over(&open, Some(&manifest(b"an open file"))).len(), 0);
    assert_eq!(line.left_over(&open, Some(&manifest(b""))).len(), 1, "nothing is carried over, and 7 records are nowhere");
}

#[test]
fn a_rewind_goes_on_from_the_line_that_led_to_its_epoch() {
    let seals = [
        seal(1, Reason::Interval, (0, 10), 10, &[10]),
        seal(2, Reason::Interval, (10, 20), 10, &[10]),
        seal(3, Reason::Interval, (20, 30), 10, &[10]),
    ];
    let by_epoch: BTreeMap<Epoch, &Sealed> = seals.iter().map(|s| (s.attempt.epoch, s)).collect();
    let parents = BTreeMap::from([(Epoch(1), Epoch(0)), (Epoch(2), Epoch(1)), (Epoch(3), Epoch(2))]);
    let line = Line::of(seals.iter()).rebuilt(Epoch(1), &by_epoch, &parents);
    assert_eq!(line.epoch, Epoch(1));
    let again = seal(4, Reason::Interval, (10, 20), 10, &[10]);
    assert_eq!(line.clone().advance(&again).len(), 0, "it follows epoch 1");
    let skipping = seal(4, Reason::Interval, (30, 40), 10, &[10]);
    assert_eq!(line.clone().advance(&skipping).len(), 1, "it would follow epoch 3");
}

#[test]
fn a_record_of_commits_must_speak_of_what_was_named() {
    let sealed = seal(1, Reason::Interval, (0, 10), 10, &[10]);
    let outcome = |total: &CommittableTotal, records: u64| staunch_format::ledger::CommitOutcome {
        id: total.id.clone(),
        digest: digest(records),
        outcome: staunch_format::ledger::Outcome::Committed { proof: String::new(), place: staunch_format::Opaque::default() },
    };
    let committed = |outcomes| Committed { epoch: Epoch(1), outcomes };
    assert!(other_than_named(&sealed, &committed(vec![outcome(&sealed.committables[0], 10)])).is_none());
    assert!(other_than_named(&sealed, &committed(vec![outcome(&sealed.committables[0], 9)])).is_some());
    assert!(other_than_named(&sealed, &committed(Vec::new())).is_some());
}
