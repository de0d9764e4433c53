//! Kill loops: a job is killed at random moments, started again with another number of tasks each time, and must end as if nothing
//! had happened.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::job::{Job, PATIENCE, Start};
use crate::process::{Finished, Running};

/// Numbers of tasks that a job is started with.
const PARALLELISMS: [u32; 5] = [1, 2, 3, 5, 7];

/// A kill loop.
#[derive(Clone, Debug)]
pub struct Kills {
    /// How often the job is killed.
    pub kills: u32,
    /// Chooses moments and numbers of tasks.
    pub seed: u64,
    /// How a start is, but for the number of tasks.
    pub start: Start,
    /// The longest time from the first task to the kill.
    pub run_max: Duration,
}

/// What happened in one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Kills.
    pub kills: u32,
    /// Those of a generation that had made an epoch durable.
    pub after_progress: u32,
    /// Those before any task ran.
    pub while_starting: u32,
    /// Checkpoints that became durable, of all generations.
    pub epochs: u64,
    /// Records of the output, each there as often as it must be.
    pub records: u64,
}

/// Numbers that look random: the same for the same seed.
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A time below a limit.
    pub fn duration(&mut self, max: Duration) -> Duration {
        Duration::from_micros(self.below(max.as_micros() as u64))
    }
}

impl Kills {
    /// A kill loop in which the input lasts for all kills: it is read so slowly that the longest times to all kills together do not suffice.
    ///
    /// # Errors
    /// When there is no input.
    pub fn spread_over_input(job: &Job, kills: u32, run_max: Duration, seed: u64) -> Result<Kills> {
        let bytes = fs::metadata(&job.input).context("the input")?.len();
        let slow = bytes * 1000 / (u64::from(kills) * run_max.as_millis() as u64);
        Ok(Kills { kills, seed, start: Start::with(1).slow(slow), run_max })
    }

    /// Kills the job, lets it end, and checks everything.
    ///
    /// # Errors
    /// With whatever is not as it should be, and the seed.
    pub fn run(&self, job: &Job) -> Result<Tally> {
        self.try_run(job).with_context(|| format!("case {} with kill seed {}", job.case.word(), self.seed))
    }

    fn try_run(&self, job: &Job) -> Result<Tally> {
        let (mut random, mut tally, mut last) = (Random(self.seed), Tally::default(), 0);
        while tally.kills < self.kills {
            let parallelism = another(&mut random, last);
            last = parallelism;
            let running = job.start(&Start { parallelism, ..self.start.clone() })?;
            let finished = kill(running, self.run_max, &mut random, &format!("kill {} of {}", tally.kills + 1, self.kills))?;
            tally.kills += 1;
            tally.after_progress += u32::from(epochs(&finished) > 0);
            tally.epochs += epochs(&finished);
            tally.while_starting += u32::from(!has_run(&finished));
        }
        let full_speed = Start { throttle: 0, parallelism: another(&mut random, last), ..self.start.clone() };
        tally.epochs += epochs(&job.run(&full_speed)?.expect(0)?);
        job.check()?;
        tally.records = job.expected.values().flat_map(|lines| lines.values()).sum();
        Ok(tally)
    }
}

/// Kills a job that was just started: mostly some time after its tasks run, sometimes while it still starts.
///
/// # Errors
/// When it ends by itself, with what it said; `what` names the kill.
pub fn kill(mut running: Running, run_max: Duration, random: &mut Random, what: &str) -> Result<Finished> {
    let finished = if random.below(5) == 0 {
        running.kill_after(random.duration(run_max / 4))
    } else if running.until(PATIENCE, "task that runs", is_run)?.is_some() {
        running.kill_after(random.duration(run_max))
    } else {
        running.wait(PATIENCE)
    };
    finished.with_context(|| what.to_owned())?.expect_killed(what)
}

/// Whether tasks ran in a process.
#[must_use]
pub fn has_run(finished: &Finished) -> bool {
    finished.lines.iter().any(|line| is_run(line))
}

fn is_run(line: &str) -> bool {
    line.starts_with("running ")
}

/// Checkpoints that became durable in a process.
#[must_use]
pub fn epochs(finished: &Finished) -> u64 {
    finished.lines.iter().filter(|line| line.starts_with("durable ")).count() as u64
}

/// A number of tasks that is not the last one.
pub fn another(random: &mut Random, last: u32) -> u32 {
    let others: Vec<u32> = PARALLELISMS.into_iter().filter(|p| *p != last).collect();
    others[random.below(others.len() as u64) as usize]
}
