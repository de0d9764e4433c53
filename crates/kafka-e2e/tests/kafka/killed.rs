//! Jobs in processes of their own that die: at random, or at a step. The judge sees each message once, and no open transaction.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use staunch_e2e::process::{Finished, Running};
use staunch_kafka::control::Interrupt;
use staunch_kafka::{ClientSettings, Control};
use staunch_kafka_e2e::EXIT_LOST;
use staunch_kafka_testbed::shared;

use crate::jobs::{cents, fill, in_order, once_each, seen, topics};

/// Long enough for anything that is to happen at all.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a job runs.
#[derive(Clone, Copy)]
struct Run<'a> {
    name: &'a str,
    folder: &'a Path,
    parallelism: u32,
    /// Kills itself when this epoch, or one after it, is durable and nothing of it is committed.
    die_durable: Option<u64>,
    /// Kills itself when this epoch, or one after it, is committed and recorded.
    die_committed: Option<u64>,
    timeout: Duration,
    journal: bool,
}

impl Run<'_> {
    fn start(&self) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kafka-copy"));
        command.arg(self.name).arg(shared().bootstrap()).arg(self.folder);
        command.arg(self.parallelism.to_string()).arg(self.timeout.as_millis().to_string());
        command.args(self.journal.then_some("journal"));
        command.args(self.die_durable.map(|epoch| format!("die-durable={epoch}")));
        command.args(self.die_committed.map(|epoch| format!("die-committed={epoch}")));
        Running::start(command).expect("a process")
    }

    fn finish(&self) -> Finished {
        self.start().wait(PATIENCE).expect("an end")
    }

    fn ends_well(&self) {
        self.finish().expect(0).unwrap_or_else(|error| panic!("{error:#}"));
    }

    fn dies(&self) {
        let finished = self.finish();
        assert!(finished.was_killed(), "the job should have been killed: {} {}", finished.status, finished.errors);
    }
}

fn run<'a>(name: &'a str, folder: &'a Path) -> Run<'a> {
    Run { name, folder, parallelism: 2, die_durable: None, die_committed: None, timeout: Duration::from_secs(600), journal: false }
}

fn prepare(name: &str, messages: i64) -> tempfile::TempDir {
    topics(&[(&format!("{name}-in"), 3), (&format!("{name}-out"), 2)]);
    fill(&format!("{name}-in"), 0..messages);
    tempfile::tempdir().expect("a folder")
}

fn check(name: &str, messages: i64) {
    let records = seen(&format!("{name}-out"));
    let (found, expected) = (cents(&records), once_each(0..messages));
    let wrong: BTreeMap<i64, usize> = found.iter().filter(|(_, times)| **times != 1).map(|(cents, times)| (*cents, *times)).collect();
    assert!(wrong.is_empty(), "doubled: {wrong:?}");
    let missing: Vec<&i64> = expected.keys().filter(|cents| !found.contains_key(*cents)).collect();
    assert!(missing.is_empty() && found.len() == expected.len(), "lost: {missing:?}");
    in_order(&records);
}

#[test]
fn row_08_a_transaction_of_a_durable_epoch_is_committed_at_the_restart() {
    let folder = prepare("row-08", 40_000);
    let run = run("row-08", folder.path());
    for (epoch, parallelism) in [(1, 2), (3, 1), (5, 3)] {
        Run { die_durable: Some(epoch), parallelism, ..run }.dies();
    }
    run.ends_well();
    check("row-08", 40_000);
}

#[test]
fn report_03_restoring_twice_finds_the_commit_done() {
    let folder = prepare("report-03", 40_000);
    let run = run("report-03", folder.path());
    Run { die_committed: Some(2), ..run }.dies();
    Run { die_durable: Some(3), ..run }.dies();
    run.ends_well();
    check("report-03", 40_000);
}

#[test]
fn kills_at_random_lose_and_double_nothing() {
    let folder = prepare("killed", 60_000);
    let run = run("killed", folder.path());
    // Times without a pattern; each start is with another number of tasks.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for kill in 0..12 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let delay = Duration::from_millis(150 + (state >> 33) % 900);
        // It may have come to its end.
        drop(Run { parallelism: 1 + kill % 3, ..run }.start().kill_after(delay));
    }
    run.ends_well();
    check("killed", 60_000);
}

/// Down for longer than the broker keeps a transaction in doubt: the loss is proven and named, and with a journal it is mended.
#[test]
fn row_11_a_transaction_that_timed_out_stops_the_job_or_is_written_again() {
    for (name, journal) in [("row-11", false), ("row-11-journal", true)] {
        let folder = prepare(name, 20_000);
        let run = Run { timeout: Duration::from_secs(2), journal, ..run(name, folder.path()) };
        Run { die_durable: Some(2), ..run }.dies();
        // The broker looks for transactions to abort each ten seconds at most.
        let named = BTreeMap::from([("bootstrap.servers".to_owned(), shared().bootstrap())]);
        let mut control = Control::new(ClientSettings::parse(&named).expect("settings"), Interrupt::default()).expect("a client");
        let began = Instant::now();
        while control.list_transactions(&format!("staunch+{name}+")).expect("a list").iter().any(|listed| listed.phase.is_open()) {
            assert!(began.elapsed() < PATIENCE, "the broker never aborted the transaction");
        }
        if journal {
            Run { timeout: Duration::from_secs(600), ..run }.ends_well();
            check(name, 20_000);
        } else {
            for _ in 0..2 {
                let Finished { errors: said, .. } = run.finish().expect(EXIT_LOST).unwrap_or_else(|error| panic!("{error:#}"));
                for needed in ["epoch=", "sink=out", &format!("{name}-out"), "records="] {
                    assert!(said.contains(needed), "\"{needed}\" is not named:\n{said}");
                }
            }
        }
    }
}
