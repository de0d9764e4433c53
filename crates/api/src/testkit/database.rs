//! A database of keyed state in memory, for tests and for simulation.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use staunch_types::{Error, ErrorKind, KeyGroup, Result};

use crate::{
    CheckpointStore, DatabaseCheckpoint, DatabasePlace, StateBackend, StateBatch, StateDatabase, StoreError, StoredDatabase, StoredFile, parts_of,
};

/// Entries by state and key.
type Entries = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// Makes databases in memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBackend {
    /// Bytes of all objects in front of its databases.
    pub object_bytes_max: usize,
}

impl StateBackend for MemoryBackend {
    fn kind(&self) -> &'static str {
        "memory-database"
    }

    fn object_bytes_max(&self) -> usize {
        self.object_bytes_max
    }

    fn open(&self, place: &DatabasePlace, from: &[StoredDatabase], store: &dyn CheckpointStore) -> Result<Arc<dyn StateDatabase>> {
        let mut entries = Entries::new();
        for file in from.iter().flat_map(|stored| &stored.files) {
            let bytes = store.read(&file.path, 0, None).map_err(|error| unreadable(file, &error))?;
            if bytes.len() as u64 != file.bytes || crc32c::crc32c(&bytes) != file.crc {
                return Err(Error::new(ErrorKind::Corrupt, "X901", "a file of a database is not what was stored").at(format!("object={}", file.path)));
            }
            let all = decode(&bytes).ok_or_else(|| Error::new(ErrorKind::Corrupt, "X901", "a file of a database cannot be read"))?;
            let own = all.into_iter().filter(|((_, key), _)| parts_of(key).is_some_and(|(_, group, _)| place.range.contains(KeyGroup(group as u16))));
            entries.extend(own);
        }
        Ok(Arc::new(MemoryDatabase(Mutex::new(entries))))
    }
}

fn unreadable(file: &StoredFile, error: &StoreError) -> Error {
    let kind = if *error == StoreError::Absent { ErrorKind::Corrupt } else { ErrorKind::Restart };
    Error::new(kind, "X902", "a file of a database cannot be read").cause(error).at(format!("object={}", file.path))
}

/// A database in memory.
#[derive(Debug, Default)]
pub struct MemoryDatabase(Mutex<Entries>);

impl MemoryDatabase {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A database with the same entries.
    #[must_use]
    pub fn copy(&self) -> MemoryDatabase {
        MemoryDatabase(Mutex::new(self.entries().clone()))
    }
}

impl StateDatabase for MemoryDatabase {
    fn get(&self, state: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let entries = self.entries();
        let found = entries.get(&(state, key.to_vec()));
        found.iter().for_each(|bytes| value.extend_from_slice(bytes));
        Ok(found.is_some())
    }

    fn scan(&self, state: usize, from: &[u8], until: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        if from < until {
            for ((_, key), value) in self.entries().range((state, from.to_vec())..(state, until.to_vec())) {
                if visit(key, value).is_break() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn write(&self, mut batch: StateBatch) -> Result<()> {
        batch.sort();
        let mut entries = self.entries();
        for (from, until) in batch.clears() {
            entries.retain(|(state, key), _| *state != batch.state || &**key < from || &**key >= until);
        }
        for (key, value) in batch.changes() {
            match value {
                Some(value) => drop(entries.insert((batch.state, key.to_vec()), value.to_vec())),
                None => drop(entries.remove(&(batch.state, key.to_vec()))),
            }
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<Box<dyn DatabaseCheckpoint>> {
        Ok(Box::new(Taken(self.entries().clone())))
    }
}

struct Taken(Entries);

impl DatabaseCheckpoint for Taken {
    fn upload(self: Box<Self>, store: &dyn CheckpointStore, prefix: &str, known: &[StoredFile]) -> Result<Vec<StoredFile>> {
        let mut files = Vec::new();
        // One file for each key group, so that what did not change is known from before.
        let mut parts: BTreeMap<u32, Entries> = BTreeMap::new();
        for ((state, key), value) in self.0 {
            let group = parts_of(&key).map_or(0, |(_, group, _)| group);
            parts.entry(group).or_default().insert((state, key), value);
        }
        for (group, entries) in parts {
            let bytes = encode(&entries);
            let (name, crc) = (format!("group-{group}-{:08x}", crc32c::crc32c(&bytes)), crc32c::crc32c(&bytes));
            if let Some(same) = known.iter().find(|file| file.name == name && file.bytes == bytes.len() as u64) {
                files.push(same.clone());
                continue;
            }
            let path = format!("{prefix}{name}");
            match store.put(&path, &bytes) {
                Ok(()) | Err(StoreError::Exists) => {}
                Err(error) => return Err(Error::new(ErrorKind::Retry, "X903", "a file of a database was not stored").cause(error).at(format!("object={path}"))),
            }
            files.push(StoredFile { name, path, bytes: bytes.len() as u64, crc });
        }
        Ok(files)
    }
}

fn encode(entries: &Entries) -> Vec<u8> {
    let mut out = Vec::new();
    for ((state, key), value) in entries {
        for number in [*state, key.len(), value.len()] {
            out.extend_from_slice(&(number as u32).to_le_bytes());
        }
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    }
    out
}

fn decode(mut bytes: &[u8]) -> Option<Entries> {
    let mut entries = Entries::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_first_chunk::<12>()?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let (key, rest) = rest.split_at_checked(number(4))?;
        let (value, rest) = rest.split_at_checked(number(8))?;
        entries.insert((number(0), key.to_vec()), value.to_vec());
        bytes = rest;
    }
    Some(entries)
}
