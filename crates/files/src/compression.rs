//! Plain, gzip and zstd files: told apart by their first bytes, read and written as streams.
//!
//! Owns: the magic numbers, decoding of several members or frames in one file, and encoding with a point at which what was written
//! so far can be decoded by itself. Does not own: paths, positions of records.

use std::io::{self, Read, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use staunch_api::ReadFile;
use staunch_types::{Error, ErrorKind, Result};

use crate::codes;

/// How the bytes of a file are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Gzip; several members in a row are one file.
    Gzip,
    /// Zstandard; several frames in a row are one file.
    Zstd,
}

/// Bytes handed to a decoder at once.
const DECODER_BUFFER_BYTES: usize = 128 * 1024;
/// Zstandard's level: the library's own default.
const ZSTD_LEVEL: i32 = 3;
/// Gzip's level: fast, as output is written while records flow.
const GZIP_LEVEL: u32 = 4;

impl Compression {
    /// Tells the compression from the first bytes of a file.
    ///
    /// # Errors
    /// `Invalid` when they are those of another compression or of UTF-16.
    pub(crate) fn detect(head: &[u8]) -> Result<Compression> {
        let unknown = |form: &str, remedy: &str| {
            Err(Error::new(ErrorKind::Invalid, codes::FORM_UNKNOWN, form).data("nothing of the file was read").remedy(remedy))
        };
        match head {
            [0x1F, 0x8B, ..] => Ok(Compression::Gzip),
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Ok(Compression::Zstd),
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => {
                unknown("expected text, gzip or zstd, found an xz file", "unpack it, or pack it again with gzip or zstd")
            }
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => {
                unknown("expected text, gzip or zstd, found a bzip2 file", "unpack it, or pack it again with gzip or zstd")
            }
            [b'P', b'K', 3, 4, ..] => unknown("expected text, gzip or zstd, found a zip archive", "unpack it"),
            [b'P', b'A', b'R', b'1', ..] => unknown("expected text, gzip or zstd, found a Parquet file", "export it as CSV or JSON Lines"),
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
                unknown("expected UTF-8, found a text file in UTF-16", "convert it, for instance with `iconv -f UTF-16 -t UTF-8`")
            }
            _ => Ok(Compression::None),
        }
    }

    /// What is appended to a file's name.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }

    /// The content of a file from an offset of its plain bytes; a decoder starts at the front and skips.
    ///
    /// # Errors
    /// As met while skipping.
    pub(crate) fn read(self, file: Arc<dyn ReadFile>, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let at = |offset| Positioned { file: Arc::clone(&file), offset };
        let buffered = |source| io::BufReader::with_capacity(DECODER_BUFFER_BYTES, source);
        let mut decoded: Box<dyn Read + Send> = match self {
            Compression::None => return Ok(Box::new(at(offset))),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered(at(0)))),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(buffered(at(0)))?),
        };
        io::copy(&mut decoded.by_ref().take(offset), &mut io::sink())?;
        Ok(decoded)
    }
}

/// A file read from a position on.
struct Positioned {
    file: Arc<dyn ReadFile>,
    offset: u64,
}

/// Marks an error of the file itself, to tell it from one of the decoder.
#[derive(Debug)]
struct OfTheFile(io::Error);

impl std::fmt::Display for OfTheFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for OfTheFile {}

/// Whether an error comes from reading the file, and not from decoding it.
pub(crate) fn is_of_the_file(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OfTheFile>())
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset).map_err(|error| io::Error::new(error.kind(), OfTheFile(error)))?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Compresses what is written. After [`Encoder::finish_frame`] everything so far can be decoded by itself; what follows is a new
/// frame or member of the same file.
pub(crate) enum Encoder {
    Plain,
    Gzip(Option<flate2::write::GzEncoder<Vec<u8>>>),
    Zstd(Option<zstd::stream::write::Encoder<'static, Vec<u8>>>),
}

impl Encoder {
    pub(crate) fn new(compression: Compression) -> Encoder {
        match compression {
            Compression::None => Encoder::Plain,
            Compression::Gzip => Encoder::Gzip(None),
            Compression::Zstd => Encoder::Zstd(None),
        }
    }

    /// Compresses bytes, handing over what is ready to be appended to the file.
    pub(crate) fn write(&mut self, bytes: &[u8], mut append: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self {
            Encoder::Plain => append(bytes),
            Encoder::Gzip(member) => {
                let member = member.get_or_insert_with(|| flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL)));
                member.write_all(bytes)?;
                append(member.get_ref())?;
                member.get_mut().clear();
                Ok(())
            }
            Encoder::Zstd(frame) => {
                let frame = match frame {
                    Some(frame) => frame,
                    None => {
                        let frame = frame.insert(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?);
                        // Without, a reader cannot tell damage.
                        frame.include_checksum(true)?;
                        frame
                    }
                };
                frame.write_all(bytes)?;
                append(frame.get_ref())?;
                frame.get_mut().clear();
                Ok(())
            }
        }
    }

    /// Ends the frame or member, if one is begun.
    pub(crate) fn finish_frame(&mut self, mut append: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self {
            Encoder::Plain => Ok(()),
            Encoder::Gzip(member) => member.take().map_or(Ok(()), |member| append(&member.finish()?)),
            Encoder::Zstd(frame) => frame.take().map_or(Ok(()), |frame| append(&frame.finish()?)),
        }
    }
}
