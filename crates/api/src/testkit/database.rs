//! A database of keyed state in memory, for tests and for simulation.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use staunch_types::{Error, ErrorKind, Generation, KeyGroup, KeyGroupRange, Name, Result, TaskId};

use crate::{
    CheckpointStore, DatabaseCheckpoint, DatabasePlace, StateBackend, StateBatch, StateDatabase, StoreError, StoredDatabase, StoredFile,
    Visit, key_of, parts_of,
};

use super::MemoryStore;

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
                return Err(Error::new(ErrorKind::Corrupt, "S407", "a file of a database is not what was stored")
                    .at(format!("object={}", file.path)));
            }
            let all = decode(&bytes).ok_or_else(|| Error::new(ErrorKind::Corrupt, "S407", "a file of a database cannot be read"))?;
            let own = all
                .into_iter()
                .filter(|((_, key), _)| parts_of(key).is_some_and(|(_, group, _)| place.range.contains(KeyGroup(group as u16))));
            entries.extend(own);
        }
        Ok(Arc::new(MemoryDatabase(Mutex::new(entries))))
    }
}

fn unreadable(file: &StoredFile, error: &StoreError) -> Error {
    let kind = if *error == StoreError::Absent { ErrorKind::Corrupt } else { ErrorKind::Restart };
    Error::new(kind, "S408", "a file of a database cannot be read").cause(error).at(format!("object={}", file.path))
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

    fn scan(&self, state: usize, from: &[u8], until: &[u8], visit: &mut Visit<'_>) -> Result<()> {
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
                Err(error) => {
                    return Err(Error::new(ErrorKind::Retry, "S409", "a file of a database was not stored")
                        .cause(error)
                        .at(format!("object={path}")));
                }
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

/// Checks that a backend keeps the promises of its contract.
///
/// # Panics
/// When it does not.
pub fn check_backend(backend: &dyn StateBackend) {
    let store = MemoryStore::new();
    let whole = KeyGroupRange { start: 0, end: GROUPS };
    let place = |range, generation| {
        let name = || Name::new("conformance").unwrap_or_else(|_| unreachable!("a plain word is a name"));
        DatabasePlace {
            job: name(),
            operator: name(),
            task: TaskId { chain: 1, index: 2 },
            generation: Generation(generation),
            range,
            states: vec!["first".into(), "second/pieces".into(), "#third".into()],
        }
    };
    let mut model = Entries::new();
    let mut random = Lottery(7);
    let mut known: Vec<StoredFile> = Vec::new();
    let mut database = open(backend, &place(whole, 1), &[], &store);
    assert_same(&*database, &model, whole);
    for round in 0..12u64 {
        for _ in 0..random.below(6) {
            // Some batches are larger than what a backend would keep in a buffer.
            let changes = if random.below(3) == 0 { 6_000 } else { random.below(300) };
            write(&*database, &mut model, &mut random, changes);
        }
        let before = model.clone();
        let checkpoint = database.checkpoint().unwrap_or_else(|error| panic!("{error}"));
        // What comes later is not in it.
        write(&*database, &mut model, &mut random, 500);
        let files = checkpoint.upload(&store, &format!("state/{round}/"), &known).unwrap_or_else(|error| panic!("{error}"));
        for file in &files {
            let bytes = store.read(&file.path, 0, None).unwrap_or_else(|error| panic!("{}: {error}", file.path));
            assert_eq!((bytes.len() as u64, crc32c::crc32c(&bytes)), (file.bytes, file.crc), "{}", file.path);
        }
        let stored = StoredDatabase { groups: whole, files: files.clone() };
        assert_same(&*open(backend, &place(whole, 2), std::slice::from_ref(&stored), &store), &before, whole);
        let parts: Vec<KeyGroupRange> = (0..3).map(|at| KeyGroupRange { start: at * GROUPS / 3, end: (at + 1) * GROUPS / 3 }).collect();
        let mut stored_parts = Vec::new();
        for range in &parts {
            let part = open(backend, &place(*range, 3), std::slice::from_ref(&stored), &store);
            assert_same(&*part, &before, *range);
            let checkpoint = part.checkpoint().unwrap_or_else(|error| panic!("{error}"));
            let files =
                checkpoint.upload(&store, &format!("state/{round}-{}/", range.start), &[]).unwrap_or_else(|error| panic!("{error}"));
            stored_parts.push(StoredDatabase { groups: *range, files });
        }
        assert_same(&*open(backend, &place(whole, 4), &stored_parts, &store), &before, whole);
        let across = KeyGroupRange { start: 1, end: GROUPS - 2 };
        assert_same(&*open(backend, &place(across, 5), &stored_parts, &store), &before, across);
        known = files;
        if random.below(3) == 0 {
            database = open(backend, &place(whole, 6), &[stored], &store);
            model = before;
        }
        assert_same(&*database, &model, whole);
    }
    damaged_files_are_refused(backend, &place(whole, 7), &known, &store);
}

fn damaged_files_are_refused(backend: &dyn StateBackend, place: &DatabasePlace, files: &[StoredFile], store: &MemoryStore) {
    let refused = |files: Vec<StoredFile>| {
        let from = StoredDatabase { groups: place.range, files };
        backend.open(place, &[from], store).err().map(|error| error.kind())
    };
    for at in 0..files.len() {
        let bytes = store.read(&files[at].path, 0, None).unwrap_or_else(|error| panic!("{error}"));
        let mut other = files.to_vec();
        other[at].path = "damaged".into();
        assert_eq!(refused(other.clone()), Some(ErrorKind::Corrupt), "{} is missing", files[at].name);
        for damaged in [bytes[..bytes.len() - 1].to_vec(), [&bytes[..bytes.len() - 1], &[bytes[bytes.len() - 1] ^ 1]].concat()] {
            store.put("damaged", &damaged).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(refused(other.clone()), Some(ErrorKind::Corrupt), "{} is damaged", files[at].name);
            store.remove("damaged").unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

const GROUPS: u32 = 8;
const NAMESPACES: [i64; 4] = [i64::MIN, -1, 0, 7];

/// Numbers that look like chance and are always the same.
struct Lottery(u64);

impl Lottery {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn key(&mut self) -> Vec<u8> {
        let mut key = Vec::new();
        key_of(NAMESPACES[self.below(4) as usize], self.below(u64::from(GROUPS)) as u32, &mut key);
        let own = self.below(2_000);
        key.extend_from_slice(&own.to_be_bytes()[6..]);
        key.resize(key.len() + (own % 5) as usize, 0xFF);
        key
    }
}

fn open(backend: &dyn StateBackend, place: &DatabasePlace, from: &[StoredDatabase], store: &MemoryStore) -> Arc<dyn StateDatabase> {
    backend.open(place, from, store).unwrap_or_else(|error| panic!("{error}"))
}

fn write(database: &dyn StateDatabase, model: &mut Entries, random: &mut Lottery, changes: u64) {
    let mut batch = StateBatch::new(random.below(3) as usize);
    let state = batch.state;
    if random.below(4) == 0 {
        let (mut from, mut until) = (Vec::new(), Vec::new());
        let (namespace, first) = (NAMESPACES[random.below(4) as usize], random.below(u64::from(GROUPS)) as u32);
        key_of(namespace, first, &mut from);
        key_of(namespace, first + 1 + random.below(u64::from(GROUPS - first)) as u32, &mut until);
        model.retain(|(of, key), _| *of != state || *key < from || *key >= until);
        batch.clear(from, until);
    }
    for _ in 0..changes {
        let key = random.key();
        if random.below(4) == 0 {
            batch.delete(|out| out.extend_from_slice(&key));
            model.remove(&(state, key));
        } else {
            let value = random.below(1 << 30).to_le_bytes()[..random.below(9) as usize].to_vec();
            let append = |bytes: &[u8], out: &mut Vec<u8>| {
                out.extend_from_slice(bytes);
                Ok::<(), std::convert::Infallible>(())
            };
            let Ok(()) = batch.put(|out| append(&key, out), |out| append(&value, out));
            model.insert((state, key), value);
        }
    }
    database.write(batch).unwrap_or_else(|error| panic!("{error}"));
}

/// A database has what a model has in some key groups, for whoever asks or walks.
fn assert_same(database: &dyn StateDatabase, model: &Entries, range: KeyGroupRange) {
    let is_in = |key: &[u8]| parts_of(key).is_some_and(|(_, group, _)| range.contains(KeyGroup(group as u16)));
    for state in 0..3 {
        let expected: Vec<(&[u8], &[u8])> =
            model.iter().filter(|((of, key), _)| *of == state && is_in(key)).map(|((_, key), value)| (&**key, &**value)).collect();
        let mut found = Vec::new();
        let scanned = database.scan(state, &[], &[0xFF; 16], &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        scanned.unwrap_or_else(|error| panic!("{error}"));
        let found: Vec<(&[u8], &[u8])> = found.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert!(found == expected, "state {state}: {} entries, and {} in the model", found.len(), expected.len());
        for (key, expected) in &expected {
            let mut value = b"before ".to_vec();
            assert_eq!(database.get(state, key, &mut value), Ok(true));
            assert_eq!(value, [b"before ", *expected].concat());
        }
        let mut value = Vec::new();
        assert_eq!(database.get(state, b"no such key", &mut value), Ok(false));
        if let [(from, _), .., (until, _)] = &*expected {
            let mut visited = 0;
            let scanned = database.scan(state, from, until, &mut |key, _| {
                assert_eq!(key, expected[visited].0);
                visited += 1;
                if visited == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            scanned.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(visited, 3.min(expected.len() - 1), "the end is not part of a walk");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_in_memory_keeps_all_promises_of_a_backend() {
        check_backend(&MemoryBackend { object_bytes_max: 0 });
    }
}
