//! Keyed state with a database under it.
//!
//! Owns: when what changed is written to the database, when the database is checkpointed, what leaves memory and when records have to wait for
//! that; opening the database, from a checkpoint of any kind. Does not own: entries and which of them changed (state), the database (a leaf).
//!
//! Two things write to the database: a barrier, after which the database is checkpointed, and a want of memory. Both take a cut of all states
//! and write it to its end.
//!
//! Invariants:
//! 1. Batches are written one after the other, in the order in which they were made.
//! 2. From the cut of a barrier to the checkpoint of the database nothing else is written to it, so that the checkpoint is of the barrier.
//! 3. A file counts as stored once an epoch that names it is durable; before, it is stored again.
//! 4. Entries leave memory only between slices of work, and never while a cut is being written.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use staunch_api::{
    CheckpointStore, DatabaseCheckpoint, DatabasePlace, Io, KEY_PREFIX_BYTES, Pending, StateBatch, StateDatabase, StoredDatabase,
    StoredFile, parts_of,
};
use staunch_format::block::{BlockReader, BlockWriter};
use staunch_format::value::Schema;
use staunch_types::{Epoch, Error, ErrorKind, KeyGroup, KeyGroupCount, Name, Result};

use super::blocks::{SLICE_BYTES, SLICE_ENTRIES, TIDY_ENTRIES, load_on, unknown_state};
use crate::checkpoint::{DatabasePart, DatabaseState, Loader};
use crate::job::TaskBuild;
use crate::operator::{Activity, TaskContext};
use crate::state::keyed::{self, KeyedStates, Surplus};
use crate::state::paging::backend::Backend;
use crate::state::table::Pager;
use crate::state::writer::{Budget, Progress};

/// Full batches that may wait for the one being written.
const BATCHES_WAITING_MAX: usize = 2;
/// Entries of another database that one slice takes over.
const TAKEN_OVER_ENTRIES: usize = 2048;
/// Share of the objects that leaves memory beyond what has to, so that it need not be done again at once.
const SPARE_SHARE: usize = 32;
/// Share of the memory for objects by which it may be exceeded before records have to wait.
const EXCESS_SHARE: usize = 10;

/// Keeps the states of one operator of one task, with a database under them.
pub(super) struct Database {
    operator: Name,
    place: DatabasePlace,
    groups: KeyGroupCount,
    backend: Backend,
    store: Arc<dyn CheckpointStore>,
    io: Io,
    opening: Opening,
    database: Option<Arc<dyn StateDatabase>>,
    /// How the entries of the restored database are written, by state; empty for a new one.
    stored: BTreeMap<String, (Schema, Schema)>,
    phase: Phase,
    uploading: Option<Uploading>,
    waiting: VecDeque<StateBatch>,
    writing: Option<Pending<Result<()>>>,
    /// The files of the latest epoch known to be durable.
    known: Vec<StoredFile>,
    uploaded: VecDeque<(Epoch, Vec<StoredFile>)>,
    /// Bytes that the backend knows of.
    taken: usize,
    /// Bytes when a cut was last taken to make room that did not.
    fruitless_at: Option<usize>,
    /// There is so little memory left that nothing more may come in before something has left.
    must_wait: bool,
}

/// How far the state is loaded.
enum Opening {
    /// Not begun.
    Due { databases: Vec<DatabasePart>, blocks: Option<Loader> },
    /// The database is being opened; others will be taken over, or blocks.
    Database { opened: Pending<Result<Opened>>, blocks: Option<Loader> },
    /// Blocks are applied: of the checkpoint, or of other databases.
    Blocks { blocks: Option<Loader>, others: VecDeque<Other> },
    /// All is there.
    Done,
}

struct Opened {
    own: Arc<dyn StateDatabase>,
    others: VecDeque<Other>,
}

/// A database of a checkpoint whose entries are taken over one by one, since they are written in other ways than each other's.
struct Other {
    database: Arc<dyn StateDatabase>,
    states: VecDeque<(usize, DatabaseState)>,
    from: Vec<u8>,
}

