//! Writing a file of the operating system: small ones through the page cache, large ones past it.
//!
//! Owns: when bytes go past the page cache, and that what is synced is whole whichever way it went.
//! Does not own: names and directories (`file_system`).
//!
//! What is written here is to be durable soon and is rarely read again, so copying it into the page cache costs processor time
//! and pushes out what others read. From a size on, full buffers are written directly (`O_DIRECT`); what does not fill a
//! block of the disk goes through the cache. Where the file system knows no direct writes, all of it does.
//!
//! Invariants:
//! 1. The file is `written` bytes long, and `buffer[..filled]` follows them.
//! 2. The buffer holds something only if `written` is a multiple of a disk block.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use staunch_api::WriteFile;

/// Bytes from which a file is large.
const LARGE_BYTES: u64 = 1 << 20;
/// Bytes of one direct write.
const BUFFER_BYTES: usize = 1 << 20;
/// What addresses, lengths and offsets of direct writes are multiples of: no disk in use has larger blocks.
const ALIGNMENT: usize = 4096;

/// An open file that grows.
pub(super) struct FileWriter {
    file: File,
    written: u64,
    buffer: Vec<u8>,
    filled: usize,
    direct: Direct,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direct {
    Off,
    On,
    /// The file system does not know it.
    Refused,
}

impl FileWriter {
    /// A writer of a new file, open for appending.
    pub(super) fn new(file: File) -> FileWriter {
        FileWriter { file, written: 0, buffer: Vec::new(), filled: 0, direct: Direct::Off }
    }

    /// Through the page cache.
    fn write_cached(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.direct == Direct::On {
            self.set_direct(false)?;
            self.direct = Direct::Off;
        }
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn set_direct(&self, on: bool) -> io::Result<()> {
        let mut flags = fcntl_getfl(&self.file)?;
        flags.set(OFlags::DIRECT, on);
        Ok(fcntl_setfl(&self.file, flags)?)
    }

    /// Writes the buffer: whole disk blocks directly, the rest through the cache.
    fn flush(&mut self) -> io::Result<()> {
        let (filled, buffer) = (std::mem::take(&mut self.filled), std::mem::take(&mut self.buffer));
        let start = aligned(&buffer);
        let whole = filled - filled % ALIGNMENT;
        let direct = self.write_direct(&buffer[start..start + whole]);
        let rest = direct.and_then(|()| self.write_cached_unless_empty(&buffer[start + whole..start + filled]));
        self.buffer = buffer;
        rest
    }

    fn write_cached_unless_empty(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.write_cached(bytes) }
    }

    fn write_direct(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.direct == Direct::Off && !bytes.is_empty() {
            self.direct = if self.set_direct(true).is_ok() { Direct::On } else { Direct::Refused };
        }
        while self.direct == Direct::On && !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(count) => {
                    self.written += count as u64;
                    bytes = &bytes[count..];
                    // Less than asked for, as on a disk that gets full: the next direct write would not begin at a block.
                    if !count.is_multiple_of(ALIGNMENT) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                    self.set_direct(false)?;
                    self.direct = Direct::Refused;
                }
                Err(error) => return Err(error),
            }
        }
        self.write_cached_unless_empty(bytes)
    }
}

/// Where the aligned part of a buffer begins.
fn aligned(buffer: &[u8]) -> usize {
    buffer.as_ptr().align_offset(ALIGNMENT).min(buffer.len())
}

impl WriteFile for FileWriter {
    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let length = self.written + (self.filled + bytes.len()) as u64;
        if length < LARGE_BYTES || self.direct == Direct::Refused {
            return self.write_cached(bytes);
        }
        if self.filled == 0 {
            let missing = (ALIGNMENT - (self.written % ALIGNMENT as u64) as usize) % ALIGNMENT;
            let (head, rest) = bytes.split_at(missing.min(bytes.len()));
            self.write_cached_unless_empty(head)?;
            bytes = rest;
        }
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_BYTES + ALIGNMENT];
        }
        let start = aligned(&self.buffer);
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(BUFFER_BYTES - self.filled));
            self.buffer[start + self.filled..start + self.filled + part.len()].copy_from_slice(part);
            self.filled += part.len();
            bytes = rest;
            if self.filled == BUFFER_BYTES {
                self.flush()?;
                if self.direct == Direct::Refused || !self.written.is_multiple_of(ALIGNMENT as u64) {
                    return if bytes.is_empty() { Ok(()) } else { self.append(bytes) };
                }
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.filled > 0 {
            self.flush()?;
        }
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn check(folder: &Path, appends: &[(usize, bool)]) {
        let path = folder.join("file");
        let mut writer = FileWriter::new(OpenOptions::new().append(true).create_new(true).open(&path).expect("a file"));
        let mut expected = Vec::new();
        for (number, (bytes, is_synced)) in appends.iter().enumerate() {
            let part: Vec<u8> = (0..*bytes).map(|at| (at * 31 + number * 7 + at / 251) as u8).collect();
            writer.append(&part).expect("room");
            expected.extend(part);
            if *is_synced {
                writer.sync().expect("room");
                assert!(fs::read(&path).expect("the file") == expected, "after a sync at {} bytes", expected.len());
            }
        }
        writer.sync().expect("room");
        assert!(fs::read(&path).expect("the file") == expected, "at the end, {} bytes", expected.len());
        fs::remove_file(&path).expect("the file");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        #[test]
        fn what_is_synced_is_what_was_appended(
            appends in prop::collection::vec((prop_oneof![0usize..9_000, Just(4096), Just(1 << 20), 500_000usize..2_500_000], any::<bool>()), 0..9)
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            check(folder.path(), &appends);
        }
    }

    /// A file system in memory, where one is mounted; older systems refuse direct writes there.
    #[test]
    fn where_direct_writes_may_be_refused_too() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        check(folder.path(), &[(100, true), (3 << 20, false), (17, true), (2 << 20, true), (1, false)]);
    }

    #[test]
    fn large_files_are_written_past_the_page_cache_where_that_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = OpenOptions::new().append(true).create_new(true).open(folder.path().join("file")).expect("a file");
        let mut writer = FileWriter::new(file);
        let is_known = writer.set_direct(true).is_ok() && writer.set_direct(false).is_ok();
        writer.append(&[1; 2 << 20]).expect("room");
        assert_eq!(writer.direct == Direct::On, is_known);
        writer.append(&[2; 3]).expect("room");
        writer.sync().expect("room");
        assert!(writer.direct != Direct::On, "the end of the file goes through the cache");
    }
}
