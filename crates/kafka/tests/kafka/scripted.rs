//! What the control client does about answers that a healthy broker seldom gives, from a broker that follows a script.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsResponse, DescribeClusterResponse, DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, ListTransactionsResponse, MetadataResponse, RequestHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use staunch_kafka::control::{Decision, Described, Ended, Identity, Interrupt, Producer, TransactionPhase};
use staunch_kafka::{ClientSettings, Control};
use staunch_types::{Error, ErrorKind};

const CONCURRENT_TRANSACTIONS: i16 = 51;
const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const NOT_COORDINATOR: i16 = 16;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
const TRANSACTIONAL_ID_NOT_FOUND: i16 = 105;
const INVALID_RECORD: i16 = 87;
const ATTEMPTS_MAX: u32 = 8;
/// Partitions of the coordinators' topic.
const STATE_PARTITIONS: i32 = 3;
/// Requests that are remembered.
const HEARD_MAX: usize = 1000;
const PRODUCER: Producer = Producer { id: 1, epoch: 0 };

/// What the broker does about a request about transactions. The last line of a script is followed for ever.
#[derive(Clone, Debug)]
enum Line {
    /// Answers with an error code.
    Code(i16),
    /// Answers that all is well, and that the transaction is in this phase.
    Phase(&'static str),
    /// Answers that the transaction of this start is in this phase.
    Begun(&'static str, i64),
    /// Closes the connection: it is not known whether the request was done.
    Close,
    /// Answers another request.
    OtherNumber,
    /// Answers with these bytes.
    Raw(&'static [u8]),
}

/// A broker that tells what it was asked.
struct Scripted {
    address: String,
    heard: Receiver<ApiKey>,
}

impl Scripted {
    fn start(script: Vec<Line>) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (tell, heard) = sync_channel(HEARD_MAX);
        thread::spawn(move || {
            let mut script = script;
            for socket in listener.incoming().map_while(Result::ok) {
                serve(socket, port, &mut script, |key| tell.try_send(key).is_ok());
            }
        });
        Scripted { address: format!("127.0.0.1:{port}"), heard }
    }

    fn control(&self, interrupt: Interrupt) -> Control {
        let settings = [("bootstrap.servers".to_owned(), self.address.clone())].into();
        let settings = ClientSettings::parse(&settings).expect("settings");
        Control::new(ClientSettings { attempts_max: ATTEMPTS_MAX, ..settings }, interrupt).expect("a client")
    }

    /// The requests so far, without those for versions.
    fn heard(&self) -> Vec<ApiKey> {
        self.heard.try_iter().filter(|key| *key != ApiKey::ApiVersions).collect()
    }

    fn describe(&self) -> Result<Described, Error> {
        self.control(Interrupt::default()).describe_transaction("id")
    }

    fn commit(&self) -> Result<Ended, Error> {
        self.control(Interrupt::default()).end_transaction("id", PRODUCER, Decision::Commit)
    }
}

/// Serves one connection until it ends or the script closes it.
fn serve(mut socket: TcpStream, port: u16, script: &mut Vec<Line>, hear: impl Fn(ApiKey) -> bool) {
    while let Some(Received { key, version, number, body }) = receive(&mut socket) {
        if !hear(key) {
            return;
        }
        let (mut number, header, mut body) = match key {
            ApiKey::ApiVersions => (number, 0, encoded(&versions(), version)),
            ApiKey::FindCoordinator => (number, FindCoordinatorResponse::header_version(version), coordinators(body, version, port)),
            ApiKey::Metadata => (number, MetadataResponse::header_version(version), encoded(&state_topic(), version)),
            ApiKey::DescribeCluster => {
                let broker = DescribeClusterBroker::default().with_host(StrBytes::from_static_str("127.0.0.1")).with_port(port.into());
                let found = DescribeClusterResponse::default().with_brokers(vec![broker]);
                (number, DescribeClusterResponse::header_version(version), encoded(&found, version))
            }
            _ => {
                let line = if script.len() > 1 { script.remove(0) } else { script[0].clone() };
                match answer(&line, key, version, body) {
                    None => return,
                    Some((header, body)) => (if let Line::OtherNumber = line { number + 1 } else { number }, header, body),
                }
            }
        };
        if body.starts_with(HUGE) {
            (number, body) = (i32::MAX, Bytes::new());
        }
        let mut frame = number.to_be_bytes().to_vec();
        frame.extend(std::iter::repeat_n(0, usize::from(header > 0)));
        frame.extend(&body);
        let length = if number == i32::MAX { u32::MAX } else { u32::try_from(frame.len()).expect("small") };
        if socket.write_all(&length.to_be_bytes()).and_then(|()| socket.write_all(&frame)).is_err() {
            return;
        }
    }
}

/// Stands for an answer that says to be larger than any.
const HUGE: &[u8] = b"huge";

/// This broker, for each id that is asked about.
fn coordinators(mut asked: Bytes, version: i16, port: u16) -> Bytes {
    let asked = FindCoordinatorRequest::decode(&mut asked, version).expect("a request");
    let host = StrBytes::from_static_str("127.0.0.1");
    let one = |key| Coordinator::default().with_key(key).with_host(host.clone()).with_port(port.into());
    let found = FindCoordinatorResponse::default();
    let found = match version {
        4.. => found.with_coordinators(asked.coordinator_keys.into_iter().map(one).collect()),
        _ => found.with_host(host).with_port(port.into()),
    };
    encoded(&found, version)
}

fn state_topic() -> MetadataResponse {
    let partitions = (0..STATE_PARTITIONS).map(|number| MetadataResponsePartition::default().with_partition_index(number));
    MetadataResponse::default().with_topics(vec![MetadataResponseTopic::default().with_partitions(partitions.collect())])
}

fn answer(line: &Line, key: ApiKey, version: i16, mut asked: Bytes) -> Option<(i16, Bytes)> {
    let (code, phase, start_ms) = match line {
        Line::Code(code) => (*code, "", 0),
        Line::Phase(phase) => (0, *phase, 0),
        Line::Begun(phase, start_ms) => (0, *phase, *start_ms),
        Line::OtherNumber => (0, "Ongoing", 0),
        Line::Raw(bytes) => return Some((1, Bytes::from_static(bytes))),
        Line::Close => return None,
    };
    if key == ApiKey::EndTxn {
        return Some((EndTxnResponse::header_version(version), encoded(&EndTxnResponse::default().with_error_code(code), version)));
    }
    if key == ApiKey::ListTransactions {
        let listed = ListTransactionsResponse::default().with_error_code(code);
        return Some((ListTransactionsResponse::header_version(version), encoded(&listed, version)));
    }
    let found = TransactionState::default().with_error_code(code).with_transaction_state(StrBytes::from_static_str(phase));
    let found = found.with_producer_id(PRODUCER.id.into()).with_producer_epoch(PRODUCER.epoch).with_transaction_start_time_ms(start_ms);
    // What the script says is about the last of them; of the others nothing is known.
    let asked = DescribeTransactionsRequest::decode(&mut asked, version).expect("a request").transactional_ids.len();
    let mut states = vec![TransactionState::default().with_error_code(TRANSACTIONAL_ID_NOT_FOUND); asked - 1];
    states.push(found);
    let described = DescribeTransactionsResponse::default().with_transaction_states(states);
    Some((DescribeTransactionsResponse::header_version(version), encoded(&described, version)))
}

fn versions() -> ApiVersionsResponse {
    let offer = |key: ApiKey, max: i16| ApiVersion::default().with_api_key(key as i16).with_min_version(0).with_max_version(max);
    let offers = [
        (ApiKey::ApiVersions, 3),
        (ApiKey::FindCoordinator, 4),
        (ApiKey::Metadata, 12),
        (ApiKey::DescribeTransactions, 0),
        (ApiKey::EndTxn, 3),
        (ApiKey::DescribeCluster, 0),
        (ApiKey::ListTransactions, 0),
    ];
    ApiVersionsResponse::default().with_api_keys(offers.map(|(key, max)| offer(key, max)).to_vec())
}

fn encoded<T: Encodable>(message: &T, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version).expect("a message of the protocol");
    bytes.freeze()
}

/// A request.
struct Received {
    key: ApiKey,
    version: i16,
    number: i32,
    body: Bytes,
}

fn receive(socket: &mut TcpStream) -> Option<Received> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut frame).ok()?;
    let mut body = Bytes::from(frame);
    let [key, version] = [[body[0], body[1]], [body[2], body[3]]].map(i16::from_be_bytes);
    let key = ApiKey::try_from(key).expect("a request of the protocol");
    let head = RequestHeader::decode(&mut body, key.request_header_version(version)).expect("a header");
    Some(Received { key, version, number: head.correlation_id, body })
}

