//! What the tests share.

use std::io::Write;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use staunch_api::testkit::{Collected, DeadLetter, MemoryFiles, MemoryStore, SourceCase, discover, read_all};
use staunch_api::{CheckpointStore, FileSystem, Journal, Rejected, Source};
use staunch_files::{FileSource, FileSplit};
use staunch_types::{Error, Name, Result};

/// The record of most tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) score: Option<f64>,
}

pub(crate) fn row(id: u64, name: &str, score: Option<f64>) -> Row {
    Row { id, name: name.into(), score }
}

pub(crate) fn shared(files: &MemoryFiles) -> Arc<dyn FileSystem> {
    Arc::new(files.clone())
}

/// An empty store of checkpoints.
pub(crate) fn store() -> Arc<dyn CheckpointStore> {
    Arc::new(MemoryStore::new())
}

/// The journal of a sink in an empty store.
pub(crate) fn journal() -> Journal {
    Journal::new(store(), &Name::new("sink").expect("a name"))
}

/// A file system with these files.
pub(crate) fn with(files: &[(&str, &[u8])]) -> MemoryFiles {
    let memory = MemoryFiles::new();
    for (path, bytes) in files {
        memory.put(path, *bytes);
    }
    memory
}

pub(crate) fn case<S: Source>(source: S, files: &MemoryFiles, dead_letter: DeadLetter) -> SourceCase<S> {
    SourceCase { source, file_system: shared(files), dead_letter }
}

/// All records of a source that rejects nothing.
pub(crate) fn records<T: DeserializeOwned + Clone + Send + 'static>(source: &FileSource<T>, files: &MemoryFiles) -> Vec<T> {
    let out = collected(source, files, DeadLetter::None).unwrap_or_else(|error| panic!("{error}"));
    out.records().cloned().collect()
}

pub(crate) fn collected<T: DeserializeOwned + Send + 'static>(
    source: &FileSource<T>,
    files: &MemoryFiles,
    dead_letter: DeadLetter,
) -> Result<Collected<T>> {
    read_all(&case(source.clone(), files, dead_letter))
}

/// Records and rejects of a source with a dead letter.
pub(crate) fn with_rejects<T: DeserializeOwned + Clone + Send + 'static>(
    source: &FileSource<T>,
    files: &MemoryFiles,
) -> (Vec<T>, Vec<Rejected>) {
    let out = collected(source, files, DeadLetter::Kept).unwrap_or_else(|error| panic!("{error}"));
    (out.records().cloned().collect(), out.rejects().cloned().collect())
}

/// The error of a source without a dead letter.
pub(crate) fn error<T: DeserializeOwned + Send + 'static>(source: &FileSource<T>, files: &MemoryFiles) -> Error {
    match collected(source, files, DeadLetter::None) {
        Ok(out) => panic!("expected an error, found {} records", out.records().count()),
        Err(error) => error,
    }
}

pub(crate) fn splits<T: DeserializeOwned + Send + 'static>(source: &FileSource<T>, files: &MemoryFiles) -> Vec<FileSplit> {
    discover(source, &shared(files), None).unwrap_or_else(|error| panic!("{error}")).splits
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("compresses");
    encoder.finish().expect("compresses")
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("compresses");
    encoder.include_checksum(true).expect("compresses");
    encoder.write_all(bytes).expect("compresses");
    encoder.finish().expect("compresses")
}

/// Whether an error has a code, and texts in its words.
pub(crate) fn assert_error(error: &Error, code: &str, texts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.code(), code, "{text}");
    for part in texts {
        assert!(text.contains(part), "expected {part:?} in:\n{text}");
    }
    assert!(text.contains("do: "), "an error says what to do:\n{text}");
}
