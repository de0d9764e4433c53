//! A store of objects in memory: for jobs that need not survive, and for tests.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CheckpointStore, ObjectMeta, ObjectWriter, StoreError};

/// A store in memory; clones are the same store.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// The paths of all objects.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.objects().keys().cloned().collect()
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckpointStore for MemoryStore {
    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        match self.objects().entry(path.to_owned()) {
            Entry::Occupied(_) => Err(StoreError::Exists),
            Entry::Vacant(free) => {
                free.insert(bytes.to_vec());
                Ok(())
            }
        }
    }

    fn writer(&self, path: &str) -> Result<Box<dyn ObjectWriter>, StoreError> {
        Ok(Box::new(Writing { store: self.clone(), path: path.to_owned(), bytes: Vec::new() }))
    }

    fn read(&self, path: &str, offset: u64, bytes: Option<u64>) -> Result<Vec<u8>, StoreError> {
        let objects = self.objects();
        let object = objects.get(path).ok_or(StoreError::Absent)?;
        let rest = object.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let wanted = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(rest.len());
        Ok(rest[..wanted.min(rest.len())].to_vec())
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let objects = self.objects();
        let found = objects.iter().filter(|(path, _)| path.starts_with(prefix));
        Ok(found.map(|(path, object)| ObjectMeta { path: path.clone(), bytes: object.len() as u64 }).collect())
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.objects().remove(path);
        Ok(())
    }

    fn clear_unfinished(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn describe(&self) -> String {
        "memory:".into()
    }
}

struct Writing {
    store: MemoryStore,
    path: String,
    bytes: Vec<u8>,
}

impl ObjectWriter for Writing {
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        self.store.put(&self.path, &self.bytes)
    }
}

#[cfg(all(test, feature = "testkit"))]
mod tests {
    use super::*;
    use crate::testkit::{StoreCase, check_store};

    #[test]
    fn memory_is_a_checkpoint_store() {
        let store = MemoryStore::new();
        check_store(&StoreCase { open: &|| Arc::new(store.clone()), unfinished: &|| 0, large: 1, spares_newer: true });
    }
}
