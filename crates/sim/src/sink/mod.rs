//! A sink that writes to the simulated broker by the rules of the Kafka sink.
//!
//! Owns: a driver over the machines of `staunch_protocol::transaction`, as the one of `staunch-kafka` is one: it does what they say and decides
//! nothing. Does not own: these rules; the broker (kernel); what must come out (check).

mod stored;
mod writer;
mod committer;

use std::time::Duration;

use staunch_api::{Kept, Sink, SinkContext, WriterContext};
use staunch_types::{Error, ErrorKind, Name, Result};

use crate::job::Row;
use crate::kernel::{Refusal, SimBroker};

pub use committer::TopicCommitter;
pub use stored::{AGAIN, StoredTransaction};
pub use writer::TopicWriter;

/// How the sink is set up.
#[derive(Clone, Debug)]
pub struct TopicSettings {
    /// Partitions of its topic.
    pub partitions: u32,
    /// After so long without a decision the broker aborts a transaction.
    pub timeout: Duration,
    /// Ids of a task.
    pub ring: u32,
    /// A copy of prepared output is kept.
    pub journal: bool,
    /// A rule of the driver that is broken on purpose.
    pub broken: Option<BrokenDriver>,
}

/// What a careless driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenDriver {
    /// Its ids are a task's in all generations.
    SharesIds,
    /// It takes over ids without asking whether it is still the newest.
    TakesOverUnconfirmed,
    /// It also takes away what retained checkpoints name.
    SweepsAll,
    /// It tells that an epoch is prepared before its records are acknowledged.
    PreparesUnacknowledged,
    /// It commits what has the right producer, whenever it began.
    CommitsUnseen,
    /// It repeats a commit that was not answered without a look whether its transaction is still the last one.
    RepeatsUnseen,
    /// It takes what the coordinator calls committed for visible.
    CommitsUnconfirmed,
    /// It uses an id again without asking partitions for the last markers.
    ReusesUnconfirmed,
    /// It writes no mark.
    WritesNoMark,
    /// Lost output is written again without a look for its mark.
    ResendsUnseen,
}

impl Default for TopicSettings {
    fn default() -> Self {
        TopicSettings { partitions: 2, timeout: Duration::from_secs(15 * 60), ring: 5, journal: false, broken: None }
    }
}

/// See the module.
#[derive(Clone)]
pub struct TopicSink {
    settings: TopicSettings,
    topic: String,
    broker: SimBroker,
}

impl TopicSink {
    /// A sink that writes to a topic.
    #[must_use]
    pub fn new(settings: TopicSettings, topic: &str, broker: SimBroker) -> TopicSink {
        TopicSink { settings, topic: topic.to_owned(), broker }
    }
}

impl TopicSettings {
    fn breaks(&self, rule: BrokenDriver) -> bool {
        self.broken == Some(rule)
    }
}

/// What the ids of a sink begin with.
#[must_use]
pub fn prefix(job: &Name, sink: &Name) -> String {
    format!("{job}/{sink}/")
}

/// The topic of a job's marks.
#[must_use]
pub fn mark_topic(job: &Name) -> String {
    format!("marks-{job}")
}

impl Sink for TopicSink {
    type Record = Row;
    type Writer = TopicWriter;
    type Committer = TopicCommitter;

    fn kind(&self) -> &'static str {
        "sim-topic"
    }

    fn describe(&self) -> String {
        format!("simulated topic {}", self.topic)
    }

    fn keeps(&self) -> Kept {
        if self.settings.journal { Kept::Copy } else { Kept::Mark }
    }

    fn check(&self, _context: &SinkContext) -> Result<()> {
        Ok(())
    }

    fn writer(&self, context: WriterContext, _restored: Vec<Vec<u8>>) -> Result<TopicWriter> {
        Ok(TopicWriter::new(self.clone(), context))
    }

    fn committer(&self, context: SinkContext) -> Result<TopicCommitter> {
        Ok(TopicCommitter::new(self.clone(), context))
    }
}

/// The error for a request of a writer that was not done. Whoever is fenced restarts: the broker also fences who took too long, and only the
/// ledger tells whether there is a newer generation.
fn not_done(what: &str, id: &str, answer: &std::io::Result<Refusal>) -> Error {
    let code = if matches!(answer, Ok(Refusal::Fenced)) { "sim-fenced" } else { "sim-not-done" };
    Error::new(ErrorKind::Restart, code, format!("the broker did not {what}: {answer:?}")).at(format!("id={id}"))
}
