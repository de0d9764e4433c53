//! Decoding: a serde deserialiser driven by the schema of whoever wrote the bytes.
//!
//! Owns: what a type may ask for and what it is given. Does not own: the conversions of numbers (serde's visitors), the JSON
//! form (`json`).
//! Fields and variants are given by name, so their order does not matter; a written field the type does not know is
//! skipped; one it knows but that was not written is left to `#[serde(default)]`. A plain value where an option is asked for is `Some`; an
//! option where a plain value is asked for is taken out if it is there. An enum where anything is asked for is its name,
//! or a map from its name to its content, as in JSON.
//!
//! Invariant: the offset of every error about bytes is that of the part which could not be read.

mod parts;

use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

pub(super) use parts::FieldsLeft;
use parts::{Chosen, Single, visit_bytes_as_seq};

use super::DEPTH_MAX;
use super::error::{ValueError, ValueErrorKind};
use super::schema::{Enum, Leaf, PlaceId, Schema, Shape, Variant};
use crate::bytes::Reader;

/// Decodes values that were written with a schema.
#[derive(Clone, Debug)]
pub struct Decoder {
    schema: Schema,
}

impl Decoder {
    /// A decoder for the bytes of the schema's encoder.
    #[must_use]
    pub fn new(schema: &Schema) -> Decoder {
        Decoder { schema: schema.clone() }
    }

    /// The schema of the bytes.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Decodes one value that takes all of `bytes`.
    ///
    /// # Errors
    /// `Mismatch` when the type does not accept what was written, `Malformed` when the bytes are not an encoder's.
    pub fn decode<'de, T: Deserialize<'de>>(&self, bytes: &'de [u8]) -> Result<T, ValueError> {
        let (value, rest) = self.decode_prefix(bytes)?;
        whole(value, bytes, rest)
    }

    /// Decodes the value at the start of `bytes`, and returns the rest.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_prefix<'de, T: Deserialize<'de>>(&self, bytes: &'de [u8]) -> Result<(T, &'de [u8]), ValueError> {
        let mut reader = Reader::new(bytes);
        let place = self.outermost(&mut reader)?;
        let value = T::deserialize(place).map_err(|error| error.at(reader.offset()))?;
        Ok((value, reader.rest()))
    }

    /// Decodes one value that takes all of `bytes`, without its type. Keys of maps that are not text become text; bytes
    /// become hexadecimal text; numbers JSON does not have become text.
    ///
    /// # Errors
    /// `Malformed` when the bytes are not an encoder's.
    pub fn decode_json(&self, bytes: &[u8]) -> Result<serde_json::Value, ValueError> {
        let mut reader = Reader::new(bytes);
        let value = self.outermost(&mut reader)?.json()?;
        whole(value, bytes, reader.rest())
    }

    /// The bytes of the value at the start of `bytes`, and the rest.
    ///
    /// # Errors
    /// `Malformed` when the bytes are not an encoder's.
    pub fn split<'de>(&self, bytes: &'de [u8]) -> Result<(&'de [u8], &'de [u8]), ValueError> {
        let mut reader = Reader::new(bytes);
        self.outermost(&mut reader)?.skip()?;
        Ok(bytes.split_at(reader.offset()))
    }

    #[inline]
    fn outermost<'s, 'r, 'de>(&'s self, reader: &'r mut Reader<'de>) -> Result<Place<'s, 'r, 'de>, ValueError> {
        let number = reader.length()?;
        let places = u32::try_from(number).ok().and_then(|number| self.schema.places_of(number));
        match places {
            Some(places) => Ok(Place { places, place: 0, reader, depth: 0 }),
            None => Err(malformed(format!("the value has version {number}, which its schema does not have"), 0)),
        }
    }
}

fn whole<T>(value: T, bytes: &[u8], rest: &[u8]) -> Result<T, ValueError> {
    if rest.is_empty() {
        return Ok(value);
    }
    Err(malformed(format!("{} bytes are left over after the value", rest.len()), bytes.len() - rest.len()))
}

#[cold]
pub(super) fn malformed(what: impl Into<String>, offset: usize) -> ValueError {
    ValueError::new(ValueErrorKind::Malformed, what).at(offset)
}

#[cold]
fn mismatch(what: impl Into<String>) -> ValueError {
    ValueError::new(ValueErrorKind::Mismatch, what)
}

/// One part at one place: the bytes that follow in `reader` are the part.
pub(super) struct Place<'s, 'r, 'de> {
    pub(super) places: &'s [Shape],
    place: PlaceId,
    pub(super) reader: &'r mut Reader<'de>,
    depth: u32,
}

