//! Copies topic `NAME-in`, up to the end it has at the first start, to `NAME-out`, slowly; kills itself where it is told to.
//!
//! usage: kafka-copy NAME BROKERS CHECKPOINTS PARALLELISM TIMEOUT_MS [journal] [die-durable=EPOCH] [die-committed=EPOCH]
//! An epoch stands for the first one from it on; the first has to have output.
#![allow(clippy::disallowed_methods, clippy::expect_used, reason = "a program of the tests: what is wrong with its words is their fault")]

use std::hint::spin_loop;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Environment, Settings};
use staunch_kafka::{KafkaSink, KafkaSource, StopAt};
use staunch_kafka_e2e::{EXIT_FAILED, EXIT_LOST, Payment};
use staunch_types::ErrorKind;

/// What a record takes, so that a job lasts for several checkpoints.
const WORK: Duration = Duration::from_micros(60);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, brokers, checkpoints, parallelism, timeout_ms, rest @ ..] = words.as_slice() else { panic!("words are missing") };
    let epoch = |what: &str| rest.iter().find_map(|word| word.strip_prefix(what)).map(|text| text.parse::<u64>().expect("an epoch"));
    let (die_durable, die_committed) = (epoch("die-durable="), epoch("die-committed="));
    let mut settings = Settings::new();
    settings.parallelism = parallelism.parse().expect("a number");
    settings.checkpoint_directory = Some(PathBuf::from(checkpoints));
    settings.run.interval = Duration::from_millis(100);
    let mut environment = Environment::new(settings);
    environment.on_event(move |event| match event {
        // A number that was given to an epoch which nobody completed is not used again.
        JobEvent::EpochDurable { epoch, committables: 1.., .. } if die_durable.is_some_and(|from| epoch.0 >= from) => die(),
        JobEvent::EpochCommitted { epoch } if die_committed.is_some_and(|from| epoch.0 >= from) => die(),
        JobEvent::EpochFailed { error, .. } | JobEvent::Restarting { error, .. } => eprintln!("{error}"),
        _ => {}
    });
    let mut sink = KafkaSink::json::<Payment>(brokers, &format!("{name}-out"))
        .key(|p: &Payment| p.account.to_string().into_bytes())
        .transaction_timeout(Duration::from_millis(timeout_ms.parse().expect("a number")));
    if rest.iter().any(|word| word == "journal") {
        sink = sink.journal();
    }
    environment
        .source("in", KafkaSource::json::<Payment>(brokers, &format!("{name}-in")).stop(StopAt::Latest))
        .map(|payment: Payment| {
            let began = Instant::now();
            while began.elapsed() < WORK {
                spin_loop();
            }
            payment
        })
        .sink("out", sink);
    if let Err(error) = environment.execute(name) {
        eprintln!("{error}");
        std::process::exit(if error.kind() == ErrorKind::Lost { EXIT_LOST } else { EXIT_FAILED });
    }
}

/// As a power cut would: nothing is flushed, nobody is told.
fn die() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).expect("a signal");
}
