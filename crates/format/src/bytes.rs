//! Little-endian integers and LEB128 lengths: the alphabet of the hand-written formats.
//!
//! Owns: how a length is written, and a reader that knows its offset. Does not own: any layout.
//! Invariant: a read never passes the end; `offset` always names the first byte not yet read.

/// Bytes a LEB128 length takes at most.
pub(crate) const LENGTH_BYTES_MAX: usize = 10;

/// Appends a length as LEB128: seven bits a byte, lowest first.
#[inline]
pub(crate) fn put_length(out: &mut Vec<u8>, length: u64) {
    if length < 0x80 {
        out.push(length as u8);
    } else {
        put_long_length(out, length);
    }
}

fn put_long_length(out: &mut Vec<u8>, mut length: u64) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Bytes [`put_length`] takes.
#[inline]
pub(crate) fn length_width(length: u64) -> usize {
    (64 - (length | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes a length into the `width` bytes reserved for it at `at`, padded if it needs fewer; moves what follows if it needs more.
#[inline]
pub(crate) fn fill_length(out: &mut Vec<u8>, at: usize, width: usize, length: u64) {
    let needed = length_width(length);
    if needed > width {
        out.splice(at..at, std::iter::repeat_n(0, needed - width));
    }
    let width = width.max(needed);
    for (index, byte) in out[at..at + width].iter_mut().enumerate() {
        let more = if index + 1 < width { 0x80 } else { 0 };
        *byte = (length >> (7 * index)) as u8 & 0x7F | more;
    }
}

/// Appends a text with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Why bytes cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadError {
    pub(crate) what: &'static str,
    pub(crate) offset: usize,
}

/// A position in a slice.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    #[cold]
    pub(crate) fn error(&self, what: &'static str) -> ReadError {
        ReadError { what, offset: self.at }
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        match self.rest().get(..count) {
            Some(slice) => {
                self.at += count;
                Ok(slice)
            }
            None => Err(self.error("the bytes end too early")),
        }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        match self.rest().first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(self.error("the bytes end too early")),
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, ReadError> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(crate) fn length(&mut self) -> Result<u64, ReadError> {
        match self.rest().first() {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_length(),
        }
    }

    fn long_length(&mut self) -> Result<u64, ReadError> {
        let start = self.clone();
        let mut length = 0u64;
        for index in 0..LENGTH_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            let shift = 7 * index as u32;
            if shift == 63 && bits > 1 {
                break;
            }
            length |= bits << shift;
            if byte < 0x80 {
                return Ok(length);
            }
        }
        Err(start.error("a length is longer than 64 bits"))
    }

    /// A count of things that take at least one byte each, so never more than there are bytes.
    #[inline]
    pub(crate) fn count(&mut self) -> Result<usize, ReadError> {
        let start = self.at;
        let count = self.length()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() => Ok(count),
            _ => Err(ReadError { what: "a count is greater than the bytes that follow", offset: start }),
        }
    }

    /// Bytes with their length before them.
    #[inline]
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], ReadError> {
        let count = self.count()?;
        self.take(count)
    }

    /// A text with its length before it.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, ReadError> {
        let start = self.at;
        std::str::from_utf8(self.sized()?).map_err(|_| ReadError { what: "a text is not UTF-8", offset: start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_read_back_and_has_the_announced_width() {
        let lengths = (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1, (1u64 << bit) + 1]).chain([u64::MAX]);
        for length in lengths {
            let mut out = Vec::new();
            put_length(&mut out, length);
            assert_eq!(out.len(), length_width(length), "{length}");
            assert_eq!(Reader::new(&out).length(), Ok(length));
        }
    }

    #[test]
    fn a_reserved_length_is_padded_or_widened() {
        for (width, length) in [(1, 5), (2, 5), (1, 300), (1, 1 << 40), (3, 300)] {
            let mut out = vec![9; 3];
            out.extend(std::iter::repeat_n(0, width));
            out.extend([7, 7]);
            fill_length(&mut out, 3, width, length);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.take(3), Ok(&[9u8, 9, 9][..]));
            assert_eq!(reader.length(), Ok(length));
            assert_eq!(reader.rest(), [7, 7]);
        }
    }

    #[test]
    fn overlong_and_cut_lengths_are_errors() {
        assert!(Reader::new(&[0xFF; 10]).length().is_err());
        assert!(Reader::new(&[0x80; 11]).length().is_err());
        assert!(Reader::new(&[0x80, 0x80]).length().is_err());
        assert_eq!(Reader::new(&[5, 0]).count(), Err(ReadError { what: "a count is greater than the bytes that follow", offset: 0 }));
    }
}
