//! The tests that every sink must pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use staunch_types::{Epoch, Generation, LedgerId, Name, Tick, Timestamp};

use super::{HeldDoor, ImmediateDoor, io};
use crate::{
    CheckpointStore, CommitPermit, Committable, Committer, FileSystem, IoDoor, Journal, Lead, Metrics, Prepared, Resolution, Sink,
    SinkContext, SinkWriter, SweepScope, WriterContext, fenced,
};

/// A sink, and a look at the outside system as its readers see it.
pub struct SinkCase<'c, S: Sink> {
    /// The sink, with an outside system that holds nothing.
    pub sink: S,
    /// Its files, if it has any.
    pub file_system: Arc<dyn FileSystem>,
    /// The store of its job's checkpoints, where its journal is.
    pub store: Arc<dyn CheckpointStore>,
    /// A record by number; different numbers give different records.
    pub record: &'c dyn Fn(u64) -> S::Record,
    /// What a reader of the outside system sees now: the numbers of the records, sorted.
    pub visible: &'c dyn Fn() -> Vec<u64>,
    /// Called between polls: lets the outside system go on.
    pub wait: &'c dyn Fn(),
    /// The job.
    pub job: Name,
    /// The newest generation that has a writer.
    newest: Arc<AtomicU64>,
}

/// The ledger of all of a case.
const LEDGER: LedgerId = LedgerId(7);
/// Polls after which a writer is taken to hang.
const POLLS_MAX: usize = 10_000;

/// The right to commit, for tests.
#[must_use]
pub fn permit(epoch: Epoch, generation: Generation) -> CommitPermit {
    CommitPermit::for_testkit(epoch, generation)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap_or_else(|error| panic!("{error}"))
}

