//! Writes records in one task: lines into a buffer, full buffers to the file behind the door.
//!
//! Invariants:
//! 1. A line is in exactly one file, and in that file's digest.
//! 2. At most [`BUFFERS_MAX`] full buffers are under way; then there is no room.
//! 3. At most one file is carried over an epoch; a restored file that cannot go on is closed by the next epoch as it is.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use staunch_api::{Committable, Prepared, SinkWriter, WriterContext};
use staunch_types::{Digest, Epoch, Error, ErrorKind, Result, Tick, Timestamp};

use super::Settings;
use super::file::{OutFile, Step};
use super::names::{FileId, Names, Phase};
use super::stored::{OutputFormat, StoredFile, Tail};
use crate::{Compression, codes, csv};

/// Bytes of lines that go to the file together.
const BUFFER_BYTES: usize = 1 << 20;
/// Buffers under way at most.
const BUFFERS_MAX: usize = 8;

/// Writes records into files, in one task.
pub struct FileWriter<T> {
    settings: Settings,
    context: WriterContext,
    names: Names,
    files: BTreeMap<u64, OutFile>,
    current: Option<Current>,
    /// Lines of the current file.
    buffer: Vec<u8>,
    /// Files that this epoch has closed so far.
    closed: Vec<Current>,
    preparing: VecDeque<Preparing>,
    used: Vec<Vec<u8>>,
    under_way: usize,
    number_next: u64,
    now: Tick,
    input: Input,
    failed: Option<Error>,
    record: PhantomData<fn(T)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    GoesOn,
    Ended,
}

/// What is known of a file on this side of the door.
#[derive(Clone)]
struct Current {
    number: u64,
    format: OutputFormat,
    compression: Compression,
    name_end: String,
    header: Option<Vec<u8>>,
    digest: Digest,
    /// Bytes before compression.
    plain_bytes: u64,
    opened: Tick,
    /// A restored file is compared with the first record's header before it goes on.
    checked: bool,
}

/// An epoch whose files are on their way to the disk.
struct Preparing {
    epoch: Epoch,
    closing: Vec<Current>,
    carried: Option<Current>,
}

impl<T: Serialize> FileWriter<T> {
    pub(crate) fn new(settings: Settings, context: WriterContext, restored: &[Vec<u8>]) -> Result<FileWriter<T>> {
        let names = Names::new(&settings.directory, &context.job, &context.sink)?;
        let mut writer = FileWriter {
            settings,
            context,
            names,
            files: BTreeMap::new(),
            current: None,
            buffer: Vec::new(),
            closed: Vec::new(),
            preparing: VecDeque::new(),
            used: Vec::new(),
            under_way: 0,
            number_next: 0,
            now: Tick::default(),
            input: Input::GoesOn,
            failed: None,
            record: PhantomData,
        };
        for carried in restored.iter().filter(|carried| !carried.is_empty()) {
            writer.restore(Tail::decode(carried)?);
        }
        Ok(writer)
    }

    /// Takes over an unfinished file: one goes on, if it is of the same form; the others are closed by the next epoch.
    fn restore(&mut self, tail: Tail) {
        let taken = Current {
            number: self.number_next,
            format: tail.format,
            compression: tail.compression,
            name_end: tail.name_end.clone(),
            header: tail.header.clone(),
            digest: tail.digest,
            plain_bytes: tail.plain_bytes,
            opened: self.now,
            checked: false,
        };
        self.start_file(taken.compression, Some(tail));
        let same_form = taken.format == self.settings.format && taken.compression == self.settings.compression;
        if same_form && self.current.is_none() {
            self.current = Some(taken);
        } else {
            self.step(taken.number, Step::Close);
            self.closed.push(taken);
        }
    }

