//! Learning: makes a place accept what is about to be written there.
//!
//! Owns: the version being written, how it grows and when it is replaced. Does not own: the bytes of parts (`encode`).
//! Called by the encoder whenever a part does not fit at once, so nothing here is on the fast path.
//!
//! Invariants:
//! 1. Growth without a new version never changes what earlier bytes of the version mean.
//! 2. Every replacement of a version ([`Interrupt::Reshaped`]) makes the place that did not fit more general, except that a
//!    place taken over from an earlier program is first replaced once; so the encoder's retries end.
//! 3. A link leads to a place further out in the same value, which at that time has a shape of the same head.

use std::borrow::Cow;

use super::error::{ValueError, ValueErrorKind};
use super::schema::{Enum, Field, Leaf, PlaceId, Schema, Shape, Struct, Tuple, Variant, Version};
use super::{PLACES_MAX, VERSIONS_MAX};
use crate::bytes::put_length;

/// Links and unions in a row before a part is written.
const STEPS_MAX: u32 = 1_000;
/// Links and unions in a row that are followed to see whether an alternative fits; if it lies further away, a new one is added.
const LOOK_AHEAD_MAX: u32 = 4;

/// Items from which on a tuple of bytes is an array.
const BYTE_ARRAY_MIN: usize = 4;

/// Why a value is not written to its end.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// The schema has a new version: write the value again.
    Reshaped,
    Failed(ValueError),
}

