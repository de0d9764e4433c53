//! One file being written, behind the door.
//!
//! Invariants:
//! 1. The steps of a file run one after the other, in the order they were given; the door sees one piece of work of a file at a time.
//! 2. After a mark, the bytes before it are durable under the prepared name, can be decoded by themselves, and are never changed.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staunch_api::{FileSystem, Io, Journal, Pending, Replace, WriteFile};
use staunch_types::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3;

use super::names::{FileId, Names, Phase, visible_owner};
use super::stored::Tail;
use crate::compression::Encoder;
use crate::{Compression, codes};

/// Bytes copied at once from an unfinished file.
const COPY_BYTES: usize = 1 << 20;

/// What to do to a file.
pub(crate) enum Step {
    /// Append lines.
    Append(Vec<u8>),
    /// Make what there is durable under the prepared name, and go on.
    Mark,
    /// The same, and stop.
    Close,
}

/// How a file was at a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) bytes: u64,
    pub(crate) content: u128,
}

/// A file being written.
pub(crate) struct OutFile {
    waiting: VecDeque<Step>,
    running: Running,
    marks: VecDeque<Mark>,
}

enum Running {
    Idle(Box<Back>),
    Busy(Pending<(Box<Back>, Outcome)>),
    Failed,
}

struct Outcome {
    marks: Vec<Mark>,
    used: Vec<Vec<u8>>,
    result: Result<()>,
}

impl OutFile {
    /// A file that is made by its first step; with `origin`, it starts with a copy of that.
    pub(crate) fn new(
        file_system: Arc<dyn FileSystem>,
        names: &Names,
        id: FileId,
        compression: Compression,
        origin: Option<Tail>,
        journal: Option<Journal>,
    ) -> OutFile {
        let prepared = names.hidden(id, Phase::Prepared);
        let copy = journal.zip(names.copy_of(&prepared));
        let back = Back {
            file_system,
            open: names.hidden(id, Phase::Open),
            prepared,
            copy,
            origin,
            file: None,
            named: false,
            encoder: Encoder::new(compression),
            hash: Xxh3::new(),
            bytes: 0,
        };
        OutFile { waiting: VecDeque::new(), running: Running::Idle(Box::new(back)), marks: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, step: Step) {
        self.waiting.push_back(step);
    }

    /// Starts what waits and takes what is done; buffers that were written are handed to `used`.
    ///
    /// # Errors
    /// Of the file system; afterwards the file is of no use.
    pub(crate) fn drive(&mut self, io: &Io, used: &mut Vec<Vec<u8>>) -> Result<()> {
        loop {
            match std::mem::replace(&mut self.running, Running::Failed) {
                Running::Busy(mut pending) => {
                    let Some((back, outcome)) = pending.poll() else {
                        self.running = Running::Busy(pending);
                        return Ok(());
                    };
                    used.extend(outcome.used);
                    self.marks.extend(outcome.marks);
                    outcome.result?;
                    self.running = Running::Idle(back);
                }
                Running::Idle(mut back) if !self.waiting.is_empty() => {
                    let steps = std::mem::take(&mut self.waiting);
                    self.running = Running::Busy(io.run(move || {
                        let outcome = back.run(steps);
                        (back, outcome)
                    }));
                }
                other => {
                    self.running = other;
                    return Ok(());
                }
            }
        }
    }

    /// The oldest mark that was reached, if any.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.marks.front().copied()
    }

    pub(crate) fn take_mark(&mut self) -> Option<Mark> {
        self.marks.pop_front()
    }
}

/// The side of a file that blocks.
struct Back {
    file_system: Arc<dyn FileSystem>,
    open: PathBuf,
    prepared: PathBuf,
    /// Where a copy of the closed file goes, and its name there.
    copy: Option<(Journal, String)>,
    origin: Option<Tail>,
    file: Option<Box<dyn WriteFile>>,
    /// Whether the file has its prepared name.
    named: bool,
    encoder: Encoder,
    /// Of all bytes in the file.
    hash: Xxh3,
    bytes: u64,
}

impl Back {
    fn run(&mut self, steps: VecDeque<Step>) -> Outcome {
        let mut outcome = Outcome { marks: Vec::new(), used: Vec::new(), result: Ok(()) };
        for step in steps {
            let result = self.begin().and_then(|()| match step {
                Step::Append(lines) => {
                    let result = self.append(&lines);
                    outcome.used.push(lines);
                    result
                }
                Step::Mark => self.mark(Phase::Open).map(|mark| outcome.marks.push(mark)),
                Step::Close => self.mark(Phase::Prepared).and_then(|mark| self.keep_copy().map(|()| outcome.marks.push(mark))),
            });
            if result.is_err() {
                outcome.result = result;
                break;
            }
        }
        outcome
    }

    /// Makes the file, if that is still to be done.
    fn begin(&mut self) -> Result<()> {
        if self.file.is_some() || self.named {
            return Ok(());
        }
        self.file = Some(self.file_system.create(&self.open).map_err(|error| write_failed(&error, &self.open))?);
        match self.origin.take() {
            Some(tail) => self.copy(&tail),
            None => Ok(()),
        }
    }

    fn append(&mut self, lines: &[u8]) -> Result<()> {
        let Back { file, hash, bytes, encoder, open, .. } = self;
        encoder.write(lines, |encoded| put(file, hash, bytes, encoded)).map_err(|error| write_failed(&error, open))
    }

