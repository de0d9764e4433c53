//! The enumerators of a job: finding splits and giving them to readers.
//!
//! Owns: the driving of the assignment machine, the discovery behind the door. Does not own: the rules of assignment.
//!
//! A snapshot of what is unassigned is taken in the same step in which the epoch's triggers are mailed. Mail is in order, so a split is
//! either in a reader's snapshot or among the unassigned, never in both and never in none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use staunch_api::{Assignment, Io, Pending, Reached};
use staunch_protocol::assign::{self, Effect, Event, Mode, Splits};
use staunch_types::{Error, ErrorKind, Name, Result, TaskId, Tick};

use super::{SplitBytes, TaskMail};
use crate::checkpoint::{CheckpointRecord, SourceRecord};
use crate::job::decode_inline;
use crate::runtime::Mailbox;
use crate::source::{EnumeratorDyn, Found, SPLITS, SourcePlan};

/// Failures to look for splits in a row that are tolerated, and the wait between them.
const DISCOVERY_FAILURES_MAX: u32 = 10;
const DISCOVERY_RETRY: Duration = Duration::from_secs(1);

/// Orders splits: by when they were found, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SplitKey {
    order: u64,
    id: String,
}

/// One source at the coordinator.
pub(super) struct SourceDriver {
    name: Name,
    chain: u32,
    splits: Splits<SplitKey>,
    /// Splits that no reader has.
    held: BTreeMap<SplitKey, Vec<u8>>,
    next_order: u64,
    state: Option<Vec<u8>>,
    search: Search,
    failures: u32,
    /// Readers that asked and got nothing yet.
    asking: BTreeSet<u32>,
    mode: Assignment,
    /// A search has ended, so that it is known what there is.
    searched: bool,
    /// Readers that asked before that.
    early: Vec<u32>,
    hears_commits: bool,
    /// How far committed epochs have come, while the enumerator cannot be told.
    untold: Option<Reached<SplitBytes>>,
}

enum Search {
    Running(Pending<(Box<dyn EnumeratorDyn>, Result<Found>)>),
    Waiting(Option<Box<dyn EnumeratorDyn>>, Tick),
    /// There is no more to be found; who wants to hear what is committed is kept.
    Over(Option<Box<dyn EnumeratorDyn>>),
}

impl SourceDriver {
    /// A driver that starts from a checkpoint's record (or nothing) and the readers' unfinished splits. The enumerator is made by the
    /// caller, where blocking is allowed.
    pub(super) fn new(
        plan: &SourcePlan,
        chain: u32,
        parallelism: u32,
        restored: Option<&SourceRecord>,
        unfinished: Vec<SplitBytes>,
        enumerator: Box<dyn EnumeratorDyn>,
    ) -> SourceDriver {
        let mode = match plan.assignment {
            Assignment::AllAtOnce => Mode::Eager,
            Assignment::OnRequest => Mode::OnRequest,
        };
        let mut held = BTreeMap::new();
        let unassigned = restored.map(|r| r.unassigned.clone()).unwrap_or_default();
        let begun = unfinished.len();
        for (order, split) in unfinished.into_iter().chain(unassigned).enumerate() {
            held.insert(SplitKey { order: order as u64, id: split.id }, split.bytes);
        }
        let known: BTreeSet<SplitKey> = held.keys().cloned().collect();
        let begun = known.iter().take(begun).cloned().collect();
        let facts = assign::Facts { known, finished: BTreeSet::new(), begun, parallelism };
        SourceDriver {
            name: plan.name.clone(),
            chain,
            splits: Splits::recover(facts, mode),
            next_order: held.len() as u64,
            held,
            state: restored.and_then(|r| r.state.clone()),
            hears_commits: enumerator.hears_commits(),
            search: Search::Waiting(Some(enumerator), Tick::default()),
            failures: 0,
            asking: BTreeSet::new(),
            mode: plan.assignment,
            searched: false,
            early: Vec::new(),
            untold: None,
        }
    }

