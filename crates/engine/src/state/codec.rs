//! How keys and values become bytes.
//!
//! Owns: the bounds on keys and values, the encoders of one state, and the error a value gives that cannot be written.
//! Does not own: the byte format.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use staunch_types::{Error, ErrorKind, Result};

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
#[derive(Default)]
pub(super) struct Codec {}

impl Codec {
    /// Appends the bytes of a key.
    ///
    /// # Errors
    /// `Invalid` when the key's own `Serialize` refuses.
    pub(super) fn key<K: Serialize>(&mut self, key: &K, out: &mut Vec<u8>) -> Result<()> {
        encode(key, out)
    }

    /// Appends the bytes of a value.
    ///
    /// # Errors
    /// `Invalid` when the value's own `Serialize` refuses.
    pub(super) fn value<V: Serialize>(&mut self, value: &V, out: &mut Vec<u8>) -> Result<()> {
        encode(value, out)
    }
}

#[inline]
fn encode<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    let taken = std::mem::take(out);
    match postcard::to_extend(value, taken) {
        Ok(written) => {
            *out = written;
            Ok(())
        }
        Err(cause) => Err(Error::new(ErrorKind::Invalid, "S001", "a value in state cannot be serialised").cause(cause)),
    }
}
