//! A job on payments as a process: its topics and folders, its command line, the check of what it leaves behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use staunch_e2e::lines::{self, Multiset};
use staunch_e2e::process::{Finished, Running};
use staunch_kafka::control::{Described, Interrupt, Producer};
use staunch_kafka::{ClientSettings, Control};
use staunch_kafka_testbed::Judge;

/// How long a job may take for what takes seconds; a busy machine is no failure, a hang is.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// From a start until nothing is open that a dead generation left.
pub const SWEPT_MAX: Duration = Duration::from_secs(10);

/// A job, its topics and its folders.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program `kafka-job`.
    pub program: PathBuf,
    /// Addresses of brokers.
    pub brokers: String,
    /// Name of the job; its topics begin with `topics`.
    pub name: String,
    /// What the topics begin with.
    pub topics: String,
    /// Folder with `checkpoints` and `files`.
    pub root: PathBuf,
    /// What was fed.
    pub fed: Fed,
}

/// What is in the topic that a job reads.
#[derive(Clone, Copy, Debug)]
pub struct Fed {
    /// Payments.
    pub payments: u64,
    /// Accounts that they go to in turn.
    pub accounts: u64,
    /// Texts that are no payments, between them.
    pub bad: u64,
    /// Partitions of each topic.
    pub partitions: u32,
}

/// How it is started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Tasks of each chain.
    pub parallelism: u32,
    /// What goes wrong.
    pub faults: String,
    /// Payments a second; 0 for as fast as it goes.
    pub rate: u64,
    /// How long a prepared transaction may be in doubt.
    pub timeout: Duration,
    /// Whether copies are kept.
    pub journal: bool,
    /// Whether it also writes files.
    pub files: bool,
    /// Time from one checkpoint to the next.
    pub interval: Duration,
    /// Further options.
    pub more: Vec<String>,
}

impl Start {
    /// So many tasks, as fast as it goes, nothing goes wrong.
    #[must_use]
    pub fn with(parallelism: u32) -> Start {
        Start {
            parallelism,
            faults: String::new(),
            rate: 0,
            timeout: Duration::from_secs(600),
            journal: false,
            files: false,
            interval: Duration::from_millis(100),
            more: Vec::new(),
        }
    }

    /// With a script.
    #[must_use]
    pub fn faults(mut self, faults: &str) -> Start {
        self.faults = faults.into();
        self
    }

    /// So slow.
    #[must_use]
    pub fn rate(mut self, rate: u64) -> Start {
        self.rate = rate;
        self
    }

    /// With further options.
    #[must_use]
    pub fn more(mut self, words: &[&str]) -> Start {
        self.more.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }
}

/// A transaction, told apart from every other.
pub type OpenTransaction = (String, Producer, Option<i64>);

impl Job {
    /// A job with topics of its own, which hold payments and texts that are none.
    ///
    /// # Errors
    /// When the brokers refuse.
    pub fn prepare(program: &Path, brokers: &str, judge: &mut Judge, name: &str, root: &Path, fed: Fed) -> Result<Job> {
        let job = Job {
            program: program.to_owned(),
            brokers: brokers.to_owned(),
            name: name.to_owned(),
            topics: name.to_owned(),
            root: root.to_owned(),
            fed,
        };
        for what in ["in", "out", "bad"] {
            judge.create_topic(&job.topic(what), fed.partitions)?;
        }
        judge.feed(&job.topic("in"), 0..fed.payments, fed.accounts, fed.bad)?;
        Ok(job)
    }

    /// The name of a topic.
    #[must_use]
    pub fn topic(&self, what: &str) -> String {
        format!("{}-{what}", self.topics)
    }

