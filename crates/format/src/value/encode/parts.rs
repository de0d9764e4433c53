//! The parts of a value that is being written: elements, items, entries, fields.
//!
//! Owns: serde's compound serialisers over places, and counts that are corrected at the end. Does not own: what a part looks like
//! (`encode`) or how the schema grows (`learn`).
//! Invariant: a part that ends well has written exactly what its shape says.

use serde::ser::{self, Serialize};

use super::Walker;
use crate::bytes::{fill_length, length_width, put_length};
use crate::value::byte_run::ByteRun;
use crate::value::error::{ValueError, ValueErrorKind};
use crate::value::learn::{Interrupt, same};
use crate::value::schema::{PlaceId, Shape};

/// A count that is written before the things are counted.
pub(in crate::value) struct Counted {
    at: usize,
    width: usize,
    announced: Option<usize>,
    count: usize,
}

impl Counted {
    #[inline]
    pub(super) fn begin(out: &mut Vec<u8>, announced: Option<usize>) -> Counted {
        let at = out.len();
        put_length(out, announced.unwrap_or(0) as u64);
        Counted { at, width: out.len() - at, announced, count: 0 }
    }

    /// Corrects the count if the announced one was missing or wrong.
    #[inline]
    fn end(&self, out: &mut Vec<u8>) {
        if self.announced != Some(self.count) {
            let surplus = self.width - length_width(self.count as u64).min(self.width);
            out.drain(self.at..self.at + surplus);
            fill_length(out, self.at, self.width - surplus, self.count as u64);
        }
    }
}

/// The elements of a sequence.
pub(in crate::value) struct Elements<'a> {
    pub(super) walker: Walker<'a>,
    pub(super) counted: Counted,
}

impl Elements<'_> {
    /// Writes a sequence of which every element so far was a `u8`.
    #[inline]
    pub(super) fn bytes<I>(mut self, items: I) -> Result<(), Interrupt>
    where
        I: Iterator,
        I::Item: Serialize,
    {
        let Walker { learner, out, place, .. } = &mut self.walker;
        let start = out.len();
        let mut others = false;
        out.extend(items.map(|item| match item.serialize(ByteRun) {
            Ok(byte) => byte,
            Err(_) => {
                others = true;
                0
            }
        }));
        if others {
            return Err(learner.split(*place));
        }
        self.counted.count = out.len() - start;
        self.counted.end(out);
        Ok(())
    }
}

impl ser::SerializeSeq for Elements<'_> {
    type Ok = ();
    type Error = Interrupt;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Interrupt> {
        self.counted.count += 1;
        let Walker { learner, out, place, depth } = &mut self.walker;
        value.serialize(Walker { learner, out, place: *place, depth: *depth })
    }

    #[inline]
    fn end(self) -> Result<(), Interrupt> {
        self.counted.end(self.walker.out);
        Ok(())
    }
}

/// The items of a tuple.
pub(in crate::value) struct Items<'a> {
    pub(super) walker: Walker<'a>,
    pub(super) index: usize,
    pub(super) count: usize,
    /// All items are bytes, which are reserved already, from `start` on.
    pub(super) packed: bool,
    pub(super) start: usize,
}

impl Items<'_> {
    #[inline(always)]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Interrupt> {
        if !self.packed {
            return self.unlike_item(value);
        }
        let reserved = self.walker.out.get_mut(self.start..self.start + self.count);
        match (value.serialize(ByteRun), reserved.and_then(|bytes| bytes.get_mut(self.index))) {
            (Ok(byte), Some(slot)) => *slot = byte,
            (Ok(_), None) => return Err(wrong_count()),
            (Err(_), _) => return Err(self.walker.learner.unpack(self.walker.place)),
        }
        self.index += 1;
        Ok(())
    }

    #[inline]
    fn unlike_item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Interrupt> {
        let Walker { learner, out, place, depth } = &mut self.walker;
        let Shape::Tuple(tuple) = &learner.places[*place as usize] else { unreachable!("a tuple was entered") };
        let Some(&item) = tuple.items.get(self.index) else { return Err(wrong_count()) };
        self.index += 1;
        value.serialize(Walker { learner, out, place: item, depth: *depth })
    }

    #[inline]
    fn finish(self) -> Result<(), Interrupt> {
        if self.index != self.count {
            return Err(wrong_count());
        }
        if !self.packed {
            self.walker.learner.end_tuple(self.walker.place);
        }
        Ok(())
    }
}

