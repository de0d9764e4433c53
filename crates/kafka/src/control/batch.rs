//! Batches of messages as brokers store them, and the messages in them.
//!
//! Owns: the form of version 2, which all brokers since 0.11 write. Does not own: getting the bytes, what a batch means.
//!
//! Invariant: whatever the bytes are, memory is taken for what is there: a message at a time, of at most [`MESSAGE_BYTES_MAX`].

use std::io::{self, Read};

use flate2::read::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::{Decision, Producer};

/// Bytes of a batch before its messages.
const HEADER_BYTES: usize = 61;
/// Bytes before those that the batch's length counts.
const LENGTH_END: usize = 12;
/// Where the bytes begin that the checksum covers.
const CHECKED_START: usize = 21;
/// Bytes of the largest message that is looked at.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// What a stream of Snappy blocks begins with, as the library of Kafka's own clients writes it.
const SNAPPY_HEADER: [u8; 8] = *b"\x82SNAPPY\0";
/// Bytes of that header with two versions behind it.
const SNAPPY_HEADER_BYTES: usize = 16;

/// A batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch<'a> {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) producer: Producer,
    pub(crate) messages: u64,
    pub(crate) part: Part,
    packing: i16,
    bytes: &'a [u8],
}

/// What a batch is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Of no transaction.
    Plain,
    /// Of a transaction.
    Transaction,
    /// The mark by which a transaction ends.
    End(Decision),
    /// Another mark.
    Mark,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored<'a> {
    pub(crate) offset: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

/// Takes the next whole batch off the front; `None` when what is left is cut.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn take<'a>(bytes: &mut &'a [u8]) -> Result<Option<Batch<'a>>, String> {
    let (Some(first), Some(length)) = (i64_at(bytes, 0), i32_at(bytes, 8)) else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| format!("a batch has a length of {length}"))?;
    let Some((batch, rest)) = LENGTH_END.checked_add(length).and_then(|end| bytes.split_at_checked(end)) else { return Ok(None) };
    let header = batch.split_at_checked(HEADER_BYTES).filter(|_| batch[16] == 2);
    let Some((header, messages)) = header else { return Err("a batch is in a form older than that of Kafka 0.11, or cut".into()) };
    let stated = u32::from_be_bytes([header[17], header[18], header[19], header[20]]);
    let found = crc32c::crc32c(&batch[CHECKED_START..]);
    if stated != found {
        return Err(format!("the checksum of a batch is {found:08x}, and should be {stated:08x}"));
    }
    let short = |at: usize| i16::from_be_bytes([header[at], header[at + 1]]);
    let attributes = short(21);
    let (delta, id, count) = (i32_at(header, 23).unwrap_or(0), i64_at(header, 43).unwrap_or(-1), i32_at(header, 57).unwrap_or(0));
    let (Ok(messages_count), Some(last)) = (u64::try_from(count), first.checked_add(i64::from(delta)).filter(|last| *last >= first)) else {
        return Err(format!("a batch at {first} counts {count} messages up to {delta} behind it"));
    };
    let packing = attributes & 7;
    let mut batch = Batch {
        first,
        last,
        producer: Producer { id, epoch: short(51) },
        messages: messages_count,
        part: if attributes & 16 == 0 { Part::Plain } else { Part::Transaction },
        packing,
        bytes: messages,
    };
    if attributes & 32 != 0 {
        let mut part = Part::Mark;
        batch.each(|mark| {
            part = match mark.key {
                Some([_, _, 0, 0, ..]) => Part::End(Decision::Abort),
                Some([_, _, 0, 1, ..]) => Part::End(Decision::Commit),
                _ => Part::Mark,
            };
        })?;
        batch.part = part;
    }
    *bytes = rest;
    Ok(Some(batch))
}

impl<'a> Batch<'a> {
    /// Hands each message to `each`.
    ///
    /// # Errors
    /// What is wrong with the messages.
    pub(crate) fn each(&self, mut each: impl FnMut(Stored<'_>)) -> Result<(), String> {
        let failed = |error: io::Error| format!("the messages of the batch at {} cannot be read: {error}", self.first);
        let mut unpacked = unpack(self.packing, self.bytes).map_err(failed)?;
        let mut message = Vec::new();
        for _ in 0..self.messages {
            let length = usize::try_from(varint(&mut unpacked).map_err(failed)?).unwrap_or(usize::MAX);
            if length > MESSAGE_BYTES_MAX {
                return Err(failed(io::Error::other(format!("a message would have {length} bytes"))));
            }
            message.clear();
            let read = (&mut unpacked).take(length as u64).read_to_end(&mut message).map_err(failed)?;
            if read < length {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
            each(self.message(&message).ok_or_else(|| failed(io::Error::other("a message is not as its lengths say")))?);
        }
        Ok(())
    }

    fn message<'m>(&self, mut bytes: &'m [u8]) -> Option<Stored<'m>> {
        bytes = bytes.get(1..)?;
        let _time = varint(&mut bytes).ok()?;
        let offset = self.first.checked_add(varint(&mut bytes).ok()?)?;
        let mut part = || -> Option<Option<&'m [u8]>> {
            let Ok(length) = usize::try_from(varint(&mut bytes).ok()?) else { return Some(None) };
            let (part, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            Some(Some(part))
        };
        Some(Stored { offset, key: part()?, value: part()? })
    }
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..)?.first_chunk().map(|chunk| i64::from_be_bytes(*chunk))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|chunk| i32::from_be_bytes(*chunk))
}

/// A number of changing length, negative ones in between the others.
fn varint(from: &mut impl Read) -> io::Result<i64> {
    let mut bits = 0_u64;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        bits |= u64::from(byte[0] & 0x7F) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok((bits >> 1) as i64 ^ -((bits & 1) as i64));
        }
    }
    Err(io::Error::other("a number does not end"))
}

fn unpack<'a>(packing: i16, bytes: &'a [u8]) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match packing {
        0 => Box::new(bytes),
        1 => Box::new(io::BufReader::new(GzDecoder::new(bytes))),
        2 if bytes.starts_with(&SNAPPY_HEADER) => {
            let blocks = bytes.get(SNAPPY_HEADER_BYTES..).ok_or(io::ErrorKind::UnexpectedEof)?;
            Box::new(Snappy { blocks, block: Vec::new(), at: 0 })
        }
        2 => Box::new(io::Cursor::new(snappy_block(bytes)?)),
        3 => Box::new(io::BufReader::new(FrameDecoder::new(bytes))),
        4 => Box::new(io::BufReader::new(StreamingDecoder::new(bytes).map_err(|error| io::Error::other(error.to_string()))?)),
        other => return Err(io::Error::other(format!("its compression has the number {other}, which is not known"))),
    })
}

/// Blocks of Snappy, each behind its length.
struct Snappy<'a> {
    blocks: &'a [u8],
    block: Vec<u8>,
    at: usize,
}

impl Read for Snappy<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() && !self.blocks.is_empty() {
            let (length, rest) = self.blocks.split_first_chunk::<4>().ok_or(io::ErrorKind::UnexpectedEof)?;
            let (block, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
            (self.block, self.at, self.blocks) = (snappy_block(block)?, 0, rest);
        }
        let count = (&self.block[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}

fn snappy_block(block: &[u8]) -> io::Result<Vec<u8>> {
    let length = snap::raw::decompress_len(block).map_err(io::Error::other)?;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::other(format!("a block would have {length} bytes")));
    }
    snap::raw::Decoder::new().decompress_vec(block).map_err(io::Error::other)
}

#[cfg(test)]
pub(crate) mod tests;
