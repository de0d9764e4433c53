//! Opens the file of a split: is it still the same, what does its header say, where do its records begin.
//!
//! All of it blocks, and runs behind the door.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use staunch_api::{FileSystem, ReadFile};
use staunch_types::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::enumerate::{changed, read_head};
use super::fetch::Stream;
use super::split::{FileSplit, Position};
use super::{CsvSettings, Format, Settings};
use crate::codes;
use crate::csv::{Cell, Cut, HeaderFault, Plan, cut_line, text_of};
use crate::shape::Shape;

/// Bytes of the longest header.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// Bytes read at once while looking for the header.
const HEADER_CHUNK_BYTES: u64 = 16 * 1024;
/// The mark some programs put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A split ready to be read.
pub(crate) struct Opened {
    /// Its bytes, from `offset`.
    pub(crate) stream: Stream,
    /// Which cell goes where, for CSV.
    pub(crate) plan: Plan,
    /// Where the bytes begin.
    pub(crate) offset: u64,
    /// Whether the first line is that of the split before.
    pub(crate) align: bool,
    /// Lines before `offset`, when known.
    pub(crate) lines_before: Option<u64>,
}

/// What is before the records.
struct Front {
    plan: Plan,
    bytes: u64,
    lines: u64,
}

/// Opens a split. Blocks.
pub(crate) fn open(file_system: &dyn FileSystem, settings: &Settings, shape: Shape, split: &FileSplit) -> Result<Opened> {
    let file = open_same(file_system, split)?;
    let front = front(&file, settings, shape, split)?;
    let (offset, align, lines_before) = match split.position {
        Position::Record(offset) => (offset, false, split.line.map(|line| line - 1)),
        Position::Front if split.start <= front.bytes => (front.bytes, false, Some(front.lines)),
        // One byte early: if that is a line end, a record starts exactly at the front of the range.
        Position::Front => (split.start - 1, true, None),
    };
    let stream = Stream::new(file, split, offset, settings.chunk_bytes)?;
    Ok(Opened { stream, plan: front.plan, offset, align, lines_before })
}

/// Opens the file, if it is the one that was found.
fn open_same(file_system: &dyn FileSystem, split: &FileSplit) -> Result<Arc<dyn ReadFile>> {
    let file: Arc<dyn ReadFile> = match file_system.open(Path::new(&split.path)) {
        Ok(file) => Arc::from(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::new(
                ErrorKind::Invalid,
                codes::FILE_GONE,
                "expected a file that was there when the source looked, found nothing",
            )
            .at(split.to_string())
            .data("what was read of it before stays valid; the rest is not read")
            .remedy("put the file back and start again: the job goes on where it was"));
        }
        Err(error) => return Err(read_failed(&error, split)),
    };
    let failed = |error| read_failed(&error, split);
    let bytes = file.bytes().map_err(failed)?;
    if bytes != split.file_bytes || xxh3_64(&read_head(&*file).map_err(failed)?) != split.fingerprint {
        return Err(changed(&split.path, split.file_bytes, bytes));
    }
    Ok(file)
}

/// A failure of the operating system while reading.
pub(crate) fn read_failed(error: &io::Error, split: &FileSplit) -> Error {
    let (kind, code, remedy) = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            (ErrorKind::Invalid, codes::PERMISSION_DENIED, "let the user that runs the job read the file, and start again")
        }
        _ => (
            ErrorKind::Restart,
            codes::READ_FAILED,
            "look at the disk or mount if this happens again; the job goes on from its last checkpoint",
        ),
    };
    Error::new(kind, code, "the file could not be read").at(split.to_string()).cause(error).remedy(remedy)
}

/// Reads what is before the records: a byte order mark, and the header of CSV.
fn front(file: &Arc<dyn ReadFile>, settings: &Settings, shape: Shape, split: &FileSplit) -> Result<Front> {
    let mut reader = split.compression.read(Arc::clone(file), 0).map_err(|error| read_failed(&error, split))?;
    let mut data = Vec::new();
    let mut ended = false;
    loop {
        let read = if ended { Ok(0) } else { reader.by_ref().take(HEADER_CHUNK_BYTES).read_to_end(&mut data) };
        // A broken compressed file gives what it has: the reader of the records will meet the break and tell of it.
        let (end_of_input, broken) = match read {
            Ok(read) => (read == 0, false),
            Err(_) if split.compression != crate::Compression::None => (false, true),
            Err(error) => return Err(read_failed(&error, split)),
        };
        ended |= end_of_input || broken;
        let mark = if data.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let none = Front { plan: Plan::without_header(), bytes: mark as u64, lines: 0 };
        if data.len() < BYTE_ORDER_MARK.len() && !ended {
            continue;
        }
        let csv = match &settings.format {
            Format::Csv(csv) if csv.headers => csv,
            Format::Csv(_) | Format::JsonLines => return Ok(none),
        };
        match header(csv, shape, split, &data[mark..], end_of_input)? {
            Some(front) => return Ok(Front { bytes: front.bytes + mark as u64, ..front }),
            None if ended => return Ok(none),
            None if data.len() > HEADER_BYTES_MAX => {
                let what = format!("expected a header of at most {HEADER_BYTES_MAX} bytes, found a longer first line");
                return Err(header_error(codes::HEADER_UNREADABLE, what, split, 1));
            }
            None => {}
        }
    }
}

/// The header at the front of the data; `None` when the data ends before it does, or there is no line.
fn header(csv: &CsvSettings, shape: Shape, split: &FileSplit, data: &[u8], end_of_input: bool) -> Result<Option<Front>> {
    let (mut at, mut lines) = (0, 0);
    // Empty lines do not count.
    while let Some(line) = cut_line(&data[at..], end_of_input).filter(|line| line.bytes == 0) {
        if line.consumed == 0 {
            return Ok(None);
        }
        at += line.consumed;
        lines += 1;
    }
    let unreadable = |what: &str| Err(header_error(codes::HEADER_UNREADABLE, what.into(), split, lines + 1));
    let mut cells = Vec::new();
    let (line, line_count) = match csv.dialect(split.is_whole()).cut(&data[at..], end_of_input, &mut cells) {
        Cut::More => return Ok(None),
        Cut::Bad { .. } => return unreadable("expected column names, found a quote that is not closed or out of place"),
        Cut::Record { line, lines } => (line, lines),
    };
    let Ok(text) = std::str::from_utf8(&data[at..at + line.bytes]) else {
        return unreadable("expected column names in UTF-8, found other bytes");
    };
    let names = cells.iter().map(|cell: &Cell| text_of(text, *cell)).collect();
    let plan = Plan::with_header(names, shape).map_err(|HeaderFault::Doubled { name, first, second }| {
        let what = format!("expected each column once, found {name:?} as columns {} and {}", first + 1, second + 1);
        header_error(codes::COLUMN_DOUBLED, what, split, lines + 1)
    })?;
    Ok(Some(Front { plan, bytes: (at + line.consumed) as u64, lines: lines + line_count }))
}

fn header_error(code: &str, what: String, split: &FileSplit, line: u64) -> Error {
    Error::new(ErrorKind::Invalid, code, what)
        .at(format!("file={} line={line}", split.path))
        .data("nothing of the file was read")
        .remedy("correct the header, or say `headers(false)` if the file has none")
}