/// What the database is being written for.
enum Phase {
    /// Nothing.
    Idle,
    /// A cut is drained; after it the database is checkpointed if it is an epoch's.
    Draining(Option<Epoch>),
    /// It is drained, and not yet written.
    Writing(Option<Epoch>),
    /// The database takes its checkpoint.
    Checkpointing(Epoch, Pending<Result<Box<dyn DatabaseCheckpoint>>>),
}

/// A checkpoint of the database on its way to the store. The database may be written meanwhile.
struct Uploading {
    epoch: Epoch,
    stored: Pending<Result<Vec<StoredFile>>>,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.backend.change(self.taken, 0);
    }
}

impl Database {
    pub(super) fn new(operator: &Name, backend: Backend, build: &TaskBuild<'_>) -> Database {
        let restore = build.restore(operator);
        let segments: Vec<_> = restore.states.values().flatten().cloned().collect();
        let blocks = (!segments.is_empty()).then(|| build.loader(segments));
        let place = DatabasePlace {
            job: build.job.clone(),
            operator: operator.clone(),
            task: build.task,
            generation: build.generation,
            range: build.range(),
            states: Vec::new(),
        };
        Database {
            operator: operator.clone(),
            place,
            groups: build.groups,
            backend,
            store: Arc::clone(&build.store),
            io: build.io.clone(),
            opening: Opening::Due { databases: restore.databases, blocks },
            database: None,
            stored: BTreeMap::new(),
            phase: Phase::Idle,
            uploading: None,
            waiting: VecDeque::new(),
            writing: None,
            known: Vec::new(),
            uploaded: VecDeque::new(),
            taken: 0,
            fruitless_at: None,
            must_wait: false,
        }
    }

    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.opening, Opening::Done) && !self.must_wait
    }

    fn is_writing(&self) -> bool {
        matches!(self.phase, Phase::Draining(_) | Phase::Writing(_) | Phase::Checkpointing(..))
    }

    pub(super) fn barrier<K>(&mut self, epoch: Epoch, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) {
        states.each(&mut |state| state.cut());
        self.phase = Phase::Draining(Some(epoch));
        // One that is still under way is of an epoch that was given up.
        self.uploading = None;
        context.expect_more();
    }

    pub(super) fn durable(&mut self, epoch: Epoch) {
        while let Some((uploaded, files)) = self.uploaded.pop_front_if(|(uploaded, _)| *uploaded <= epoch) {
            if uploaded == epoch {
                self.known = files;
            }
        }
    }

    pub(super) fn abandoned(&mut self, epoch: Epoch) {
        self.uploaded.retain(|(uploaded, _)| *uploaded != epoch);
        match &self.phase {
            // What is drained already makes room all the same; it is written to its end as if for that.
            Phase::Draining(Some(own)) if *own <= epoch => self.phase = Phase::Draining(None),
            Phase::Writing(Some(own)) if *own <= epoch => self.phase = Phase::Writing(None),
            Phase::Checkpointing(own, _) if *own <= epoch => self.phase = Phase::Idle,
            Phase::Idle | Phase::Draining(_) | Phase::Writing(_) | Phase::Checkpointing(..) => {}
        }
        self.uploading.take_if(|uploading| uploading.epoch <= epoch);
    }

    pub(super) fn work<K>(&mut self, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) -> Result<Activity> {
        let opened = self.open(states)?;
        if self.database.is_none() {
            return Ok(opened);
        }
        self.write_on()?;
        self.give_up_with_the_task(context);
        let moved = self.move_on(states, context)? | self.upload_on(states, context)?;
        let relieved = self.relieve(states);
        let tidied = states.tidy(TIDY_ENTRIES);
        Ok(Activity { more: opened.more || moved || relieved || tidied, wake_at: None })
    }

    /// Opens the database and fills it, as far as that goes now.
    fn open<K>(&mut self, states: &mut dyn KeyedStates<K>) -> Result<Activity> {
        match std::mem::replace(&mut self.opening, Opening::Done) {
            Opening::Done => Ok(Activity::NOTHING),
            Opening::Due { databases, blocks } => {
                states.each(&mut |state| self.place.states.push(state.name().to_owned()));
                let opened = self.begin_opening(databases)?;
                self.opening = Opening::Database { opened, blocks };
                Ok(Activity::MORE)
            }
            Opening::Database { mut opened, blocks } => match opened.poll() {
                None => {
                    self.opening = Opening::Database { opened, blocks };
                    Ok(Activity::NOTHING)
                }
                Some(opened) => {
                    let Opened { own, others } = opened.map_err(|error| error.at(format!("operator={}", self.operator)))?;
                    self.attach(&own, states)?;
                    self.database = Some(own);
                    self.opening = Opening::Blocks { blocks, others };
                    Ok(Activity::MORE)
                }
            },
            Opening::Blocks { blocks, others } if self.is_writing() => {
                // What has come so far makes room first.
                self.opening = Opening::Blocks { blocks, others };
                Ok(Activity::NOTHING)
            }
            Opening::Blocks { mut blocks, mut others } => {
                let activity = match (&mut blocks, others.front_mut()) {
                    (Some(loader), _) => {
                        let activity = load_on(loader, &self.operator, states)?;
                        if loader.is_done() {
                            blocks = None;
                        }
                        activity
                    }
                    (None, Some(other)) => {
                        if other.take_over(&self.place, states)? {
                            others.pop_front();
                        }
                        Activity::MORE
                    }
                    (None, None) => {
                        states.restored().map_err(|error| error.at(format!("operator={}", self.operator)))?;
                        return Ok(Activity::MORE);
                    }
                };
                self.opening = Opening::Blocks { blocks, others };
                Ok(activity)
            }
        }
    }

    /// Opens the database from those of the checkpoint, if they are written in the same way; else an empty one, and those beside it.
    fn begin_opening(&mut self, databases: Vec<DatabasePart>) -> Result<Pending<Result<Opened>>> {
        let kind = self.backend.inner().kind();
        if let Some(other) = databases.iter().find(|database| database.kind != kind) {
            return Err(other_backend(&other.kind, kind).at(format!("operator={}", self.operator)));
        }
        for state in databases.iter().flat_map(|database| &database.states) {
            if !self.place.states.contains(&state.name) {
                return Err(unknown_state(&state.name, &self.operator));
            }
        }
        let is_uniform = databases.windows(2).all(|pair| pair[0].states == pair[1].states);
        let (backend, store, place) = (Arc::clone(self.backend.inner()), Arc::clone(&self.store), self.place.clone());
        if is_uniform {
            if let [only] = &*databases
                && only.stored.groups == self.place.range
            {
                self.known.clone_from(&only.stored.files);
            }
            for state in databases.first().into_iter().flat_map(|database| &database.states) {
                self.stored.insert(state.name.clone(), (state.keys.clone(), state.values.clone()));
            }
            let from: Vec<StoredDatabase> = databases.into_iter().map(|database| database.stored).collect();
            return Ok(self.io.run(move || Ok(Opened { own: backend.open(&place, &from, &*store)?, others: VecDeque::new() })));
        }
        Ok(self.io.run(move || {
            let own = backend.open(&place, &[], &*store)?;
            let mut others = VecDeque::new();
            for database in databases {
                let mut place = place.clone();
                place.states = database.states.iter().map(|state| state.name.clone()).collect();
                let opened = backend.open(&place, &[database.stored], &*store)?;
                others.push_back(Other { database: opened, states: database.states.into_iter().enumerate().collect(), from: Vec::new() });
            }
            Ok(Opened { own, others })
        }))
    }

    fn attach<K>(&mut self, database: &Arc<dyn StateDatabase>, states: &mut dyn KeyedStates<K>) -> Result<()> {
        let (mut number, mut result) = (0, Ok(()));
        states.each(&mut |state| {
            let pager = Pager::new(Arc::clone(database), number, self.groups, self.backend.batch_bytes());
            number += 1;
            if result.is_ok() {
                result = state.attach(pager, self.stored.get(state.name()));
            }
        });
        result.map_err(|error: Error| error.at(format!("operator={}", self.operator)))
    }

    /// Writes the batches that wait, one after the other.
    fn write_on(&mut self) -> Result<()> {
        if let Some(writing) = &mut self.writing {
            match writing.poll() {
                None => return Ok(()),
                Some(result) => {
                    self.writing = None;
                    result.map_err(|error| error.at(format!("operator={}", self.operator)))?;
                }
            }
        }
        if let (Some(batch), Some(database)) = (self.waiting.pop_front(), &self.database) {
            let database = Arc::clone(database);
            self.writing = Some(self.io.run(move || database.write(batch)));
        }
        Ok(())
    }

    /// Gives up the epochs that the task gave up by itself, because the store refused.
    fn give_up_with_the_task(&mut self, context: &TaskContext) {
        let own = match self.phase {
            Phase::Draining(Some(epoch)) | Phase::Writing(Some(epoch)) | Phase::Checkpointing(epoch, _) => Some(epoch),
            Phase::Idle | Phase::Draining(None) | Phase::Writing(None) => self.uploading.as_ref().map(|uploading| uploading.epoch),
        };
        if let Some(epoch) = own
            && context.snapshot.as_ref().is_none_or(|snapshot| snapshot.epoch != epoch)
        {
            self.abandoned(epoch);
        }
    }

    /// Moves the upload on; whether it is at its end.
    fn upload_on<K>(&mut self, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) -> Result<bool> {
        let Some(uploading) = &mut self.uploading else { return Ok(false) };
        let (epoch, Some(stored)) = (uploading.epoch, uploading.stored.poll()) else { return Ok(false) };
        self.uploading = None;
        match stored {
            Ok(files) => self.finish(epoch, files, states, context),
            Err(error) => self.decline(epoch, error, context)?,
        }
        Ok(true)
    }

    /// Moves the cut or the checkpoint on; whether there is more to do at once.
    fn move_on<K>(&mut self, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) -> Result<bool> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => Ok(false),
            Phase::Draining(epoch) => {
                let is_full = self.waiting.len() >= BATCHES_WAITING_MAX;
                let progress = if is_full { Progress::More } else { self.drain(states)? };
                self.phase = match progress {
                    Progress::More => Phase::Draining(epoch),
                    Progress::Done => Phase::Writing(epoch),
                };
                Ok(!is_full)
            }
            Phase::Writing(epoch) if self.writing.is_some() || !self.waiting.is_empty() => {
                self.phase = Phase::Writing(epoch);
                Ok(false)
            }
            Phase::Writing(epoch) => {
                states.each(&mut |state| state.written());
                if let (Some(epoch), Some(database)) = (epoch, &self.database) {
                    let database = Arc::clone(database);
                    self.phase = Phase::Checkpointing(epoch, self.io.run(move || database.checkpoint()));
                }
                Ok(true)
            }
            Phase::Checkpointing(epoch, mut pending) => {
                match pending.poll() {
                    None => self.phase = Phase::Checkpointing(epoch, pending),
                    Some(Ok(checkpoint)) => {
                        let TaskContext { task, .. } = context;
                        let prefix = format!(
                            "state/e{:010}-g{}-t{}.{}-{}/",
                            epoch.0,
                            self.place.generation,
                            task.chain,
                            task.index,
                            self.operator.component()
                        );
                        let (store, known) = (Arc::clone(&self.store), self.known.clone());
                        let stored = self.io.run(move || checkpoint.upload(&*store, &prefix, &known));
                        self.uploading = Some(Uploading { epoch, stored });
                    }
                    Some(Err(error)) => self.decline(epoch, error, context)?,
                }
                Ok(false)
            }
        }
    }

    fn drain<K>(&mut self, states: &mut dyn KeyedStates<K>) -> Result<Progress> {
        let (waiting, mut budget, mut result) = (&mut self.waiting, Budget::new(SLICE_ENTRIES, SLICE_BYTES), Ok(Progress::Done));
        states.each(&mut |state| {
            if matches!(result, Ok(Progress::Done)) {
                result = state.drain_into(&mut budget, &mut |batch| waiting.push_back(batch));
            }
        });
        result.map_err(|error| error.at(format!("operator={}", self.operator)))
    }

    /// The epoch's files are stored.
    fn finish<K>(&mut self, epoch: Epoch, files: Vec<StoredFile>, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) {
        let mut written = Vec::new();
        states.each(&mut |state| {
            let (keys, values) = state.schemas();
            written.push(DatabaseState { name: state.name().to_owned(), keys, values });
        });
        self.uploaded.push_back((epoch, files.clone()));
        if let Some(part) = context.part(&self.operator) {
            let stored = StoredDatabase { groups: self.place.range, files };
            part.database = Some(DatabasePart { kind: self.backend.inner().kind().to_owned(), states: written, stored });
        }
        context.part_finished(epoch);
    }

    /// The checkpoint of the database could not be made or stored: the epoch is given up, if that is all.
    fn decline(&mut self, epoch: Epoch, error: Error, context: &mut TaskContext) -> Result<()> {
        let error = error.at(format!("operator={} epoch={epoch}", self.operator));
        if error.kind() != ErrorKind::Retry {
            return Err(error);
        }
        if let Some(snapshot) = context.snapshot.as_mut().filter(|snapshot| snapshot.epoch == epoch) {
            snapshot.refused.get_or_insert(error);
        }
        Ok(())
    }

    /// Takes entries out of memory when all tasks together have too many; whether there is more to do at once.
    fn relieve<K>(&mut self, states: &mut dyn KeyedStates<K>) -> bool {
        let mut taken = 0;
        states.each(&mut |state| taken += state.object_bytes());
        self.backend.change(self.taken, taken);
        self.taken = taken;
        let surplus = self.backend.surplus();
        // Somebody else's excess is not waited for by who has nothing to give.
        let is_excess = surplus > self.backend.inner().object_bytes_max() / EXCESS_SHARE;
        self.must_wait = taken > 0 && is_excess && (self.is_writing() || self.writing.is_some());
        if surplus == 0 || taken == 0 || self.is_writing() {
            return false;
        }
        // Each gives in proportion to what it has, and a little more, so that it is not asked again with every record.
        let of = self.backend.taken();
        if states.evict(Surplus { part: surplus + of / SPARE_SHARE, of }) > 0 {
            self.fruitless_at = None;
            return true;
        }
        if self.fruitless_at.is_some_and(|at| taken <= at + at / SPARE_SHARE) {
            return false;
        }
        // All of it was changed or used lately: it is written, and then looked at again.
        self.fruitless_at = Some(taken);
        states.each(&mut |state| state.cut());
        self.phase = Phase::Draining(None);
        true
    }
}

