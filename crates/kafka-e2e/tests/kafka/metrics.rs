//! Figures of whole jobs, as Prometheus reads them: by plain TCP, while the job runs, is held, or has no brokers.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use staunch_e2e::process::Running;
use staunch_kafka_e2e::job::{Fed, PATIENCE, Start};
use staunch_kafka_testbed::free_port;

use crate::support::{Bed, FED, bed, bed_at, bed_with, breakable, short, slow, until};

/// Where a job serves its figures.
struct Figures {
    address: String,
}

impl Figures {
    fn new() -> Figures {
        Figures { address: format!("127.0.0.1:{}", free_port().expect("a free port")) }
    }

    /// A start that serves them, of a job that goes on at the end of its topic.
    fn served(&self, start: Start) -> Start {
        start.more(&["--http", &self.address, "--follow", "100"])
    }

    /// All figures as they are now; none when the job does not answer.
    fn read(&self) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, page) = answer.split_once("\r\n\r\n")?;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        Some(page.to_owned())
    }

    /// The values of a figure with a label of this value.
    fn values(&self, figure: &str, label: &str) -> Vec<f64> {
        let page = self.read().unwrap_or_default();
        let is_it = |line: &&str| line.strip_prefix(figure).is_some_and(|rest| rest.starts_with('{')) && line.contains(label);
        page.lines().filter(is_it).map(|line| line.rsplit_once(' ').expect("a value").1.parse().expect("a number")).collect()
    }

    /// The value of a figure of a sink.
    fn of(&self, sink: &str, figure: &str) -> Option<f64> {
        let values = self.values(figure, &format!("sink=\"{sink}\""));
        assert!(values.len() <= 1, "{figure} {values:?}");
        values.first().copied()
    }

    fn lag(&self) -> Vec<f64> {
        self.values("staunch_kafka_lag_records", "topic=")
    }
}

/// Messages that were read, payments and others.
fn read(fed: Fed) -> f64 {
    (fed.payments + fed.bad) as f64
}

impl Bed {
    /// Waits until the job has read and committed all there is.
    fn until_done(&self, figures: &Figures) {
        let all = read(self.job.fed);
        let counted = |figure| figures.values(figure, "operator=\"in\"").iter().sum::<f64>();
        until("done", || {
            counted("staunch_records_in_total") + counted("staunch_records_rejected_total") == all
                && ["out", "bad"].iter().all(|sink| figures.of(sink, "staunch_in_doubt_outputs") == Some(0.0))
        });
    }
}

fn goes_on(running: &Running) {
    running.signal(Signal::CONT).expect("a signal");
}

/// The job is asked to stop; the outputs that it has told to be durable.
fn stopped(running: Running) -> u64 {
    running.signal(Signal::TERM).expect("a signal");
    let finished = running.wait(PATIENCE).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
    let outputs = finished.lines.iter().filter_map(|line| line.strip_prefix("durable ")?.split_once(" with ")?.1.parse::<u64>().ok());
    outputs.sum()
}

