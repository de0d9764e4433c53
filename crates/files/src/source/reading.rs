//! Reads one split: bytes from the fetcher, records and rejects to the output.
//!
//! Invariants:
//! 1. The position moves only over what was handed to the output; so a snapshot at any time loses and repeats nothing.
//! 2. The ledger's digest covers exactly the lines between its two positions.
//! 3. A reject has the number of its line, even in the middle of a file: then the lines before are counted first, behind the door.

use std::sync::Arc;

use memchr::memchr;
use serde::de::DeserializeOwned;
use staunch_api::{Output, Pending, ReaderContext, Rejected, Split, SplitRead};
use staunch_types::{Digest, Result, Timestamp};
use xxhash_rust::xxh3::Xxh3;

use super::Settings;
use super::fetch::{Ending, Fetcher, Next};
use super::open::Opened;
use super::place::{count_lines, refused, rejected};
use super::split::{FileSplit, Position};
use super::take::{Fault, Reaction, Take, Taker, too_long};
use super::window::Window;
use crate::codes;
use crate::csv::Line;
use crate::shape::Shape;

/// What a poll brings along.
pub(crate) struct Turn<'t> {
    pub(crate) settings: &'t Settings,
    pub(crate) shape: Shape,
    pub(crate) context: &'t ReaderContext,
    pub(crate) used: &'t mut Vec<Vec<u8>>,
}

/// What came of a step.
pub(crate) enum Step {
    /// The budget is used up or the output has no room.
    Paused,
    /// Something is under way behind the door.
    Waiting,
    /// The split has no more records.
    Finished,
}

/// A split being read.
pub(crate) struct Reading {
    slot: u32,
    split: FileSplit,
    /// Position at the last snapshot.
    read_from: u64,
    digest: Digest,
    stage: Stage,
}

enum Stage {
    Opening(Pending<Result<Opened>>),
    Records(Box<Records>),
}

/// A split whose file is open.
struct Records {
    fetcher: Fetcher,
    window: Window,
    taker: Taker,
    /// How the bytes end, once the window has the last of them.
    ending: Option<Ending>,
    /// At which byte the window begins, while the first line, that of the split before, is passed over.
    aligning: Option<u64>,
    /// A line over the limit that is being passed over.
    skip: Option<Box<Skip>>,
    counting: Option<Pending<Result<u64>>>,
}

/// What is known of a line over the limit.
struct Skip {
    raw: Vec<u8>,
    hash: Xxh3,
    /// Bytes of the line, without its end.
    bytes: u64,
    /// Bytes of the line with its end.
    consumed: u64,
    /// A CR that belongs to the line unless an LF follows.
    held_return: bool,
    complete: bool,
}

impl Reading {
    pub(crate) fn new(slot: u32, split: FileSplit, opening: Pending<Result<Opened>>) -> Reading {
        let read_from = split.offset();
        Reading { slot, split, read_from, digest: Digest::default(), stage: Stage::Opening(opening) }
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    pub(crate) fn split(&self) -> &FileSplit {
        &self.split
    }

    /// What was read since the last call.
    pub(crate) fn take_read(&mut self) -> SplitRead {
        let (from, to) = (self.read_from, self.split.offset());
        self.read_from = to;
        SplitRead { split: self.split.id(), from, to, digest: std::mem::take(&mut self.digest) }
    }

    /// The memory of the window, to use again.
    pub(crate) fn into_buffer(self) -> Option<Vec<u8>> {
        match self.stage {
            Stage::Opening(_) => None,
            Stage::Records(records) => Some(records.window.into_buffer()),
        }
    }

    /// Goes on until something stops it.
    pub(crate) fn advance<T: DeserializeOwned, O: Output<T>>(&mut self, turn: Turn<'_>, left: &mut usize, out: &mut O) -> Result<Step> {
        match &mut self.stage {
            Stage::Opening(opening) => match opening.poll() {
                None => return Ok(Step::Waiting),
                Some(opened) => self.begin(opened?, &turn),
            },
            Stage::Records(records) => records.fetcher.pump(&turn.context.io, turn.used)?,
        }
        let Stage::Records(records) = &mut self.stage else { return Ok(Step::Waiting) };
        let mut at = At { split: &mut self.split, read_from: &mut self.read_from, digest: &mut self.digest };
        loop {
            let stop = if records.aligning.is_some() {
                records.align(&mut at)
            } else if records.skip.is_some() {
                records.pass_over::<T, O>(&mut at, &turn, out)?
            } else {
                records.take::<T, O>(&mut at, &turn, left, out)?
            };
            match stop {
                Stop::None => {}
                Stop::Step(step) => return Ok(step),
                Stop::Bytes => match records.fetcher.next(&turn.context.io, turn.used)? {
                    Next::Waiting => return Ok(Step::Waiting),
                    Next::Ended(ending) => records.ending = Some(ending),
                    Next::Chunk(chunk) => {
                        records.taker.look(chunk.bytes());
                        turn.used.extend(records.window.append(chunk));
                    }
                },
            }
        }
    }

    fn begin(&mut self, opened: Opened, turn: &Turn<'_>) {
        let Opened { stream, plan, offset, align, lines_before } = opened;
        if !align {
            if self.split.position == Position::Front {
                self.read_from = offset;
            }
            self.split.position = Position::Record(offset);
            self.split.line = lines_before.map(|lines| lines + 1);
        }
        self.stage = Stage::Records(Box::new(Records {
            fetcher: Fetcher::new(stream),
            window: Window::default(),
            taker: Taker::new(turn.settings, turn.shape, plan, self.split.is_whole()),
            ending: None,
            aligning: align.then_some(offset),
            skip: None,
            counting: None,
        }));
    }
}

/// Where the reading is, as far as the checkpoint is concerned.
struct At<'a> {
    split: &'a mut FileSplit,
    read_from: &'a mut u64,
    digest: &'a mut Digest,
}

