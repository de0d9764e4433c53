//! Facts about the machine, and what only the system can give: cores, random numbers, a temporary directory.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::{fs, process, thread};

use staunch_types::{Error, ErrorKind, Result};

/// Cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A number that nobody else has: from the system's random source.
#[must_use]
pub fn random_number() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            // A kernel without the call: the standard library's own seed is as unique.
            Err(_) => {
                let half = |salt: u64| u128::from(RandomState::new().hash_one((process::id(), salt)));
                return (half(1) << 64) | half(2);
            }
        }
    }
    u128::from_le_bytes(bytes)
}

/// A directory that goes when the value does.
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// A fresh one.
    ///
    /// # Errors
    /// `Invalid` when the system's temporary directory cannot be written.
    pub fn new() -> Result<TemporaryDirectory> {
        let path = std::env::temp_dir().join(format!("staunch-{}-{:016x}", process::id(), random_number() as u64));
        fs::create_dir_all(&path).map_err(|error| {
            Error::new(ErrorKind::Invalid, "R004", "a temporary directory for checkpoints cannot be made")
                .cause(error)
                .at(format!("path={}", path.display()))
                .data("nothing was started")
                .remedy("give the job a directory with `--checkpoint-dir`")
        })?;
        Ok(TemporaryDirectory(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // What stays is in the system's temporary directory, where it is cleaned sooner or later.
        let _ = fs::remove_dir_all(&self.0);
    }
}