/// What is known of a part before its content.
#[derive(Clone, Copy, Debug)]
pub(super) enum Head {
    Leaf(Leaf),
    Option,
    Seq,
    Map,
    Tuple { name: &'static str, count: usize },
    Struct { name: &'static str },
    Variant { name: &'static str, number: u32, variant: &'static str, has_content: bool },
}

#[derive(Clone, Copy, Debug)]
struct Origin {
    parent: PlaceId,
    /// From an earlier program.
    inherited: bool,
    /// A struct or tuple of which no value is complete yet: fields may still be added, items may still turn out to be all bytes.
    open: bool,
}

/// The schema of an encoder while it is being learned.
#[derive(Clone, Debug)]
pub(super) struct Learner {
    pub(super) places: Vec<Shape>,
    origins: Vec<Origin>,
    pub(super) number: u32,
    /// Some value is complete under this version's number.
    pub(super) used: bool,
    /// Floating-point numbers that are equal, or not numbers at all, get equal bytes.
    pub(super) one_zero: bool,
    earlier: Vec<Version>,
}

/// Whether a learned name is the program's `text`: mostly the very same pointer.
#[inline]
pub(super) fn same(name: &str, text: &str) -> bool {
    (std::ptr::eq(name.as_ptr(), text.as_ptr()) && name.len() == text.len()) || name == text
}

impl Learner {
    pub(super) fn new() -> Learner {
        let origin = Origin { parent: 0, inherited: false, open: false };
        Learner { places: vec![Shape::Unknown], origins: vec![origin], number: 0, used: false, one_zero: false, earlier: Vec::new() }
    }

    /// Continues the last version of a schema.
    pub(super) fn resume(schema: &Schema) -> Learner {
        let mut earlier = schema.versions.clone();
        let Some(last) = earlier.pop() else { return Learner::new() };
        let mut learner = Learner { places: last.places, origins: Vec::new(), number: last.number, used: true, one_zero: false, earlier };
        learner.origins = vec![Origin { parent: 0, inherited: true, open: false }; learner.places.len()];
        for place in 0..learner.places.len() as PlaceId {
            learner.adopt(place);
        }
        learner
    }

    pub(super) fn schema(&self) -> Schema {
        let mut versions = self.earlier.clone();
        versions.push(Version { number: self.number, places: self.places.clone() });
        Schema { versions }
    }

    /// Makes the parts of a place know it as their parent.
    fn adopt(&mut self, place: PlaceId) {
        if !matches!(self.places[place as usize], Shape::Link(_)) {
            for part in self.places[place as usize].parts() {
                self.origins[part as usize].parent = place;
            }
        }
    }

    fn new_place(&mut self, parent: PlaceId, shape: Shape) -> Result<PlaceId, Interrupt> {
        if self.places.len() >= PLACES_MAX {
            return Err(limit(format!("values of this type have more than {PLACES_MAX} different places")));
        }
        self.places.push(shape);
        self.origins.push(Origin { parent, inherited: false, open: false });
        Ok((self.places.len() - 1) as PlaceId)
    }

    /// Makes `place` accept `head`, writes which of several shapes it is, and returns the place that has the shape.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&mut self, mut place: PlaceId, head: Head, out: &mut Vec<u8>) -> Result<PlaceId, Interrupt> {
        for _ in 0..STEPS_MAX {
            match &self.places[place as usize] {
                Shape::Unknown => self.begin(place, head)?,
                Shape::Link(target) => place = *target,
                Shape::Union(alternatives) => {
                    let known = alternatives.iter().position(|alternative| self.accepts(*alternative, head, LOOK_AHEAD_MAX));
                    let (at, alternative) = match known {
                        Some(at) => (at, alternatives[at]),
                        None => self.add_alternative(place)?,
                    };
                    put_length(out, at as u64);
                    place = alternative;
                }
                _ if self.accepts(place, head, 0) => return Ok(place),
                _ => return Err(self.split(place)),
            }
        }
        Err(limit(format!("more than {STEPS_MAX} links and unions in a row")))
    }

    /// Whether a place takes a part with this head, at most by adding to it; `steps` bounds the links and unions followed.
    fn accepts(&self, place: PlaceId, head: Head, steps: u32) -> bool {
        match (&self.places[place as usize], head) {
            (Shape::Link(target), _) => steps > 0 && self.accepts(*target, head, steps - 1),
            (Shape::Union(alternatives), _) => steps > 0 && alternatives.iter().any(|at| self.accepts(*at, head, steps - 1)),
            (Shape::Leaf(leaf), Head::Leaf(other)) => *leaf == other,
            (Shape::Option(_), Head::Option) | (Shape::Seq(_), Head::Seq) | (Shape::Map(..), Head::Map) => true,
            (Shape::Tuple(tuple), Head::Tuple { name, count }) => tuple.items.len() == count && same(&tuple.name, name),
            (Shape::ByteArray(known), Head::Tuple { count, .. }) => *known as usize == count,
            (Shape::Struct(shape), Head::Struct { name }) => same(&shape.name, name),
            (Shape::Enum(shape), Head::Variant { name, number, variant, has_content }) => {
                same(&shape.name, name)
                    && match shape.find(number) {
                        Ok(at) => same(&shape.variants[at].name, variant) && shape.variants[at].content.is_some() == has_content,
                        Err(_) => true,
                    }
            }
            _ => false,
        }
    }

    /// Gives an unknown place its shape, or links it to one further out.
    fn begin(&mut self, place: PlaceId, head: Head) -> Result<(), Interrupt> {
        if let Some(target) = self.outer_place_like(place, head) {
            self.places[place as usize] = Shape::Link(target);
            return Ok(());
        }
        let shape = match head {
            Head::Leaf(leaf) => Shape::Leaf(leaf),
            Head::Option => Shape::Option(self.new_place(place, Shape::Unknown)?),
            Head::Seq => Shape::Seq(self.new_place(place, Shape::Unknown)?),
            Head::Map => Shape::Map(self.new_place(place, Shape::Unknown)?, self.new_place(place, Shape::Unknown)?),
            Head::Tuple { name, count } => {
                let items = (0..count).map(|_| self.new_place(place, Shape::Unknown)).collect::<Result<_, _>>()?;
                self.origins[place as usize].open = true;
                Shape::Tuple(Tuple { name: Cow::Borrowed(name), items })
            }
            Head::Struct { name } => {
                self.origins[place as usize].open = true;
                Shape::Struct(Struct { name: Cow::Borrowed(name), sparse: false, fields: Vec::new() })
            }
            Head::Variant { name, .. } => Shape::Enum(Enum { name: Cow::Borrowed(name), variants: Vec::new() }),
        };
        self.places[place as usize] = shape;
        Ok(())
    }

    /// The nearest place around an unknown one that takes the same head: for named types always, for others only if the
    /// place is one of several shapes, because a list in a list is usually another list.
    fn outer_place_like(&self, place: PlaceId, head: Head) -> Option<PlaceId> {
        let mut outer = self.origins[place as usize].parent;
        let follow = match head {
            Head::Leaf(_) | Head::Option => false,
            Head::Tuple { name, .. } if !name.is_empty() => true,
            Head::Seq | Head::Map | Head::Tuple { .. } => matches!(self.places[outer as usize], Shape::Union(_)),
            Head::Struct { .. } | Head::Variant { .. } => true,
        };
        let mut inner = place;
        while follow && outer != inner {
            if self.accepts(outer, head, 0) {
                return Some(outer);
            }
            inner = outer;
            outer = self.origins[outer as usize].parent;
        }
        None
    }

    fn add_alternative(&mut self, place: PlaceId) -> Result<(usize, PlaceId), Interrupt> {
        let alternative = self.new_place(place, Shape::Unknown)?;
        let Shape::Union(alternatives) = &mut self.places[place as usize] else { unreachable!("only a union gets alternatives") };
        alternatives.push(alternative);
        Ok((alternatives.len() - 1, alternative))
    }

    /// Begins a new version in which a place has several shapes: the one it had, and others to come.
    #[cold]
    pub(super) fn split(&mut self, place: PlaceId) -> Interrupt {
        self.replace(place, |learner| {
            let moved = learner.new_place(place, learner.places[place as usize].clone())?;
            learner.origins[moved as usize].open = learner.origins[place as usize].open;
            learner.places[place as usize] = Shape::Union(vec![moved]);
            learner.adopt(moved);
            Ok(())
        })
    }

    /// Begins a new version in which a struct numbers its fields.
    #[cold]
    pub(super) fn loosen(&mut self, place: PlaceId) -> Interrupt {
        self.replace(place, |learner| {
            learner.struct_mut(place).sparse = true;
            Ok(())
        })
    }

    /// Begins a new version in which an array of bytes is a tuple of items of any shape.
    #[cold]
    pub(super) fn unpack(&mut self, place: PlaceId) -> Interrupt {
        self.replace(place, |learner| {
            let Shape::ByteArray(count) = learner.places[place as usize] else { unreachable!("only an array of bytes is unpacked") };
            let items = (0..count).map(|_| learner.new_place(place, Shape::Leaf(Leaf::U8))).collect::<Result<_, _>>()?;
            learner.places[place as usize] = Shape::Tuple(Tuple { name: Cow::Borrowed(""), items });
            Ok(())
        })
    }

    /// Ends a tuple.
    #[inline]
    pub(super) fn end_tuple(&mut self, place: PlaceId) {
        if std::mem::take(&mut self.origins[place as usize].open) {
            self.pack(place);
        }
    }

    /// Makes a tuple an array of bytes if its first value has nothing but bytes; they stay the same. Never done later, because a
    /// tuple that was unpacked must stay so.
    fn pack(&mut self, place: PlaceId) {
        let Shape::Tuple(tuple) = &self.places[place as usize] else { return };
        let count = tuple.items.len();
        let first = self.places.len() - count.min(self.places.len());
        let newest = (first as PlaceId..).zip(&tuple.items).all(|(place, item)| place == *item);
        let bytes = tuple.items.iter().all(|item| matches!(self.places[*item as usize], Shape::Leaf(Leaf::U8)));
        if newest && bytes && count >= BYTE_ARRAY_MIN {
            self.places.truncate(first);
            self.origins.truncate(first);
            self.places[place as usize] = Shape::ByteArray(count as u32);
        }
    }

    /// Begins a new version in which a place is changed. A place from an earlier program is forgotten instead, because
    /// the values of this program may all be alike.
    fn replace(&mut self, place: PlaceId, change: impl FnOnce(&mut Learner) -> Result<(), Interrupt>) -> Interrupt {
        if self.number >= VERSIONS_MAX {
            return limit(format!("the shape of this type's values has changed {VERSIONS_MAX} times"));
        }
        if self.used {
            self.earlier.push(Version { number: self.number, places: self.places.clone() });
        }
        self.number += 1;
        self.used = false;
        if std::mem::take(&mut self.origins[place as usize].inherited) {
            self.places[place as usize] = Shape::Unknown;
            return Interrupt::Reshaped;
        }
        change(self).err().unwrap_or(Interrupt::Reshaped)
    }

    /// The position and place of a field that is not simply the next one of a dense struct, where `next` is the position expected;
    /// writes its number if the struct is sparse.
    #[inline(never)]
    pub(super) fn field(
        &mut self,
        place: PlaceId,
        next: usize,
        name: &'static str,
        out: &mut Vec<u8>,
    ) -> Result<(usize, PlaceId), Interrupt> {
        let shape = self.struct_mut(place);
        let count = shape.fields.len();
        let sparse = shape.sparse;
        let known = match shape.fields.get(next) {
            Some(field) if same(&field.name, name) => Some(next),
            _ if sparse => shape.fields.iter().position(|field| same(&field.name, name)),
            _ => None,
        };
        let at = match known {
            Some(at) => at,
            None if sparse || (self.origins[place as usize].open && next == count) => {
                let field = Field { name: Cow::Borrowed(name), place: self.new_place(place, Shape::Unknown)? };
                self.struct_mut(place).fields.push(field);
                count
            }
            None => return Err(self.loosen(place)),
        };
        if sparse {
            put_length(out, at as u64 + 1);
        }
        let field = &mut self.struct_mut(place).fields[at];
        field.name = Cow::Borrowed(name);
        Ok((at, field.place))
    }

    /// The place of a field by its name, which is added if it was never seen.
    pub(super) fn known_field(&mut self, place: PlaceId, name: &'static str) -> Result<PlaceId, Interrupt> {
        if let Some(field) = self.struct_mut(place).fields.iter().find(|field| field.name == name) {
            return Ok(field.place);
        }
        let field = self.new_place(place, Shape::Unknown)?;
        self.struct_mut(place).fields.push(Field { name: Cow::Borrowed(name), place: field });
        Ok(field)
    }

    fn struct_mut(&mut self, place: PlaceId) -> &mut Struct {
        match &mut self.places[place as usize] {
            Shape::Struct(shape) => shape,
            other => unreachable!("a struct's fields are asked of a struct, not of {other:?}"),
        }
    }

    /// Ends a struct of which `count` fields were written.
    #[inline]
    pub(super) fn end_struct(&mut self, place: PlaceId, count: usize, out: &mut Vec<u8>) -> Result<(), Interrupt> {
        let Shape::Struct(shape) = &self.places[place as usize] else { unreachable!("a struct ends where it began") };
        if shape.sparse || (count == 0 && shape.fields.is_empty()) {
            out.push(0);
        } else if count != shape.fields.len() {
            return Err(self.loosen(place));
        }
        self.origins[place as usize].open = false;
        Ok(())
    }

    /// The content of a variant, which is added if it was never seen.
    pub(super) fn variant(
        &mut self,
        place: PlaceId,
        number: u32,
        name: &'static str,
        has_content: bool,
    ) -> Result<Option<PlaceId>, Interrupt> {
        let Shape::Enum(shape) = &self.places[place as usize] else { unreachable!("a variant is asked of an enum") };
        match shape.find(number) {
            Ok(at) => Ok(shape.variants[at].content),
            Err(at) => {
                let content = if has_content { Some(self.new_place(place, Shape::Unknown)?) } else { None };
                let Shape::Enum(shape) = &mut self.places[place as usize] else { unreachable!("a variant is asked of an enum") };
                shape.variants.insert(at, Variant { number, name: Cow::Borrowed(name), content });
                Ok(content)
            }
        }
    }
}

#[cold]
fn limit(what: String) -> Interrupt {
    Interrupt::Failed(ValueError::new(ValueErrorKind::Limit, what))
}
