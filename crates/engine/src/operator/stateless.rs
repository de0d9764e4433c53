//! Steps without state: map, filter, flat_map, inspect; and how steps are put together at compile time.

use std::marker::PhantomData;

use staunch_types::{Result, Timestamp};

use super::{Activity, Chain, Control, Named, TaskContext};
use crate::job::TaskBuild;

/// A step that can be put in front of a chain. Steps are descriptions; each task gets nodes of its own.
pub trait Transform<In>: Send + 'static {
    /// What comes out.
    type Out: Send + 'static;
    /// The node, in front of `N`.
    type Node<N: Chain<Self::Out> + 'static>: Chain<In> + 'static;

    /// Makes the node of one task.
    ///
    /// # Errors
    /// `Invalid` when the step's settings cannot work, or its state cannot be restored.
    fn node<N: Chain<Self::Out> + 'static>(&self, next: N, build: &mut TaskBuild<'_>) -> Result<Self::Node<N>>;
}

/// No step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl<In: Send + 'static> Transform<In> for Identity {
    type Out = In;
    type Node<N: Chain<In> + 'static> = N;

    fn node<N: Chain<In> + 'static>(&self, next: N, _build: &mut TaskBuild<'_>) -> Result<N> {
        Ok(next)
    }
}

/// One step, then another.
pub struct Then<A, B>(pub A, pub B);

impl<In, A: Transform<In>, B: Transform<A::Out>> Transform<In> for Then<A, B> {
    type Out = B::Out;
    type Node<N: Chain<B::Out> + 'static> = A::Node<B::Node<N>>;

    fn node<N: Chain<B::Out> + 'static>(&self, next: N, build: &mut TaskBuild<'_>) -> Result<Self::Node<N>> {
        let second = self.1.node(next, build)?;
        self.0.node(second, build)
    }
}

macro_rules! pass_on {
    () => {
        #[inline]
        fn room(&self) -> bool {
            self.next.room()
        }
        fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
            self.next.control(control, context)
        }
        fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
            self.next.work(context)
        }
        fn idle(&mut self) {
            self.next.idle();
        }
    };
}

macro_rules! step {
    ($(#[$doc:meta])* $step:ident, $(#[$node_doc:meta])* $node:ident) => {
        $(#[$doc])*
        pub struct $step<F, Out> {
            name: Named,
            function: F,
            out: PhantomData<fn() -> Out>,
        }

        impl<F, Out> $step<F, Out> {
            /// Wraps the closure; the name is for reports.
            pub fn new(name: &str, function: F) -> Self {
                $step { name: Named::new(name), function, out: PhantomData }
            }
        }

        $(#[$node_doc])*
        pub struct $node<F, N> {
            name: Named,
            function: F,
            next: N,
        }
    };
}

step!(
    /// Each record becomes another.
    Map,
    /// The node of [`Map`].
    MapNode
);
step!(
    /// Records that do not satisfy the closure are left out.
    Filter,
    /// The node of [`Filter`].
    FilterNode
);
step!(
    /// Each record becomes any number of records.
    FlatMap,
    /// The node of [`FlatMap`].
    FlatMapNode
);
step!(
    /// Looks at each record.
    Inspect,
    /// The node of [`Inspect`].
    InspectNode
);

impl<In, Out: Send + 'static, F: Fn(In) -> Out + Clone + Send + 'static> Transform<In> for Map<F, Out> {
    type Out = Out;
    type Node<N: Chain<Out> + 'static> = MapNode<F, N>;

    fn node<N: Chain<Out> + 'static>(&self, next: N, _build: &mut TaskBuild<'_>) -> Result<MapNode<F, N>> {
        Ok(MapNode { name: self.name.clone(), function: self.function.clone(), next })
    }
}

impl<In, Out, F: Fn(In) -> Out + Send, N: Chain<Out>> Chain<In> for MapNode<F, N> {
    #[inline]
    fn push(&mut self, value: In, time: Timestamp) {
        let mapped = self.name.run(|| (self.function)(value));
        self.next.push(mapped, time);
    }
    pass_on!();
}

impl<In: Send + 'static, F: Fn(&In) -> bool + Clone + Send + 'static> Transform<In> for Filter<F, In> {
    type Out = In;
    type Node<N: Chain<In> + 'static> = FilterNode<F, N>;

    fn node<N: Chain<In> + 'static>(&self, next: N, _build: &mut TaskBuild<'_>) -> Result<FilterNode<F, N>> {
        Ok(FilterNode { name: self.name.clone(), function: self.function.clone(), next })
    }
}

impl<In, F: Fn(&In) -> bool + Send, N: Chain<In>> Chain<In> for FilterNode<F, N> {
    #[inline]
    fn push(&mut self, value: In, time: Timestamp) {
        if self.name.run(|| (self.function)(&value)) {
            self.next.push(value, time);
        }
    }
    pass_on!();
}

impl<In, I, F> Transform<In> for FlatMap<F, I>
where
    I: IntoIterator + 'static,
    I::Item: Send + 'static,
    F: Fn(In) -> I + Clone + Send + 'static,
{
    type Out = I::Item;
    type Node<N: Chain<I::Item> + 'static> = FlatMapNode<F, N>;

    fn node<N: Chain<I::Item> + 'static>(&self, next: N, _build: &mut TaskBuild<'_>) -> Result<FlatMapNode<F, N>> {
        Ok(FlatMapNode { name: self.name.clone(), function: self.function.clone(), next })
    }
}

impl<In, I: IntoIterator, F: Fn(In) -> I + Send, N: Chain<I::Item>> Chain<In> for FlatMapNode<F, N> {
    #[inline]
    fn push(&mut self, value: In, time: Timestamp) {
        // The closure and its iterator are the user's code; what follows is not, so only they run under the name.
        let mut items = self.name.run(|| (self.function)(value).into_iter());
        while let Some(item) = self.name.run(|| items.next()) {
            self.next.push(item, time);
        }
    }
    pass_on!();
}

impl<In: Send + 'static, F: Fn(&In) + Clone + Send + 'static> Transform<In> for Inspect<F, In> {
    type Out = In;
    type Node<N: Chain<In> + 'static> = InspectNode<F, N>;

    fn node<N: Chain<In> + 'static>(&self, next: N, _build: &mut TaskBuild<'_>) -> Result<InspectNode<F, N>> {
        Ok(InspectNode { name: self.name.clone(), function: self.function.clone(), next })
    }
}

impl<In, F: Fn(&In) + Send, N: Chain<In>> Chain<In> for InspectNode<F, N> {
    #[inline]
    fn push(&mut self, value: In, time: Timestamp) {
        self.name.run(|| (self.function)(&value));
        self.next.push(value, time);
    }
    pass_on!();
}
