//! Fetches the bytes of a split behind the door, ahead of the reader.
//!
//! Invariants:
//! 1. At most one fetch is under way, and at most [`AHEAD`] chunks wait, so memory is bounded.
//! 2. The end of the input is told only when the file still has the length it had when it was found.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use staunch_api::{Io, Pending, ReadFile};
use staunch_types::Result;

use super::enumerate::changed;
use super::open::read_failed;
use super::split::FileSplit;
use super::window::Chunk;
use crate::Compression;

/// Chunks that are fetched and wait.
const AHEAD: usize = 2;
/// Bytes fetched at once after the end of a split's range, where its last record may end.
const TAIL_BYTES: usize = 64 * 1024;

/// The bytes of one split.
pub(crate) struct Stream {
    reader: Box<dyn Read + Send>,
    file: Arc<dyn ReadFile>,
    split: FileSplit,
    /// Where in the file the next byte is, in plain bytes.
    offset: u64,
    chunk_bytes: usize,
}

/// How the bytes of a split end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The file ends.
    Whole,
    /// The compressed file ends in the middle.
    Cut,
    /// The compressed file is damaged.
    Damaged(String),
}

/// What comes next.
pub(crate) enum Next {
    Chunk(Chunk),
    Waiting,
    Ended(Ending),
}

impl Stream {
    pub(crate) fn new(file: Arc<dyn ReadFile>, split: &FileSplit, offset: u64, chunk_bytes: usize) -> Result<Stream> {
        let reader = match split.compression.read(Arc::clone(&file), offset) {
            Ok(reader) => reader,
            Err(error) => return Err(read_failed(&error, split)),
        };
        Ok(Stream { reader, file, split: split.clone(), offset, chunk_bytes })
    }

    /// Fills a chunk; tells when there is no more behind it.
    fn fill(&mut self, chunk: &mut Chunk) -> Result<Option<Ending>> {
        let wanted = match self.split.end {
            Some(end) if end > self.offset => (self.chunk_bytes as u64).min(end - self.offset) as usize,
            Some(_) => self.chunk_bytes.min(TAIL_BYTES),
            None => self.chunk_bytes,
        };
        let (got, outcome) = chunk.read(&mut *self.reader, wanted);
        self.offset += got as u64;
        match outcome {
            Ok(()) if got == wanted => Ok(None),
            Ok(()) => match self.file.bytes() {
                Ok(bytes) if bytes == self.split.file_bytes => Ok(Some(Ending::Whole)),
                Ok(bytes) => Err(changed(&self.split.path, self.split.file_bytes, bytes)),
                Err(error) => Err(read_failed(&error, &self.split)),
            },
            Err(error) if self.split.compression == Compression::None || crate::compression::is_of_the_file(&error) => {
                Err(read_failed(&error, &self.split))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(Ending::Cut)),
            Err(error) => Ok(Some(Ending::Damaged(error.to_string()))),
        }
    }
}

type Filled = (Stream, Chunk, Result<Option<Ending>>);

/// Runs the fetches of one split.
pub(crate) struct Fetcher {
    /// Here when no fetch is under way and more is to come.
    idle: Option<Stream>,
    busy: Option<Pending<Filled>>,
    ready: VecDeque<Chunk>,
    ending: Option<Ending>,
}

impl Fetcher {
    pub(crate) fn new(stream: Stream) -> Fetcher {
        Fetcher { idle: Some(stream), busy: None, ready: VecDeque::new(), ending: None }
    }

    /// Takes what was fetched and starts the next fetch.
    pub(crate) fn pump(&mut self, io: &Io, used: &mut Vec<Vec<u8>>) -> Result<()> {
        loop {
            if let Some((stream, chunk, outcome)) = self.busy.as_mut().and_then(Pending::poll) {
                self.busy = None;
                self.ready.push_back(chunk);
                match outcome? {
                    None => self.idle = Some(stream),
                    Some(ending) => self.ending = Some(ending),
                }
            }
            if self.ready.len() >= AHEAD {
                return Ok(());
            }
            let Some(mut stream) = self.idle.take() else { return Ok(()) };
            let mut chunk = Chunk::new(used.pop());
            self.busy = Some(io.run(move || {
                let outcome = stream.fill(&mut chunk);
                (stream, chunk, outcome)
            }));
        }
    }

    /// What comes next.
    pub(crate) fn next(&mut self, io: &Io, used: &mut Vec<Vec<u8>>) -> Result<Next> {
        self.pump(io, used)?;
        Ok(match (self.ready.pop_front(), &self.ending) {
            (Some(chunk), _) => Next::Chunk(chunk),
            (None, Some(ending)) => Next::Ended(ending.clone()),
            (None, None) => Next::Waiting,
        })
    }
}