    /// The name of the source.
    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    /// The chain that reads it.
    pub(super) fn chain(&self) -> u32 {
        self.chain
    }

    /// What belongs into a checkpoint that is triggered now.
    pub(super) fn record(&self) -> SourceRecord {
        let unassigned = self.held.iter().map(|(k, bytes)| SplitBytes { id: k.id.clone(), bytes: bytes.clone() }).collect();
        SourceRecord { state: self.state.clone(), unassigned }
    }

    /// Gives out what was being read at the checkpoint, before the readers begin: so each knows what it holds the watermark back for.
    pub(super) fn begin(&mut self, now: Tick, mailboxes: &BTreeMap<TaskId, Mailbox<TaskMail>>) -> Result<()> {
        self.step(now, Event::Found { splits: Vec::new() }, mailboxes)
    }

    /// A reader has nothing to read.
    pub(super) fn wanted(&mut self, now: Tick, task: u32, mailboxes: &BTreeMap<TaskId, Mailbox<TaskMail>>) -> Result<()> {
        if !self.searched {
            // Nothing is given out before it is known what there is: otherwise one reader would read while the others could not yet be
            // told that there is nothing for them, and would hold the watermark meanwhile.
            self.early.push(task);
            return Ok(());
        }
        self.asking.insert(task);
        self.step(now, Event::Requested { task }, mailboxes)
    }

    /// Looks for splits when it is time, and takes what was found.
    ///
    /// # Errors
    /// As the enumerator; `Restart` when it failed too often.
    pub(super) fn poll(&mut self, now: Tick, io: &Io, mailboxes: &BTreeMap<TaskId, Mailbox<TaskMail>>) -> Result<()> {
        if let Search::Waiting(enumerator, due) = &mut self.search
            && *due <= now
            && let Some(mut enumerator) = enumerator.take()
        {
            self.search = Search::Running(io.run(move || {
                let found = enumerator.discover();
                (enumerator, found)
            }));
        }
        let Search::Running(pending) = &mut self.search else { return Ok(()) };
        let Some((enumerator, found)) = pending.poll() else { return Ok(()) };
        match found {
            Ok(found) => self.found(now, enumerator, found, mailboxes)?,
            Err(error) if error.kind() == ErrorKind::Retry && self.failures < DISCOVERY_FAILURES_MAX => {
                self.failures += 1;
                self.search = Search::Waiting(Some(enumerator), now + DISCOVERY_RETRY);
            }
            Err(error) => return Err(error.at(format!("source={}", self.name))),
        }
        self.tell()
    }

    /// The epoch of this checkpoint is committed, and every one before it.
    ///
    /// # Errors
    /// As an inline value of a checkpoint.
    pub(super) fn committed(&mut self, record: &CheckpointRecord) -> Result<()> {
        if !self.hears_commits {
            return Ok(());
        }
        // Splits of which nothing was read since, as they have ended, are in none of the later epochs.
        let mut read_to = self.untold.take().map(|untold| untold.read_to).unwrap_or_default();
        let parts = record.operators.get(&self.name).into_iter().flat_map(BTreeMap::values);
        read_to.extend(parts.flat_map(|part| &part.reads).map(|read| (read.split.clone(), read.to)));
        self.untold = Some(Reached { unfinished: unfinished(record, &self.name)?, read_to });
        self.tell()
    }

    fn tell(&mut self) -> Result<()> {
        match &mut self.search {
            Search::Waiting(Some(enumerator), _) | Search::Over(Some(enumerator)) => {
                self.untold.take().map_or(Ok(()), |reached| enumerator.committed(reached))
            }
            // When it is back.
            Search::Waiting(None, _) | Search::Running(_) | Search::Over(None) => Ok(()),
        }
    }

