//! What can go wrong with one operation on the disk, or one request to the broker: by chance, or at exactly one step.

use std::io;
use std::time::Duration;

use super::{ProcessId, Random};

/// What the disk or the broker is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Open for reading.
    Open,
    /// Read, or ask for the length.
    Read,
    /// Create.
    Create,
    /// Append.
    Append,
    /// Sync.
    Sync,
    /// Rename; the path is the target.
    Rename,
    /// Remove.
    Remove,
    /// List.
    List,
    /// Create a directory.
    CreateDirectory,
    /// Look at what is there.
    Metadata,
    /// At the broker: take a transactional id over; the path is the id, as with all that follow.
    TakeOver,
    /// At the broker: take an id away from a producer.
    Fence,
    /// At the broker: make a partition part of a transaction.
    Enroll,
    /// At the broker: write a record; or clear a key, of a topic.
    Produce,
    /// At the broker: commit or abort.
    EndTransaction,
    /// At the leaders of partitions: ask whether a producer has a transaction open there.
    AskMarkers,
    /// At a leader: write the marker of a commit.
    WriteMarker,
    /// At the broker: describe the last transaction of an id.
    Describe,
    /// At the broker: list ids; the path is their prefix.
    ListIds,
    /// At the broker: read committed records; the path is the topic.
    Fetch,
}

impl Operation {
    /// Whether it changes the disk.
    #[must_use]
    pub fn writes(self) -> bool {
        match self {
            Operation::Create
            | Operation::Append
            | Operation::Sync
            | Operation::Rename
            | Operation::Remove
            | Operation::CreateDirectory
            | Operation::TakeOver
            | Operation::Fence
            | Operation::Enroll
            | Operation::Produce
            | Operation::EndTransaction
            | Operation::WriteMarker => true,
            Operation::Open
            | Operation::Read
            | Operation::List
            | Operation::Metadata
            | Operation::Describe
            | Operation::ListIds
            | Operation::AskMarkers
            | Operation::Fetch => false,
        }
    }

    /// Whether it is a request to the broker.
    #[must_use]
    pub fn asks_broker(self) -> bool {
        matches!(
            self,
            Operation::TakeOver
                | Operation::Fence
                | Operation::Enroll
                | Operation::Produce
                | Operation::EndTransaction
                | Operation::AskMarkers
                | Operation::WriteMarker
                | Operation::Describe
                | Operation::ListIds
                | Operation::Fetch
        )
    }
}

/// The general conditions. Shares are out of ten thousand operations.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Operations that are refused.
    pub refused: u32,
    /// Changes that happen and whose answer is an error.
    pub answer_lost: u32,
    /// Nothing can be changed: the disk is full, or mounted for reading.
    pub closed: Option<io::ErrorKind>,
    /// Nobody reaches the broker, or its coordinator is still loading.
    pub broker_away: bool,
    /// Requests to the broker that are not done.
    pub broker_refused: u32,
    /// Requests to the broker that are done and not answered.
    pub broker_answer_lost: u32,
    /// Pieces of blocking work that may pause in the middle.
    pub deep: u32,
    /// Of those, operations before which they pause.
    pub pause: u32,
    /// How long a pause, and the wait for a free thread, takes.
    pub slow: (Duration, Duration),
    /// Steps of the world after which somebody gets no turn for a while.
    pub starve: u32,
}

impl Weather {
    /// Nothing goes wrong.
    #[must_use]
    pub fn fair() -> Weather {
        Weather {
            refused: 0,
            answer_lost: 0,
            closed: None,
            broker_away: false,
            broker_refused: 0,
            broker_answer_lost: 0,
            deep: 0,
            pause: 0,
            slow: (Duration::from_micros(5), Duration::from_micros(500)),
            starve: 0,
        }
    }
}

/// Before or after the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The action does not happen (or happens when the process goes on).
    Before,
    /// The action has happened, the answer is not there yet.
    After,
}

/// What happens at a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The process is killed.
    Kill(When),
    /// The machine loses power: all processes are killed, and what was not durable may be gone.
    PowerLoss(When),
    /// The process gets no turn for so long; then it goes on as if nothing had been.
    Hang(When, Duration),
    /// The operation is refused.
    Refuse(io::ErrorKind),
    /// The action happens, the answer is an error.
    LoseAnswer(io::ErrorKind),
    /// The action happens; after so long, in which the rest of the process goes on, its answer is an error.
    LoseAnswerLate(Duration),
    /// Nothing but that it is noted as sprung.
    Note,
}

