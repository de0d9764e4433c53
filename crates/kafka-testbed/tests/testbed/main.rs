//! The testbed itself: brokers start, are killed and come back, and leave nothing behind.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests start processes and look at what they leave")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use staunch_kafka_testbed::{Cluster, Options, shared};

#[test]
fn a_broker_answers_and_the_judge_sees_that_nothing_is_there() {
    let mut judge = shared().judge().expect("a judge");
    judge.create_topic("nothing", 2).expect("a topic");
    assert_eq!(judge.read("nothing").expect("records"), []);
    let ends = judge.ends("nothing").expect("ends");
    assert_eq!(ends.iter().map(|e| (e.partition, e.high_watermark, e.last_stable_offset)).collect::<Vec<_>>(), [(0, 0, 0), (1, 0, 0)]);
    assert!(judge.read("unknown").expect_err("there is no such topic").to_string().contains("unknown"));
    assert_eq!(shared().transactions().expect("a list"), []);
}

#[test]
fn a_cluster_of_three_answers_while_one_broker_is_dead_and_takes_it_back() {
    let mut cluster = Cluster::start(&Options::three()).expect("three brokers");
    let mut judge = cluster.judge().expect("a judge");
    judge.create_topic("replicated", 3).expect("a topic");
    cluster.kill(2).expect("a broker to kill");
    assert_eq!(judge.ends("replicated").expect("two brokers lead all partitions").len(), 3);
    cluster.restart(2).expect("the killed broker starts on its old storage");
    assert!(cluster.kill(4).is_err(), "there is no fourth broker");
}

#[test]
fn a_killed_process_leaves_neither_brokers_nor_files() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kafka-cluster"));
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    let said = BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let folder = said.filter_map(|line| line.strip_prefix("folder ").map(str::to_owned)).next().expect("the folder");
    let pid = fs::read_to_string(Path::new(&folder).join("broker-1/pid")).expect("the broker's process id");
    let running = || fs::read(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|line| !line.is_empty());
    assert!(running(), "the broker runs");
    process.kill().expect("the program runs");
    process.wait().expect("the program was killed");
    // The janitor holds the other end, and closes it last of all.
    process.stderr.take().expect("a pipe").read_to_end(&mut Vec::new()).expect("the janitor ends");
    assert!(!running(), "the broker was killed");
    assert!(fs::metadata(&folder).is_err(), "the folder is gone");
}
