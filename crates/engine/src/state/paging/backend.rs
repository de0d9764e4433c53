//! What lies under the keyed state of a process: a backend, and the memory that all tasks share in front of it.
//!
//! Owns: how much of that memory is taken. Does not own: which entries leave it (the tables), or the backend's own memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use staunch_api::StateBackend;

/// Bytes of a batch at least and at most, and the share of the objects' memory that it may take.
const BATCH_BYTES_MIN: usize = 64 << 10;
const BATCH_BYTES_MAX: usize = 32 << 20;
const BATCH_SHARE: usize = 64;

/// A backend with the memory in front of it; clones share both.
#[derive(Clone)]
pub struct Backend {
    backend: Arc<dyn StateBackend>,
    taken: Arc<AtomicUsize>,
}

impl Backend {
    /// A backend of which nothing is used yet.
    #[must_use]
    pub fn new(backend: Arc<dyn StateBackend>) -> Backend {
        Backend { backend, taken: Arc::default() }
    }

    /// The backend itself.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn StateBackend> {
        &self.backend
    }

    /// Bytes of the batches in which states are written.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        (self.backend.object_bytes_max() / BATCH_SHARE).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX)
    }

    /// Bytes by which all objects of the process together are more than they may be.
    #[must_use]
    pub fn surplus(&self) -> usize {
        self.taken.load(Ordering::Relaxed).saturating_sub(self.backend.object_bytes_max())
    }

    /// Bytes that all objects of the process together take.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// One holder takes `now` bytes instead of `before`.
    pub fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.taken.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.taken.fetch_sub(before - now, Ordering::Relaxed);
        }
    }
}