    /// The job's folder in the checkpoint directory.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.root.join("checkpoints").join(&self.name)
    }

    /// Starts it.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(&self, start: &Start) -> Result<Running> {
        let mut command = Command::new(&self.program);
        command.args(["--name", &self.name, "--topics", &self.topics, "--brokers", &self.brokers]);
        command.arg("--checkpoint-dir").arg(self.root.join("checkpoints"));
        command.args(["--checkpoint-interval", &format!("{}ms", start.interval.as_millis())]);
        command.args(["--parallelism", &start.parallelism.to_string(), "--faults", &start.faults, "--rate", &start.rate.to_string()]);
        command.args(["--transaction-timeout", &start.timeout.as_millis().to_string()]);
        command.args(start.journal.then_some("--journal"));
        if start.files {
            command.arg("--files").arg(self.root.join("files"));
        }
        command.args(&start.more);
        Running::start(command)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it does not end.
    pub fn run(&self, start: &Start) -> Result<Finished> {
        self.start(start)?.wait(PATIENCE)
    }

    /// Runs it until it kills itself.
    ///
    /// # Errors
    /// When it ends otherwise.
    pub fn dies(&self, start: &Start) -> Result<Finished> {
        self.run(start)?.expect_killed(&format!("the script \"{}\"", start.faults))
    }

    /// Starts it after a crash, and waits until none of the transactions is open that were open at the start.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn restart(&self, start: &Start) -> Result<Running> {
        let mut control = self.control()?;
        let before = self.open(&mut control)?;
        let began = Instant::now();
        let mut running = self.start(start)?;
        loop {
            let left: Vec<OpenTransaction> = self.open(&mut control)?.intersection(&before).cloned().collect();
            if left.is_empty() {
                return Ok(running);
            }
            if began.elapsed() > SWEPT_MAX {
                let said = running.kill()?;
                bail!("still open {SWEPT_MAX:?} after the restart: {left:?}\n{}\n{}", said.lines.join("\n"), said.errors);
            }
            running.listen(Duration::from_millis(20));
        }
    }

    /// Starts it after a crash, lets it end, and checks all that it leaves.
    ///
    /// # Errors
    /// With whatever is not as it should be.
    pub fn ends_well(&self, judge: &mut Judge, start: &Start) -> Result<Finished> {
        let finished = self.restart(start)?.wait(PATIENCE)?.expect(0)?;
        self.check(judge)?;
        Ok(finished)
    }

    /// Asks the judge: each payment is booked once, in order per account, with the right count and sum; each text that is no payment is
    /// there once; no transaction is open.
    ///
    /// # Errors
    /// With whatever is not as it should be.
    pub fn check(&self, judge: &mut Judge) -> Result<()> {
        let marks = format!("staunch-commits-{}", self.name);
        for topic in [self.topic("out"), self.topic("bad"), marks] {
            judge.settle(&topic)?;
        }
        self.check_out(judge)?;
        let mut bad: BTreeMap<String, u64> = (0..self.fed.bad).map(|index| (format!("bad {index}"), 1)).collect();
        for record in judge.read(&self.topic("bad"))? {
            *bad.entry(record.text().context("a text")?.to_owned()).or_insert(1) -= 1;
        }
        bad.retain(|_, missing| *missing != 0);
        ensure!(bad.is_empty(), "not once in the dead letters: {bad:?}");
        let open = self.open(&mut self.control()?)?;
        ensure!(open.is_empty(), "transactions are open: {open:?}");
        Ok(())
    }

    /// Asks the judge about the main output alone.
    ///
    /// # Errors
    /// With whatever is not as it should be.
    pub fn check_out(&self, judge: &mut Judge) -> Result<()> {
        let found = judge.once(&self.topic("out"), self.fed.payments, self.fed.accounts)?;
        ensure!(found.is_exact() && found.records == self.fed.payments, "not each payment once: {found:#?}");
        Ok(())
    }

    /// Compares the files with what was booked; nothing hidden may be left.
    ///
    /// # Errors
    /// With whatever is not as it should be.
    pub fn check_files(&self) -> Result<()> {
        let directory = self.root.join("files");
        lines::expect_nothing_hidden(&directory)?;
        let mut expected = Multiset::new();
        let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for cents in 0..self.fed.payments {
            let account = cents % self.fed.accounts;
            let (nth, total) = sums.entry(account).or_default();
            (*nth, *total) = (*nth + 1, *total + cents);
            expected.insert(format!(r#"{{"account":{account},"cents":{cents},"nth":{nth},"total":{total}}}"#), 1);
        }
        lines::compare(&lines::read_plain(&directory)?, &expected, "files")
    }

    /// A client that lists and describes transactions.
    ///
    /// # Errors
    /// When the addresses cannot be used.
    pub fn control(&self) -> Result<Control> {
        let named = BTreeMap::from([("bootstrap.servers".to_owned(), self.brokers.clone())]);
        Ok(Control::new(ClientSettings::parse(&named)?, Interrupt::default())?)
    }

    /// The transactions of the job that are open.
    ///
    /// # Errors
    /// When the brokers do not answer.
    pub fn open(&self, control: &mut Control) -> Result<BTreeSet<OpenTransaction>> {
        let mut open = BTreeSet::new();
        for listed in control.list_transactions(&self.prefix())?.into_iter().filter(|listed| listed.phase.is_open()) {
            if let Described::Known(found) = control.describe_transaction(&listed.transactional_id)?
                && found.phase.is_open()
            {
                open.insert((listed.transactional_id, found.producer, found.start_ms));
            }
        }
        Ok(open)
    }

    /// What its transactional ids begin with.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("staunch+{}+", self.name)
    }
}
