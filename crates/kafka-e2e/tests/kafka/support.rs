//! Brokers, topics and folders of the tests with processes.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use staunch_e2e::process::{Finished, Running};
use staunch_e2e::world::HOLDS;
use staunch_kafka::control::{Listed, TransactionPhase};
use staunch_kafka_e2e::job::{Fed, Job, PATIENCE, Start};
use staunch_kafka_testbed::{Cluster, Judge, Options, shared};
use tempfile::TempDir;

/// Payments a second of a job that is to last for several checkpoints.
pub(crate) const SLOW: u64 = 6_000;
/// Time from one look to the next.
const LOOK: Duration = Duration::from_millis(100);
/// For how long nothing must happen before it is believed that nothing is on its way.
const QUIET: Duration = Duration::from_secs(2);
/// What most jobs read.
pub(crate) const FED: Fed = Fed { payments: 8_000, accounts: 50, bad: 40, partitions: 3 };

/// A job with topics and a folder of its own, and somebody who looks at the topics.
pub(crate) struct Bed {
    pub(crate) judge: Judge,
    pub(crate) job: Job,
    _folder: TempDir,
}

/// At the broker that all tests share.
pub(crate) fn bed(name: &str) -> Bed {
    bed_with(name, FED)
}

pub(crate) fn bed_with(name: &str, fed: Fed) -> Bed {
    bed_at(shared(), name, fed)
}

/// Of a job whose topics begin otherwise.
pub(crate) fn bed_named(name: &str, topics: &str) -> Bed {
    let mut bed = bed(topics);
    bed.job.name = name.to_owned();
    bed
}

pub(crate) fn bed_at(cluster: &Cluster, name: &str, fed: Fed) -> Bed {
    let folder = tempfile::Builder::new().prefix("staunch-kafka-e2e-").tempdir().expect("a temporary folder");
    let mut judge = cluster.judge().expect("a judge");
    let program = Path::new(env!("CARGO_BIN_EXE_kafka-job"));
    let job = Job::prepare(program, &cluster.bootstrap(), &mut judge, name, folder.path(), fed).expect("topics");
    Bed { judge, job, _folder: folder }
}

/// A broker that tests may kill, one test at a time.
pub(crate) fn breakable() -> MutexGuard<'static, Cluster> {
    static BREAKABLE: OnceLock<Mutex<Cluster>> = OnceLock::new();
    let cluster = BREAKABLE.get_or_init(|| Mutex::new(Cluster::start(&Options::one()).expect("a broker")));
    cluster.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many tasks, slow, with a script.
pub(crate) fn slow(parallelism: u32, faults: &str) -> Start {
    Start::with(parallelism).rate(SLOW).faults(faults)
}

/// Transactions time out after two seconds; perhaps there are copies.
pub(crate) fn short(start: Start, journal: bool) -> Start {
    Start { timeout: Duration::from_secs(2), journal, ..start }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "never {what}");
        thread::park_timeout(LOOK);
    }
}

