//! The tests that every source must pass.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use staunch_types::{Digest, Name, Result, Tick};

use super::{Collected, DeadLetter, Event, HeldDoor, ImmediateDoor, io};
use crate::{
    Discovery, FileSystem, IoDoor, Metrics, ReaderContext, ReaderPhase, Source, SourceContext, SourceReader, Split, SplitEnumerator,
    SplitRead, SplitSnapshot,
};

/// A bounded source whose input stays as it is during the test.
pub struct SourceCase<S> {
    /// The source.
    pub source: S,
    /// Its files, if it has any.
    pub file_system: Arc<dyn FileSystem>,
    /// What it does with rejects.
    pub dead_letter: DeadLetter,
}

/// Polls without progress after which a reader is taken to hang.
const IDLE_POLLS_MAX: usize = 10_000;

fn name() -> Name {
    Name::new("source").unwrap_or_else(|error| panic!("{error}"))
}

/// The context of a reader that is the only one.
#[must_use]
pub fn reader_context(file_system: &Arc<dyn FileSystem>, door: impl IoDoor + 'static) -> ReaderContext {
    ReaderContext {
        name: name(),
        task_index: 0,
        parallelism: 1,
        file_system: Arc::clone(file_system),
        metrics: Metrics::default(),
        io: io(door),
    }
}

/// What the enumerator finds, given the state of its last discovery.
///
/// # Errors
/// Those of the source.
pub fn discover<S: Source>(source: &S, file_system: &Arc<dyn FileSystem>, restored: Option<&[u8]>) -> Result<Discovery<S::Split>> {
    let context = SourceContext { name: name(), parallelism: 1, file_system: Arc::clone(file_system), metrics: Metrics::default() };
    source.enumerator(&context, restored)?.discover()
}

/// Reads all splits of a source, in order, with one reader.
///
/// # Errors
/// Those of the source.
pub fn read_all<S: Source>(case: &SourceCase<S>) -> Result<Collected<S::Record>> {
    let mut run = Run::new(case, discover(&case.source, &case.file_system, None)?.splits)?;
    run.read(usize::MAX)?;
    Ok(run.out)
}

/// A reader and its output.
struct Run<S: Source> {
    reader: S::Reader,
    out: Collected<S::Record>,
}

impl<S: Source> Run<S> {
    fn new(case: &SourceCase<S>, splits: Vec<S::Split>) -> Result<Run<S>> {
        let mut reader = case.source.reader(reader_context(&case.file_system, ImmediateDoor))?;
        for (slot, split) in splits.into_iter().enumerate() {
            reader.add_split(slot as u32, split)?;
        }
        Ok(Run { reader, out: Collected::new(case.dead_letter) })
    }

    /// Reads so many records and rejects, or all.
    fn read(&mut self, room: usize) -> Result<ReaderPhase> {
        self.out.room = room;
        for _ in 0..IDLE_POLLS_MAX {
            let before = self.out.events.len();
            let phase = self.reader.poll(Tick(0), 16, &mut self.out)?;
            if phase == ReaderPhase::WaitingSplits || self.out.room == 0 {
                return Ok(phase);
            }
            assert!(
                phase == ReaderPhase::Ready || self.out.events.len() > before,
                "the reader neither reads nor says that it can: {phase:?}"
            );
        }
        panic!("the reader did not come to an end within {IDLE_POLLS_MAX} polls");
    }
}

/// A split as it comes back from a checkpoint.
fn stored<S: Split>(split: &S) -> S {
    let bytes = postcard::to_allocvec(split).unwrap_or_else(|error| panic!("the split cannot be stored: {error}"));
    postcard::from_bytes(&bytes).unwrap_or_else(|error| panic!("the stored split cannot be read: {error}"))
}

/// Checks all promises of a source on one input.
///
/// # Panics
/// When one is broken.
pub fn check_source<S: Source>(case: &SourceCase<S>)
where
    S::Record: PartialEq + Debug,
{
    let found = discover(&case.source, &case.file_system, None).unwrap_or_else(|error| panic!("{error}"));
    let ids: BTreeSet<String> = found.splits.iter().map(Split::id).collect();
    assert_eq!(ids.len(), found.splits.len(), "split ids are unique within a source");
    let again = discover(&case.source, &case.file_system, Some(&found.state)).unwrap_or_else(|error| panic!("{error}"));
    assert!(again.splits.is_empty(), "an enumerator that is restored does not hand out splits again: {:?}", again.splits);

    let all = read_all(case).unwrap_or_else(|error| panic!("{error}"));
    let begun = all.events.iter().filter(|event| matches!(event, Event::Begin(_))).count();
    let ended = all.events.iter().filter(|event| matches!(event, Event::End(_))).count();
    assert!(begun == ids.len() && ended == ids.len(), "each split begins once and ends once: begun={begun} ended={ended}");
    restores_go_on_where_they_were(case, &found.splits, &all);
    a_held_door_stops_the_reader_without_blocking_it(case, &found.splits, &all);
}

