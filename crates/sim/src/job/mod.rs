//! The jobs that are run in simulated worlds: their input, their plan, and what must come out.
//!
//! Owns: the description of a job, from which input, plan and expected output are made. Does not own: running it.
//! The expected output is made by plain loops over all rows, which share no code with the engine.

mod input;
mod plan;
mod expected;

use std::collections::BTreeSet;
use std::time::Duration;

use staunch_engine::cluster::{Restore, RunConfig};
use staunch_types::Name;

pub use expected::{Lines, Output};
pub use input::{InputFile, Row};

use crate::kernel::Random;
use crate::sink::TopicSettings;

/// Where checkpoints are; each job has a folder in it.
pub const CHECKPOINTS: &str = "/checkpoints";
/// The name of the job, unless said otherwise.
pub const JOB: &str = "sim";
/// Where output goes: a folder for each sink.
pub const OUT: &str = "/out";

/// How many rows one becomes unless said otherwise: more than a link holds.
const VERY_MANY: u32 = 1_500;

/// How the job is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One chain: source, map, filter, sink.
    Straight,
    /// Two chains with a rebalance between them.
    Rebalanced,
    /// Each row goes to one of two sinks.
    Split,
    /// Each row goes to two sinks; on the way to one of them some become very many.
    Shared,
    /// Two sources, one sink.
    United,
    /// Each row of a key gets its number among them: a value by key.
    Counted,
    /// Windows one after the other, rows that are too late (there are none) into a second sink.
    Windowed,
    /// Windows that overlap, from a shared stream whose watermark moves with every record.
    Hopped,
    /// Sessions.
    Sessions,
    /// Windows behind a guard against times that lie far ahead: such rows go into a second sink.
    Guarded,
}

impl Shape {
    /// All.
    pub const ALL: [Shape; 10] = [
        Shape::Straight,
        Shape::Rebalanced,
        Shape::Split,
        Shape::Shared,
        Shape::United,
        Shape::Counted,
        Shape::Windowed,
        Shape::Hopped,
        Shape::Sessions,
        Shape::Guarded,
    ];

    /// The names of its sinks.
    #[must_use]
    pub fn sinks(self) -> &'static [&'static str] {
        match self {
            Shape::Straight | Shape::Rebalanced | Shape::United | Shape::Counted | Shape::Sessions => &["out"],
            Shape::Split | Shape::Shared => &["even", "odd"],
            Shape::Windowed => &["out", "late"],
            Shape::Hopped => &["out", "all"],
            Shape::Guarded => &["out", "ahead"],
        }
    }
}

/// A job with its input.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Its name.
    pub name: String,
    /// How it is built.
    pub shape: Shape,
    /// What it reads.
    pub input: Vec<InputFile>,
    /// Bytes of a split.
    pub split_bytes: u64,
    /// Bytes read at once.
    pub chunk_bytes: usize,
    /// A file is closed after so many bytes.
    pub roll_bytes: Option<u64>,
    /// A file goes on over epochs for so long.
    pub roll_every: Option<Duration>,
    /// Sinks keep a journal.
    pub journal: bool,
    /// How many rows one becomes, in the shape that multiplies some.
    pub very_many: u32,
    /// Its sinks write to topics, and not to files.
    pub topics: Option<TopicSettings>,
    /// Its keyed state has a database under it, and takes no more than so many bytes in memory.
    pub object_bytes: Option<usize>,
}

/// How the program is started: what may change from one start to the next.
#[derive(Clone, Debug)]
pub struct Start {
    /// Tasks of the first chain, and of those that follow.
    pub parallelism: (u32, u32),
    /// What to start from.
    pub restore: Restore,
    /// Sinks whose lost output is accepted.
    pub accept_lost: BTreeSet<Name>,
    /// From one checkpoint to the next.
    pub interval: Duration,
    /// After so long an unfinished checkpoint is given up.
    pub timeout: Duration,
    /// Completed checkpoints that are kept.
    pub retained: usize,
    /// Checkpoints that may fail in a row.
    pub failures_tolerated: u32,
}

impl Default for Start {
    fn default() -> Self {
        Start {
            parallelism: (2, 2),
            restore: Restore::Latest,
            accept_lost: BTreeSet::new(),
            interval: Duration::from_millis(1),
            timeout: Duration::from_secs(5),
            retained: 3,
            failures_tolerated: 3,
        }
    }
}

/// A name that is known to be one.
#[must_use]
pub fn name(text: &str) -> Name {
    Name::new(text).unwrap_or_else(|error| panic!("{error}"))
}

impl JobSpec {
    /// A job with so many rows in so many files, the same for the same arguments.
    #[must_use]
    pub fn new(shape: Shape, files: u64, rows: u64) -> JobSpec {
        let mut random = Random::new(files << 32 | rows);
        let input = input::files(shape, files, rows, &mut random);
        JobSpec {
            name: JOB.to_owned(),
            topics: None,
            shape,
            input,
            split_bytes: 2_000,
            chunk_bytes: 500,
            roll_bytes: None,
            roll_every: None,
            journal: false,
            object_bytes: None,
            very_many: VERY_MANY,
        }
    }

    /// A job by chance.
    #[must_use]
    pub fn by_chance(random: &mut Random) -> JobSpec {
        let shape = *random.pick(&Shape::ALL);
        let rows_max = *random.pick(&[20, 100, 300, 800]);
        let (files, rows) = (random.between(1, 6), random.below(rows_max));
        JobSpec {
            name: JOB.to_owned(),
            topics: None,
            shape,
            input: input::files(shape, files, rows, random),
            split_bytes: *random.pick(&[64, 500, 2_000, 8_000]),
            chunk_bytes: *random.pick(&[64, 64, 200, 1_000]),
            roll_bytes: random.chance(3_000).then(|| random.between(100, 5_000)),
            roll_every: random.chance(3_000).then(|| random.duration(Duration::from_millis(5), Duration::from_millis(500))),
            // The last word, so that jobs of known seeds are otherwise as they were.
            very_many: VERY_MANY,
            journal: random.chance(2_000),
            object_bytes: None,
        }
    }

    /// Lets the job write to topics, by chance; some transactions time out while nobody runs.
    pub fn topics_by_chance(&mut self, random: &mut Random) {
        if !random.chance(4_000) {
            return;
        }
        self.journal = random.chance(5_000);
        // Longer than an epoch takes when all is well.
        let short = random.duration(Duration::from_secs(5), Duration::from_secs(60));
        self.topics = Some(TopicSettings {
            partitions: random.between(1, 3) as u32,
            timeout: if self.journal || random.chance(3_000) { short } else { Duration::from_secs(86_400) },
            ..TopicSettings::default()
        });
    }

    /// The settings of a run.
    #[must_use]
    pub fn config(&self, start: &Start) -> RunConfig {
        let mut config = RunConfig::new(name(&self.name));
        config.code_version = "sim".into();
        config.interval = start.interval;
        config.timeout = start.timeout;
        config.retained = start.retained;
        config.failures_tolerated = start.failures_tolerated;
        config.restore = start.restore;
        config.accept_lost = start.accept_lost.clone();
        config
    }

    /// The folder of the job's checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> String {
        format!("{CHECKPOINTS}/{}", self.name)
    }
}
