//! An output that keeps what it is given.

use staunch_types::{Error, Timestamp};

use crate::{Output, Rejected};

/// What a source with or without a dead letter does with rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetter {
    /// Rejects are kept.
    Kept,
    /// A reject is an error.
    None,
}

/// One thing that an output was given.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<T> {
    /// A record.
    Record(T, Timestamp),
    /// A reject.
    Rejected(Rejected),
    /// The records of a slot begin.
    Begin(u32),
    /// A slot ends.
    End(u32),
}

/// Keeps all that it is given, in order.
#[derive(Clone, Debug)]
pub struct Collected<T> {
    /// What it was given.
    pub events: Vec<Event<T>>,
    /// Records that it still has room for.
    pub room: usize,
    /// What it does with rejects.
    pub dead_letter: DeadLetter,
}

impl<T> Collected<T> {
    /// An output with room for everything.
    #[must_use]
    pub fn new(dead_letter: DeadLetter) -> Collected<T> {
        Collected { events: Vec::new(), room: usize::MAX, dead_letter }
    }

    /// The records.
    pub fn records(&self) -> impl Iterator<Item = &T> {
        self.events.iter().filter_map(|event| match event {
            Event::Record(record, _) => Some(record),
            Event::Rejected(_) | Event::Begin(_) | Event::End(_) => None,
        })
    }

    /// The rejects.
    pub fn rejects(&self) -> impl Iterator<Item = &Rejected> {
        self.events.iter().filter_map(|event| match event {
            Event::Rejected(rejected) => Some(rejected),
            Event::Record(..) | Event::Begin(_) | Event::End(_) => None,
        })
    }
}

impl<T> Output<T> for Collected<T> {
    fn push(&mut self, value: T, time: Timestamp) {
        self.room = self.room.saturating_sub(1);
        self.events.push(Event::Record(value, time));
    }

    fn room(&self) -> bool {
        self.room > 0
    }

    fn begin_split(&mut self, slot: u32) {
        self.events.push(Event::Begin(slot));
    }

    fn end_split(&mut self, slot: u32) {
        self.events.push(Event::End(slot));
    }

    fn reject(&mut self, rejected: Rejected) -> Result<(), Error> {
        match self.dead_letter {
            DeadLetter::None => Err(rejected.into_error()),
            DeadLetter::Kept => {
                self.room = self.room.saturating_sub(1);
                self.events.push(Event::Rejected(rejected));
                Ok(())
            }
        }
    }
}