    fn start_file(&mut self, compression: Compression, origin: Option<Tail>) -> u64 {
        let number = self.number_next;
        self.number_next += 1;
        let id = self.id(number);
        let journal = self.settings.journal.then(|| self.context.journal.clone());
        let file = OutFile::new(Arc::clone(&self.context.file_system), &self.names, id, compression, origin, journal);
        self.files.insert(number, file);
        number
    }

    fn id(&self, number: u64) -> FileId {
        FileId { generation: self.context.generation, task_index: self.context.task_index, number }
    }

    fn step(&mut self, number: u64, step: Step) {
        if let Some(file) = self.files.get_mut(&number) {
            file.push(step);
        }
    }

    /// Makes sure that there is a file for this record.
    fn open_file(&mut self, record: &T) -> Result<()> {
        let header = match self.settings.format {
            OutputFormat::Csv { delimiter, header: true } => Some(csv::header(record, delimiter).ok_or_else(nameless)?),
            OutputFormat::Csv { header: false, .. } | OutputFormat::JsonLines => None,
        };
        if let Some(current) = &mut self.current {
            if current.header == header {
                current.checked = true;
                return Ok(());
            }
            // The record has other fields than before the restart: it does not fit under the old header.
            self.close_current();
        }
        let number = self.start_file(self.settings.compression, None);
        if let Some(line) = &header {
            self.buffer.extend_from_slice(line);
            self.buffer.push(b'\n');
        }
        self.current = Some(Current {
            number,
            format: self.settings.format,
            compression: self.settings.compression,
            name_end: self.settings.name_end(),
            plain_bytes: self.buffer.len() as u64,
            header,
            digest: Digest::default(),
            opened: self.now,
            checked: true,
        });
        Ok(())
    }

    /// Hands the buffer to the file.
    fn hand_over(&mut self) {
        let Some(current) = &self.current else { return };
        if self.buffer.is_empty() {
            return;
        }
        let mut next = self.used.pop().unwrap_or_default();
        next.clear();
        let full = std::mem::replace(&mut self.buffer, next);
        self.under_way += 1;
        self.step(current.number, Step::Append(full));
    }

    fn close_current(&mut self) {
        self.hand_over();
        if let Some(current) = self.current.take() {
            self.step(current.number, Step::Close);
            self.closed.push(current);
        }
    }

