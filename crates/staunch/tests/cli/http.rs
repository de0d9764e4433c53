//! The HTTP interface of a job's program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::harness::{Place, Running, run};

/// How long a program may take for what takes a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks for a page by plain TCP.
fn ask(address: SocketAddr, page: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET {page} HTTP/1.1\r\nHost: {address}\r\n{more}\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The value of a figure, if it has one.
fn value(page: &str, figure: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.strip_prefix(figure).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok())
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
    let mut job = place.job(&["--http", "0", "--rate", "100", "--checkpoint-interval", "50ms"]);
    let mut running = Running::start(job.arg("--http-token-file").arg(place.path("token")));
    let address = address_in(&running.wait_for("figures for Prometheus at "));
    assert!(address.ip().is_loopback());
    assert!(ask(address, "/metrics", "").starts_with("HTTP/1.1 401 "));
    let deadline = Instant::now() + PATIENCE;
    let page = loop {
        let page = ask(address, "/metrics", "Authorization: Bearer a-secret\r\n");
        assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
        if value(&page, r#"staunch_commits_total{job="flights-per-hour",sink="on-time"}"#) > Some(0.0) {
            break page;
        }
        assert!(Instant::now() < deadline, "nothing is ever committed:\n{page}");
    };
    for figure in [
        r#"staunch_records_in_total{job="flights-per-hour",operator="flights"}"#,
        r#"staunch_checkpoint_duration_seconds_count{job="flights-per-hour"}"#,
        r#"staunch_epoch_committed{job="flights-per-hour"}"#,
        r#"staunch_tasks{job="flights-per-hour"}"#,
        r#"staunch_commit_latency_seconds_count{job="flights-per-hour",sink="on-time"}"#,
    ] {
        assert!(value(&page, figure) > Some(0.0), "{figure} in\n{page}");
    }
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