impl<'s, 'r, 'de> Place<'s, 'r, 'de> {
    /// The shape of the part, behind links and unions.
    #[inline]
    pub(super) fn resolve(&mut self) -> Result<&'s Shape, ValueError> {
        match &self.places[self.place as usize] {
            Shape::Link(_) | Shape::Union(_) | Shape::Unknown => self.follow(),
            shape => Ok(shape),
        }
    }

    #[inline(never)]
    fn follow(&mut self) -> Result<&'s Shape, ValueError> {
        loop {
            match &self.places[self.place as usize] {
                Shape::Link(target) => self.place = *target,
                Shape::Union(alternatives) => {
                    let offset = self.reader.offset();
                    let at = self.reader.length()?;
                    match usize::try_from(at).ok().and_then(|at| alternatives.get(at)) {
                        Some(alternative) => self.place = *alternative,
                        None => return Err(malformed(format!("alternative {at} of {}", alternatives.len()), offset)),
                    }
                }
                Shape::Unknown => return Err(malformed("a part was written where its schema has none", self.reader.offset())),
                shape => return Ok(shape),
            }
        }
    }

    /// The place of an inner part; counts the level.
    #[inline]
    pub(super) fn part(&mut self, place: PlaceId) -> Result<Place<'s, '_, 'de>, ValueError> {
        if self.depth >= DEPTH_MAX {
            return Err(malformed(format!("the value nests deeper than {DEPTH_MAX} levels"), self.reader.offset()));
        }
        Ok(Place { places: self.places, place, reader: self.reader, depth: self.depth + 1 })
    }

    /// The same place, for another look after its kind was read.
    #[inline]
    fn into_part(self, place: PlaceId) -> Result<Place<'s, 'r, 'de>, ValueError> {
        if self.depth >= DEPTH_MAX {
            return Err(malformed(format!("the value nests deeper than {DEPTH_MAX} levels"), self.reader.offset()));
        }
        Ok(Place { place, depth: self.depth + 1, ..self })
    }

    /// Whether an option's content follows.
    #[inline]
    pub(super) fn is_some(&mut self) -> Result<bool, ValueError> {
        let offset = self.reader.offset();
        match self.reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(malformed(format!("an option begins with {other}"), offset)),
        }
    }

    /// The variant that follows.
    #[inline]
    pub(super) fn variant(&mut self, shape: &'s Enum) -> Result<&'s Variant, ValueError> {
        let offset = self.reader.offset();
        let number = self.reader.length()?;
        match u32::try_from(number).ok().and_then(|number| shape.find(number).ok()) {
            Some(at) => Ok(&shape.variants[at]),
            None => Err(malformed(format!("variant {number} of enum {} is not in its schema", shape.name), offset)),
        }
    }

    /// Reads the end of a struct or tuple without parts, which is one byte.
    #[inline]
    pub(super) fn nothing(&mut self) -> Result<(), ValueError> {
        let offset = self.reader.offset();
        match self.reader.byte()? {
            0 => Ok(()),
            other => Err(malformed(format!("an empty part is {other}, not 0"), offset)),
        }
    }

    #[inline(always)]
    fn leaf<V: Visitor<'de>>(self, leaf: Leaf, visitor: V) -> Result<V::Value, ValueError> {
        let reader = self.reader;
        match leaf {
            Leaf::Unit => match reader.byte()? {
                0 => visitor.visit_unit(),
                other => Err(malformed(format!("a unit is {other}, not 0"), reader.offset() - 1)),
            },
            Leaf::Bool => match reader.byte()? {
                0 => visitor.visit_bool(false),
                1 => visitor.visit_bool(true),
                other => Err(malformed(format!("a bool is {other}"), reader.offset() - 1)),
            },
            Leaf::I8 => visitor.visit_i8(i8::from_le_bytes(reader.array()?)),
            Leaf::I16 => visitor.visit_i16(i16::from_le_bytes(reader.array()?)),
            Leaf::I32 => visitor.visit_i32(i32::from_le_bytes(reader.array()?)),
            Leaf::I64 => visitor.visit_i64(i64::from_le_bytes(reader.array()?)),
            Leaf::I128 => visitor.visit_i128(i128::from_le_bytes(reader.array()?)),
            Leaf::U8 => visitor.visit_u8(u8::from_le_bytes(reader.array()?)),
            Leaf::U16 => visitor.visit_u16(u16::from_le_bytes(reader.array()?)),
            Leaf::U32 => visitor.visit_u32(u32::from_le_bytes(reader.array()?)),
            Leaf::U64 => visitor.visit_u64(u64::from_le_bytes(reader.array()?)),
            Leaf::U128 => visitor.visit_u128(u128::from_le_bytes(reader.array()?)),
            Leaf::F32 => visitor.visit_f32(f32::from_le_bytes(reader.array()?)),
            Leaf::F64 => visitor.visit_f64(f64::from_le_bytes(reader.array()?)),
            Leaf::Char => match char::from_u32(u32::from_le_bytes(reader.array()?)) {
                Some(value) => visitor.visit_char(value),
                None => Err(malformed("a char is not a Unicode scalar value", reader.offset() - 4)),
            },
            Leaf::Str => visitor.visit_borrowed_str(reader.text()?),
            Leaf::Bytes => visitor.visit_borrowed_bytes(reader.sized()?),
        }
    }

    /// Passes over the part.
    pub(super) fn skip(mut self) -> Result<(), ValueError> {
        match self.resolve()? {
            Shape::Leaf(leaf) => self.leaf(*leaf, de::IgnoredAny).map(|_| ()),
            Shape::Option(content) => match self.is_some()? {
                true => self.into_part(*content)?.skip(),
                false => Ok(()),
            },
            Shape::Seq(element) => {
                let count = self.reader.count()?;
                (0..count).try_for_each(|_| self.part(*element)?.skip())
            }
            Shape::Map(key, value) => {
                let count = self.reader.count()?;
                (0..count).try_for_each(|_| {
                    self.part(*key)?.skip()?;
                    self.part(*value)?.skip()
                })
            }
            Shape::ByteArray(count) => Ok(self.reader.take(*count as usize).map(drop)?),
            Shape::Tuple(tuple) if tuple.items.is_empty() => self.nothing(),
            Shape::Tuple(tuple) => tuple.items.iter().try_for_each(|item| self.part(*item)?.skip()),
            Shape::Struct(shape) => {
                let mut fields = FieldsLeft::new(shape);
                while let Some((_, place)) = fields.next(&mut self)? {
                    self.part(place)?.skip()?;
                }
                Ok(())
            }
            Shape::Enum(shape) => match self.variant(shape)?.content {
                Some(content) => self.into_part(content)?.skip(),
                None => Ok(()),
            },
            Shape::Unknown | Shape::Link(_) | Shape::Union(_) => unreachable!("resolve looks behind these"),
        }
    }
}

