//! Kill loops at a cluster of brokers: the job is killed at random moments and started again with another number of tasks, brokers are killed
//! and come back, one at a time; in the end each payment is booked once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use staunch_e2e::kills::{Random, another, epochs, has_run, kill};
use staunch_e2e::process::Finished;
use staunch_kafka_testbed::{Cluster, Options};

use crate::job::{Fed, Job, Start};

/// Payments a second while the job is killed.
pub const RATE: u64 = 3_000;
/// Longest time from the first task to a kill.
const RUN_MAX: Duration = Duration::from_millis(2_000);
/// Longest time that a broker is dead.
const DEAD_MAX: Duration = Duration::from_secs(4);
/// Time in which payments are fed for one kill: more than is booked between two, so that the input lasts.
const FED_FOR: Duration = Duration::from_millis(1_500);
/// How long a job may need for what is left after all kills.
const REST: Duration = Duration::from_secs(300);

/// A kill loop.
#[derive(Clone, Debug)]
pub struct Kills {
    /// The program `kafka-job`.
    pub program: PathBuf,
    /// How often the job is killed.
    pub kills: u32,
    /// How often a broker is killed meanwhile.
    pub broker_kills: u32,
    /// Chooses moments, brokers and numbers of tasks.
    pub seed: u64,
}

/// What happened in one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Kills of the job.
    pub kills: u32,
    /// Those of a generation that had made an epoch durable.
    pub after_progress: u32,
    /// Those before any task ran.
    pub while_starting: u32,
    /// Kills of brokers.
    pub broker_kills: u32,
    /// Restarts of the job by itself.
    pub restarts: u64,
    /// Checkpoints that became durable.
    pub epochs: u64,
    /// Payments, each booked once.
    pub payments: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { kills, after_progress, while_starting, broker_kills, restarts, epochs, payments } = self;
        write!(
            f,
            "{kills} kills ({after_progress} after a checkpoint, {while_starting} while starting), {broker_kills} kills of brokers, "
        )?;
        write!(f, "{restarts} restarts by itself, {epochs} epochs, {payments} payments")
    }
}

impl Kills {
    /// Kills job and brokers, lets the job end, and asks the judge.
    ///
    /// # Errors
    /// With whatever is not as it should be, and the seed.
    pub fn run(&self, root: &Path) -> Result<Tally> {
        self.try_run(root).with_context(|| format!("kill seed {}", self.seed))
    }

    fn try_run(&self, root: &Path) -> Result<Tally> {
        let cluster = Cluster::start(&Options::three())?;
        let mut judge = cluster.judge()?;
        let brokers = cluster.bootstrap();
        let payments = u64::from(self.kills) * RATE * FED_FOR.as_millis() as u64 / 1000;
        let fed = Fed { payments, accounts: 200, bad: payments / 200, partitions: 4 };
        let job = Job::prepare(&self.program, &brokers, &mut judge, "soak", root, fed)?;
        let (mut random, mut tally, mut last) = (Random::new(self.seed), Tally::default(), 0);
        let (stop, stopped) = channel();
        let breaking = Breaking { cluster, kills: self.broker_kills, random: Random::new(!self.seed) };
        // Killing brokers goes on beside killing the job, at about the same pace.
        let per_kill = RUN_MAX.mul_f64(0.9) * self.kills / self.broker_kills.max(1);
        let breaker = thread::spawn(move || breaking.run(&stopped, per_kill));
        let result = self.kill_job(&job, &mut random, &mut tally, &mut last);
        if result.is_err() {
            // A loop that failed ends the other one, which may have come to its end.
            let _ = stop.send(());
        }
        let cluster = breaker.join().ok().context("the thread that kills brokers has panicked")?;
        result?;
        let (_cluster, broker_kills) = cluster?;
        tally.broker_kills = broker_kills;
        let finished = job.restart(&Start::with(another(&mut random, last)))?.wait(REST)?.expect(0)?;
        tally.add(&finished);
        job.check(&mut judge)?;
        tally.payments = payments;
        Ok(tally)
    }

    fn kill_job(&self, job: &Job, random: &mut Random, tally: &mut Tally, last: &mut u32) -> Result<()> {
        while tally.kills < self.kills {
            *last = another(random, *last);
            let start = Start { more: vec!["--restarts-tolerated".into(), "20".into()], ..Start::with(*last).rate(RATE) };
            let finished = kill(job.start(&start)?, RUN_MAX, random, &format!("kill {} of {}", tally.kills + 1, self.kills))?;
            tally.kills += 1;
            tally.after_progress += u32::from(epochs(&finished) > 0);
            tally.while_starting += u32::from(!has_run(&finished));
            tally.add(&finished);
        }
        Ok(())
    }
}

impl Tally {
    fn add(&mut self, finished: &Finished) {
        self.epochs += epochs(finished);
        self.restarts += finished.lines.iter().filter(|line| line.starts_with("restarting ")).count() as u64;
    }
}

/// Kills brokers.
struct Breaking {
    cluster: Cluster,
    kills: u32,
    random: Random,
}

impl Breaking {
    /// One broker at a time is dead for a random while; then it comes back, and all are alive for another one.
    fn run(mut self, stop: &Receiver<()>, per_kill: Duration) -> Result<(Cluster, u32)> {
        let mut killed = 0;
        while killed < self.kills {
            let began = Instant::now();
            let node = 1 + self.random.below(3) as u32;
            self.cluster.kill(node)?;
            killed += 1;
            let told = stop.recv_timeout(self.random.duration(DEAD_MAX));
            self.cluster.restart(node)?;
            if told != Err(RecvTimeoutError::Timeout) {
                break;
            }
            let left = per_kill.saturating_sub(began.elapsed());
            if stop.recv_timeout(left / 2 + self.random.duration(left)) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        Ok((self.cluster, killed))
    }
}
