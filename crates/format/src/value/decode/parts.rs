//! What a type is handed when it asks for something with parts: sequences, maps, structs, variants.
//!
//! Owns: serde's access traits over places. Does not own: which access a shape gets (`decode`).
//! Invariant: what is passed over is passed over by its shape, so that the reader stands behind the whole afterwards.

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{Place, malformed, mismatch};
use crate::value::error::ValueError;
use crate::value::schema::{Leaf, PlaceId, Shape, Struct, Tuple, Variant};

/// An error if a type took fewer parts than were written: what it left would be lost without a word.
#[inline]
fn all_taken(left: usize) -> Result<(), ValueError> {
    if left == 0 { Ok(()) } else { Err(mismatch(format!("the type does not take the last {left} of the parts"))) }
}

impl<'s, 'r, 'de> Place<'s, 'r, 'de> {
    pub(super) fn elements<V: Visitor<'de>>(self, element: PlaceId, visitor: V) -> Result<V::Value, ValueError> {
        let left = self.reader.count()?;
        if matches!(self.places[element as usize], Shape::Leaf(Leaf::U8)) {
            return visit_bytes_as_seq(self.reader.take(left)?, visitor);
        }
        let mut elements = Elements { place: self, element, left };
        let value = visitor.visit_seq(&mut elements)?;
        all_taken(elements.left)?;
        Ok(value)
    }

    pub(super) fn tuple<V: Visitor<'de>>(mut self, tuple: &'s Tuple, visitor: V) -> Result<V::Value, ValueError> {
        if tuple.items.is_empty() {
            self.nothing()?;
        }
        let mut items = Items { place: self, items: tuple.items.iter(), count: tuple.items.len() };
        let value = visitor.visit_seq(&mut items)?;
        all_taken(items.items.len())?;
        Ok(value)
    }

    pub(super) fn entries<V: Visitor<'de>>(self, key: PlaceId, value: PlaceId, visitor: V) -> Result<V::Value, ValueError> {
        let left = self.reader.count()?;
        let mut entries = Entries { place: self, key, value, left };
        let value = visitor.visit_map(&mut entries)?;
        all_taken(entries.left)?;
        Ok(value)
    }

    #[inline]
    pub(super) fn fields<V: Visitor<'de>>(self, shape: &'s Struct, visitor: V) -> Result<V::Value, ValueError> {
        let mut fields = Fields { place: self, left: FieldsLeft::new(shape), current: None };
        let value = visitor.visit_map(&mut fields)?;
        match fields.left.next(&mut fields.place)? {
            None => Ok(value),
            Some(_) => Err(mismatch("the type does not take all fields")),
        }
    }
}

pub(super) fn visit_bytes_as_seq<'de, V: Visitor<'de>>(bytes: &[u8], visitor: V) -> Result<V::Value, ValueError> {
    let mut left = bytes.iter();
    let value = visitor.visit_seq(Bytes { left: &mut left })?;
    all_taken(left.len())?;
    Ok(value)
}

/// The elements of a sequence of bytes, without a look at their place for each.
struct Bytes<'a, 'b> {
    left: &'a mut std::slice::Iter<'b, u8>,
}

