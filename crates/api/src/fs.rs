//! Files, as the engine and the file connector see them.
//!
//! Owns: the few operations needed and what is durable after each. Production is the operating system; simulation is a file
//! system that refuses, delays, tears writes and forgets what was not synced.

use std::io;
use std::path::Path;

/// A file system. All calls may block: they belong behind [`crate::Io`].
pub trait FileSystem: Send + Sync {
    /// Opens a file for reading at any offset.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>>;

    /// Creates a file for appending; its parent directory must exist.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Gives a file another name in one atomic step, durable when it returns (both directories are synced).
    /// The content is durable only if it was synced before. A file that is open for appending goes on under its new name.
    ///
    /// # Errors
    /// `AlreadyExists` when the target exists and `replace` is [`Replace::Never`]; `NotFound` when the file does not exist.
    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()>;

    /// Removes a file. It may come back after a crash.
    ///
    /// # Errors
    /// `NotFound` when it does not exist.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The entries of a directory, sorted by name.
    ///
    /// # Errors
    /// `NotFound` when the directory does not exist.
    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>>;

    /// Creates a directory and its parents, durable when it returns. No error when it exists.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// What is at a path; `None` when nothing is.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>>;
}

/// Whether a rename may take the place of an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// An existing target is an error: the conditional write.
    Never,
    /// An existing target is replaced.
    Allowed,
}

/// A file open for reading.
pub trait ReadFile: Send + Sync {
    /// Reads at most `buffer.len()` bytes at an offset; 0 at the end of the file.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Bytes in the file now.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn bytes(&self) -> io::Result<u64>;
}

/// A file open for appending.
pub trait WriteFile: Send {
    /// Appends all bytes. Not durable until [`Self::sync`].
    ///
    /// # Errors
    /// As the operating system reports them; then some of the bytes may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was appended durable.
    ///
    /// # Errors
    /// As the operating system reports them; then nothing is known about what was appended since the last success.
    fn sync(&mut self) -> io::Result<()>;
}

/// What kind of thing is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file, or a link to one.
    File,
    /// A directory, or a link to one.
    Directory,
    /// Something else: a socket, a device, a broken link.
    Other,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its kind.
    pub kind: EntryKind,
    /// Its length in bytes.
    pub bytes: u64,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its name, without the directory.
    pub name: String,
    /// Its kind and length.
    pub metadata: Metadata,
}