    fn drive(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        for file in self.files.values_mut() {
            let before = self.used.len();
            let result = file.drive(&self.context.io, &mut self.used);
            self.under_way -= self.used.len() - before;
            self.used.truncate(BUFFERS_MAX);
            if let Err(error) = result {
                self.failed = Some(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    fn is_prepared(&self, preparing: &Preparing) -> bool {
        let reached = |current: &Current| self.files.get(&current.number).is_some_and(|file| file.mark().is_some());
        preparing.closing.iter().chain(&preparing.carried).all(reached)
    }

    fn committable(&mut self, epoch: Epoch, closed: Current) -> Result<Committable> {
        let id = self.id(closed.number);
        let mark = self.files.remove(&closed.number).and_then(|mut file| file.take_mark()).ok_or_else(no_mark)?;
        let visible = self.names.visible(&self.settings.prefix, epoch, id, &closed.name_end);
        let description = visible.display().to_string();
        let file = StoredFile {
            job: self.names.job.clone(),
            sink: self.names.sink.clone(),
            hidden: self.names.hidden(id, Phase::Prepared),
            visible,
            tag: self.names.tag().to_string(),
            bytes: mark.bytes,
            content: mark.content,
            format: closed.format,
            compression: closed.compression,
            header: closed.header,
            digest: closed.digest,
        };
        Ok(Committable {
            epoch,
            generation: self.context.generation,
            task_index: self.context.task_index,
            body: file.encode()?,
            description,
            digest: closed.digest,
        })
    }

    fn carried(&mut self, carried: Current) -> Result<Vec<u8>> {
        let id = self.id(carried.number);
        let mark = self.files.get_mut(&carried.number).and_then(OutFile::take_mark).ok_or_else(no_mark)?;
        Tail {
            id,
            tag: self.names.tag().to_string(),
            hidden: self.names.hidden(id, Phase::Prepared),
            bytes: mark.bytes,
            content: mark.content,
            plain_bytes: carried.plain_bytes,
            digest: carried.digest,
            format: carried.format,
            compression: carried.compression,
            header: carried.header,
            name_end: carried.name_end,
        }
        .encode()
    }
}

impl<T: Serialize + Send + 'static> SinkWriter for FileWriter<T> {
    type Record = T;

    #[inline]
    fn write(&mut self, record: T, _time: Timestamp) -> Result<()> {
        if !self.current.as_ref().is_some_and(|current| current.checked) {
            self.open_file(&record)?;
        }
        let start = self.buffer.len();
        let written = match self.settings.format {
            OutputFormat::Csv { delimiter, .. } => csv::write(&record, delimiter, &mut self.buffer).map_err(|error| error.to_string()),
            OutputFormat::JsonLines => serde_json::to_writer(&mut self.buffer, &record).map_err(|error| error.to_string()),
        };
        if let Err(reason) = written {
            self.buffer.truncate(start);
            return Err(unwritable(reason));
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        current.digest.add(&self.buffer[start..]);
        self.buffer.push(b'\n');
        current.plain_bytes += (self.buffer.len() - start) as u64;
        if self.settings.roll_bytes.is_some_and(|limit| current.plain_bytes >= limit) {
            self.close_current();
            return self.drive();
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.hand_over();
            return self.drive();
        }
        Ok(())
    }

    #[inline]
    fn room(&self) -> bool {
        self.under_way < BUFFERS_MAX
    }

    fn work(&mut self, now: Tick) -> Result<Option<Tick>> {
        self.now = now;
        self.drive()?;
        Ok(None)
    }

    fn prepare(&mut self, epoch: Epoch) -> Result<()> {
        let young = |current: &Current, age| self.now.since(current.opened) < age;
        let goes_on = self.input == Input::GoesOn
            && self.current.as_ref().is_some_and(|current| self.settings.roll_every.is_some_and(|age| young(current, age)));
        let mut carried = None;
        if goes_on {
            self.hand_over();
            carried.clone_from(&self.current);
            if let Some(current) = &carried {
                self.step(current.number, Step::Mark);
            }
        } else {
            self.close_current();
        }
        let closing = std::mem::take(&mut self.closed);
        self.preparing.push_back(Preparing { epoch, closing, carried });
        self.drive()
    }

    fn poll_prepared(&mut self) -> Result<Option<Prepared>> {
        self.drive()?;
        if !self.preparing.front().is_some_and(|preparing| self.is_prepared(preparing)) {
            return Ok(None);
        }
        let Some(Preparing { epoch, closing, carried }) = self.preparing.pop_front() else { return Ok(None) };
        let mut committables = Vec::new();
        for closed in closing {
            committables.push(self.committable(epoch, closed)?);
        }
        let carried = match carried {
            Some(carried) => self.carried(carried)?,
            None => Vec::new(),
        };
        Ok(Some(Prepared { epoch, committables, carried }))
    }

    fn end(&mut self) {
        self.input = Input::Ended;
    }
}

fn no_mark() -> Error {
    Error::new(ErrorKind::Bug, codes::OUTPUT_BUG, "a file of a prepared epoch has no mark")
}

#[cold]
fn unwritable(reason: String) -> Error {
    Error::new(ErrorKind::Invalid, codes::RECORD_UNWRITABLE, format!("the record cannot be written: {reason}"))
        .data("nothing of the present epoch is visible; what is committed is whole")
        .remedy("map the record to one that can be written before the sink, or choose another format")
}

#[cold]
fn nameless() -> Error {
    Error::new(ErrorKind::Invalid, codes::HEADER_NAMELESS, "a header is wanted, and the record is no struct: its cells have no names")
        .data("nothing was written")
        .remedy("write a struct, or say `header(false)`")
}
