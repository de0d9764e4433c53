use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

fn parse(settings: &[(&str, &str)]) -> Result<ClientSettings> {
    ClientSettings::parse(&settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<BTreeMap<String, String>>())
}

#[track_caller]
fn refused(settings: &[(&str, &str)], code: &str, named: &str) {
    let error = parse(settings).expect_err("it cannot work");
    assert_eq!((error.code(), error.kind()), (code, ErrorKind::Invalid), "{error}");
    assert!(error.to_string().contains(named), "{error}");
    assert!(error.to_string().contains("do: "), "{error}");
}

#[test]
fn addresses_are_read_in_every_form_that_librdkafka_takes() {
    let read = |text: &str| Address::parse(text).map(|address| address.to_string());
    for (text, expected) in [
        ("broker:9093", Some("broker:9093")),
        ("broker", Some("broker:9092")),
        ("ssl://broker:1", Some("broker:1")),
        ("10.0.0.1:9092", Some("10.0.0.1:9092")),
        ("[::1]:9092", Some("[::1]:9092")),
        ("[::1]", Some("[::1]:9092")),
        ("broker:0", None),
        ("broker:x", None),
        ("broker:65536", None),
        (":9092", None),
        ("[::1", None),
        ("[::1]9092", None),
        ("", None),
    ] {
        assert_eq!(read(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn brokers_without_security_need_an_address_only() {
    let settings = parse(&[("bootstrap.servers", " a:1, b ,"), ("linger.ms", "5")]).expect("settings");
    assert_eq!(settings.bootstrap.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "b:9092"]);
    assert_eq!((settings.tls, settings.login), (None, None));
    assert_eq!(parse(&[("metadata.broker.list", "a:1")]).expect("the older name").bootstrap.len(), 1);
}

#[test]
fn every_setting_of_tls_and_login_is_followed() {
    let settings = parse(&[
        ("bootstrap.servers", "a"),
        ("security.protocol", "SASL_SSL"),
        ("ssl.ca.location", "/ca.pem"),
        ("ssl.certificate.location", "/own.pem"),
        ("ssl.key.pem", "-----BEGIN"),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("sasl.mechanisms", "SCRAM-SHA-512"),
        ("sasl.username", "user"),
        ("sasl.password", "secret"),
        ("socket.timeout.ms", "1500"),
        ("socket.connection.setup.timeout.ms", "2500"),
    ])
    .expect("settings");
    let tls = settings.tls.as_ref().expect("TLS");
    assert_eq!(tls.authorities, Some(Pem::File("/ca.pem".into())));
    assert_eq!(tls.identity, Some((Pem::File("/own.pem".into()), Pem::Text("-----BEGIN".into()))));
    assert_eq!(tls.names, NameCheck::AnyName);
    let login = settings.login.as_ref().expect("a login");
    assert_eq!((login.mechanism, login.user.as_str(), login.password.as_str()), (Mechanism::ScramSha512, "user", "secret"));
    assert_eq!(settings.request_time_max, Duration::from_millis(1500));
    assert_eq!(settings.connect_time_max, Duration::from_millis(2500));
    assert!(!format!("{settings:?}").contains("secret"), "passwords are not printed");
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    refused(&[], "K001", "bootstrap.servers");
    refused(&[("bootstrap.servers", "")], "K001", "bootstrap.servers");
    refused(&[("bootstrap.servers", ",")], "K002", "bootstrap.servers");
    refused(&[("bootstrap.servers", "a:b")], "K002", "a:b");
    let with = |more: &[(&'static str, &'static str)]| [&[("bootstrap.servers", "a")], more].concat();
    refused(&with(&[("security.protocol", "tls")]), "K002", "sasl_ssl");
    refused(&with(&[("socket.timeout.ms", "0")]), "K002", "socket.timeout.ms");
    refused(&with(&[("security.protocol", "ssl"), ("ssl.key.location", "k")]), "K001", "ssl.certificate.location");
    refused(&with(&[("security.protocol", "ssl"), ("ssl.certificate.location", "c")]), "K001", "ssl.key.location");
    refused(&with(&[("security.protocol", "ssl"), ("ssl.endpoint.identification.algorithm", "x")]), "K002", "https or none");
    refused(&with(&[("security.protocol", "ssl"), ("ssl.key.password", "p")]), "K003", "ssl.key.password");
    refused(&with(&[("security.protocol", "ssl"), ("enable.ssl.certificate.verification", "false")]), "K003", "verification");
    let login = |more: &[(&'static str, &'static str)]| [&with(&[("security.protocol", "sasl_plaintext")])[..], more].concat();
    refused(&login(&[]), "K001", "sasl.mechanism");
    refused(&login(&[("sasl.mechanism", "GSSAPI")]), "K002", "GSSAPI");
    refused(&login(&[("sasl.mechanism", "PLAIN")]), "K001", "sasl.username");
    refused(&login(&[("sasl.mechanism", "PLAIN"), ("sasl.username", "u")]), "K001", "sasl.password");
}

proptest::proptest! {
    #[test]
    fn an_address_is_read_as_it_is_printed_and_nothing_else_is_one(text in "(ssl://)?[a-z0-9.:\\[\\]]{0,12}(:[0-9]{0,6})?") {
        if let Some(address) = Address::parse(&text) {
            assert_eq!(Address::parse(&address.to_string()).as_ref(), Some(&address), "{text}");
        }
    }
}

#[test]
fn brackets_stand_around_an_address_and_nowhere_else() {
    for text in ["[[.n]", "[a]b]", "a]", "[", "[]", "[::1", "[::1]9092"] {
        assert_eq!(Address::parse(text), None, "{text}");
    }
    assert_eq!(Address::parse("[::1]:1").map(|address| address.host), Some("::1".to_owned()));
}
