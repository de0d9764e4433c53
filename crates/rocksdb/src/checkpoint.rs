//! A checkpoint of a database: links to its files, which never change, and their way to the checkpoint store.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rust_rocksdb::checkpoint::Checkpoint;
use staunch_api::{CheckpointStore, DatabaseCheckpoint, StoredFile};
use staunch_types::Result;

use crate::codes;
use crate::database::Database;
use crate::place::Folder;

/// Bytes that are read and stored at once.
const PIECE_BYTES: usize = 1 << 20;
/// Files of entries end so; of all files of a database only these never change under their name.
const ENTRIES: &str = ".sst";

/// A checkpoint that was taken.
pub(crate) struct Taken {
    folder: Folder,
    /// The folder of the database, in which it lies, must not be removed before.
    _outer: Arc<Folder>,
}

impl Taken {
    pub(crate) fn new(database: &Database) -> Result<Taken> {
        let folder = database.unused_folder("checkpoint");
        // Without a log, what is in write buffers would be missing.
        database.flush().map_err(|error| codes::no_checkpoint(database.folder().path(), error))?;
        let taken = Checkpoint::new(database.db()).and_then(|checkpoint| checkpoint.create_checkpoint(folder.path()));
        taken.map_err(|error| codes::no_checkpoint(database.folder().path(), error))?;
        Ok(Taken { folder, _outer: Arc::clone(database.folder()) })
    }

    fn store(&self, name: &str, store: &dyn CheckpointStore, path: String) -> Result<StoredFile> {
        let failed = |cause: &dyn std::fmt::Display| codes::not_stored(&path, &store.describe(), cause);
        let mut file = File::open(self.folder.path().join(name)).map_err(|error| failed(&error))?;
        let mut writer = store.writer(&path).map_err(|error| failed(&error))?;
        let (mut bytes, mut crc) = (0, 0);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = file.read(&mut piece).map_err(|error| failed(&error))?;
            if count == 0 {
                break;
            }
            writer.append(&piece[..count]).map_err(|error| failed(&error))?;
            bytes += count as u64;
            crc = crc32c::crc32c_append(crc, &piece[..count]);
        }
        writer.finish().map_err(|error| failed(&error))?;
        Ok(StoredFile { name: name.to_owned(), path, bytes, crc })
    }
}

impl DatabaseCheckpoint for Taken {
    fn upload(self: Box<Self>, store: &dyn CheckpointStore, prefix: &str, known: &[StoredFile]) -> Result<Vec<StoredFile>> {
        let mut files = Vec::new();
        for name in names(self.folder.path()).map_err(|error| codes::no_checkpoint(self.folder.path(), error))? {
            let same = known.iter().find(|file| name.ends_with(ENTRIES) && file.name == name);
            files.push(match same {
                Some(same) => same.clone(),
                None => self.store(&name, store, format!("{prefix}{name}"))?,
            });
        }
        Ok(files)
    }
}

/// The files that a database is opened from, in order.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(ENTRIES) || name.starts_with("MANIFEST-") || name == "CURRENT" {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
