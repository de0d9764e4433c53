//! KIP-939, transactions without a timeout, as Kafka 4.4.0 has it: what it answers to InitProducerId, version 6.
//!
//! `docs/decisions/0011-no-two-phase-producers-yet.md` rests on these answers. When one of them changes, that note is due for another look.

use std::io::{Read, Write};
use std::net::TcpStream;

use staunch_kafka::Control;
use staunch_kafka::control::{Decision, Ended, TransactionPhase};
use staunch_kafka_testbed::{Cluster, Options, shared};

use crate::writer::{Writer, committed, control, described, judged_topic};

const INIT_PRODUCER_ID: i16 = 22;
const VERSION: i16 = 6;
const OK: i16 = 0;
const UNSUPPORTED_VERSION: i16 = 35;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const ATTEMPTS_MAX: u32 = 10_000;

/// What is asked for in the two new fields.
#[derive(Clone, Copy, Debug)]
struct Asked {
    enable_two_phase: bool,
    keep_prepared: bool,
}

/// The error code; `None` when the broker closes the connection instead of answering. A transaction that is just ending is waited for.
fn init_producer_id(cluster: &Cluster, transactional_id: &str, asked: Asked) -> Option<i16> {
    let answers = (0..ATTEMPTS_MAX).map(|_| init_once(cluster, transactional_id, asked));
    answers.into_iter().find(|code| *code != Some(CONCURRENT_TRANSACTIONS)).expect("it ends")
}

fn init_once(cluster: &Cluster, transactional_id: &str, asked: Asked) -> Option<i16> {
    let mut frame = Vec::new();
    frame.extend(INIT_PRODUCER_ID.to_be_bytes());
    frame.extend(VERSION.to_be_bytes());
    frame.extend(1_i32.to_be_bytes());
    frame.extend((-1_i16).to_be_bytes());
    frame.push(0);
    frame.push(u8::try_from(transactional_id.len() + 1).expect("a short id"));
    frame.extend(transactional_id.as_bytes());
    frame.extend(60_000_i32.to_be_bytes());
    frame.extend((-1_i64).to_be_bytes());
    frame.extend((-1_i16).to_be_bytes());
    frame.push(u8::from(asked.enable_two_phase));
    frame.push(u8::from(asked.keep_prepared));
    frame.push(0);
    let mut socket = TcpStream::connect(cluster.bootstrap()).expect("the broker listens");
    socket.write_all(&u32::try_from(frame.len()).expect("small").to_be_bytes()).expect("sent");
    socket.write_all(&frame).expect("sent");
    let mut length = [0; 4];
    socket.read_exact(&mut length).ok()?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut answer).expect("the answer is whole");
    // Behind the number of the request, a count of tags and the throttle time.
    Some(i16::from_be_bytes([answer[9], answer[10]]))
}

const NEITHER: Asked = Asked { enable_two_phase: false, keep_prepared: false };
const ENABLE: Asked = Asked { enable_two_phase: true, keep_prepared: false };
const KEEP: Asked = Asked { enable_two_phase: false, keep_prepared: true };
const BOTH: Asked = Asked { enable_two_phase: true, keep_prepared: true };

#[test]
fn a_broker_as_delivered_does_not_take_the_request() {
    let mut control = control(shared());
    control.fence("two-phase-closed", 60_000).expect("the older version works, and the coordinator is ready");
    for asked in [NEITHER, ENABLE, KEEP, BOTH] {
        assert_eq!(init_producer_id(shared(), "two-phase-closed", asked), None, "the connection is closed: {asked:?}");
    }
}

#[test]
fn with_unstable_versions_the_timeout_can_be_given_up_and_nothing_prepared_can_be_kept() {
    let options = Options::one().with("unstable.api.versions.enable", "true");
    let cluster = Cluster::start(&options.with("transaction.two.phase.commit.enable", "true")).expect("a broker");
    let mut judge = judged_topic(&cluster, "two-phase");
    let mut control: Control = control(&cluster);
    let writer = Writer::open(&cluster, "two-phase", 60_000);
    writer.begin();
    writer.write("two-phase", &["a"]);
    let open = described(&mut control, "two-phase");
    for asked in [KEEP, BOTH] {
        assert_eq!(init_producer_id(&cluster, "two-phase", asked), Some(UNSUPPORTED_VERSION), "{asked:?}");
    }
    assert_eq!(described(&mut control, "two-phase"), open, "the refusal changed nothing");
    assert_eq!(init_producer_id(&cluster, "two-phase", ENABLE), Some(OK));
    let now = described(&mut control, "two-phase");
    assert_eq!((now.phase, now.timeout_ms), (TransactionPhase::Empty, i32::MAX), "what was prepared is aborted; no timeout from now on");
    assert_eq!(committed(&mut judge, "two-phase"), Vec::<String>::new());
    assert_eq!(control.end_transaction("two-phase", open.producer, Decision::Commit).expect("an answer"), Ended::Fenced);
    // The next handle of librdkafka brings its timeout back.
    let _writer = Writer::open(&cluster, "two-phase", 60_000);
    assert_eq!(described(&mut control, "two-phase").timeout_ms, 60_000);
}

#[test]
fn without_its_setting_the_broker_refuses_two_phase_producers() {
    let cluster = Cluster::start(&Options::one().with("unstable.api.versions.enable", "true")).expect("a broker");
    let mut control = control(&cluster);
    control.fence("two-phase-off", 60_000).expect("the coordinator is ready");
    for asked in [ENABLE, BOTH] {
        assert_eq!(init_producer_id(&cluster, "two-phase-off", asked), Some(TRANSACTIONAL_ID_AUTHORIZATION_FAILED), "{asked:?}");
    }
    assert_eq!(init_producer_id(&cluster, "two-phase-off", KEEP), Some(UNSUPPORTED_VERSION));
    assert_eq!(init_producer_id(&cluster, "two-phase-off", NEITHER), Some(OK), "the version itself is offered");
}
