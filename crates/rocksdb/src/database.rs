//! One database: a column family for each state.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rust_rocksdb::{
    ColumnFamily, DB, Error as RocksError, IngestExternalFileOptions, ReadOptions, SstFileWriter, WriteBatch, WriteOptions,
};
use staunch_api::{DatabaseCheckpoint, StateBatch, StateDatabase, Visit};
use staunch_types::Result;

use crate::backend::Shared;
use crate::checkpoint::Taken;
use crate::codes;
use crate::place::Folder;

/// Bytes from which on a batch gets files of its own.
const FILE_BYTES_MIN: usize = 64 << 10;

/// An open database.
pub(crate) struct Database {
    /// Closed before its folder is removed.
    db: DB,
    states: Vec<String>,
    shared: Arc<Shared>,
    next: AtomicU64,
    folder: Arc<Folder>,
}

impl Database {
    pub(crate) fn new(db: DB, states: Vec<String>, shared: Arc<Shared>, folder: Folder) -> Database {
        Database { db, states, shared, next: AtomicU64::new(0), folder: Arc::new(folder) }
    }

    pub(crate) fn family(&self, state: usize) -> &ColumnFamily {
        let name = &self.states[state];
        self.db.cf_handle(name).unwrap_or_else(|| panic!("the state {name} got a column family when the database was opened"))
    }

    pub(crate) fn db(&self) -> &DB {
        &self.db
    }

    pub(crate) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Writes what is in write buffers into files.
    pub(crate) fn flush(&self) -> std::result::Result<(), RocksError> {
        (0..self.states.len()).try_for_each(|state| self.db.flush_cf(&self.family(state)))
    }

    /// A path in the folder that nobody has used.
    fn unused(&self, kind: &str) -> PathBuf {
        self.folder.path().join(format!("{kind}-{}", self.next.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn unused_folder(&self, kind: &str) -> Folder {
        self.folder.inner(&format!("{kind}-{}", self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn write_all(&self, mut batch: StateBatch) -> std::result::Result<(), RocksError> {
        for (from, until) in batch.clears() {
            self.db.delete_range_cf_opt(self.family(batch.state), from, until, &without_log())?;
        }
        batch.sort();
        if batch.bytes() < FILE_BYTES_MIN { self.write_buffered(&batch) } else { self.ingest(batch.state, batch.changes()) }
    }

    fn write_buffered(&self, batch: &StateBatch) -> std::result::Result<(), RocksError> {
        if batch.count() == 0 {
            return Ok(());
        }
        let family = self.family(batch.state);
        let mut changes = WriteBatch::default();
        for (key, value) in batch.changes() {
            match value {
                Some(value) => changes.put_cf(family, key, value),
                None => changes.delete_cf(family, key),
            }
        }
        self.db.write_opt(&changes, &without_log())
    }

    /// Makes a file of sorted changes, and takes it in.
    pub(crate) fn ingest<'a>(
        &self,
        state: usize,
        changes: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> std::result::Result<(), RocksError> {
        let path = self.unused("batch");
        let mut writer = SstFileWriter::create(&self.shared.options);
        writer.open(&path)?;
        for (key, value) in changes {
            match value {
                Some(value) => writer.put(key, value)?,
                None => writer.delete(key)?,
            }
        }
        writer.finish()?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        self.db.ingest_external_file_cf_opts(self.family(state), &options, vec![&path])
    }
}

/// There is no log.
pub(crate) fn without_log() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

impl StateDatabase for Database {
    fn get(&self, state: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.db.get_pinned_cf(self.family(state), key).map_err(|error| codes::failed("read", self.folder.path(), error))?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes));
        Ok(found.is_some())
    }

    fn scan(&self, state: usize, from: &[u8], until: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(until);
        // What is walked through once must not drive out what is asked for again and again.
        options.fill_cache(false);
        let mut entries = self.db.raw_iterator_cf_opt(self.family(state), options);
        entries.seek(from);
        while let Some((key, value)) = entries.item() {
            if visit(key, value).is_break() {
                return Ok(());
            }
            entries.next();
        }
        entries.status().map_err(|error| codes::failed("read", self.folder.path(), error))
    }

    fn write(&self, batch: StateBatch) -> Result<()> {
        self.write_all(batch).map_err(|error| codes::failed("written", self.folder.path(), error))
    }

    fn checkpoint(&self) -> Result<Box<dyn DatabaseCheckpoint>> {
        Ok(Box::new(Taken::new(self)?))
    }
}