    /// When to poll without other cause.
    pub(super) fn deadline(&self) -> Option<Tick> {
        match &self.search {
            Search::Waiting(_, due) => Some(*due),
            Search::Running(_) | Search::Over(_) => None,
        }
    }

    fn found(
        &mut self,
        now: Tick,
        enumerator: Box<dyn EnumeratorDyn>,
        found: Found,
        mailboxes: &BTreeMap<TaskId, Mailbox<TaskMail>>,
    ) -> Result<()> {
        self.failures = 0;
        self.state = Some(found.state);
        let mut keys = Vec::new();
        for split in found.splits {
            let key = SplitKey { order: self.next_order, id: split.id };
            self.next_order += 1;
            self.held.insert(key.clone(), split.bytes);
            keys.push(key);
        }
        self.step(now, Event::Found { splits: keys }, mailboxes)?;
        match found.again_after {
            Some(wait) => self.search = Search::Waiting(Some(enumerator), now + wait),
            None => {
                self.search = Search::Over(self.hears_commits.then_some(enumerator));
                self.step(now, Event::SearchEnded, mailboxes)?;
            }
        }
        self.searched = true;
        std::mem::take(&mut self.early).into_iter().try_for_each(|task| self.wanted(now, task, mailboxes))
    }

    fn step(&mut self, now: Tick, event: Event<SplitKey>, mailboxes: &BTreeMap<TaskId, Mailbox<TaskMail>>) -> Result<()> {
        let mut effects = Vec::new();
        self.splits.step(now, event, &mut effects);
        // What one reader gets at once is one mail, so that it opens all of it at once.
        let mut assigned: BTreeMap<u32, Vec<SplitBytes>> = BTreeMap::new();
        let mut told_the_end = Vec::new();
        for effect in effects {
            match effect {
                Effect::Assign { task, split } => {
                    let Some(bytes) = self.held.remove(&split) else { continue };
                    self.asking.remove(&task);
                    assigned.entry(task).or_default().push(SplitBytes { id: split.id, bytes });
                }
                Effect::NoMoreSplits { task } => {
                    self.asking.remove(&task);
                    told_the_end.push(task);
                }
            }
        }
        for (task, splits) in assigned {
            self.mail(task, TaskMail::Splits(splits), mailboxes)?;
        }
        for task in told_the_end {
            self.mail(task, TaskMail::NoMoreSplits, mailboxes)?;
        }
        // A reader whose question stays open is idle, unless the first search is still under way and may find something older.
        if self.state.is_some() || self.mode == Assignment::AllAtOnce {
            for task in std::mem::take(&mut self.asking) {
                self.mail(task, TaskMail::NoSplitsNow, mailboxes)?;
            }
        }
        Ok(())
    }

    fn mail(&self, index: u32, mail: TaskMail, mailboxes: &BTreeMap<TaskId, Mailbox<TaskMail>>) -> Result<()> {
        let task = TaskId { chain: self.chain, index };
        match mailboxes.get(&task).map(|m| m.send(mail)) {
            Some(Ok(())) => Ok(()),
            _ => Err(Error::new(ErrorKind::Restart, "R003", "a task does not take its mail; it is stuck or gone")
                .at(format!("task={task} source={}", self.name))
                .data("the job goes back to its last checkpoint; nothing is lost")),
        }
    }
}

/// The splits that the readers of a checkpoint had not finished, in the order of the tasks.
pub(super) fn unfinished(record: &CheckpointRecord, source: &Name) -> Result<Vec<SplitBytes>> {
    let mut all = Vec::new();
    for part in record.operators.get(source).into_iter().flat_map(BTreeMap::values) {
        if let Some(bytes) = part.inline.get(SPLITS) {
            let splits: Vec<(String, Vec<u8>)> = decode_inline(source, SPLITS, bytes)?;
            all.extend(splits.into_iter().map(|(id, bytes)| SplitBytes { id, bytes }));
        }
    }
    Ok(all)
}