#[test]
fn lag_grows_while_the_job_is_held_and_goes_to_0_and_its_group_is_told_of_the_end() {
    let mut bed = bed("metrics-lag");
    let figures = Figures::new();
    let start = figures.served(Start::with(2).faults("write sink 1000: hold before")).more(&["--group", "metrics-lag-group"]);
    let running = bed.holds(&start);
    let (before, more) = (bed.job.fed.payments, 40_000);
    let topic = bed.job.topic("in");
    bed.judge.feed(&topic, before..before + more, bed.job.fed.accounts, 0).expect("fed");
    // Beyond what fits between the reader and the step that is held.
    until("behind", || figures.lag().iter().sum::<f64>() > more as f64 / 2.0);
    goes_on(&running);
    until("at the end", || figures.lag() == [0.0; 3]);
    assert_eq!(figures.values("staunch_kafka_partitions", "source=\"in\"").iter().sum::<f64>(), 3.0);
    let ends: Vec<i64> = bed.judge.ends(&topic).expect("ends").iter().map(|end| end.last_stable_offset).collect();
    let told = |bed: &mut Bed| -> Vec<i64> {
        bed.judge.group("metrics-lag-group", &topic).expect("offsets").iter().map(|place| place.offset).collect()
    };
    until("told", || told(&mut bed) == ends);
    assert!(figures.values("staunch_kafka_group_offsets_told_total", "source=\"in\"")[0] >= 1.0);
    stopped(running);
    assert_eq!(told(&mut bed), ends);
    bed.job.fed.payments += more;
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn the_group_of_a_job_that_ends_is_told_of_the_end() {
    let mut bed = bed("metrics-group");
    let start = Start::with(2).more(&["--group", "metrics-group-group"]);
    bed.ends_well_with(&start);
    let topic = bed.job.topic("in");
    let ends: Vec<i64> = bed.judge.ends(&topic).expect("ends").iter().map(|end| end.last_stable_offset).collect();
    let told = bed.judge.group("metrics-group-group", &topic).expect("offsets");
    assert_eq!(told.iter().map(|place| place.offset).collect::<Vec<_>>(), ends);
}

#[test]
fn the_time_left_falls_while_a_commit_is_held_and_each_commit_is_counted() {
    let bed = bed("metrics-commit");
    let figures = Figures::new();
    let running = bed.holds(&figures.served(slow(2, "commit sink 3: hold before")));
    let left = || figures.of("out", "staunch_in_doubt_seconds_left");
    let first = left().expect("something is in doubt");
    assert!(first < 600.0 && first > 0.0, "{first}");
    until("less", || left().expect("it is still in doubt") < first - 1.0);
    assert!(figures.of("out", "staunch_in_doubt_outputs") >= Some(1.0));
    assert!(figures.of("out", "staunch_in_doubt_age_seconds") > Some(1.0));
    goes_on(&running);
    bed.until_done(&figures);
    assert_eq!(left(), None);
    let mut commits = 0.0;
    for sink in ["out", "bad"] {
        let counted = figures.of(sink, "staunch_commits_total").expect("a count");
        assert_eq!(figures.of(sink, "staunch_commit_latency_seconds_count"), Some(counted));
        assert_eq!(figures.of(sink, "staunch_resends_total"), Some(0.0));
        commits += counted;
    }
    assert!(figures.of("out", "staunch_commit_latency_seconds_sum") > Some(1.0), "the held commit was not slow");
    assert!(figures.values("staunch_kafka_transaction_open_seconds", "").is_empty(), "something is being written");
    assert_eq!(stopped(running) as f64, commits);
}

#[test]
fn a_transaction_that_was_lost_and_written_again_is_counted() {
    let mut bed = bed_with("metrics-resend", Fed { bad: 0, ..FED });
    let figures = Figures::new();
    let dying = figures.served(short(slow(1, "commit sink 3: kill before"), true));
    bed.job.dies(&dying).unwrap_or_else(|error| panic!("{error:#}"));
    until("aborted", || bed.open() == 0);
    let running = bed.job.start(&figures.served(short(Start::with(1), true))).expect("a start");
    until("written again", || figures.of("out", "staunch_resends_total") == Some(1.0));
    until("at the end", || figures.lag() == [0.0; 3] && figures.of("out", "staunch_in_doubt_outputs") == Some(0.0));
    assert_eq!(figures.of("out", "staunch_lost_outputs_total"), Some(1.0));
    assert_eq!(figures.of("out", "staunch_resends_total"), Some(1.0));
    assert_eq!(figures.of("out", "staunch_accepted_outputs_total"), Some(0.0));
    stopped(running);
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{error:#}"));
}

/// A start finds in its ledger what is in doubt, and says so though it can ask nobody.
#[test]
fn what_is_in_doubt_is_told_while_the_brokers_are_away() {
    let mut cluster = breakable();
    let mut bed = bed_at(&cluster, "metrics-away", FED);
    let figures = Figures::new();
    bed.job.dies(&figures.served(slow(2, "commit sink 3: kill before"))).unwrap_or_else(|error| panic!("{error:#}"));
    cluster.kill(1).expect("a broker to kill");
    let start = figures.served(Start::with(2)).more(&["--restarts-tolerated", "1000"]);
    let running = bed.job.start(&start).expect("a start");
    let left = || figures.of("out", "staunch_in_doubt_seconds_left");
    until("in doubt", || left().is_some());
    let first = left().expect("it is in doubt");
    until("less", || left().expect("it is still in doubt") < first - 1.0);
    assert!(figures.of("out", "staunch_in_doubt_outputs") >= Some(1.0));
    assert_eq!(figures.values("staunch_tasks", "job="), [0.0]);
    cluster.restart(1).expect("the broker comes back");
    until("committed", || figures.of("out", "staunch_in_doubt_outputs") == Some(0.0) && figures.lag() == [0.0; 3]);
    stopped(running);
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{error:#}"));
}