/// Without the events of slots, whose numbers differ between runs.
fn handed_over<T: PartialEq>(events: &[Event<T>]) -> Vec<&Event<T>> {
    events.iter().filter(|event| matches!(event, Event::Record(..) | Event::Rejected(_))).collect()
}

fn restores_go_on_where_they_were<S: Source>(case: &SourceCase<S>, splits: &[S::Split], all: &Collected<S::Record>)
where
    S::Record: PartialEq + Debug,
{
    let expected = handed_over(&all.events);
    let whole = ledger(case, splits, usize::MAX);
    for count in 0..=expected.len() {
        let mut run = Run::new(case, splits.to_vec()).unwrap_or_else(|error| panic!("{error}"));
        if count > 0 {
            run.read(count).unwrap_or_else(|error| panic!("{error}"));
        }
        let before = handed_over(&run.out.events).len();
        assert_eq!(before, count, "a reader hands over no more than there is room for");
        let SplitSnapshot { splits: unfinished, reads } = run.reader.snapshot();
        let restored = unfinished.iter().map(stored).collect();
        let mut rest = Run::<S>::new(case, restored).unwrap_or_else(|error| panic!("{error}"));
        rest.read(usize::MAX).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(handed_over(&rest.out.events), expected[count..], "a restore after {count} records goes on with the next");
        run.read(usize::MAX).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(handed_over(&run.out.events), expected, "a snapshot after {count} records changes nothing for the reader itself");
        let after_restore = rest.reader.snapshot().reads;
        let after_snapshot = run.reader.snapshot().reads;
        assert_eq!(total(&after_restore), total(&after_snapshot), "the ledger of a restored reader is that of the first");
        let mut sum = total(&reads);
        sum.merge(&total(&after_restore));
        assert_eq!(sum, whole, "the ledger of the parts adds up to that of the whole, cut after {count} records");
        assert_eq!(whole.records, lines(&expected), "the ledger counts what is handed over");
        for read in reads.iter().chain(&after_restore) {
            assert!(read.from <= read.to, "{read:?}");
        }
    }
}

/// Records, and rejects that are pieces of input; a break between two pieces is none.
fn lines<T>(events: &[&Event<T>]) -> u64 {
    let is_line = |event: &&&Event<T>| match event {
        Event::Record(..) => true,
        Event::Rejected(rejected) => !rejected.raw.is_empty(),
        Event::Begin(_) | Event::End(_) => false,
    };
    events.iter().filter(is_line).count() as u64
}

fn total(reads: &[SplitRead]) -> Digest {
    let mut sum = Digest::default();
    reads.iter().for_each(|read| sum.merge(&read.digest));
    sum
}

fn ledger<S: Source>(case: &SourceCase<S>, splits: &[S::Split], room: usize) -> Digest {
    let mut run = Run::new(case, splits.to_vec()).unwrap_or_else(|error| panic!("{error}"));
    run.read(room).unwrap_or_else(|error| panic!("{error}"));
    total(&run.reader.snapshot().reads)
}

fn a_held_door_stops_the_reader_without_blocking_it<S: Source>(case: &SourceCase<S>, splits: &[S::Split], all: &Collected<S::Record>)
where
    S::Record: PartialEq + Debug,
{
    let door = HeldDoor::default();
    let context = reader_context(&case.file_system, door.clone());
    let mut reader = case.source.reader(context).unwrap_or_else(|error| panic!("{error}"));
    for (slot, split) in splits.iter().enumerate() {
        reader.add_split(slot as u32, split.clone()).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut out = Collected::new(case.dead_letter);
    let mut idle = 0;
    loop {
        match reader.poll(Tick(0), usize::MAX, &mut out).unwrap_or_else(|error| panic!("{error}")) {
            ReaderPhase::WaitingSplits => break,
            ReaderPhase::WaitingIo => assert!(door.run(0), "the reader waits for work that it has not handed out"),
            ReaderPhase::Ready | ReaderPhase::WaitingUntil(_) => idle += 1,
        }
        assert!(idle < IDLE_POLLS_MAX, "the reader does not come to an end");
    }
    assert_eq!(handed_over(&out.events), handed_over(&all.events), "slow work changes nothing");
}
