//! The resolver's verdicts, from what a real broker answers, beside what a reader sees.

use staunch_kafka::Control;
use staunch_kafka::control::{Decision, Ended, TokenPlace};
use staunch_kafka::inquiry::Inquiry;
use staunch_kafka::resolve::{PreparedTransaction, Step, TokenMark};
use staunch_kafka_testbed::{Judge, shared};
use staunch_types::{Epoch, Generation, Timestamp};

use crate::writer::{QUESTIONS_MAX, Writer, committed, control, described, judged_topic};

const MINUTE_MS: u32 = 60_000;

/// A transactional id, its topic and its group, all of one name.
struct Bench {
    name: &'static str,
    judge: Judge,
    control: Control,
    place: TokenPlace,
}

impl Bench {
    fn new(name: &'static str) -> Bench {
        let place = TokenPlace { group: name.into(), topic: name.into(), partition: 0 };
        Bench { name, judge: judged_topic(shared(), name), control: control(shared()), place }
    }

    fn open(&self, timeout_ms: u32) -> Writer {
        Writer::open(shared(), self.name, timeout_ms)
    }

    /// Writes one record and the token, and describes what is then prepared.
    fn prepare(&mut self, writer: &Writer, epoch: u64) -> PreparedTransaction {
        let mark = TokenMark { generation: Generation(1), epoch: Epoch(epoch) };
        writer.begin();
        writer.write(self.name, &[&format!("epoch {epoch}")]);
        writer.token(&self.place, mark);
        let open = described(&mut self.control, self.name);
        PreparedTransaction { producer: open.producer, start_ms: open.start_ms.expect("it has begun"), mark }
    }

    fn verdict(&mut self, prepared: &PreparedTransaction) -> Step {
        self.verdict_at(prepared, Timestamp(prepared.start_ms))
    }

    /// The verdict as it would be at a time.
    fn verdict_at(&mut self, prepared: &PreparedTransaction, now: Timestamp) -> Step {
        let inquiry = Inquiry { transactional_id: self.name, place: &self.place, prepared };
        let mut steps = (0..QUESTIONS_MAX).map(|_| inquiry.ask(&mut self.control, now).expect("an answer"));
        steps.find(|step| !matches!(step, Step::AskAgain { .. })).expect("a decision comes through")
    }

    #[track_caller]
    fn is_committed(&mut self, prepared: &PreparedTransaction) {
        let step = self.verdict(prepared);
        assert!(matches!(step, Step::Committed { .. }), "{step:?}");
    }

    #[track_caller]
    fn is_lost(&mut self, prepared: &PreparedTransaction) {
        let step = self.verdict(prepared);
        assert!(matches!(step, Step::Lost { .. }), "{step:?}");
    }
}

#[test]
fn a_prepared_transaction_is_pending_until_it_is_committed() {
    let mut bench = Bench::new("pending");
    let writer = bench.open(MINUTE_MS);
    let prepared = bench.prepare(&writer, 1);
    drop(writer);
    assert_eq!(bench.verdict(&prepared), Step::Pending);
    let ended = bench.control.end_transaction("pending", prepared.producer, Decision::Commit);
    assert_eq!(ended.expect("an answer"), Ended::AsAsked);
    bench.is_committed(&prepared);
    assert_eq!(committed(&mut bench.judge, "pending"), ["epoch 1"]);
    bench.is_committed(&prepared);
}

#[test]
fn a_transaction_that_the_broker_aborted_for_its_age_is_lost() {
    let mut bench = Bench::new("too-old");
    let writer = bench.open(3_000);
    let prepared = bench.prepare(&writer, 1);
    assert_eq!(committed(&mut bench.judge, "too-old"), Vec::<String>::new());
    bench.is_lost(&prepared);
}

#[test]
fn after_its_id_was_taken_over_the_token_tells_whether_it_was_committed() {
    let mut bench = Bench::new("token-tells");
    let writer = bench.open(MINUTE_MS);
    let first = bench.prepare(&writer, 1);
    writer.commit();
    let second = bench.prepare(&writer, 2);
    drop(writer);
    // Taking the id over aborts the second; the coordinator then describes neither.
    let _writer = bench.open(MINUTE_MS);
    bench.is_committed(&first);
    bench.is_lost(&second);
    assert_eq!(committed(&mut bench.judge, "token-tells"), ["epoch 1"]);
}

#[test]
fn a_newer_half_written_transaction_is_never_taken_for_the_older_one() {
    let mut bench = Bench::new("half-written");
    let writer = bench.open(MINUTE_MS);
    let older = bench.prepare(&writer, 1);
    writer.commit();
    writer.begin();
    writer.write("half-written", &["half of epoch 2"]);
    let newer = described(&mut bench.control, "half-written");
    assert_eq!(newer.producer, older.producer, "nothing but the start tells them apart");
    bench.is_committed(&older);
    drop(writer);
    assert_eq!(bench.control.end_transaction("half-written", newer.producer, Decision::Abort).expect("an answer"), Ended::AsAsked);
    assert_eq!(committed(&mut bench.judge, "half-written"), ["epoch 1"]);
    bench.is_committed(&older);
}

#[test]
fn what_the_brokers_may_have_forgotten_is_not_called_lost() {
    let mut bench = Bench::new("may-be-forgotten");
    let writer = bench.open(MINUTE_MS);
    let never_written = PreparedTransaction { start_ms: 1_000_000, ..bench.prepare(&writer, 1) };
    writer.abort();
    // Another start: the coordinator describes something later, and there is no token.
    let days = |days: i64| Timestamp(never_written.start_ms + days * 24 * 3_600_000);
    assert!(matches!(bench.verdict_at(&never_written, days(6)), Step::Lost { .. }), "groups remember for seven days");
    assert!(matches!(bench.verdict_at(&never_written, days(7)), Step::Unknowable { .. }), "and no longer");
}
