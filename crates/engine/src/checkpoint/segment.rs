//! A stretch of an object that holds one block of state.

use serde::{Deserialize, Serialize};
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