impl At<'_> {
    #[inline]
    fn advance(&mut self, bytes: u64, lines: u64) {
        self.split.position = Position::Record(self.split.offset() + bytes);
        if let Some(line) = &mut self.split.line {
            *line += lines;
        }
    }
}

/// Why a step ends.
enum Stop {
    /// What it was at is done.
    None,
    /// It needs more bytes.
    Bytes,
    Step(Step),
}

impl Records {
    /// Passes over the line that the split before reads.
    fn align(&mut self, at: &mut At<'_>) -> Stop {
        let Some(offset) = &mut self.aligning else { return Stop::None };
        let data = self.window.data();
        let end = memchr(b'\n', data);
        let consumed = end.map_or(data.len(), |end| end + 1);
        *offset += consumed as u64;
        self.window.consume(consumed);
        if end.is_none() && self.ending.is_none() {
            return Stop::Bytes;
        }
        at.split.position = Position::Record(*offset);
        *at.read_from = *offset;
        self.aligning = None;
        Stop::None
    }

    /// Takes records until something stops it.
    fn take<T: DeserializeOwned, O: Output<T>>(&mut self, at: &mut At<'_>, turn: &Turn<'_>, left: &mut usize, out: &mut O) -> Result<Stop> {
        let end = at.split.end.unwrap_or(u64::MAX);
        loop {
            if at.split.offset() >= end {
                return Ok(Stop::Step(Step::Finished));
            }
            if *left == 0 || !out.room() {
                return Ok(Stop::Step(Step::Paused));
            }
            let data = self.window.data();
            if data.is_empty() {
                return self.ended(at, turn, out);
            }
            match self.taker.take::<T>(data, self.ending == Some(Ending::Whole)) {
                Take::Record { value, line, lines } => {
                    at.digest.add(&data[..line.bytes]);
                    out.push(value, Timestamp::MIN);
                    self.window.consume(line.consumed);
                    at.advance(line.consumed as u64, lines);
                    *left -= 1;
                }
                Take::Blank { consumed } => {
                    self.window.consume(consumed);
                    at.advance(consumed as u64, 1);
                    *left -= 1;
                }
                Take::More => return self.ended(at, turn, out),
                Take::Endless => {
                    self.skip = Some(Box::new(Skip::new()));
                    return Ok(Stop::None);
                }
                Take::Fault { line, lines, fault } => {
                    if !self.reject(at, turn, out, line, lines, &fault)? {
                        return Ok(Stop::Step(Step::Waiting));
                    }
                    *left -= 1;
                }
            }
        }
    }