impl<'c, S: Sink> SinkCase<'c, S> {
    /// A case with files and a store; nothing has to be waited for.
    pub fn new(
        sink: S,
        file_system: Arc<dyn FileSystem>,
        store: Arc<dyn CheckpointStore>,
        record: &'c dyn Fn(u64) -> S::Record,
        visible: &'c dyn Fn() -> Vec<u64>,
    ) -> SinkCase<'c, S> {
        SinkCase { sink, file_system, store, record, visible, wait: &|| (), job: name("job"), newest: Arc::default() }
    }

    fn names(&self) -> (Name, Name) {
        (self.job.clone(), name("sink"))
    }

    /// What a committer of a generation works with.
    #[must_use]
    pub fn context(&self, generation: u64) -> SinkContext {
        let (job, sink) = self.names();
        let journal = Journal::new(Arc::clone(&self.store), &sink);
        SinkContext {
            job,
            sink,
            generation: Generation(generation),
            file_system: Arc::clone(&self.file_system),
            journal,
            ledger: Some(LEDGER),
            interval: Duration::from_secs(1),
            takes_over: false,
            accepts_lost: false,
        }
    }

    fn lead(&self, generation: u64) -> Lead {
        let newest = Arc::clone(&self.newest);
        Lead::new(move || match newest.load(Ordering::SeqCst) > generation {
            true => Err(fenced()),
            false => Ok(()),
        })
    }

    /// A writer of a generation and task.
    #[must_use]
    pub fn writer(&self, generation: u64, task_index: u32, restored: Vec<Vec<u8>>, door: impl IoDoor + 'static) -> S::Writer {
        let context = self.writer_context(generation, task_index, door);
        self.sink.writer(context, restored).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What a writer of a generation and task works with.
    #[must_use]
    pub fn writer_context(&self, generation: u64, task_index: u32, door: impl IoDoor + 'static) -> WriterContext {
        let (job, sink) = self.names();
        self.newest.fetch_max(generation, Ordering::SeqCst);
        let lead = self.lead(generation);
        let generation = Generation(generation);
        let file_system = Arc::clone(&self.file_system);
        let journal = Journal::new(Arc::clone(&self.store), &sink);
        WriterContext {
            job,
            sink,
            generation,
            task_index,
            parallelism: 2,
            file_system,
            journal,
            lead,
            ledger: LEDGER,
            metrics: Metrics::default(),
            io: io(door),
        }
    }

    /// A committer of a generation.
    #[must_use]
    pub fn committer(&self, generation: u64) -> S::Committer {
        self.sink.committer(self.context(generation)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Writes records by number.
    pub fn write(&self, writer: &mut S::Writer, numbers: std::ops::Range<u64>) {
        for number in numbers {
            writer.write((self.record)(number), Timestamp::MIN).unwrap_or_else(|error| panic!("{error}"));
            writer.work(Tick(number)).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Prepares an epoch and waits for it.
    #[must_use]
    pub fn prepare(&self, writer: &mut S::Writer, epoch: u64) -> Prepared {
        writer.prepare(Epoch(epoch)).unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..POLLS_MAX {
            writer.work(Tick(0)).unwrap_or_else(|error| panic!("{error}"));
            if let Some(prepared) = writer.poll_prepared().unwrap_or_else(|error| panic!("{error}")) {
                assert_eq!(prepared.epoch, Epoch(epoch), "epochs are answered in order");
                return prepared;
            }
            (self.wait)();
        }
        panic!("the writer did not prepare within {POLLS_MAX} polls");
    }

    /// Commits, as a generation, what was prepared.
    pub fn commit(&self, generation: u64, committables: &[Committable]) {
        let mut committer = self.committer(generation);
        for committable in committables {
            let permit = permit(committable.epoch, Generation(generation));
            committer.commit(committable, &permit).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    fn resolve(&self, generation: u64, committables: &[Committable]) -> Vec<Resolution> {
        let mut committer = self.committer(generation);
        committables.iter().map(|committable| committer.resolve(committable).unwrap_or_else(|error| panic!("{error}"))).collect()
    }

    fn sees(&self, numbers: std::ops::Range<u64>, why: &str) {
        assert_eq!((self.visible)(), numbers.collect::<Vec<u64>>(), "{why}");
    }
}

/// Checks all promises of a sink whose writers carry nothing over.
///
/// # Panics
/// When one is broken.
pub fn check_sink<S: Sink>(case: &SinkCase<'_, S>) {
    case.sink.check(&case.context(1)).unwrap_or_else(|error| panic!("{error}"));
    case.sees(0..0, "a check leaves nothing visible");
    prepared_commits_once(case);
    let after_restart = a_restart_keeps_what_is_named_and_aborts_the_rest(case);
    several_epochs_under_way_are_answered_in_order(case, after_restart);
}

fn prepared_commits_once<S: Sink>(case: &SinkCase<'_, S>) {
    let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
    let nothing = case.prepare(&mut writer, 1);
    assert!(nothing.committables.is_empty(), "an epoch without records has nothing to commit");

    case.write(&mut writer, 0..10);
    case.sees(0..0, "what is written is not visible");
    let prepared = case.prepare(&mut writer, 2);
    case.sees(0..0, "what is prepared is not visible (E1)");
    assert!(!prepared.committables.is_empty(), "records make a committable");
    assert_eq!(prepared.committables.iter().map(|c| c.digest.records).sum::<u64>(), 10, "committables count their records");
    assert!(case.resolve(1, &prepared.committables).iter().all(|r| *r == Resolution::Pending), "what is prepared is pending");

    case.commit(1, &prepared.committables);
    case.sees(0..10, "a commit makes all visible");
    assert!(committed(&case.resolve(1, &prepared.committables)), "what is committed says so");
    case.commit(2, &prepared.committables);
    case.sees(0..10, "a second commit, by another generation, changes nothing");
}

fn committed(resolutions: &[Resolution]) -> bool {
    resolutions.iter().all(|resolution| matches!(resolution, Resolution::Committed(_)))
}

fn a_restart_keeps_what_is_named_and_aborts_the_rest<S: Sink>(case: &SinkCase<'_, S>) -> u64 {
    let mut first = case.writer(2, 0, Vec::new(), ImmediateDoor);
    let mut second = case.writer(2, 1, Vec::new(), ImmediateDoor);
    case.write(&mut first, 10..15);
    case.write(&mut second, 15..20);
    let mut named = case.prepare(&mut first, 3).committables;
    named.extend(case.prepare(&mut second, 3).committables);
    // An epoch that no checkpoint names, and one that is not even prepared.
    case.write(&mut first, 100..105);
    let unnamed = case.prepare(&mut first, 4).committables;
    case.write(&mut second, 105..110);
    drop((first, second));

    let scope =
        SweepScope { generation: Generation(3), swept: Generation(1), durable: Epoch(3), committables: named.clone(), carried: Vec::new() };
    let mut committer = case.committer(3);
    committer.sweep(&scope).unwrap_or_else(|error| panic!("{error}"));
    committer.sweep(&scope).unwrap_or_else(|error| panic!("a sweep can be repeated: {error}"));
    case.sees(0..10, "a sweep changes nothing that is visible");
    assert!(case.resolve(3, &named).iter().all(|r| *r == Resolution::Pending), "what a checkpoint names is kept");
    let unnamed_now = case.resolve(3, &unnamed);
    assert!(unnamed_now.iter().all(|r| matches!(r, Resolution::Lost { .. })), "what no checkpoint names is aborted: {unnamed_now:?}");
    for committable in &unnamed {
        let outcome = committer.commit(committable, &permit(committable.epoch, Generation(3)));
        assert!(outcome.is_err(), "what is aborted cannot be committed");
    }
    case.commit(3, &named);
    case.sees(0..20, "what vanished tasks prepared is committed by others");

    // A sweep of an old generation, which does not know better, leaves the new one alone.
    let mut writer = case.writer(4, 0, Vec::new(), ImmediateDoor);
    case.write(&mut writer, 20..25);
    let newer = case.prepare(&mut writer, 4).committables;
    let stale = SweepScope { generation: Generation(3), swept: Generation(1), durable: Epoch(3), ..SweepScope::default() };
    // It may notice that it is stale; that is all right too.
    let _ = case.committer(3).sweep(&stale);
    case.commit(4, &newer);
    case.sees(0..25, "an older generation sweeps nothing of a newer one");
    25
}

fn several_epochs_under_way_are_answered_in_order<S: Sink>(case: &SinkCase<'_, S>, start: u64) {
    let door = HeldDoor::default();
    let mut writer = case.writer(5, 0, Vec::new(), door.clone());
    for epoch in 0..3 {
        case.write(&mut writer, start + epoch..start + epoch + 1);
        if epoch == 2 {
            writer.end();
        }
        writer.prepare(Epoch(10 + epoch)).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut answers: Vec<Prepared> = Vec::new();
    for _ in 0..POLLS_MAX {
        writer.work(Tick(0)).unwrap_or_else(|error| panic!("{error}"));
        answers.extend(writer.poll_prepared().unwrap_or_else(|error| panic!("{error}")));
        // The youngest work first: answers must not depend on the order.
        if door.waiting() == 0 && answers.len() == 3 {
            break;
        }
        door.run(door.waiting().saturating_sub(1));
        (case.wait)();
    }
    let epochs: Vec<u64> = answers.iter().map(|prepared| prepared.epoch.0).collect();
    assert_eq!(epochs, [10, 11, 12], "epochs are answered in order");
    for (prepared, count) in answers.iter().zip(start..) {
        case.sees(0..count, "nothing is visible before its commit");
        case.commit(5, &prepared.committables);
        case.sees(0..count + 1, "each epoch has its own records");
    }
    assert!(answers[2].carried.is_empty(), "after the end of input nothing is carried over");
}
