//! Where a fault is, in words for people, and the reject or error made of it.

use std::io;
use std::path::Path;

use memchr::memchr_iter;
use staunch_api::{FileSystem, Rejected};
use staunch_types::{Error, ErrorKind, Result};

use super::open::read_failed;
use super::split::FileSplit;
use super::take::Fault;

/// Bytes read at once while lines are counted.
const COUNT_BYTES: usize = 1 << 20;

/// The number of the line that begins at the split's position, counted from the front of the (plain) file. Blocks.
pub(crate) fn count_lines(file_system: &dyn FileSystem, split: &FileSplit) -> Result<u64> {
    let count = || -> io::Result<u64> {
        let file = file_system.open(Path::new(&split.path))?;
        let mut buffer = vec![0; COUNT_BYTES];
        let (mut at, mut lines, end) = (0, 1, split.offset());
        while at < end {
            let wanted = buffer.len().min((end - at) as usize);
            let read = file.read_at(&mut buffer[..wanted], at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            lines += memchr_iter(b'\n', &buffer[..read]).count() as u64;
            at += read as u64;
        }
        Ok(lines)
    };
    count().map_err(|error| read_failed(&error, split))
}

/// For people: file, line and column.
fn place(split: &FileSplit, line: u64, fault: &Fault) -> String {
    match &fault.column {
        Some(column) => format!("file={} line={line} column={column}", split.path),
        None => format!("file={} line={line}", split.path),
    }
}

/// The reject made of a fault.
pub(crate) fn rejected(split: &FileSplit, line: u64, fault: &Fault, raw: &[u8]) -> Rejected {
    let kept = &raw[..raw.len().min(Rejected::RAW_BYTES_MAX)];
    Rejected {
        code: fault.code.into(),
        reason: fault.reason.clone(),
        place: place(split, line, fault),
        raw: String::from_utf8_lossy(kept).into_owned(),
    }
}

/// The error made of a fault that makes the whole file unreadable as it is.
pub(crate) fn refused(split: &FileSplit, line: u64, fault: &Fault, remedy: &str) -> Error {
    Error::new(ErrorKind::Invalid, fault.code, fault.reason.clone())
        .at(place(split, line, fault))
        .data("nothing from this place on was read; what was committed before stays valid")
        .remedy(remedy)
}