/// One deed at exactly one step.
#[derive(Clone, Debug)]
pub struct Trap {
    /// Whose operation; anybody's when `None`.
    pub process: Option<ProcessId>,
    /// Which operation.
    pub operation: Operation,
    /// What the path holds.
    pub path_has: String,
    /// How many such operations go well before.
    pub skip: u64,
    /// On how many it acts; then it is gone.
    pub times: u64,
    /// What happens.
    pub deed: Deed,
}

impl Trap {
    /// Acts once, on the first such operation of anybody.
    #[must_use]
    pub fn new(operation: Operation, path_has: &str, deed: Deed) -> Trap {
        Trap { process: None, operation, path_has: path_has.to_owned(), skip: 0, times: 1, deed }
    }

    /// Lets so many such operations go well before.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Trap {
        self.skip = skip;
        self
    }

    /// Acts on so many operations.
    #[must_use]
    pub fn times(mut self, times: u64) -> Trap {
        self.times = times;
        self
    }

    /// Acts on operations of this process only.
    #[must_use]
    pub fn of(mut self, process: ProcessId) -> Trap {
        self.process = Some(process);
        self
    }

    fn matches(&self, process: ProcessId, operation: Operation, path: &str) -> bool {
        self.operation == operation && self.process.is_none_or(|only| only == process) && path.contains(&self.path_has)
    }
}

/// All traps that wait, and how many have acted.
#[derive(Debug, Default)]
pub(super) struct Traps {
    waiting: Vec<Trap>,
    pub(super) sprung: u64,
}

impl Traps {
    pub(super) fn set(&mut self, trap: Trap) {
        self.waiting.push(trap);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The deed for this operation, if there is one.
    pub(super) fn spring(&mut self, process: ProcessId, operation: Operation, path: &str) -> Option<Deed> {
        self.spring_if(process, operation, path, |deed| !matches!(deed, Deed::Hang(When::Before, _)))
    }

    /// The deed for this operation, if there is one of this sort.
    pub(super) fn spring_if(&mut self, process: ProcessId, operation: Operation, path: &str, sort: impl Fn(&Deed) -> bool) -> Option<Deed> {
        let at = self.waiting.iter().position(|trap| sort(&trap.deed) && trap.matches(process, operation, path))?;
        let trap = &mut self.waiting[at];
        if trap.skip > 0 {
            trap.skip -= 1;
            return None;
        }
        trap.times -= 1;
        let deed = trap.deed;
        if trap.times == 0 {
            self.waiting.remove(at);
        }
        self.sprung += 1;
        Some(deed)
    }
}

impl Weather {
    /// What chance does to this operation.
    pub(super) fn strikes(&self, operation: Operation, random: &mut Random) -> Option<Deed> {
        if operation.asks_broker() {
            return self.strikes_broker(operation, random);
        }
        // On a full disk names can still be changed and removed.
        let closed = self.closed.filter(|kind| match kind {
            io::ErrorKind::StorageFull => matches!(operation, Operation::Create | Operation::Append),
            _ => operation.writes() && operation != Operation::Sync,
        });
        if let Some(kind) = closed {
            return Some(Deed::Refuse(kind));
        }
        if random.chance(self.refused) {
            let full = matches!(operation, Operation::Create | Operation::Append) && random.chance(3_000);
            return Some(Deed::Refuse(if full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other }));
        }
        if operation.writes() && operation != Operation::Append && random.chance(self.answer_lost) {
            return Some(Deed::LoseAnswer(io::ErrorKind::TimedOut));
        }
        None
    }

    fn strikes_broker(&self, operation: Operation, random: &mut Random) -> Option<Deed> {
        if self.broker_away || random.chance(self.broker_refused) {
            return Some(Deed::Refuse(io::ErrorKind::ConnectionRefused));
        }
        let lost = operation.writes() && random.chance(self.broker_answer_lost);
        lost.then_some(Deed::LoseAnswer(io::ErrorKind::TimedOut))
    }
}
