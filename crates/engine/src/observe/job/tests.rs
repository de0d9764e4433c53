use staunch_api::{Figure, SampleValue};
use staunch_protocol::Reason;
use staunch_protocol::ledger::{Facts, Origin};
use staunch_types::{Digest, KeyGroupCount};

use super::*;
use crate::checkpoint::SinkNames;

const BEGAN_MS: i64 = 1_000;
const ENDS_MS: i64 = 5_000;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// The body of an output says when it was begun, in seconds.
fn term(committable: &Committable) -> Option<Term> {
    let began_ms = BEGAN_MS * i64::from(*committable.body.first()?);
    Some(Term { began_ms, ends_ms: began_ms + ENDS_MS - BEGAN_MS })
}

fn output(epoch: u64, task: u32, body: &[u8]) -> NamedCommittable {
    let committable = Committable {
        epoch: Epoch(epoch),
        generation: Generation(1),
        task_index: task,
        body: body.to_vec(),
        description: String::new(),
        digest: Digest::default(),
    };
    NamedCommittable { sink: name("out"), kind: "test".into(), task: TaskId { chain: 0, index: task }, number: 0, committable }
}

fn record(epoch: u64, wall_ms: i64, committables: &[NamedCommittable]) -> CheckpointRecord {
    CheckpointRecord {
        attempt: Attempt { epoch: Epoch(epoch), generation: Generation(1) },
        reason: Reason::Interval,
        job: name("job"),
        fingerprint: 0,
        groups: KeyGroupCount::default(),
        operators: BTreeMap::new(),
        sources: BTreeMap::new(),
        committables: committables.to_vec(),
        wall_ms,
    }
}

fn loaded(epoch_max: u64, uncommitted: &[CheckpointRecord]) -> Loaded {
    Loaded {
        facts: Facts { epoch_max: Epoch(epoch_max), ..Facts::default() },
        origin: Origin::Empty,
        head_hash: [0; 32],
        ledger: None,
        claimant: None,
        restored: uncommitted.last().cloned(),
        uncommitted: uncommitted.iter().map(|record| (record.epoch(), record.clone())).collect(),
        retained: Vec::new(),
        names: SinkNames::default(),
    }
}

struct Bed {
    metrics: Metrics,
    figures: JobFigures,
}

fn bed() -> Bed {
    let metrics = Metrics::default();
    let figures = JobFigures::new(&metrics, &name("job"), [(name("out"), term as TermOf)].into_iter());
    Bed { metrics, figures }
}

fn ms(time: u64) -> Tick {
    Tick::default() + Duration::from_millis(time)
}

impl Bed {
    fn value(&self, figure: Figure, wall_ms: i64) -> Option<f64> {
        let sample = self.metrics.samples(wall_ms).into_iter().find(|sample| sample.figure == figure)?;
        Some(match sample.value {
            SampleValue::Count(count) => count as f64,
            SampleValue::Value(value) => value,
            SampleValue::Times { parts, .. } => parts.iter().sum::<u64>() as f64,
        })
    }

    /// Outputs in doubt, the age of the oldest, and the time left.
    fn in_doubt(&self, wall_ms: i64) -> (Option<f64>, Option<f64>, Option<f64>) {
        let value = |figure| self.value(figure, wall_ms);
        (value(figures::IN_DOUBT), value(figures::IN_DOUBT_AGE), value(figures::IN_DOUBT_LEFT))
    }

    fn latency_seconds(&self) -> f64 {
        let sample = self.metrics.samples(0).into_iter().find(|sample| sample.figure == figures::COMMIT_LATENCY);
        match sample.map(|sample| sample.value) {
            Some(SampleValue::Times { sum, .. }) => sum,
            other => panic!("{other:?}"),
        }
    }

    fn durable(&self, record: &CheckpointRecord, now: Tick) {
        self.figures.durable(record, Duration::from_millis(20), &BTreeMap::new(), now);
    }
}

#[test]
fn an_output_is_in_doubt_from_its_prepare_until_its_commit_is_proven() {
    let bed = bed();
    assert_eq!(bed.in_doubt(0), (Some(0.0), None, None));
    let (first, second) = (output(1, 0, &[2]), output(1, 1, &[1]));
    bed.figures.prepared([&first, &second].into_iter());
    assert_eq!(bed.in_doubt(3_500), (Some(2.0), Some(2.5), Some(1.5)));
    // Acknowledged once more with a later epoch, as the first was given up.
    bed.figures.prepared([&first].into_iter());
    bed.durable(&record(2, 3_500, &[first.clone(), second.clone()]), ms(100));
    bed.figures.done(&second, Deed::Failed, ms(110));
    assert_eq!(bed.in_doubt(6_000), (Some(2.0), Some(5.0), Some(-1.0)));
    bed.figures.done(&second, Deed::Committed, ms(130));
    assert_eq!(bed.in_doubt(6_000), (Some(1.0), Some(4.0), Some(0.0)));
    bed.figures.done(&first, Deed::Committed, ms(150));
    assert_eq!(bed.in_doubt(6_000), (Some(0.0), None, None));
    assert_eq!((bed.value(figures::COMMITS, 0), bed.value(figures::COMMIT_LATENCY, 0)), (Some(2.0), Some(2.0)));
    assert_eq!(bed.value(figures::COMMIT_FAILURES, 0), Some(1.0));
    assert!((bed.latency_seconds() - 0.08).abs() < 1e-9, "{}", bed.latency_seconds());
}