#[test]
fn a_coordinator_that_moved_is_looked_for_again() {
    let broker = Scripted::start(vec![Line::Code(NOT_COORDINATOR), Line::Phase("Ongoing")]);
    let Described::Known(found) = broker.describe().expect("an answer") else { panic!("it is known") };
    assert_eq!(found.phase, TransactionPhase::Ongoing);
    let twice = [ApiKey::FindCoordinator, ApiKey::DescribeTransactions, ApiKey::FindCoordinator, ApiKey::DescribeTransactions];
    assert_eq!(broker.heard(), twice);
}

#[test]
fn a_coordinator_that_is_busy_is_asked_again_without_looking_for_another() {
    let busy = Line::Code(COORDINATOR_LOAD_IN_PROGRESS);
    let broker = Scripted::start(vec![busy.clone(), Line::Code(CONCURRENT_TRANSACTIONS), busy, Line::Code(0)]);
    assert_eq!(broker.commit().expect("an answer"), Ended::AsAsked);
    assert_eq!(broker.heard(), [vec![ApiKey::FindCoordinator], vec![ApiKey::EndTxn; 4]].concat());
}

#[test]
fn an_error_that_does_not_pass_ends_after_a_bounded_number_of_attempts() {
    let broker = Scripted::start(vec![Line::Code(CONCURRENT_TRANSACTIONS)]);
    let error = broker.commit().expect_err("it never ends");
    assert_eq!((error.code(), error.kind()), ("K020", ErrorKind::Retry), "{error}");
    assert!(error.to_string().contains("transactional_id=id") && error.to_string().contains(&broker.address), "{error}");
    assert_eq!(broker.heard(), [vec![ApiKey::FindCoordinator], vec![ApiKey::EndTxn; ATTEMPTS_MAX as usize]].concat());
}