impl Bed {
    /// The job dies as the script says.
    pub(crate) fn dies(&self, parallelism: u32, faults: &str) -> Finished {
        self.job.dies(&slow(parallelism, faults)).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The job is started again, ends, and has left everything as it must be.
    pub(crate) fn ends_well(&mut self, parallelism: u32) -> Finished {
        self.ends_well_with(&Start::with(parallelism))
    }

    pub(crate) fn ends_well_with(&mut self, start: &Start) -> Finished {
        self.job.ends_well(&mut self.judge, start).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The job comes to the step that the script holds.
    pub(crate) fn holds(&self, start: &Start) -> Running {
        let mut running = self.job.start(start).expect("a start");
        let held = running.until(PATIENCE, "held step", |line| line == HOLDS).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(held.is_some(), "the job ended before the step: {:?}", running.wait(PATIENCE));
        running
    }

    /// The job halts as the script says.
    pub(crate) fn halts(&self, start: &Start) -> Running {
        let mut running = self.job.start(start).expect("a start");
        let deadline = Instant::now() + PATIENCE;
        while !running.is_halted().unwrap_or_default() {
            assert!(!running.has_ended(), "the script did not halt the job: {:?}", running.wait(PATIENCE));
            assert!(Instant::now() < deadline, "the script did not halt the job");
            running.listen(Duration::from_millis(10));
        }
        running
    }

    /// Transactions of the job that are open.
    pub(crate) fn open(&self) -> usize {
        let mut control = self.job.control().expect("a client");
        self.job.open(&mut control).expect("an answer").len()
    }

    /// Waits until something is open that a job wrote.
    pub(crate) fn until_open(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.open() == 0 {
            assert!(Instant::now() < deadline, "no transaction was opened");
        }
    }

    /// The main output, as a reader of committed messages sees it.
    pub(crate) fn visible_texts(&mut self) -> Vec<String> {
        let topic = self.job.topic("out");
        self.judge.settle(&topic).expect("no open transaction");
        let records = self.judge.read(&topic).expect("records");
        records.iter().map(|record| record.text().expect("a text").to_owned()).collect()
    }

    /// Messages of the main output up to the first transaction that is open, when no decision is under way.
    pub(crate) fn visible(&mut self) -> i64 {
        self.until_through();
        self.written_and_visible().1
    }

    /// Waits until no decision about a transaction is under way.
    pub(crate) fn until_through(&self) {
        let mut control = self.job.control().expect("a client");
        let deadline = Instant::now() + PATIENCE;
        while control.list_transactions(&self.job.prefix()).expect("a list").iter().any(is_under_way) {
            assert!(Instant::now() < deadline, "a decision never comes through");
        }
    }

    /// Waits until the partitions of the output have leaders, and the transactions of the job are for a while what they were, none of them
    /// being decided: also what is on its way to the broker has arrived by then.
    pub(crate) fn until_quiet(&mut self) {
        let mut control = self.job.control().expect("a client");
        let topics = [self.job.topic("out"), self.job.topic("bad"), format!("staunch-commits-{}", self.job.name)];
        let (mut last, mut since) = (None, Instant::now());
        until("quiet", || {
            let is_led = |topic: &String| {
                let found = control.topic(topic).expect("a topic");
                found.is_some_and(|found| found.partitions.iter().all(|partition| partition.leader.is_some()))
            };
            let all_led = topics.iter().all(is_led);
            let listed = control.list_transactions(&self.job.prefix()).expect("a list");
            if !all_led || listed.iter().any(is_under_way) || last.as_ref() != Some(&listed) {
                (last, since) = (Some(listed), Instant::now());
            }
            since.elapsed() >= QUIET
        });
    }

    /// Messages of the main output that are there, and those of them that a reader of committed ones sees.
    pub(crate) fn written_and_visible(&mut self) -> (i64, i64) {
        let ends = self.judge.ends(&self.job.topic("out")).expect("ends");
        (ends.iter().map(|end| end.high_watermark).sum(), ends.iter().map(|end| end.last_stable_offset).sum())
    }
}

fn is_under_way(listed: &Listed) -> bool {
    matches!(listed.phase, TransactionPhase::PrepareCommit | TransactionPhase::PrepareAbort)
}

/// The epoch that a process began from.
pub(crate) fn restored_from(finished: &Finished) -> Option<u64> {
    let claimed = finished.lines.iter().find(|line| line.starts_with("claimed ")).expect("a claim");
    claimed.split_once(" from ").map(|(_, epoch)| epoch.parse().expect("a number"))
}

/// The last epoch that a process told to be durable.
pub(crate) fn last_durable(finished: &Finished) -> Option<u64> {
    let told = finished.lines.iter().rev().find_map(|line| line.strip_prefix("durable "))?;
    told.split_once(' ').map(|(epoch, _)| epoch.parse().expect("a number"))
}

/// Whether a process found something of older generations.
pub(crate) fn swept(finished: &Finished) -> bool {
    finished.lines.iter().any(|line| line.starts_with("swept "))
}
