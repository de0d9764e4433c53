//! TLS, logins and rights, by the settings of librdkafka, against a broker that demands them.

use staunch_kafka::control::{Decision, Operation, Producer};
use staunch_kafka_testbed::{Listener, shared};
use staunch_types::ErrorKind;

use crate::writer::{control_with, judged_topic};

const PLAIN: (&str, &str) = ("sasl.mechanism", "PLAIN");
const SCRAM_256: (&str, &str) = ("sasl.mechanism", "SCRAM-SHA-256");
const SCRAM_512: (&str, &str) = ("sasl.mechanisms", "SCRAM-SHA-512");
const ADMIN: [(&str, &str); 2] = [("sasl.username", "admin"), ("sasl.password", "admin-secret")];
const STRANGER: [(&str, &str); 2] = [("sasl.username", "admin"), ("sasl.password", "app-secret")];

/// What these settings are worth at a listener: `ok` or the code of the error.
fn outcome(listener: Listener, settings: &[(&str, &str)]) -> String {
    at(&shared().address(listener), settings)
}

fn at(bootstrap: &str, settings: &[(&str, &str)]) -> String {
    let asked = control_with(bootstrap, settings).and_then(|mut control| control.cluster());
    asked.map_or_else(|error| error.code().to_owned(), |_| "ok".to_owned())
}