    /// Makes what there is durable. A file that is closed gives up its handle before it is renamed.
    fn mark(&mut self, after: Phase) -> Result<Mark> {
        let Back { file, hash, bytes, encoder, open, .. } = self;
        let finished = encoder.finish_frame(|encoded| put(file, hash, bytes, encoded));
        finished.and_then(|()| file.as_mut().map_or(Ok(()), |file| file.sync())).map_err(|error| write_failed(&error, open))?;
        if after == Phase::Prepared {
            self.file = None;
        }
        if !self.named {
            let renamed = self.file_system.rename(&self.open, &self.prepared, Replace::Never);
            renamed.map_err(|error| write_failed(&error, &self.prepared))?;
            self.named = true;
        }
        Ok(Mark { bytes: self.bytes, content: self.hash.digest128() })
    }

    /// Puts a copy of the closed file into the journal, if there is one.
    fn keep_copy(&self) -> Result<()> {
        let Some((journal, name)) = &self.copy else { return Ok(()) };
        let failed = |error: io::Error| read_back_failed(&error, &self.prepared);
        let file = self.file_system.open(&self.prepared).map_err(failed)?;
        let mut copy = journal.begin(name)?;
        let (mut buffer, mut at) = (vec![0; COPY_BYTES], 0);
        while at < self.bytes {
            let wanted = buffer.len().min((self.bytes - at) as usize);
            match file.read_at(&mut buffer[..wanted], at).map_err(failed)? {
                0 => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
                read => {
                    copy.append(&buffer[..read])?;
                    at += read as u64;
                }
            }
        }
        copy.finish()
    }

    /// Copies what counts of an unfinished file; that file stays as it is, as the checkpoint may be restored again.
    fn copy(&mut self, tail: &Tail) -> Result<()> {
        let changed = |what: String| carried_changed(tail, what);
        let from = locate(&*self.file_system, tail)?.ok_or_else(|| changed("expected the file, found nothing".into()))?;
        let failed = |error: io::Error| read_back_failed(&error, &from);
        let source = self.file_system.open(&from).map_err(failed)?;
        let mut buffer = vec![0; COPY_BYTES];
        while self.bytes < tail.bytes {
            let wanted = buffer.len().min((tail.bytes - self.bytes) as usize);
            match source.read_at(&mut buffer[..wanted], self.bytes).map_err(failed)? {
                0 => return Err(changed(format!("expected at least bytes={}, found bytes={}", tail.bytes, self.bytes))),
                read => {
                    let Back { file, hash, bytes, open, .. } = self;
                    put(file, hash, bytes, &buffer[..read]).map_err(|error| write_failed(&error, open))?;
                }
            }
        }
        if self.hash.digest128() != tail.content {
            return Err(changed(format!("expected other content in the first bytes={}", tail.bytes)));
        }
        Ok(())
    }
}

fn put(file: &mut Option<Box<dyn WriteFile>>, hash: &mut Xxh3, bytes: &mut u64, encoded: &[u8]) -> io::Result<()> {
    if encoded.is_empty() {
        return Ok(());
    }
    let Some(file) = file else { return Err(io::Error::other("the file is closed")) };
    file.append(encoded)?;
    hash.update(encoded);
    *bytes += encoded.len() as u64;
    Ok(())
}

/// Where an unfinished file is: under its prepared name, or under a visible one when a later epoch closed it.
fn locate(file_system: &dyn FileSystem, tail: &Tail) -> Result<Option<PathBuf>> {
    let failed = |error: io::Error| read_back_failed(&error, &tail.hidden);
    if file_system.metadata(&tail.hidden).map_err(failed)?.is_some() {
        return Ok(Some(tail.hidden.clone()));
    }
    let Some(directory) = tail.hidden.parent() else { return Ok(None) };
    let entries = match file_system.list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        answer => answer.map_err(failed)?,
    };
    let ours = |name: &str| !name.starts_with('.') && visible_owner(name).is_some_and(|(tag, _, id)| tag == tail.tag && id == tail.id);
    Ok(entries.into_iter().find(|entry| ours(&entry.name)).map(|entry| directory.join(entry.name)))
}

fn carried_changed(tail: &Tail, what: String) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        codes::CARRIED_CHANGED,
        format!("the unfinished file that the checkpoint carries is not as it was: {what}"),
    )
    .at(format!("file={}", tail.hidden.display()))
    .data("its records of committed epochs are not visible yet, and are in no other place")
    .remedy("bring the file back, or restore an older checkpoint")
}

fn read_back_failed(error: &io::Error, path: &Path) -> Error {
    Error::new(ErrorKind::Restart, codes::READ_FAILED, "the unfinished file of the last checkpoint could not be read")
        .at(format!("file={}", path.display()))
        .cause(error)
        .remedy("look at the disk or mount if this happens again")
}

/// A failure of the operating system while writing.
fn write_failed(error: &io::Error, path: &Path) -> Error {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on the disk; the job goes on from its last checkpoint",
        _ => "look at the disk or mount; the job goes on from its last checkpoint",
    };
    Error::new(ErrorKind::Restart, codes::WRITE_FAILED, "the output could not be written")
        .at(format!("file={}", path.display()))
        .data("nothing of the present epoch is visible; what is committed is whole")
        .cause(error)
        .remedy(remedy)
}
