//! How keys and values become bytes.
//!
//! Owns: the bounds on keys and values, and the encoders of one state.
//! Does not own: the byte format (`staunch_format::value`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use staunch_format::value::{Encoder, Schema, ValueError};

/// What a key of keyed state must be able to do; implemented for every type that can.
pub trait Key: Eq + Clone + Serialize + DeserializeOwned + Send + 'static {}

impl<T: Eq + Clone + Serialize + DeserializeOwned + Send + 'static> Key for T {}

/// What a value in state must be able to do; implemented for every type that can.
pub trait StateValue: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> StateValue for T {}

/// The encoders of one state, shared by its tables. Only snapshots and removals use them, never a lookup or a change.
#[derive(Clone, Default)]
pub struct SharedCodec(Arc<Mutex<Codec>>);

impl SharedCodec {
    /// The encoders, for a series of records.
    pub(super) fn lock(&self) -> MutexGuard<'_, Codec> {
        // A panic in a user's `Serialize` leaves the encoders as after an error: usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The encoders of one state.
pub(super) struct Codec {
    keys: Encoder,
    values: Encoder,
}

impl Default for Codec {
    fn default() -> Codec {
        Codec { keys: Encoder::new().for_keys(), values: Encoder::new() }
    }
}

impl Codec {
    /// Appends the bytes of a key.
    ///
    /// # Errors
    /// When the key's own `Serialize` refuses, or the key is too deep.
    #[inline]
    pub(super) fn key<K: Serialize>(&mut self, key: &K, out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.keys.encode(key, out)
    }

    /// Appends the bytes of a value.
    ///
    /// # Errors
    /// When the value's own `Serialize` refuses, or the value is too deep.
    #[inline]
    pub(super) fn value<V: Serialize>(&mut self, value: &V, out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.values.encode(value, out)
    }

    /// Both encoders, for an entry.
    #[inline]
    pub(super) fn both(&mut self) -> (&mut Encoder, &mut Encoder) {
        (&mut self.keys, &mut self.values)
    }

    /// The version of the shape in which keys are written; while it is 0, equal keys have equal bytes.
    pub(super) fn key_version(&self) -> u32 {
        self.keys.schema_version()
    }

    /// Goes on with the schemas of an earlier program, so that what it wrote can still be read.
    pub(super) fn resume(&mut self, keys: &Schema, values: &Schema) {
        *self = Codec { keys: Encoder::resume(keys).for_keys(), values: Encoder::resume(values) };
    }

    /// The schemas of all keys and values encoded so far.
    pub(super) fn schemas(&self) -> (Schema, Schema) {
        (self.keys.schema(), self.values.schema())
    }
}