#[cold]
fn wrong_count() -> Interrupt {
    Interrupt::Failed(ValueError::new(ValueErrorKind::Refused, "a tuple does not have the number of items it announced"))
}

macro_rules! items {
    ($($trait:ident $method:ident;)*) => {$(
        impl ser::$trait for Items<'_> {
            type Ok = ();
            type Error = Interrupt;
            #[inline(always)]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Interrupt> {
                self.item(value)
            }
            #[inline]
            fn end(self) -> Result<(), Interrupt> {
                self.finish()
            }
        }
    )*};
}
items! { SerializeTuple serialize_element; SerializeTupleStruct serialize_field; SerializeTupleVariant serialize_field; }

/// The entries of a map.
pub(in crate::value) struct Entries<'a> {
    pub(super) walker: Walker<'a>,
    pub(super) key: PlaceId,
    pub(super) value: PlaceId,
    pub(super) counted: Counted,
}

impl ser::SerializeMap for Entries<'_> {
    type Ok = ();
    type Error = Interrupt;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Interrupt> {
        self.counted.count += 1;
        let Walker { learner, out, depth, .. } = &mut self.walker;
        key.serialize(Walker { learner, out, place: self.key, depth: *depth })
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Interrupt> {
        let Walker { learner, out, depth, .. } = &mut self.walker;
        value.serialize(Walker { learner, out, place: self.value, depth: *depth })
    }

    #[inline]
    fn end(self) -> Result<(), Interrupt> {
        self.counted.end(self.walker.out);
        Ok(())
    }
}

/// The fields of a struct.
pub(in crate::value) struct Fields<'a> {
    pub(super) walker: Walker<'a>,
    /// Position in the schema of the field expected next.
    pub(super) next: usize,
    pub(super) count: usize,
}

impl Fields<'_> {
    #[inline(always)]
    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Interrupt> {
        let Walker { learner, out, place, depth } = &mut self.walker;
        let expected = match &learner.places[*place as usize] {
            Shape::Struct(shape) if !shape.sparse => match shape.fields.get(self.next) {
                Some(field) if same(&field.name, name) => Some(field.place),
                _ => None,
            },
            _ => None,
        };
        let field = match expected {
            Some(field) => field,
            None => {
                let (at, field) = learner.field(*place, self.next, name, out)?;
                self.next = at;
                field
            }
        };
        self.next += 1;
        self.count += 1;
        value.serialize(Walker { learner, out, place: field, depth: *depth })
    }

    /// A field that comes and goes: its struct numbers its fields.
    fn skip(&mut self) -> Result<(), Interrupt> {
        match &self.walker.learner.places[self.walker.place as usize] {
            Shape::Struct(shape) if shape.sparse => Ok(()),
            _ => Err(self.walker.learner.loosen(self.walker.place)),
        }
    }
}

macro_rules! fields {
    ($($trait:ident)*) => {$(
        impl ser::$trait for Fields<'_> {
            type Ok = ();
            type Error = Interrupt;
            #[inline(always)]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Interrupt> {
                self.field(name, value)
            }
            #[cold]
            fn skip_field(&mut self, _name: &'static str) -> Result<(), Interrupt> {
                self.skip()
            }
            #[inline(always)]
            fn end(self) -> Result<(), Interrupt> {
                self.walker.learner.end_struct(self.walker.place, self.count, self.walker.out)
            }
        }
    )*};
}
fields! { SerializeStruct SerializeStructVariant }
