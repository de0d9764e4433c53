//! Which channel a record takes.

use std::borrow::Borrow;
use std::marker::PhantomData;

use serde::Serialize;
use staunch_types::{KeyGroupCount, stable_hash};

use crate::state::codec::Key;

/// A record with the hash of its key, computed once: it decides the key group, and finds the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed<T> {
    /// The stable hash of the key.
    pub hash: u64,
    /// The record.
    pub value: T,
}

/// Finds the key in a record, without making one where it can be borrowed.
pub trait KeySelector<T>: Clone + Send + 'static {
    /// The key as it is kept in state.
    type Key: Key + Borrow<Self::View>;
    /// The key as it is seen in a record.
    type View: ?Sized + Eq + Serialize + ToOwned<Owned = Self::Key>;

    /// Calls `f` with the record's key.
    fn with<R>(&self, value: &T, f: impl FnOnce(&Self::View) -> R) -> R;

    /// The record's key, owned.
    fn key(&self, value: &T) -> Self::Key;
}

/// The key is made by a closure: for numbers and other small keys.
pub struct KeyedBy<F, K>(F, PhantomData<fn() -> K>);

/// The key is borrowed from the record by a closure: for texts.
pub struct KeyedByRef<F, V: ?Sized>(F, PhantomData<fn() -> V>);

impl<F, K> KeyedBy<F, K> {
    /// Wraps the closure.
    pub fn new(select: F) -> Self {
        KeyedBy(select, PhantomData)
    }
}

impl<F, V: ?Sized> KeyedByRef<F, V> {
    /// Wraps the closure.
    pub fn new(select: F) -> Self {
        KeyedByRef(select, PhantomData)
    }
}

impl<F: Clone, K> Clone for KeyedBy<F, K> {
    fn clone(&self) -> Self {
        KeyedBy(self.0.clone(), PhantomData)
    }
}

impl<F: Clone, V: ?Sized> Clone for KeyedByRef<F, V> {
    fn clone(&self) -> Self {
        KeyedByRef(self.0.clone(), PhantomData)
    }
}

impl<T, K: Key, F: Fn(&T) -> K + Clone + Send + 'static> KeySelector<T> for KeyedBy<F, K> {
    type Key = K;
    type View = K;

    #[inline]
    fn with<R>(&self, value: &T, f: impl FnOnce(&K) -> R) -> R {
        f(&(self.0)(value))
    }

    #[inline]
    fn key(&self, value: &T) -> K {
        (self.0)(value)
    }
}

impl<T, V, F> KeySelector<T> for KeyedByRef<F, V>
where
    V: ?Sized + Eq + Serialize + ToOwned + 'static,
    V::Owned: Key,
    F: for<'a> Fn(&'a T) -> &'a V + Clone + Send + 'static,
{
    type Key = V::Owned;
    type View = V;

    #[inline]
    fn with<R>(&self, value: &T, f: impl FnOnce(&V) -> R) -> R {
        f((self.0)(value))
    }

    #[inline]
    fn key(&self, value: &T) -> V::Owned {
        (self.0)(value).to_owned()
    }
}

/// Decides the channel of each record, and the form in which it travels.
pub trait Route<T>: Send + 'static {
    /// What travels.
    type Out: Send + 'static;

    /// Gives the record its travelling form and tells its channel, of `channels`.
    fn route(&mut self, value: T, channels: u32) -> (u32, Self::Out);

    /// A batch has left for `channel`.
    fn sent(&mut self, channel: u32, channels: u32);
}

/// All records of a key to the task that owns its key group.
pub struct RouteByKey<S> {
    selector: S,
    groups: KeyGroupCount,
}

impl<S> RouteByKey<S> {
    /// Routes by the key that `selector` finds.
    pub fn new(selector: S, groups: KeyGroupCount) -> Self {
        RouteByKey { selector, groups }
    }
}

impl<T: Send + 'static, S: KeySelector<T>> Route<T> for RouteByKey<S> {
    type Out = Hashed<T>;

    #[inline]
    fn route(&mut self, value: T, channels: u32) -> (u32, Hashed<T>) {
        let hash = self.selector.with(&value, stable_hash);
        let channel = if channels == 1 { 0 } else { self.groups.owner_of(self.groups.group_of(hash), channels) };
        (channel, Hashed { hash, value })
    }

    #[inline]
    fn sent(&mut self, _channel: u32, _channels: u32) {}
}

/// Batch after batch to one channel after the other, beginning at the sender's own number.
pub struct RouteRoundRobin {
    next: u32,
}

impl RouteRoundRobin {
    /// Begins at channel `first`.
    #[must_use]
    pub fn new(first: u32) -> Self {
        RouteRoundRobin { next: first }
    }
}

impl<T: Send + 'static> Route<T> for RouteRoundRobin {
    type Out = T;

    #[inline]
    fn route(&mut self, value: T, channels: u32) -> (u32, T) {
        (self.next % channels, value)
    }

    #[inline]
    fn sent(&mut self, channel: u32, channels: u32) {
        self.next = (channel + 1) % channels;
    }
}