#[test]
fn a_commit_whose_answer_is_lost_is_repeated_on_a_new_connection() {
    let broker = Scripted::start(vec![Line::Close, Line::Code(0)]);
    assert_eq!(broker.commit().expect("an answer"), Ended::AsAsked);
    let twice = [ApiKey::FindCoordinator, ApiKey::EndTxn, ApiKey::FindCoordinator, ApiKey::EndTxn];
    assert_eq!(broker.heard(), twice);
}

#[test]
fn a_commit_whose_answer_is_lost_is_repeated_only_if_its_transaction_is_still_the_last_one() {
    let identity = Identity { producer: PRODUCER, start_ms: 5 };
    for (found, ended, ends) in [
        (Line::Begun("Ongoing", 5), Ended::AsAsked, 2),
        (Line::Begun("PrepareCommit", 5), Ended::AsAsked, 1),
        (Line::Begun("CompleteCommit", 5), Ended::AsAsked, 1),
        (Line::Begun("CompleteAbort", 5), Ended::NotOpen, 1),
        // The same producer has begun another one since: a second request would commit that, half written.
        (Line::Begun("Ongoing", 6), Ended::NotOpen, 1),
        (Line::Code(TRANSACTIONAL_ID_NOT_FOUND), Ended::UnknownProducer, 1),
    ] {
        for lost in [Line::Close, Line::Code(CONCURRENT_TRANSACTIONS)] {
            let broker = Scripted::start(vec![lost, found.clone(), Line::Code(0)]);
            let answer = broker.control(Interrupt::default()).end_described("id", identity, Decision::Commit);
            assert_eq!(answer.expect("an answer"), ended, "{found:?}");
            assert_eq!(broker.heard().iter().filter(|key| **key == ApiKey::EndTxn).count(), ends, "{found:?}");
        }
    }
}

#[test]
fn a_commit_that_is_never_answered_is_not_known_to_have_failed() {
    let broker = Scripted::start(vec![Line::Close]);
    let error = broker.commit().expect_err("no answer comes");
    assert_eq!((error.code(), error.kind()), ("K011", ErrorKind::Retry), "{error}");
    let asked = broker.heard().iter().filter(|key| **key == ApiKey::EndTxn).count();
    assert_eq!(asked, 2, "a request that is not answered costs more of the patience");
}