impl Other {
    /// Takes over some entries; whether that was the last.
    fn take_over<K>(&mut self, place: &DatabasePlace, states: &mut dyn KeyedStates<K>) -> Result<bool> {
        let Some((number, state)) = self.states.front() else { return Ok(true) };
        let mut block = BlockWriter::new(&state.name, place.range);
        let mut next = None;
        self.database.scan(*number, &self.from, &[0xFF; KEY_PREFIX_BYTES + 1], &mut |key, value| {
            if block.entries() == TAKEN_OVER_ENTRIES as u64 {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            if let Some((namespace, group, own)) = parts_of(key) {
                let group = KeyGroup(group as u16);
                let append = |bytes: &[u8], out: &mut Vec<u8>| {
                    out.extend_from_slice(bytes);
                    Ok::<(), std::convert::Infallible>(())
                };
                if place.range.contains(group) {
                    let Ok(()) = block.put(group, namespace, |out| append(own, out), |out| append(value, out));
                }
            }
            ControlFlow::Continue(())
        })?;
        let bytes = block.finish(&state.keys, &state.values);
        let block = BlockReader::open(&bytes)?;
        // Nothing is older or newer here: every entry is put once.
        keyed::restore(states, Epoch(0), &block)?;
        match next {
            Some(from) => self.from = from,
            None => {
                self.from = Vec::new();
                self.states.pop_front();
            }
        }
        Ok(self.states.is_empty())
    }
}

/// The error for a checkpoint that another backend made.
pub(super) fn other_backend(found: &str, own: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "S204",
        format!("the checkpoint holds keyed state as a database of kind \"{found}\", and the job keeps it in {own}"),
    )
    .data("nothing was changed; the checkpoint is intact")
    .remedy(format!("start the job with the backend \"{found}\""))
}