    /// There is no whole record in the window: more bytes are needed, or these were all.
    fn ended<T, O: Output<T>>(&mut self, at: &mut At<'_>, turn: &Turn<'_>, out: &mut O) -> Result<Stop> {
        let (code, reason) = match &self.ending {
            None => return Ok(Stop::Bytes),
            Some(Ending::Whole) => return Ok(Stop::Step(Step::Finished)),
            Some(Ending::Cut) => (codes::COMPRESSED_CUT, "expected the end of the compressed data, found the end of the file".to_string()),
            Some(Ending::Damaged(cause)) => (codes::COMPRESSED_DAMAGED, format!("expected compressed data, found damage: {cause}")),
        };
        let reason = format!("{reason}; what follows in the file is lost, and the lines just before may be wrong");
        let fault = Fault { code, reason, column: None, reaction: Reaction::Reject };
        let rest = self.window.data().len();
        if !self.reject(at, turn, out, Line { bytes: rest, consumed: rest }, 0, &fault)? {
            return Ok(Stop::Step(Step::Waiting));
        }
        Ok(Stop::Step(Step::Finished))
    }

    /// Rejects the line at the front of the window; `false` when its number must be waited for.
    #[cold]
    fn reject<T, O: Output<T>>(
        &mut self,
        at: &mut At<'_>,
        turn: &Turn<'_>,
        out: &mut O,
        line: Line,
        lines: u64,
        fault: &Fault,
    ) -> Result<bool> {
        let Some(number) = self.line_number(at, turn)? else { return Ok(false) };
        let raw = &self.window.data()[..line.bytes];
        match fault.reaction {
            Reaction::Stop(remedy) => return Err(refused(at.split, number, fault, remedy)),
            Reaction::Reject => out.reject(rejected(at.split, number, fault, raw))?,
        }
        if !raw.is_empty() {
            at.digest.add(raw);
        }
        self.window.consume(line.consumed);
        at.advance(line.consumed as u64, lines);
        Ok(true)
    }

    /// The number of the line at the position; `None` while it is being counted.
    fn line_number(&mut self, at: &mut At<'_>, turn: &Turn<'_>) -> Result<Option<u64>> {
        if at.split.line.is_none() {
            let counting = self.counting.get_or_insert_with(|| {
                let (file_system, split) = (Arc::clone(&turn.context.file_system), at.split.clone());
                turn.context.io.run(move || count_lines(&*file_system, &split))
            });
            at.split.line = match counting.poll() {
                None => return Ok(None),
                Some(counted) => Some(counted?),
            };
            self.counting = None;
        }
        Ok(at.split.line)
    }

    /// Passes over a line that is longer than the limit, then rejects it.
    fn pass_over<T, O: Output<T>>(&mut self, at: &mut At<'_>, turn: &Turn<'_>, out: &mut O) -> Result<Stop> {
        let Some(mut skip) = self.skip.take() else { return Ok(Stop::None) };
        if !skip.complete {
            let consumed = skip.feed(self.window.data());
            self.window.consume(consumed);
            if !skip.complete && self.ending.is_none() {
                self.skip = Some(skip);
                return Ok(Stop::Bytes);
            }
            skip.complete = true;
        }
        let Some(number) = self.line_number(at, turn)? else {
            self.skip = Some(skip);
            return Ok(Stop::Step(Step::Waiting));
        };
        out.reject(rejected(at.split, number, &too_long(skip.bytes, turn.settings.line_bytes_max), &skip.raw))?;
        at.digest.records += 1;
        at.digest.bytes += skip.bytes;
        at.digest.sum = at.digest.sum.wrapping_add(skip.hash.digest128());
        at.advance(skip.consumed, 1);
        Ok(Stop::None)
    }
}

impl Skip {
    fn new() -> Skip {
        Skip { raw: Vec::new(), hash: Xxh3::new(), bytes: 0, consumed: 0, held_return: false, complete: false }
    }

    /// Takes the data up to the end of the line; gives how much it took.
    fn feed(&mut self, data: &[u8]) -> usize {
        let end = memchr(b'\n', data);
        let consumed = end.map_or(data.len(), |end| end + 1);
        let piece = &data[..end.unwrap_or(data.len())];
        if self.held_return && !piece.is_empty() {
            self.add(b"\r");
        }
        let held = if piece.is_empty() { self.held_return } else { piece.ends_with(b"\r") };
        self.add(piece.strip_suffix(b"\r").unwrap_or(piece));
        self.held_return = held && end.is_none();
        self.consumed += consumed as u64;
        self.complete = end.is_some();
        consumed
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = Rejected::RAW_BYTES_MAX.saturating_sub(self.raw.len());
        self.raw.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}
