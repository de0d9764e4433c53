//! The frame around everything that is stored: what it is, which version wrote it, how long it is, and whether it is whole.
//!
//! Owns: the header and its checks. Does not own: the bodies.
//!
//! A frame is the magic (4 bytes), the version of the body's format (u16), the length of the body (u64), the CRC32C (u32) of all
//! other bytes of the frame, then the body; numbers in little-endian order. This layout never changes, so that even
//! a program that is too old for a body can tell a newer one from a damaged one.
//!
//! Invariant: a change of any one byte, or of the length, is detected.

use staunch_types::{Error, ErrorKind, Result};

use crate::bytes::{ReadError, Reader};

/// Bytes of a frame before its body.
pub const HEADER_BYTES: usize = 18;
const CRC_AT: usize = 14;

/// A kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKind {
    /// The first four bytes.
    pub magic: [u8; 4],
    /// The version that this program writes, and the newest it reads.
    pub version: u16,
    /// The oldest version that this program reads.
    pub version_min: u16,
    /// What it is called in messages.
    pub name: &'static str,
}

/// A frame that is whole.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The version of the body's format.
    pub version: u16,
    /// The body.
    pub body: &'a [u8],
}

impl FrameKind {
    /// A frame whose body is appended by `body`, which is told to expect about `bytes_about` bytes.
    #[must_use]
    pub fn seal(&self, bytes_about: usize, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + bytes_about);
        out.extend_from_slice(&self.magic);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.resize(HEADER_BYTES, 0);
        body(&mut out);
        let length = (out.len() - HEADER_BYTES) as u64;
        out[6..CRC_AT].copy_from_slice(&length.to_le_bytes());
        let crc = crc_of(&out[..CRC_AT], &out[HEADER_BYTES..]);
        out[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Checks that `bytes` are exactly one frame of this kind.
    ///
    /// # Errors
    /// `Corrupt` when they are something else, cut, or damaged; `Invalid` when a newer version wrote them.
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Result<Frame<'a>> {
        let (frame, rest) = self.open_prefix(bytes)?;
        if rest.is_empty() { Ok(frame) } else { Err(self.damaged(format!("{} bytes follow its end", rest.len()))) }
    }

    /// Checks the frame of this kind at the start of `bytes`, and returns what follows.
    ///
    /// # Errors
    /// As [`FrameKind::open`].
    pub fn open_prefix<'a>(&self, bytes: &'a [u8]) -> Result<(Frame<'a>, &'a [u8])> {
        let Some((header, after)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(self.damaged(format!("it has {} bytes, fewer than its header", bytes.len())));
        };
        let mut reader = Reader::new(header);
        let fields = |reader: &mut Reader<'_>| -> std::result::Result<_, ReadError> {
            Ok((reader.array::<4>()?, reader.array()?, reader.array()?, reader.array()?))
        };
        let (magic, version, length, crc) = fields(&mut reader).map_err(|error| self.damaged(error.what))?;
        if magic != self.magic {
            let expected = self.magic.escape_ascii();
            let what = format!("this is no {}: expected the first bytes \"{expected}\", found \"{}\"", self.name, magic.escape_ascii());
            return Err(Error::new(ErrorKind::Corrupt, "C101", what).data(NOTHING_READ).remedy(KEEP));
        }
        let length = u64::from_le_bytes(length);
        let body = usize::try_from(length).ok().and_then(|length| after.split_at_checked(length));
        let Some((body, rest)) = body else {
            return Err(self.damaged(format!("it has {} bytes after its header, expected {length}", after.len())));
        };
        let (expected, found) = (u32::from_le_bytes(crc), crc_of(&header[..CRC_AT], body));
        if expected != found {
            return Err(self.damaged(format!("its CRC32C is {found:08x}, expected {expected:08x}")));
        }
        let version = u16::from_le_bytes(version);
        if !(self.version_min..=self.version).contains(&version) {
            let (name, least, most) = (self.name, self.version_min, self.version);
            let what = format!("this {name} was written in format version {version}; this program reads versions {least} to {most}");
            return Err(Error::new(ErrorKind::Invalid, "C103", what)
                .data(NOTHING_READ)
                .remedy("run the program that wrote it, or a newer one"));
        }
        Ok((Frame { version, body }, rest))
    }

    /// The error for a frame of this kind that is not whole.
    pub(crate) fn damaged(&self, why: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Corrupt, "C102", format!("this {} is damaged: {why}", self.name)).data(NOTHING_READ).remedy(KEEP)
    }

    /// The error for a whole frame whose body is not what its version says.
    pub(crate) fn unreadable(&self, why: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Corrupt, "C104", format!("this {} cannot be read, though its checksum is right: {why}", self.name))
            .data(NOTHING_READ)
            .remedy("keep the file and report it; restore an older checkpoint")
    }
}

const NOTHING_READ: &str = "nothing was read from it";
const KEEP: &str = "keep the file, find out what changed it, and restore an older checkpoint";

fn crc_of(header: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(header), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: FrameKind = FrameKind { magic: *b"TEST", version: 3, version_min: 2, name: "test" };

    #[test]
    fn every_flipped_bit_and_every_cut_is_detected() {
        let frame = KIND.seal(5, |out| out.extend(b"hello"));
        assert_eq!(KIND.open(&frame).expect("whole").body, b"hello");
        for at in 0..frame.len() {
            for bit in 0..8 {
                let mut changed = frame.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(KIND.open(&changed).expect_err("damaged").kind(), ErrorKind::Corrupt, "byte {at} bit {bit}");
            }
            assert_eq!(KIND.open(&frame[..at]).expect_err("cut").kind(), ErrorKind::Corrupt, "{at} bytes");
        }
    }

    #[test]
    fn an_other_version_is_named_with_those_that_can_be_read() {
        for version in [1, 4] {
            let other = FrameKind { version, ..KIND }.seal(0, |_| ());
            let error = KIND.open(&other).expect_err("not readable");
            assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "C103"));
            assert!(error.what().contains(&format!("version {version}; this program reads versions 2 to 3")), "{error}");
        }
    }

    #[test]
    fn frames_one_after_the_other_are_read_one_by_one() {
        let mut bytes = KIND.seal(0, |out| out.push(1));
        bytes.extend(KIND.seal(0, |out| out.push(2)));
        let (first, rest) = KIND.open_prefix(&bytes).expect("whole");
        assert_eq!((first.body, KIND.open(rest).expect("whole").body), (&[1u8][..], &[2u8][..]));
        assert_eq!(KIND.open(&bytes).expect_err("two").code(), "C102");
    }
}