#[test]
fn answers_that_break_the_protocol_are_errors_and_not_answers() {
    for (line, code) in
        [(Line::OtherNumber, "K015"), (Line::Raw(b"\0"), "K015"), (Line::Raw(HUGE), "K011"), (Line::Phase("Sideways"), "K025")]
    {
        let broker = Scripted::start(vec![line.clone()]);
        let error = broker.describe().expect_err("it cannot be read");
        assert_eq!(error.code(), code, "{line:?}: {error}");
        assert!(error.to_string().contains(&broker.address), "{error}");
    }
}

#[test]
fn an_error_nobody_expects_is_reported_by_its_name() {
    let broker = Scripted::start(vec![Line::Code(INVALID_RECORD)]);
    let mut control = broker.control(Interrupt::default());
    let errors = [
        control.describe_transaction("id").map(|_| ()).expect_err("refused"),
        control.end_transaction("id", PRODUCER, Decision::Commit).map(|_| ()).expect_err("refused"),
        control.list_transactions("").map(|_| ()).expect_err("a broker's refusal is not an empty list"),
    ];
    for error in errors {
        assert_eq!((error.code(), error.kind()), ("K022", ErrorKind::Restart), "{error}");
        assert!(error.to_string().contains("invalid record") || error.to_string().contains("InvalidRecord"), "{error}");
    }
}

/// One attempt at a list.
const LISTING: [ApiKey; 5] = [
    ApiKey::DescribeCluster,
    ApiKey::FindCoordinator,
    ApiKey::DescribeTransactions,
    ApiKey::ListTransactions,
    ApiKey::DescribeTransactions,
];

#[test]
fn a_list_is_asked_for_again_until_its_broker_has_loaded_all_that_it_coordinates_and_keeps_it() {
    let (loaded, listed) = (Line::Code(TRANSACTIONAL_ID_NOT_FOUND), Line::Code(0));
    let (loading, moved) = (Line::Code(COORDINATOR_LOAD_IN_PROGRESS), Line::Code(NOT_COORDINATOR));
    let broker = Scripted::start(vec![
        loading.clone(),
        loaded.clone(),
        loading,
        loaded.clone(),
        listed.clone(),
        moved,
        loaded.clone(),
        listed,
        loaded,
    ]);
    assert_eq!(broker.control(Interrupt::default()).list_transactions("").expect("a list"), []);
    let expected = [&[ApiKey::Metadata], &LISTING[..3], &LISTING[..4], &LISTING, &LISTING].concat();
    assert_eq!(broker.heard(), expected);
}

#[test]
fn who_may_not_describe_the_ids_gets_the_list_as_it_is() {
    let broker = Scripted::start(vec![Line::Code(TRANSACTIONAL_ID_AUTHORIZATION_FAILED), Line::Code(0)]);
    assert_eq!(broker.control(Interrupt::default()).list_transactions("").expect("a list"), []);
    let plain = [ApiKey::DescribeCluster, ApiKey::ListTransactions];
    assert_eq!(broker.heard(), [&[ApiKey::Metadata], &LISTING[..3], &plain].concat());
}

#[test]
fn a_broker_without_the_request_is_named_too_old() {
    let broker = Scripted::start(vec![Line::Code(0)]);
    let error = broker.control(Interrupt::default()).fence("id", 1000).expect_err("it does not offer the request");
    assert_eq!((error.code(), error.kind()), ("K014", ErrorKind::Invalid), "{error}");
    assert!(error.to_string().contains("Kafka 3.0"), "{error}");
}

#[test]
fn an_interrupted_client_gives_up_at_its_next_wait() {
    let broker = Scripted::start(vec![Line::Code(CONCURRENT_TRANSACTIONS)]);
    let interrupt = Interrupt::default();
    interrupt.interrupt();
    let error = broker.control(interrupt).end_transaction("id", PRODUCER, Decision::Commit).expect_err("it does not wait");
    assert_eq!((error.code(), error.kind()), ("K023", ErrorKind::Retry), "{error}");
    assert_eq!(broker.heard(), [ApiKey::FindCoordinator, ApiKey::EndTxn]);
}
