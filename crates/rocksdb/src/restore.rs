//! Opening a database: an empty one, one from a checkpoint, or one put together from several.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rust_rocksdb::{ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME, Error as RocksError, IteratorMode, ReadOptions};
use staunch_api::{CheckpointStore, DatabasePlace, KEY_PREFIX_BYTES, StoreError, StoredDatabase, StoredFile, key_of, parts_of};
use staunch_types::{KeyGroup, KeyGroupRange, Result};

use crate::backend::Shared;
use crate::codes;
use crate::database::{Database, without_log};
use crate::place::Folder;

/// The folder of the database itself, in that of all that belongs to it.
const DATABASE: &str = "db";
/// Bytes that are read from the checkpoint store at once.
const PIECE_BYTES: u64 = 8 << 20;
/// Bytes of entries that are put into one file when databases are put together.
const FILE_BYTES: usize = 32 << 20;

/// A key and its value.
type Entry = (Box<[u8]>, Box<[u8]>);

/// Opens a database.
pub(crate) fn open(shared: &Arc<Shared>, place: &DatabasePlace, from: &[StoredDatabase], store: &dyn CheckpointStore) -> Result<Database> {
    let folder = shared.home.folder(place)?;
    if let [only] = from {
        fetch(&folder.path().join(DATABASE), only, store)?;
    }
    let database = open_at(shared, place, folder)?;
    match from {
        [] => {}
        [only] => clip(&database, place, only.groups).map_err(|error| codes::failed("opened", database.folder().path(), error))?,
        several => {
            for part in several {
                take_in(shared, &database, place, part, store)?;
            }
        }
    }
    Ok(database)
}

fn open_at(shared: &Arc<Shared>, place: &DatabasePlace, folder: Folder) -> Result<Database> {
    let path = folder.path().join(DATABASE);
    // States that the database has and the operator has not are refused before; they would have to be opened too.
    let known = DB::list_cf(&shared.options, &path).unwrap_or_default();
    let mut names: Vec<&str> = place.states.iter().map(String::as_str).collect();
    names.extend(known.iter().map(String::as_str).filter(|name| !place.states.iter().any(|state| state == name)));
    if !names.contains(&DEFAULT_COLUMN_FAMILY_NAME) {
        names.push(DEFAULT_COLUMN_FAMILY_NAME);
    }
    let families = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, shared.options.clone()));
    let db = DB::open_cf_descriptors(&shared.options, &path, families).map_err(|error| codes::failed("opened", &path, error))?;
    Ok(Database::new(db, place.states.clone(), Arc::clone(shared), folder))
}

/// Fetches the files of a database.
fn fetch(folder: &Path, stored: &StoredDatabase, store: &dyn CheckpointStore) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| codes::failed("opened", folder, error))?;
    stored.files.iter().try_for_each(|file| fetch_file(folder, file, store))
}

fn fetch_file(folder: &Path, file: &StoredFile, store: &dyn CheckpointStore) -> Result<()> {
    let path = folder.join(&file.name);
    let failed = |error: std::io::Error| codes::failed("opened", &path, error);
    let mut out = File::create(&path).map_err(failed)?;
    let (mut at, mut crc) = (0, 0);
    while at < file.bytes {
        let bytes = match store.read(&file.path, at, Some(PIECE_BYTES.min(file.bytes - at))) {
            Ok(bytes) if bytes.is_empty() => return Err(codes::damaged(file, &store.describe(), format!("it ends after {at} bytes"))),
            Ok(bytes) => bytes,
            Err(StoreError::Absent) => return Err(codes::damaged(file, &store.describe(), "it does not exist")),
            Err(error) => return Err(codes::unreadable(file, &store.describe(), error)),
        };
        out.write_all(&bytes).map_err(failed)?;
        crc = crc32c::crc32c_append(crc, &bytes);
        at += bytes.len() as u64;
    }
    if crc != file.crc {
        return Err(codes::damaged(file, &store.describe(), "its checksum is not the one in the manifest"));
    }
    Ok(())
}

/// Removes the key groups that a task no longer has.
fn clip(database: &Database, place: &DatabasePlace, had: KeyGroupRange) -> std::result::Result<(), RocksError> {
    if had == place.range {
        return Ok(());
    }
    let key = |namespace: i64, group: u32| {
        let mut out = Vec::with_capacity(KEY_PREFIX_BYTES);
        key_of(namespace, group, &mut out);
        out
    };
    for state in 0..place.states.len() {
        let family = database.family(state);
        for namespace in namespaces(database, state)? {
            for (from, until) in [(had.start, place.range.start), (place.range.end, had.end)] {
                if from < until {
                    database.db().delete_range_cf_opt(family, key(namespace, from), key(namespace, until), &without_log())?;
                }
            }
        }
    }
    Ok(())
}

/// The namespaces of a state, ascending.
fn namespaces(database: &Database, state: usize) -> std::result::Result<Vec<i64>, RocksError> {
    let mut entries = database.db().raw_iterator_cf(database.family(state));
    let mut found = Vec::new();
    entries.seek_to_first();
    while let Some(namespace) = entries.key().and_then(parts_of).map(|(namespace, ..)| namespace) {
        found.push(namespace);
        match namespace.checked_add(1) {
            Some(next) => entries.seek(staunch_api::first_key_of(next)),
            None => break,
        }
    }
    entries.status().map(|()| found)
}

/// Takes in the entries of a stored database that lie in the task's key groups.
fn take_in(
    shared: &Arc<Shared>,
    database: &Database,
    place: &DatabasePlace,
    part: &StoredDatabase,
    store: &dyn CheckpointStore,
) -> Result<()> {
    let folder = database.unused_folder("part");
    fetch(folder.path(), part, store)?;
    let failed = |error: RocksError| codes::failed("opened", folder.path(), error);
    let families = DB::list_cf(&shared.options, folder.path()).map_err(failed)?;
    let descriptors = families.iter().map(|name| ColumnFamilyDescriptor::new(name, shared.options.clone()));
    let db = DB::open_cf_descriptors_read_only(&shared.options, folder.path(), descriptors, false).map_err(failed)?;
    for (state, name) in place.states.iter().enumerate() {
        let Some(family) = db.cf_handle(name) else { continue };
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        let mut pending: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        for entry in db.iterator_cf_opt(family, options, IteratorMode::Start) {
            let (key, value) = entry.map_err(failed)?;
            if !parts_of(&key).is_some_and(|(_, group, _)| place.range.contains(KeyGroup(group as u16))) {
                continue;
            }
            bytes += key.len() + value.len();
            pending.push((key, value));
            if bytes >= FILE_BYTES {
                database.ingest(state, changes(&pending)).map_err(failed)?;
                (pending, bytes) = (Vec::new(), 0);
            }
        }
        if !pending.is_empty() {
            database.ingest(state, changes(&pending)).map_err(failed)?;
        }
    }
    Ok(())
}

fn changes(entries: &[Entry]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    entries.iter().map(|(key, value)| (&**key, Some(&**value)))
}
