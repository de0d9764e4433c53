//! Incremental aggregates: a window keeps one accumulator for each key, never the records.
//!
//! Owns: the contract of an aggregate, and folds made of closures. Does not own: which records are added, when a result is asked for.

use std::marker::PhantomData;

use crate::state::codec::StateValue;

/// How records of one key and window become one value, one record at a time.
pub trait Aggregate<T>: Clone + Send + 'static {
    /// What is kept.
    type Accumulator: StateValue + Clone;
    /// What comes out.
    type Output: Send + 'static;

    /// The value of no records.
    fn create(&self) -> Self::Accumulator;
    /// Adds one record.
    fn add(&self, accumulator: &mut Self::Accumulator, record: &T);
    /// Adds all records of another accumulator.
    fn merge(&self, accumulator: &mut Self::Accumulator, other: &Self::Accumulator);
    /// What comes out when the window fires.
    fn result(&self, accumulator: &Self::Accumulator) -> Self::Output;
}

/// A fold by closures; the accumulator is the result. Enough for windows that do not overlap.
pub struct Fold<A, I, F> {
    init: I,
    add: F,
    accumulator: PhantomData<fn() -> A>,
}

/// A fold by closures that can also put two accumulators together.
pub struct FoldMerge<A, I, F, M> {
    fold: Fold<A, I, F>,
    merge: M,
}

impl<A, I: Fn() -> A, F> Fold<A, I, F> {
    /// Begins with `init()` and calls `add` for each record.
    pub fn new(init: I, add: F) -> Self {
        Fold { init, add, accumulator: PhantomData }
    }

    /// Says how two accumulators are put together, for windows that overlap or grow.
    pub fn merge<M: Fn(&mut A, &A)>(self, merge: M) -> FoldMerge<A, I, F, M> {
        FoldMerge { fold: self, merge }
    }
}

impl<A, I: Clone, F: Clone> Clone for Fold<A, I, F> {
    fn clone(&self) -> Self {
        Fold { init: self.init.clone(), add: self.add.clone(), accumulator: PhantomData }
    }
}

impl<A, I: Clone, F: Clone, M: Clone> Clone for FoldMerge<A, I, F, M> {
    fn clone(&self) -> Self {
        FoldMerge { fold: self.fold.clone(), merge: self.merge.clone() }
    }
}

impl<T, A, I, F> Aggregate<T> for Fold<A, I, F>
where
    A: StateValue + Clone,
    I: Fn() -> A + Clone + Send + 'static,
    F: Fn(&mut A, &T) + Clone + Send + 'static,
{
    type Accumulator = A;
    type Output = A;

    #[inline]
    fn create(&self) -> A {
        (self.init)()
    }

    #[inline]
    fn add(&self, accumulator: &mut A, record: &T) {
        (self.add)(accumulator, record);
    }

    fn merge(&self, _accumulator: &mut A, _other: &A) {
        unreachable!("the stream's `fold` takes windows of one pane only, which are never merged");
    }

    #[inline]
    fn result(&self, accumulator: &A) -> A {
        accumulator.clone()
    }
}

impl<T, A, I, F, M> Aggregate<T> for FoldMerge<A, I, F, M>
where
    A: StateValue + Clone,
    I: Fn() -> A + Clone + Send + 'static,
    F: Fn(&mut A, &T) + Clone + Send + 'static,
    M: Fn(&mut A, &A) + Clone + Send + 'static,
{
    type Accumulator = A;
    type Output = A;

    #[inline]
    fn create(&self) -> A {
        (self.fold.init)()
    }

    #[inline]
    fn add(&self, accumulator: &mut A, record: &T) {
        (self.fold.add)(accumulator, record);
    }

    #[inline]
    fn merge(&self, accumulator: &mut A, other: &A) {
        (self.merge)(accumulator, other);
    }

    #[inline]
    fn result(&self, accumulator: &A) -> A {
        accumulator.clone()
    }
}