impl<'de> de::SeqAccess<'de> for Bytes<'_, '_> {
    type Error = ValueError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ValueError> {
        self.left.next().map(|byte| seed.deserialize(Byte(*byte))).transpose().map_err(|error| error.within("[]"))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

struct Byte(u8);

impl<'de> Deserializer<'de> for Byte {
    type Error = ValueError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_u8(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf seq unit unit_struct
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Elements<'s, 'r, 'de> {
    place: Place<'s, 'r, 'de>,
    element: PlaceId,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for Elements<'_, '_, 'de> {
    type Error = ValueError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ValueError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.place.part(self.element)?).map(Some).map_err(|error| error.within("[]"))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

struct Items<'s, 'r, 'de> {
    place: Place<'s, 'r, 'de>,
    items: std::slice::Iter<'s, PlaceId>,
    count: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'_, '_, 'de> {
    type Error = ValueError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ValueError> {
        match self.items.next() {
            None => Ok(None),
            Some(item) => {
                let value = seed.deserialize(self.place.part(*item)?);
                value.map(Some).map_err(|error| error.within(&(self.count - self.items.len() - 1).to_string()))
            }
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'s, 'r, 'de> {
    place: Place<'s, 'r, 'de>,
    key: PlaceId,
    value: PlaceId,
    left: usize,
}

impl<'de> de::MapAccess<'de> for Entries<'_, '_, 'de> {
    type Error = ValueError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ValueError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.place.part(self.key)?).map(Some).map_err(|error| error.within("{key}"))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ValueError> {
        seed.deserialize(self.place.part(self.value)?).map_err(|error| error.within("{}"))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// The fields of a struct that are still to be read.
pub(in crate::value) struct FieldsLeft<'s> {
    shape: &'s Struct,
    /// Position of the next field, if all are there.
    next: usize,
    /// The byte that ends a struct with numbered fields, or with none, was read.
    ended: bool,
}

impl<'s> FieldsLeft<'s> {
    #[inline]
    pub(in crate::value) fn new(shape: &'s Struct) -> FieldsLeft<'s> {
        FieldsLeft { shape, next: 0, ended: false }
    }

    /// The next field that is present; its part follows in the reader.
    #[inline]
    pub(in crate::value) fn next(&mut self, place: &mut Place<'s, '_, '_>) -> Result<Option<(&'s str, PlaceId)>, ValueError> {
        match self.shape.fields.get(self.next) {
            Some(field) if !self.shape.sparse => {
                self.next += 1;
                Ok(Some((&field.name, field.place)))
            }
            _ => self.next_numbered_or_end(place),
        }
    }

    #[inline(never)]
    fn next_numbered_or_end(&mut self, place: &mut Place<'s, '_, '_>) -> Result<Option<(&'s str, PlaceId)>, ValueError> {
        let fields = &self.shape.fields;
        if self.ended || (!self.shape.sparse && !fields.is_empty()) {
            return Ok(None);
        }
        if !self.shape.sparse {
            self.ended = true;
            place.nothing()?;
            return Ok(None);
        }
        let offset = place.reader.offset();
        match place.reader.length()? {
            0 => {
                self.ended = true;
                Ok(None)
            }
            number if number <= fields.len() as u64 => {
                let field = &fields[number as usize - 1];
                Ok(Some((&field.name, field.place)))
            }
            number => Err(malformed(format!("field {number} of struct {} is not in its schema", self.shape.name), offset)),
        }
    }
}

struct Fields<'s, 'r, 'de> {
    place: Place<'s, 'r, 'de>,
    left: FieldsLeft<'s>,
    current: Option<(&'s str, PlaceId)>,
}

impl<'de> de::MapAccess<'de> for Fields<'_, '_, 'de> {
    type Error = ValueError;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ValueError> {
        self.current = self.left.next(&mut self.place)?;
        match self.current {
            Some((name, _)) => seed.deserialize(StrDeserializer::<ValueError>::new(name)).map(Some).map_err(|error| error.within(name)),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ValueError> {
        let (name, place) = self.current.take().ok_or_else(|| mismatch("a value was asked for before its field's name"))?;
        seed.deserialize(self.place.part(place)?).map_err(|error| error.within(name))
    }
}

/// A variant with content as a map of one entry.
pub(super) struct Single<'s, 'r, 'de> {
    pub(super) name: &'s str,
    pub(super) content: Option<Place<'s, 'r, 'de>>,
}

impl<'de> de::MapAccess<'de> for Single<'_, '_, 'de> {
    type Error = ValueError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ValueError> {
        match self.content {
            Some(_) => seed.deserialize(StrDeserializer::<ValueError>::new(self.name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ValueError> {
        let content = self.content.take().ok_or_else(|| mismatch("a variant has one content"))?;
        seed.deserialize(content).map_err(|error| error.within(self.name))
    }
}

/// A variant whose number was read.
pub(super) struct Chosen<'s, 'r, 'de> {
    pub(super) place: Place<'s, 'r, 'de>,
    pub(super) variant: &'s Variant,
}

impl<'s, 'r, 'de> de::EnumAccess<'de> for Chosen<'s, 'r, 'de> {
    type Error = ValueError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), ValueError> {
        Ok((seed.deserialize(StrDeserializer::<ValueError>::new(&self.variant.name))?, self))
    }
}

impl<'s, 'r, 'de> Chosen<'s, 'r, 'de> {
    /// The content; an error if the variant was written without.
    fn content(self) -> Result<Place<'s, 'r, 'de>, ValueError> {
        match self.variant.content {
            Some(content) => self.place.into_part(content),
            None => Err(mismatch(format!("variant {} was written without content", self.variant.name))),
        }
    }
}

impl<'de> de::VariantAccess<'de> for Chosen<'_, '_, 'de> {
    type Error = ValueError;

    fn unit_variant(self) -> Result<(), ValueError> {
        match self.variant.content {
            None => Ok(()),
            Some(content) => self.place.into_part(content)?.skip(),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, ValueError> {
        let name = &self.variant.name;
        seed.deserialize(self.content()?).map_err(|error| error.within(name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, ValueError> {
        let name = &self.variant.name;
        self.content()?.deserialize_tuple(count, visitor).map_err(|error| error.within(name))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, ValueError> {
        let name = &self.variant.name;
        self.content()?.deserialize_struct("", fields, visitor).map_err(|error| error.within(name))
    }
}
