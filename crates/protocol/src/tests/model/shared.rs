//! Parts of a state that many states have in common.
//!
//! Owns: sharing, and a digest that is computed once for each value. Does not own: what is shared.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

use super::digest::digest;

/// A value that is copied only when it is changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared<T> {
    value: Rc<T>,
    digest: Cell<Option<u128>>,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Shared<T> {
        Shared { value: Rc::new(value), digest: Cell::new(None) }
    }

    /// Whether both are the same copy.
    pub(super) fn is(&self, other: &Shared<T>) -> bool {
        Rc::ptr_eq(&self.value, &other.value)
    }
}

impl<T: Clone> Shared<T> {
    /// The value, to be changed.
    pub(super) fn change(&mut self) -> &mut T {
        self.digest.set(None);
        Rc::make_mut(&mut self.value)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let value = self.digest.get().unwrap_or_else(|| digest(&*self.value));
        self.digest.set(Some(value));
        hasher.write_u128(value);
    }
}