/// What is asked for is mostly what was written: then the shape is looked at once.
macro_rules! fixed {
    ($($method:ident => $leaf:ident,)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
            match &self.places[self.place as usize] {
                Shape::Leaf(Leaf::$leaf) => self.leaf(Leaf::$leaf, visitor),
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'s, 'r, 'de> Deserializer<'de> for Place<'s, 'r, 'de> {
    type Error = ValueError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, ValueError> {
        match self.resolve()? {
            Shape::Leaf(leaf) => self.leaf(*leaf, visitor),
            Shape::Option(content) => match self.is_some()? {
                false => visitor.visit_none(),
                true => {
                    // Kept as an option only where its content could be taken for nothing.
                    let ambiguous = matches!(self.places[*content as usize], Shape::Option(_) | Shape::Leaf(Leaf::Unit));
                    let content = self.into_part(*content)?;
                    if ambiguous { visitor.visit_some(content) } else { content.deserialize_any(visitor) }
                }
            },
            Shape::Seq(element) => self.elements(*element, visitor),
            Shape::Map(key, value) => self.entries(*key, *value, visitor),
            Shape::ByteArray(count) => visit_bytes_as_seq(self.reader.take(*count as usize)?, visitor),
            Shape::Tuple(tuple) => self.tuple(tuple, visitor),
            Shape::Struct(shape) => self.fields(shape, visitor),
            Shape::Enum(shape) => {
                let variant = self.variant(shape)?;
                match variant.content {
                    None => visitor.visit_str(&variant.name),
                    Some(content) => visitor.visit_map(Single { name: &variant.name, content: Some(self.into_part(content)?) }),
                }
            }
            Shape::Unknown | Shape::Link(_) | Shape::Union(_) => unreachable!("resolve looks behind these"),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, ValueError> {
        match self.resolve()? {
            Shape::Option(content) => match self.is_some()? {
                true => visitor.visit_some(self.into_part(*content)?),
                false => visitor.visit_none(),
            },
            Shape::Leaf(Leaf::Unit) => {
                self.nothing()?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match self.resolve()? {
            Shape::Enum(shape) => {
                let variant = self.variant(shape)?;
                visitor.visit_enum(Chosen { place: self, variant })
            }
            Shape::Leaf(Leaf::Str) => visitor.visit_enum(self.reader.text()?.into_deserializer()),
            Shape::Option(content) if self.is_some()? => self.into_part(*content)?.deserialize_enum(name, variants, visitor),
            Shape::Option(_) => visitor.visit_none(),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, ValueError> {
        match self.resolve()? {
            Shape::Leaf(Leaf::Bytes) => visit_bytes_as_seq(self.reader.sized()?, visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, ValueError> {
        match self.resolve()? {
            Shape::Seq(element) if matches!(self.places[*element as usize], Shape::Leaf(Leaf::U8)) => {
                visitor.visit_borrowed_bytes(self.reader.sized()?)
            }
            Shape::ByteArray(count) => visitor.visit_borrowed_bytes(self.reader.take(*count as usize)?),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.skip()?;
        visitor.visit_unit()
    }

    fixed! {
        deserialize_bool => Bool, deserialize_u8 => U8, deserialize_u16 => U16, deserialize_u32 => U32, deserialize_u64 => U64,
        deserialize_i8 => I8, deserialize_i16 => I16, deserialize_i32 => I32, deserialize_i64 => I64, deserialize_f32 => F32,
        deserialize_f64 => F64, deserialize_str => Str, deserialize_string => Str,
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match &self.places[self.place as usize] {
            Shape::Struct(shape) => self.fields(shape, visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! { i128 u128 char unit unit_struct tuple tuple_struct map identifier }
}