fn path(path: &std::path::Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn each_mechanism_logs_in_with_and_without_tls_and_a_wrong_password_does_not() {
    let authority = ("ssl.ca.location", path(&shared().certificates().authority));
    for mechanism in [PLAIN, SCRAM_256, SCRAM_512] {
        for (listener, protocol) in [(Listener::Sasl, "SASL_PLAINTEXT"), (Listener::SaslTls, "sasl_ssl")] {
            let settings =
                |login: [(&'static str, &'static str); 2]| [("security.protocol", protocol), authority, mechanism, login[0], login[1]];
            assert_eq!(outcome(listener, &settings(ADMIN)), "ok", "{mechanism:?} {protocol}");
            assert_eq!(outcome(listener, &settings(STRANGER)), "K013", "{mechanism:?} {protocol}");
        }
    }
}

#[test]
fn a_broker_that_wants_a_certificate_gets_ours() {
    let made = shared().certificates();
    let trusting = [("security.protocol", "ssl"), ("ssl.ca.location", path(&made.authority))];
    let own = [("ssl.certificate.location", path(&made.client_certificate)), ("ssl.key.location", path(&made.client_key))];
    assert_eq!(outcome(Listener::Tls, &[trusting, own].concat()), "ok");
    assert_eq!(outcome(Listener::Tls, &trusting), "K012", "it demands a certificate");
    let certificate = std::fs::read_to_string(&made.client_certificate).expect("PEM");
    let key = std::fs::read_to_string(&made.client_key).expect("PEM");
    let as_text = [("ssl.certificate.pem", certificate.as_str()), ("ssl.key.pem", key.as_str())];
    assert_eq!(outcome(Listener::Tls, &[trusting, as_text].concat()), "ok");
}

#[test]
fn a_broker_that_cannot_be_trusted_is_not_talked_to() {
    let made = shared().certificates();
    let login = [("security.protocol", "sasl_ssl"), PLAIN, ADMIN[0], ADMIN[1]];
    let trusting = |authority| [&login[..], &[("ssl.ca.location", path(authority))]].concat();
    assert_eq!(outcome(Listener::SaslTls, &trusting(&made.other_authority)), "K012", "signed by another authority");
    // The certificate is for 127.0.0.1 and for no name.
    let named = shared().address(Listener::SaslTls).replace("127.0.0.1", "localhost");
    assert_eq!(at(&named, &trusting(&made.authority)), "K012", "the name does not fit");
    let any_name = ("ssl.endpoint.identification.algorithm", "none");
    assert_eq!(at(&named, &[&trusting(&made.authority)[..], &[any_name]].concat()), "ok", "any name will do");
    assert_eq!(at(&named, &[&trusting(&made.other_authority)[..], &[any_name]].concat()), "K012", "any name, but not any authority");
}

#[test]
fn a_listener_of_another_kind_is_an_error_and_not_a_wait() {
    let made = shared().certificates();
    let tls = [("security.protocol", "ssl"), ("ssl.ca.location", path(&made.authority))];
    assert_eq!(outcome(Listener::Plain, &tls), "K012", "TLS to a port without it");
    assert_eq!(outcome(Listener::Tls, &[]), "K011", "no TLS to a port with it");
    assert_eq!(outcome(Listener::Sasl, &[]), "K011", "no login where one is wanted");
}

#[test]
fn files_that_hold_no_certificates_are_named() {
    let made = shared().certificates();
    for (name, file) in [("ssl.ca.location", "/nowhere/ca.pem"), ("ssl.ca.location", path(&made.client_key))] {
        let error = control_with("unused:1", &[("security.protocol", "ssl"), (name, file)]).expect_err("it cannot be used");
        assert_eq!((error.code(), error.kind()), ("K004", ErrorKind::Invalid), "{error}");
        assert!(error.to_string().contains(file), "{error}");
    }
    let swapped = [
        ("security.protocol", "ssl"),
        ("ssl.ca.location", path(&made.authority)),
        ("ssl.certificate.location", path(&made.client_certificate)),
        ("ssl.key.location", path(&made.authority)),
    ];
    assert_eq!(control_with("unused:1", &swapped).expect_err("no key in it").code(), "K004");
}

#[test]
fn a_user_without_rights_is_told_which_ones_are_missing() {
    let _judge = judged_topic(shared(), "rights");
    let login = [("security.protocol", "sasl_plaintext"), PLAIN, ("sasl.username", "app"), ("sasl.password", "app-secret")];
    let mut control = control_with(&shared().address(Listener::Sasl), &login).expect("a client");
    assert_eq!(control.cluster().expect("anybody may ask").allowed.to(Operation::Describe), Some(false));
    assert_eq!(control.list_transactions("").expect("only one's own are listed"), []);
    let errors = [
        control.describe_transaction("rights").expect_err("denied"),
        control.end_transaction("rights", Producer { id: 1, epoch: 1 }, Decision::Commit).expect_err("denied"),
        control.fence("rights", 1000).expect_err("denied"),
        control.topic("rights").expect_err("denied"),
    ];
    for (error, named) in errors.iter().zip(["transactional id", "transactional id", "transactional id", "topic"]) {
        assert_eq!((error.code(), error.kind()), ("K021", ErrorKind::Invalid), "{error}");
        assert!(error.to_string().contains(&format!("on the {named}")), "{error}");
    }
}

#[test]
fn the_cluster_its_topics_and_its_settings_are_described() {
    let _judge = judged_topic(shared(), "described");
    let mut control = control_with(&shared().bootstrap(), &[]).expect("a client");
    let cluster = control.cluster().expect("an answer");
    let addresses: Vec<String> = cluster.brokers.iter().map(|broker| broker.address.to_string()).collect();
    assert_eq!(addresses, [shared().bootstrap()]);
    assert_eq!(cluster.allowed.to(Operation::IdempotentWrite), Some(true));
    let topic = control.topic("described").expect("an answer").expect("it was made");
    assert_eq!(topic.partitions.iter().map(|p| (p.number, p.leader)).collect::<Vec<_>>(), [(0, Some(1))]);
    assert_eq!((topic.allowed.to(Operation::Write), topic.allowed.to(Operation::Read)), (Some(true), Some(true)));
    assert_eq!(control.topic("not-made").expect("an answer"), None);
    let names = ["transaction.max.timeout.ms", "transactional.id.expiration.ms", "offsets.retention.minutes", "no.such.setting"];
    let settings = control.broker_settings(&cluster.brokers[0], &names).expect("an answer");
    let expected =
        [("offsets.retention.minutes", "10080"), ("transaction.max.timeout.ms", "900000"), ("transactional.id.expiration.ms", "604800000")];
    assert_eq!(settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
}
