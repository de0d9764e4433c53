//! Where state lies in the checkpoint store: a stretch of an object that holds one block, or a database in files.

use serde::{Deserialize, Serialize};
use staunch_api::StoredDatabase;
use staunch_format::value::Schema;
use staunch_types::{Epoch, KeyGroupRange};

/// Where one block of state lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Path of the object in the checkpoint store.
    pub path: String,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// CRC32C of the bytes.
    pub crc: u32,
    /// Key groups that may occur in it.
    pub groups: KeyGroupRange,
    /// The epoch that wrote it. Segments of one state are applied in this order.
    pub epoch: Epoch,
}

/// The database with all keyed state of one operator of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabasePart {
    /// The kind of the backend that made it.
    pub kind: String,
    /// Its states, in the order of their numbers in the database.
    pub states: Vec<DatabaseState>,
    /// Where it lies.
    pub stored: StoredDatabase,
}

/// A keyed state in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseState {
    /// Its name.
    pub name: String,
    /// How its keys are written.
    pub keys: Schema,
    /// How its values are written.
    pub values: Schema,
}