#[test]
fn an_output_that_the_outside_keeps_for_ever_has_no_time_left() {
    let bed = bed();
    bed.figures.prepared([&output(1, 0, &[])].into_iter());
    assert_eq!(bed.in_doubt(3_500), (Some(1.0), None, None));
}

#[test]
fn a_start_finds_what_is_in_doubt_and_its_latency_has_the_downtime() {
    let bed = bed();
    let (sealed, unsealed) = (output(7, 0, &[1]), output(8, 0, &[2]));
    bed.figures.prepared([&sealed, &unsealed].into_iter());
    bed.figures.found(&loaded(7, &[record(7, 2_000, std::slice::from_ref(&sealed))]), ms(10), 62_000);
    assert_eq!(bed.in_doubt(62_000), (Some(1.0), Some(61.0), Some(-57.0)));
    assert_eq!((bed.value(figures::EPOCH_DURABLE, 0), bed.value(figures::EPOCH_COMMITTED, 0)), (Some(7.0), Some(6.0)));
    bed.figures.done(&sealed, Deed::Committed, ms(510));
    assert!((bed.latency_seconds() - 60.5).abs() < 1e-9, "{}", bed.latency_seconds());
    bed.figures.committed(Epoch(7));
    assert_eq!(bed.value(figures::EPOCH_COMMITTED, 0), Some(7.0));
}

#[test]
fn a_commit_that_was_proven_and_not_recorded_is_counted_once() {
    let bed = bed();
    let sealed = output(1, 0, &[1]);
    bed.figures.prepared([&sealed].into_iter());
    bed.durable(&record(1, 0, std::slice::from_ref(&sealed)), ms(0));
    for _ in 0..2 {
        bed.figures.done(&sealed, Deed::Committed, ms(0));
        bed.figures.restarting();
        bed.figures.found(&loaded(1, &[record(1, 0, std::slice::from_ref(&sealed))]), ms(0), 0);
        assert_eq!(bed.in_doubt(0), (Some(0.0), None, None));
    }
    assert_eq!((bed.value(figures::COMMITS, 0), bed.value(figures::RESTARTS, 0)), (Some(1.0), Some(2.0)));
}

#[test]
fn lost_outputs_are_written_again_or_accepted_and_counted_as_such() {
    let bed = bed();
    let (again, accepted) = (output(1, 0, &[1]), output(1, 1, &[1]));
    let both = [again.clone(), accepted.clone()];
    bed.figures.found(&loaded(1, &[record(1, 0, &both)]), ms(0), 0);
    for _ in 0..2 {
        both.iter().for_each(|output| bed.figures.done(output, Deed::Lost, ms(0)));
    }
    assert_eq!(bed.in_doubt(0).0, Some(2.0));
    bed.figures.done(&again, Deed::Resent, ms(0));
    bed.figures.committed(Epoch(1));
    assert_eq!(bed.in_doubt(0), (Some(0.0), None, None));
    let counted = [figures::LOST, figures::RESENDS, figures::ACCEPTED, figures::COMMITS].map(|figure| bed.value(figure, 0));
    assert_eq!(counted, [Some(2.0), Some(1.0), Some(1.0), Some(1.0)]);
}

#[test]
fn records_and_checkpoints_are_counted_when_they_are_durable() {
    let bed = bed();
    bed.figures.claimed(Generation(3));
    bed.figures.running(5);
    bed.figures.epoch_failed();
    let counts = OperatorCounts { records_in: 10, records_out: 4, late: 3, rejected: 2 };
    for epoch in 1..=2 {
        let counts = BTreeMap::from([(name("op"), counts)]);
        bed.figures.durable(&record(epoch, 4_000, &[]), Duration::from_millis(20), &counts, ms(0));
    }
    let all = [
        (figures::RECORDS_IN, 20.0),
        (figures::RECORDS_OUT, 8.0),
        (figures::RECORDS_LATE, 6.0),
        (figures::RECORDS_REJECTED, 4.0),
        (figures::CHECKPOINTS, 2.0),
        (figures::CHECKPOINTS_FAILED, 1.0),
        (figures::CHECKPOINT_TOOK, 2.0),
        (figures::CHECKPOINT_AGE, 1.5),
        (figures::EPOCH_DURABLE, 2.0),
        (figures::GENERATION, 3.0),
        (figures::TASKS, 5.0),
    ];
    for (figure, expected) in all {
        assert_eq!(bed.value(figure, 5_500), Some(expected), "{}", figure.name);
    }
}
