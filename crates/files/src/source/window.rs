//! The bytes that were fetched and not yet taken: one piece of memory, though they come in chunks.
//!
//! Invariant: data is contiguous. The rest of a chunk, usually less than a line, is copied in front of the next one, where room is kept.

use std::io::{self, Read};

/// Room in front of a chunk.
const FRONT_BYTES: usize = 64 * 1024;

/// A buffer with bytes of the input behind the room in front.
pub(crate) struct Chunk {
    buffer: Vec<u8>,
    end: usize,
}

impl Chunk {
    /// An empty chunk, on the memory of a used buffer if there is one.
    pub(crate) fn new(used: Option<Vec<u8>>) -> Chunk {
        Chunk { buffer: used.unwrap_or_default(), end: FRONT_BYTES }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(FRONT_BYTES..self.end).unwrap_or_default()
    }

    /// Reads `wanted` bytes into the chunk, or as many as there are; gives how many, and why not more if it is an error.
    pub(crate) fn read(&mut self, reader: &mut dyn Read, wanted: usize) -> (usize, io::Result<()>) {
        let full = FRONT_BYTES + wanted;
        if self.buffer.len() < full {
            self.buffer.resize(full, 0);
        }
        while self.end < full {
            match reader.read(&mut self.buffer[self.end..full]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (self.end - FRONT_BYTES, Err(error)),
            }
        }
        (self.end - FRONT_BYTES, Ok(()))
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    /// What is there to be taken.
    #[inline]
    pub(crate) fn data(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes bytes from the front.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }

    /// Puts a chunk behind what is there; gives back a buffer to use again, if there is one.
    pub(crate) fn append(&mut self, chunk: Chunk) -> Option<Vec<u8>> {
        let rest = self.data().len();
        let Chunk { buffer: mut used, end } = chunk;
        if rest <= FRONT_BYTES {
            used.resize(used.len().max(FRONT_BYTES), 0);
            used[FRONT_BYTES - rest..FRONT_BYTES].copy_from_slice(self.data());
            std::mem::swap(&mut self.buffer, &mut used);
            self.start = FRONT_BYTES - rest;
            self.end = end;
        } else {
            self.buffer.truncate(self.end);
            self.buffer.extend_from_slice(used.get(FRONT_BYTES..end).unwrap_or_default());
            self.end = self.buffer.len();
        }
        (!used.is_empty()).then_some(used)
    }

    /// The memory, to use again.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_rests_stay_in_front_of_the_next_chunk() {
        for rest in [0, 1, FRONT_BYTES, FRONT_BYTES + 1, 3 * FRONT_BYTES] {
            let mut window = Window::default();
            let mut used = None;
            let mut expected = Vec::new();
            for (n, consumed) in [(rest + 10, 10), (5, 0), (7, rest)] {
                let mut chunk = Chunk::new(used.take());
                let bytes: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
                let (read, outcome) = chunk.read(&mut &bytes[..], n + 3);
                assert!(read == n && outcome.is_ok());
                expected.extend_from_slice(&bytes);
                used = window.append(chunk);
                window.consume(consumed);
                expected.drain(..consumed);
                assert_eq!(window.data(), expected);
            }
        }
    }
}
