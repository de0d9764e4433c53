//! The settings, and what all databases of a process share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rust_rocksdb::{BlockBasedOptions, Cache, DBCompressionType, Options, WriteBufferManager};
use staunch_api::{CheckpointStore, DatabasePlace, StateBackend, StateDatabase, StoredDatabase};
use staunch_types::Result;

use crate::place::Home;
use crate::restore;

/// Memory of a process for keyed state unless it says otherwise.
const MEMORY_BYTES: usize = 1 << 30;
/// Least memory with which databases work at all.
const MEMORY_BYTES_MIN: usize = 4 << 20;
/// Of that memory, so many tenths are for objects, and so many for blocks of files and write buffers. The rest is for batches on their way, and
/// for files being written.
const OBJECT_TENTHS: usize = 5;
const CACHE_TENTHS: usize = 3;
/// Bits of a filter for each key: one lookup in about a hundred reads a block in vain.
const FILTER_BITS: f64 = 10.0;
/// Bytes of a file that compaction makes.
const FILE_BYTES: u64 = 64 << 20;
/// Bytes of a block.
const BLOCK_BYTES: usize = 8 << 10;
/// Files open at the same time in one database.
const FILES_OPEN_MAX: i32 = 512;
/// Threads for compaction, of all databases together.
const COMPACTIONS_MAX: i32 = 2;

/// Keyed state in RocksDB: as much of it as the disk holds, with what was used lately in memory.
///
/// ```
/// # use staunch_rocksdb::RocksDb;
/// let backend = RocksDb::default().memory(4 << 30).directory("/var/lib/payments");
/// ```
#[derive(Clone)]
pub struct RocksDb {
    memory_bytes: usize,
    object_bytes: Option<usize>,
    directory: Option<PathBuf>,
    shared: Arc<Mutex<Option<Arc<Shared>>>>,
}

/// What all databases of a process share.
pub(crate) struct Shared {
    pub(crate) home: Home,
    /// For the states.
    pub(crate) options: Options,
}

impl Default for RocksDb {
    fn default() -> RocksDb {
        RocksDb { memory_bytes: MEMORY_BYTES, object_bytes: None, directory: None, shared: Arc::default() }
    }
}

impl RocksDb {
    /// Memory that keyed state of the whole process may take, in bytes: objects, blocks of files, and what is being written. At least 4 MiB; 1 GiB
    /// unless it is set.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> RocksDb {
        self.memory_bytes = bytes.max(MEMORY_BYTES_MIN);
        self
    }

    /// How much of that memory keyed state may take as objects, in bytes: half unless it is set. What is used again and again costs least there;
    /// what is asked for once costs least as blocks of files.
    #[must_use]
    pub fn objects(mut self, bytes: usize) -> RocksDb {
        self.object_bytes = Some(bytes);
        self
    }

    /// Where databases are kept while the job runs: a directory on a local disk with room for all keyed state and half as much again. Nothing in
    /// it is needed after the job ended. The directory for temporary files unless it is set.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> RocksDb {
        self.directory = Some(directory.into());
        self
    }

    fn shared(&self) -> Result<Arc<Shared>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        let base = self.directory.clone().unwrap_or_else(std::env::temp_dir);
        let made = Arc::new(Shared { home: Home::new(&base)?, options: options(self.memory_bytes) });
        *shared = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl StateBackend for RocksDb {
    fn kind(&self) -> &'static str {
        "rocksdb"
    }

    fn object_bytes_max(&self) -> usize {
        self.object_bytes.unwrap_or(self.memory_bytes / 10 * OBJECT_TENTHS)
    }

    fn open(&self, place: &DatabasePlace, from: &[StoredDatabase], store: &dyn CheckpointStore) -> Result<Arc<dyn StateDatabase>> {
        Ok(Arc::new(restore::open(&self.shared()?, place, from, store)?))
    }
}

fn options(memory_bytes: usize) -> Options {
    let cache_bytes = memory_bytes / 10 * CACHE_TENTHS;
    let cache = Cache::new_lru_cache(cache_bytes);
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&cache);
    blocks.set_block_size(BLOCK_BYTES);
    blocks.set_bloom_filter(FILTER_BITS, false);
    // Indexes and filters count as memory like anything else.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_target_file_size_base(FILE_BYTES);
    options.set_max_bytes_for_level_base(4 * FILE_BYTES);
    options.set_max_open_files(FILES_OPEN_MAX);
    options.set_max_background_jobs(COMPACTIONS_MAX);
    // Small batches only go through write buffers; these count as blocks.
    options.set_write_buffer_size((cache_bytes / 8).clamp(1 << 20, 16 << 20));
    options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(cache_bytes / 4, false, cache));
    // Nobody reads its log, which would grow without bound in a directory that is thrown away.
    options.set_keep_log_file_num(1);
    options.set_max_log_file_size(1 << 20);
    options
}
