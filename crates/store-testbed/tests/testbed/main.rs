//! The proxies lose what they should, and servers end with their owner.
#![allow(clippy::disallowed_types, clippy::expect_used, reason = "it looks through sockets")]

use std::io::{Read, Write};
use std::net::TcpStream;

use staunch_store_testbed::{Faults, HttpProxy, Kind, S3};

/// The status line of an answer; empty when there is none.
fn ask(endpoint: &str, request: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(endpoint.trim_start_matches("http://")) else { return String::new() };
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    let _reset = stream.read_to_string(&mut answer);
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_lost_answer_was_carried_out_and_a_refused_request_was_not() {
    let server = S3::start(Kind::Ministack).expect("a server");
    let proxy = HttpProxy::start(server.port(), &Faults { every: 1, ..Faults::default() }).expect("a proxy");
    let put = |key: &str| format!("PUT /{}/{key} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx", server.bucket());
    let is_there = |key: &str| {
        let head = format!("HEAD /{}/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", server.bucket());
        ask(&server.endpoint(), &head).contains("200")
    };
    let said: Vec<String> = (0..5).map(|key| ask(&proxy.endpoint(), &put(&key.to_string()))).collect();
    let there: Vec<bool> = (0..5).map(|key| is_there(&key.to_string())).collect();
    assert!(
        said[0].contains("500") && said[1].is_empty() && said[2].contains("503") && said[3].contains("200") && said[4].is_empty(),
        "{said:?}"
    );
    assert_eq!(there, [false, true, false, true, true]);
    let tally = proxy.tally();
    assert_eq!((tally.requests, tally.refused, tally.lost, tally.delayed), (5, 2, 2, 1));
}

#[test]
fn a_server_ends_with_its_owner() {
    for kind in [Kind::Moto, Kind::Ministack] {
        let server = S3::start(kind).expect("a server");
        let port = server.port();
        assert_eq!(server.uploads().expect("an answer"), 0);
        drop(server);
        assert!(ask(&format!("127.0.0.1:{port}"), "GET / HTTP/1.1\r\nhost: x\r\n\r\n").is_empty(), "{kind:?} still answers");
    }
}
