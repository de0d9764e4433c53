//! The HTTP interface of a job's program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::harness::{Place, Running, run};

/// Asks for a page by plain TCP.
fn ask(address: SocketAddr, page: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET {page} HTTP/1.1\r\nHost: {address}\r\n{more}\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Where a program serves its figures, by what it says at its start.
fn address_in(line: &str) -> SocketAddr {
    let (_, rest) = line.split_once("http://").expect("an address");
    rest.trim().strip_suffix("/metrics").expect("the page").parse().expect("an address")
}

#[test]
fn figures_are_served_while_the_job_runs_to_whoever_knows_the_token() {
    let place = Place::with_flights(600);
    std::fs::write(place.path("token"), "a-secret\n").expect("written");
    let mut job = place.job(&["--http", "0", "--rate", "100"]);
    let mut running = Running::start(job.arg("--http-token-file").arg(place.path("token")));
    let address = address_in(&running.wait_for("figures for Prometheus at "));
    assert!(address.ip().is_loopback());
    assert!(ask(address, "/metrics", "").starts_with("HTTP/1.1 401 "));
    let answer = ask(address, "/metrics", "Authorization: Bearer a-secret\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    running.signal("TERM");
    running.end().ends_with(0);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn an_address_in_use_is_refused_before_the_job_starts_and_found_by_check() {
    let place = Place::with_flights(1);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    let refused = |command| run(&mut place.job(&[command, "--http", &address])).ends_with(4).complains("error[R104]");
    refused("run").complains("choose another port").complains(&format!("address={address}"));
    assert!(!place.checkpoints().exists() && !place.output().exists(), "the job began");
    refused("check").says("FAIL  http: error[R104]");
    drop(listener);
    run(&mut place.job(&["check", "--http", &address])).ends_with(0).says(&format!("ok    http: it can listen at {address}"));
    run(&mut place.job(&["run", "--http", "0.0.0.0:0"])).ends_with(4).complains("error[R105]").complains("--http-token-file");
}
