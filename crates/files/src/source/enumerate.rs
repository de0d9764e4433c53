//! Cuts the files that are found into splits, and remembers which were handed out.
//!
//! Invariants:
//! 1. A path is handed out once in the life of the job; a change of a known file is an error, never overlooked by its length.
//! 2. The state grows by 24 bytes a file, up to [`FILES_MAX`] files.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use staunch_api::{Discovery, FileSystem, ReadFile, SourceContext, SplitEnumerator};
use staunch_types::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::find::{FILES_MAX, Found, files_too_many, find, unreadable};
use super::split::{FileSplit, HEAD_BYTES, Position};
use super::{Format, Settings, SplitSize};
use crate::{Compression, codes};

/// Splits that one file is cut into at most, however small they are asked for.
const SPLITS_PER_FILE_MAX: u64 = 1 << 16;

/// Finds files and cuts them into splits.
pub struct FileEnumerator {
    settings: Settings,
    file_system: Arc<dyn FileSystem>,
    /// Hash of the path of each file that was handed out, and its length.
    known: BTreeMap<u128, u64>,
}

/// The stored form; a new one is a new variant at the end.
#[derive(Serialize, Deserialize)]
enum Stored {
    V1(BTreeMap<u128, u64>),
}

impl FileEnumerator {
    pub(crate) fn new(settings: Settings, context: &SourceContext, restored: Option<&[u8]>) -> Result<FileEnumerator> {
        let known = match restored.map(postcard::from_bytes) {
            None => BTreeMap::new(),
            Some(Ok(Stored::V1(known))) => known,
            Some(Err(error)) => {
                return Err(Error::new(ErrorKind::Corrupt, codes::STATE_UNREADABLE, "the list of files that were read is damaged")
                    .at(format!("source={}", context.name))
                    .cause(error)
                    .remedy("restore an older checkpoint"));
            }
        };
        Ok(FileEnumerator { settings, file_system: Arc::clone(&context.file_system), known })
    }

    fn found(&self) -> Result<Vec<Found>> {
        match find(&*self.file_system, &self.settings.path) {
            Err(error) if self.may_be_empty(error.code()) => Ok(Vec::new()),
            answer => answer,
        }
    }

    /// Whether nothing there is all right: files are awaited, or those that were read have been taken away since.
    fn may_be_empty(&self, code: &str) -> bool {
        match code {
            codes::DIRECTORY_EMPTY | codes::PATTERN_MATCHES_NOTHING => self.settings.watch.is_some() || !self.known.is_empty(),
            codes::PATH_MISSING => !self.known.is_empty(),
            _ => false,
        }
    }

    fn cut(&self, file: &Found) -> Result<Vec<FileSplit>> {
        let path = Path::new(&file.path);
        if file.path.contains(char::REPLACEMENT_CHARACTER) {
            return Err(Error::new(ErrorKind::Invalid, codes::NAME_BAD, "expected a file name in UTF-8, found other bytes")
                .at(format!("file={}", file.path))
                .data("nothing of the file was read")
                .remedy("rename the file, or take it away"));
        }
        let failed = |error: io::Error| unreadable(&error, path);
        let head = read_head(&*self.file_system.open(path).map_err(failed)?).map_err(failed)?;
        let compression = Compression::detect(&head).map_err(|error| error.at(format!("file={}", file.path)))?;
        let split = |start, end| FileSplit {
            path: file.path.clone(),
            compression,
            file_bytes: file.bytes,
            fingerprint: xxh3_64(&head),
            start,
            end,
            position: Position::Front,
            line: (start == 0).then_some(1),
        };
        let whole = vec![split(0, None)];
        let one_task = matches!(&self.settings.format, Format::Csv(csv) if csv.multiline == Some(true));
        Ok(match self.settings.split {
            SplitSize::WholeFile => whole,
            SplitSize::Bytes(size) if compression != Compression::None || one_task || file.bytes <= size => whole,
            SplitSize::Bytes(size) => {
                // Equal pieces, so that the last one is not a crumb.
                let count = file.bytes.div_ceil(size).min(SPLITS_PER_FILE_MAX);
                let cut_at = |n: u64| (u128::from(file.bytes) * u128::from(n) / u128::from(count)) as u64;
                (0..count).map(|n| split(cut_at(n), Some(cut_at(n + 1)))).collect()
            }
        })
    }
}

impl SplitEnumerator for FileEnumerator {
    type Split = FileSplit;

    fn discover(&mut self) -> Result<Discovery<FileSplit>> {
        let mut splits = Vec::new();
        let mut new = Vec::new();
        for file in self.found()? {
            let key = xxh3_128(file.path.as_bytes());
            match self.known.get(&key) {
                Some(&bytes) if bytes == file.bytes => {}
                Some(&bytes) => return Err(changed(&file.path, bytes, file.bytes)),
                None if self.settings.watch.is_some() && file.bytes == 0 => {}
                None => {
                    splits.extend(self.cut(&file)?);
                    new.push((key, file.bytes));
                }
            }
        }
        if self.known.len() + new.len() > FILES_MAX {
            return Err(files_too_many().at(format!("path={}", self.settings.path.display())));
        }
        self.known.extend(new);
        let state = postcard::to_allocvec(&Stored::V1(self.known.clone()))
            .map_err(|error| Error::new(ErrorKind::Bug, codes::STATE_UNREADABLE, "the list of files cannot be stored").cause(error))?;
        Ok(Discovery { splits, state, again_after: self.settings.watch })
    }
}

/// The first bytes of a file.
///
/// # Errors
/// As the file system reports them.
pub(crate) fn read_head(file: &dyn ReadFile) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// A file is not what it was.
pub(crate) fn changed(path: &str, expected: u64, found: u64) -> Error {
    let what = if expected == found {
        format!("the file has changed since it was found: its first bytes are others, bytes={found}")
    } else {
        format!("the file has changed since it was found: expected bytes={expected}, found bytes={found}")
    };
    Error::new(ErrorKind::Invalid, codes::FILE_CHANGED, what)
        .at(format!("file={path}"))
        .data("what was read before the change stays valid; nothing of the changed file is read")
        .remedy("put the file back as it was and start again; write new records into new files, and move each into place when complete")
}
