//! The verdicts of its committer, at a real broker and beside what a reader sees.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use staunch_api::testkit::{ImmediateDoor, MemoryFiles, MemoryStore, SinkCase, check_sink, permit};
use staunch_api::{Committable, Committer as _, Resolution, Sink as _, SinkContext, SinkWriter, SweepScope};
use staunch_kafka::control::{Decision, Described, Ended, TransactionPhase};
use staunch_kafka::{KafkaSink, Text};
use staunch_kafka_testbed::{Cluster, Options, shared};
use staunch_types::{Epoch, ErrorKind, Generation, Name, Tick};

use crate::writer::{QUESTIONS_MAX, Writer, committed, control, described, ended, judged_topic};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// Transactional ids of a task.
const IDS: u64 = 5;

pub(crate) type Case<'c> = SinkCase<'c, KafkaSink<String, Text>>;

/// Runs `test` with a sink of its own topic and job, all of one name.
pub(crate) fn with_case(cluster: &Cluster, name: &str, timeout: Duration, test: impl FnOnce(&Case<'_>)) {
    let judge = RefCell::new(judged_topic(cluster, name));
    let asked = RefCell::new(control(cluster));
    let prefix = format!("staunch+{name}+");
    let visible = || {
        // Decisions that are made become visible a moment later.
        let all = asked.borrow_mut().list_transactions(&prefix).expect("an answer");
        for listed in all {
            if listed.phase != TransactionPhase::Ongoing {
                ended(&mut asked.borrow_mut(), &listed.transactional_id);
            }
        }
        let records = judge.borrow_mut().read(name).expect("records");
        let mut numbers: Vec<u64> = records.iter().map(|r| r.text().expect("text").parse().expect("a number")).collect();
        numbers.sort_unstable();
        numbers
    };
    let wait = || drop(asked.borrow_mut().cluster().expect("an answer"));
    let sink = KafkaSink::text(&cluster.bootstrap(), name).transaction_timeout(timeout);
    let record = |number: u64| number.to_string();
    let mut case = SinkCase::new(sink, Arc::new(MemoryFiles::default()), Arc::new(MemoryStore::default()), &record, &visible);
    case.wait = &wait;
    case.job = Name::new(name).expect("a name");
    test(&case);
}

/// Writes one record and prepares it.
pub(crate) fn prepared(case: &Case<'_>, writer: &mut impl SinkWriter<Record = String>, epoch: u64) -> Committable {
    writer.write(epoch.to_string(), staunch_types::Timestamp::MIN).expect("room");
    writer.prepare(Epoch(epoch)).expect("the writer goes on");
    for _ in 0..QUESTIONS_MAX {
        writer.work(Tick(0)).expect("the writer goes on");
        if let Some(mut prepared) = writer.poll_prepared().expect("it is prepared") {
            return prepared.committables.pop().expect("there is a record");
        }
        (case.wait)();
    }
    panic!("epoch {epoch} is not prepared");
}

pub(crate) fn ready(case: &Case<'_>, generation: u64) -> <KafkaSink<String, Text> as staunch_api::Sink>::Writer {
    case.sink.check(&case.context(generation)).expect("everything is there");
    case.writer(generation, 0, Vec::new(), ImmediateDoor)
}

/// What a later generation finds out; asked again while a decision is under way.
fn verdict(case: &Case<'_>, committable: &Committable) -> Resolution {
    let mut committer = case.committer(9);
    for _ in 0..QUESTIONS_MAX {
        match committer.resolve(committable) {
            Ok(resolution) => return resolution,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
        }
    }
    panic!("no decision comes through");
}

#[track_caller]
fn is_committed(case: &Case<'_>, committable: &Committable) {
    let found = verdict(case, committable);
    assert!(matches!(found, Resolution::Committed(_)), "{found:?}");
}

#[track_caller]
fn is_lost(case: &Case<'_>, committable: &Committable) {
    let found = verdict(case, committable);
    assert!(matches!(found, Resolution::Lost { .. }), "{found:?}");
}

#[test]
fn the_sink_keeps_all_promises_of_a_sink() {
    with_case(shared(), "promises", MINUTE, check_sink);
}

#[test]
fn a_transaction_that_the_broker_aborted_for_its_age_is_lost() {
    with_case(shared(), "too-old", Duration::from_secs(3), |case| {
        let mut writer = ready(case, 1);
        let old = prepared(case, &mut writer, 1);
        drop(writer);
        let mut judge = shared().judge().expect("a judge");
        assert_eq!(committed(&mut judge, "too-old"), Vec::<String>::new());
        is_lost(case, &old);
    });
}

#[test]
fn after_its_id_was_taken_over_the_mark_tells_whether_it_was_committed() {
    with_case(shared(), "mark-tells", MINUTE, |case| {
        let mut writer = ready(case, 1);
        let (first, second) = (prepared(case, &mut writer, 1), prepared(case, &mut writer, 2));
        drop(writer);
        case.commit(1, std::slice::from_ref(&first));
        // Taking the ids over aborts the second; the coordinator then describes neither.
        for listed in control(shared()).list_transactions("staunch+mark-tells+").expect("an answer") {
            Writer::open(shared(), &listed.transactional_id, 60_000);
        }
        is_committed(case, &first);
        is_lost(case, &second);
        assert_eq!((case.visible)(), [1]);
    });
}

#[test]
fn a_loss_is_found_while_later_transactions_wait_for_that_verdict() {
    with_case(shared(), "held-up", MINUTE, |case| {
        let mut writer = ready(case, 1);
        let (first, second) = (prepared(case, &mut writer, 1), prepared(case, &mut writer, 2));
        drop(writer);
        // Somebody aborts the first one; the mark of the second, which is open, lies behind that of the first.
        let mut asked = control(shared());
        for listed in asked.list_transactions("staunch+held-up+").expect("an answer") {
            if first.description.contains(&listed.transactional_id) {
                let open = described(&mut asked, &listed.transactional_id);
                let answer = asked.end_transaction(&listed.transactional_id, open.producer, Decision::Abort).expect("an answer");
                assert_eq!(answer, Ended::AsAsked);
            }
        }
        is_lost(case, &first);
        assert_eq!(verdict(case, &second), Resolution::Pending);
        case.commit(2, std::slice::from_ref(&second));
        assert_eq!((case.visible)(), [2]);
    });
}

#[test]
fn a_newer_half_written_transaction_is_never_taken_for_the_older_one() {
    with_case(shared(), "half-written", MINUTE, |case| {
        let mut writer = ready(case, 1);
        let older = prepared(case, &mut writer, 1);
        case.commit(1, std::slice::from_ref(&older));
        for epoch in 2..=IDS {
            let next = prepared(case, &mut writer, epoch);
            case.commit(1, &[next]);
        }
        let mut asked = control(shared());
        let mut ids = asked.list_transactions("staunch+half-written+").expect("an answer");
        ids.retain(|listed| !listed.transactional_id.ends_with("+probe"));
        assert_eq!(ids.len() as u64, IDS);
        let id = &ids[0].transactional_id;
        let of_older = ended(&mut asked, id);
        assert!(older.description.contains(id), "{}", older.description);
        // The ring comes round: the same id, the same producer.
        drop(prepared(case, &mut writer, IDS + 1));
        let newer = described(&mut asked, id);
        assert_eq!(newer.producer, of_older.producer, "nothing but the start tells them apart");
        assert_ne!(newer.start_ms, of_older.start_ms);
        is_committed(case, &older);
        case.commit(9, std::slice::from_ref(&older));
        assert_eq!(described(&mut asked, id), newer, "it is still open");
        drop(writer);
        assert_eq!(asked.end_transaction(id, newer.producer, Decision::Abort).expect("an answer"), Ended::AsAsked);
        assert_eq!((case.visible)(), (1..=IDS).collect::<Vec<u64>>());
        is_committed(case, &older);
    });
}

#[test]
fn the_mark_outlives_the_coordinators_memory_of_the_id() {
    let options = Options::one().with("transactional.id.expiration.ms", "1000");
    let cluster = Cluster::start(&options.with("transaction.remove.expired.transaction.cleanup.interval.ms", "100")).expect("a broker");
    with_case(&cluster, "forgotten", MINUTE, |case| {
        let mut writer = ready(case, 1);
        let (first, second) = (prepared(case, &mut writer, 1), prepared(case, &mut writer, 2));
        drop(writer);
        case.commit(1, std::slice::from_ref(&first));
        let mut asked = control(&cluster);
        let ids: Vec<String> = {
            let listed = asked.list_transactions("staunch+forgotten+").expect("an answer");
            listed.into_iter().map(|listed| listed.transactional_id).collect()
        };
        let scope = SweepScope { generation: Generation(2), durable: Epoch(1), ..SweepScope::default() };
        case.committer(2).sweep(&scope).expect("swept");
        for id in &ids {
            let forgotten = (0..QUESTIONS_MAX).any(|_| asked.describe_transaction(id).expect("an answer") == Described::Unknown);
            assert!(forgotten, "the coordinator forgets {id}");
        }
        is_committed(case, &first);
        is_lost(case, &second);
        assert_eq!((case.visible)(), [1]);
    });
}

#[test]
fn what_nobody_can_know_is_not_called_lost() {
    with_case(shared(), "no-mark-topic", MINUTE, |case| {
        let mut writer = ready(case, 1);
        let one = prepared(case, &mut writer, 1);
        drop(writer);
        case.committer(2).sweep(&SweepScope { generation: Generation(2), ..SweepScope::default() }).expect("swept");
        let mut judge = shared().judge().expect("a judge");
        judge.delete_topic("staunch-commits-no-mark-topic").expect("deleted");
        // The id is described as aborted first; taken over twice, only the mark could tell.
        for listed in control(shared()).list_transactions("staunch+no-mark-topic+").expect("an answer") {
            Writer::open(shared(), &listed.transactional_id, 60_000);
        }
        let error = case.committer(9).resolve(&one).expect_err("nobody knows");
        assert_eq!((error.code(), error.kind()), ("K030", ErrorKind::Corrupt), "{error}");
        assert!(error.to_string().contains("--accept-lost"), "{error}");
        // Who does as the message says comes on.
        let accepts = SinkContext { accepts_lost: true, ..case.context(9) };
        let found = case.sink.committer(accepts).and_then(|mut committer| committer.resolve(&one)).expect("accepted");
        assert!(matches!(found, Resolution::Lost { .. }), "{found:?}");
    });
}

#[test]
fn a_record_in_a_shared_topic_waits_for_the_transactions_of_others() {
    let mut judge = judged_topic(shared(), "side");
    let stuck = Writer::open(shared(), "side-stuck", 60_000);
    stuck.begin();
    stuck.write("side", &["of somebody else"]);
    let writer = Writer::open(shared(), "side-done", 60_000);
    writer.begin();
    writer.write("side", &["a mark"]);
    writer.commit();
    assert_eq!(judge.read("side").expect("records"), [], "committed, and yet not readable");
    stuck.abort();
    assert_eq!(committed(&mut judge, "side"), ["a mark"]);
}

/// Messages in a copy name their topic by its number among those that the sink had then.
#[test]
fn lost_output_is_written_again_to_the_topics_that_it_was_for_also_when_the_sink_has_others_now() {
    let mut judges = ["topics-of-then", "topics-of-now"].map(|topic| judged_topic(shared(), topic));
    let (files, store) = (Arc::new(MemoryFiles::default()), Arc::new(MemoryStore::default()));
    let record = |number: u64| number.to_string();
    let asked = RefCell::new(control(shared()));
    let wait = || drop(asked.borrow_mut().cluster().expect("an answer"));
    let case = |topics: &[&str]| {
        let sink = KafkaSink::with(&shared().bootstrap(), topics, Text).journal();
        let mut case = SinkCase::new(sink, files.clone(), store.clone(), &record, &Vec::new);
        case.wait = &wait;
        case.job = Name::new("topics-of-then").expect("a name");
        case
    };
    let then = case(&["topics-of-then"]);
    let mut writer = ready(&then, 1);
    let lost = prepared(&then, &mut writer, 1);
    drop(writer);
    for listed in control(shared()).list_transactions("staunch+topics-of-then+").expect("an answer") {
        Writer::open(shared(), &listed.transactional_id, 60_000);
    }
    let now = case(&["topics-of-now", "topics-of-then"]);
    is_lost(&now, &lost);
    let proof = now.committer(9).resend(&lost, &permit(Epoch(1), Generation(9))).expect("written again");
    assert!(proof.text.contains("topics-of-then[0]"), "{proof:?}");
    let found = [0, 1].map(|number: usize| committed(&mut judges[number], ["topics-of-then", "topics-of-now"][number]));
    assert_eq!(found, [vec!["1".to_owned()], vec![]]);
}
