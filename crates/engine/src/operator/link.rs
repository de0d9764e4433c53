//! Fan-outs: one chain feeds several, in the same task. The only place where records go through `dyn`, batch by batch.

use std::collections::VecDeque;

use staunch_types::{Result, Timestamp};

use super::{Activity, Chain, Control, Named, TaskContext};
use crate::exchange::{Batch, Element};

/// Records that a link collects before it hands them on.
const LINK_RECORDS: usize = 256;

/// Identifies a fan-out in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u32);

/// Feeds every record to each of its chains.
pub struct LinkOutput<T> {
    children: Vec<Child<T>>,
    buffer: Vec<Element<T>>,
    duplicate: fn(&T) -> T,
    room: bool,
}

struct Child<T> {
    chain: Box<dyn Chain<T>>,
    batch: Batch<T>,
    controls: VecDeque<Control>,
}

impl<T> LinkOutput<T> {
    /// Feeds one chain.
    #[must_use]
    pub fn single(chain: Box<dyn Chain<T>>) -> Self {
        fn never<T>(_: &T) -> T {
            unreachable!("a link with one chain never duplicates a record")
        }
        Self::with(vec![chain], never::<T>)
    }

    /// Feeds several chains, each with its own copy.
    #[must_use]
    pub fn several(chains: Vec<Box<dyn Chain<T>>>) -> Self
    where
        T: Clone,
    {
        Self::with(chains, T::clone)
    }

    fn with(chains: Vec<Box<dyn Chain<T>>>, duplicate: fn(&T) -> T) -> Self {
        let children = chains.into_iter().map(|chain| Child { chain, batch: Batch::new(Vec::new()), controls: VecDeque::new() }).collect();
        LinkOutput { children, buffer: Vec::with_capacity(LINK_RECORDS), duplicate, room: true }
    }

    /// Hands the buffer on, unless a chain still has the batch before: then it waits, and grows by what one record emits.
    fn flush(&mut self) {
        if self.buffer.is_empty() || !self.children.iter().all(Child::is_empty) {
            return;
        }
        let last = self.children.len().saturating_sub(1);
        for (number, child) in self.children.iter_mut().enumerate() {
            let elements: Vec<Element<T>> = if number == last {
                let memory = std::mem::replace(&mut child.batch, Batch::new(Vec::new())).into_empty();
                std::mem::replace(&mut self.buffer, memory)
            } else {
                self.buffer.iter().map(|e| Element { time: e.time, value: (self.duplicate)(&e.value) }).collect()
            };
            child.batch = Batch::new(elements);
            child.chain.push_batch(&mut child.batch);
            self.room &= child.batch.is_empty();
        }
        self.buffer.clear();
    }

    fn send(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        self.flush();
        for child in &mut self.children {
            if child.batch.is_empty() && child.controls.is_empty() && child.chain.room() {
                child.chain.control(control, context)?;
            } else {
                if let Control::Barrier(_) = control {
                    context.expect_more();
                }
                child.controls.push_back(control.clone());
                self.room = false;
            }
        }
        Ok(())
    }
}

impl<T> Child<T> {
    /// Whether nothing waits here.
    fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.controls.is_empty()
    }

    /// Hands on what waits, in order, as far as there is room; whether something moved.
    fn drain(&mut self, context: &mut TaskContext) -> Result<bool> {
        let before = self.batch.rest().len();
        self.chain.push_batch(&mut self.batch);
        let mut moved = self.batch.rest().len() < before;
        while self.batch.is_empty()
            && self.chain.room()
            && let Some(control) = self.controls.pop_front()
        {
            self.chain.control(&control, context)?;
            if let Control::Barrier(epoch) = control {
                context.part_finished(epoch);
            }
            moved = true;
        }
        Ok(moved)
    }
}

impl<T: Send> Chain<T> for LinkOutput<T> {
    #[inline]
    fn push(&mut self, value: T, time: Timestamp) {
        self.buffer.push(Element { time, value });
        if self.buffer.len() >= LINK_RECORDS {
            self.flush();
        }
    }

    #[inline]
    fn room(&self) -> bool {
        self.room
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        self.send(control, context)
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        let mut activity = Activity::NOTHING;
        for child in &mut self.children {
            activity = activity.and(child.chain.work(context)?);
            // What was handed on may need work of its own, and that may make room for more: nobody else would wake us for it.
            activity.more |= child.drain(context)?;
        }
        self.room = self.children.iter().all(Child::is_empty);
        if self.room && !self.buffer.is_empty() {
            self.flush();
            activity.more = true;
        }
        Ok(activity)
    }

    fn idle(&mut self) {
        self.children.iter_mut().for_each(|c| c.chain.idle());
    }
}

/// Feeds each record to the one chain, of several, that a closure chooses.
pub struct SplitOutput<T, F> {
    name: Named,
    choose: F,
    links: Vec<LinkOutput<T>>,
}

impl<T, F: Fn(&T) -> usize> SplitOutput<T, F> {
    /// `choose` gives the number of the chain, from 0; a greater one than there are means the last.
    pub fn new(name: &str, choose: F, links: Vec<LinkOutput<T>>) -> Self {
        assert!(!links.is_empty(), "a split has at least one output");
        SplitOutput { name: Named::new(name), choose, links }
    }
}

impl<T: Send, F: Fn(&T) -> usize + Send> Chain<T> for SplitOutput<T, F> {
    #[inline]
    fn push(&mut self, value: T, time: Timestamp) {
        let chosen = self.name.run(|| (self.choose)(&value)).min(self.links.len() - 1);
        self.links[chosen].push(value, time);
    }

    #[inline]
    fn room(&self) -> bool {
        self.links.iter().all(LinkOutput::room)
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        self.links.iter_mut().try_for_each(|link| link.control(control, context))
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        let mut activity = Activity::NOTHING;
        for link in &mut self.links {
            activity = activity.and(link.work(context)?);
        }
        Ok(activity)
    }

    fn idle(&mut self) {
        self.links.iter_mut().for_each(LinkOutput::idle);
    }
}
