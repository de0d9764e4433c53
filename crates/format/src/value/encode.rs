//! Encoding: a serde serialiser that writes bytes and checks each part against the schema in passing.
//!
//! Owns: the bytes of parts. Does not own: what to do when a part does not fit (`learn`).
//! Data comes from the state backend's keys and values and goes to its buffers.
//!
//! Cost: a part that fits costs one look at its place's shape; nothing is allocated, no name is hashed, and names are compared as
//! pointers first.

mod parts;

use std::fmt::{self, Write as _};

use serde::ser::{self, Serialize, Serializer};

use parts::{Counted, Elements, Entries, Fields, Items};

use super::DEPTH_MAX;
use super::error::{ValueError, ValueErrorKind};
use super::learn::{Head, Interrupt, Learner, same};
use super::schema::{Leaf, PlaceId, Schema, Shape};
use crate::bytes::{fill_length, put_length};

/// Encodes the values of one state (or its keys) and learns their schema.
#[derive(Clone, Debug)]
pub struct Encoder {
    learner: Learner,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An encoder that has seen nothing.
    #[must_use]
    pub fn new() -> Encoder {
        Encoder { learner: Learner::new() }
    }

    /// An encoder that goes on where another stopped, perhaps in an earlier version of the program: its schema will
    /// also read the bytes that the other wrote. Values that still have the same shape get the same bytes.
    #[must_use]
    pub fn resume(schema: &Schema) -> Encoder {
        Encoder { learner: Learner::resume(schema) }
    }

    /// The same for keys: 0.0 and -0.0 get the same bytes, and so do all that are not numbers, as they have the same hash.
    #[must_use]
    pub fn for_keys(mut self) -> Encoder {
        self.learner.one_zero = true;
        self
    }

    /// Appends the bytes of a value.
    ///
    /// # Errors
    /// `Refused` when the type's own `Serialize` fails; `Limit` when the value nests deeper than [`DEPTH_MAX`] or its type has
    /// too many shapes. `out` is as before then.
    #[inline]
    pub fn encode<T: Serialize + ?Sized>(&mut self, value: &T, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let start = out.len();
        loop {
            let number = self.learner.number;
            put_length(out, u64::from(number));
            let walker = Walker { learner: &mut self.learner, out, place: 0, depth: 0 };
            match value.serialize(walker) {
                Ok(()) if self.learner.number == number => {
                    self.learner.used = true;
                    return Ok(());
                }
                Ok(()) | Err(Interrupt::Reshaped) => out.truncate(start),
                Err(Interrupt::Failed(error)) => {
                    out.truncate(start);
                    return Err(error);
                }
            }
        }
    }

    /// The schema of everything encoded so far.
    #[must_use]
    pub fn schema(&self) -> Schema {
        self.learner.schema()
    }

    /// The number that values are written with now. While it is 0, equal values give equal bytes; when it goes up, a value
    /// written again has different bytes, though both are readable by [`Encoder::schema`].
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.learner.number
    }
}

/// Writes one part at one place.
pub(super) struct Walker<'a> {
    learner: &'a mut Learner,
    out: &'a mut Vec<u8>,
    place: PlaceId,
    depth: u32,
}

impl ser::Error for Interrupt {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Interrupt {
        Interrupt::Failed(ValueError::new(ValueErrorKind::Refused, message.to_string()))
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interrupt::Reshaped => f.write_str("the schema has a new version"),
            Interrupt::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Interrupt {}

impl<'a> Walker<'a> {
    #[inline]
    fn leaf<const N: usize>(self, leaf: Leaf, bytes: [u8; N]) -> Result<(), Interrupt> {
        self.expect_leaf(leaf)?.extend_from_slice(&bytes);
        Ok(())
    }

    #[inline]
    fn expect_leaf(self, leaf: Leaf) -> Result<&'a mut Vec<u8>, Interrupt> {
        if !matches!(&self.learner.places[self.place as usize], Shape::Leaf(known) if *known == leaf) {
            self.learner.settle(self.place, Head::Leaf(leaf), self.out)?;
        }
        Ok(self.out)
    }

    #[inline]
    fn sized(self, leaf: Leaf, bytes: &[u8]) -> Result<(), Interrupt> {
        let out = self.expect_leaf(leaf)?;
        put_length(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
        Ok(())
    }

    /// The walker at the place that has the shape of `head`, one level further in.
    #[inline]
    fn enter(mut self, fits: bool, head: Head) -> Result<Walker<'a>, Interrupt> {
        if !fits {
            self.place = self.learner.settle(self.place, head, self.out)?;
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(too_deep()) } else { Ok(self) }
    }

    #[inline]
    fn shape(&self) -> &Shape {
        &self.learner.places[self.place as usize]
    }

    #[inline]
    fn at(self, place: PlaceId) -> Walker<'a> {
        Walker { place, ..self }
    }

    #[inline]
    fn tuple(self, name: &'static str, count: usize) -> Result<Items<'a>, Interrupt> {
        let fits = match self.shape() {
            Shape::ByteArray(known) => *known as usize == count,
            Shape::Tuple(tuple) => tuple.items.len() == count && same(&tuple.name, name),
            _ => false,
        };
        let walker = self.enter(fits, Head::Tuple { name, count })?;
        let packed = matches!(walker.shape(), Shape::ByteArray(_));
        let start = walker.out.len();
        if packed || count == 0 {
            walker.out.resize(start + count.max(1), 0);
        }
        Ok(Items { walker, index: 0, count, packed, start })
    }

    #[inline]
    fn fields(self, name: &'static str) -> Result<Fields<'a>, Interrupt> {
        let fits = matches!(self.shape(), Shape::Struct(shape) if same(&shape.name, name));
        let walker = self.enter(fits, Head::Struct { name })?;
        Ok(Fields { walker, next: 0, count: 0 })
    }

    /// Writes the number of a variant; the walker of its content, if it has one.
    #[inline]
    fn variant(self, name: &'static str, number: u32, variant: &'static str, has_content: bool) -> Result<Option<Walker<'a>>, Interrupt> {
        let known = match self.shape() {
            Shape::Enum(shape) if same(&shape.name, name) => match shape.variants.get(number as usize) {
                Some(known) if known.number == number && same(&known.name, variant) => Some(known.content),
                _ => None,
            },
            _ => None,
        };
        let fits = known.is_some_and(|content| content.is_some() == has_content);
        let walker = self.enter(fits, Head::Variant { name, number, variant, has_content })?;
        put_length(walker.out, u64::from(number));
        let content = match known {
            Some(content) if fits => content,
            _ => walker.learner.variant(walker.place, number, variant, has_content)?,
        };
        Ok(content.map(|place| walker.at(place)))
    }

    fn content(self, name: &'static str, number: u32, variant: &'static str) -> Result<Walker<'a>, Interrupt> {
        Ok(self.variant(name, number, variant, true)?.expect("a variant with content has a place for it"))
    }
}

#[cold]
fn too_deep() -> Interrupt {
    Interrupt::Failed(ValueError::new(ValueErrorKind::Limit, format!("the value nests deeper than {DEPTH_MAX} levels")))
}

macro_rules! fixed {
    ($($method:ident $type:ty => $leaf:ident,)*) => {$(
        #[inline]
        fn $method(self, value: $type) -> Result<(), Interrupt> {
            self.leaf(Leaf::$leaf, value.to_le_bytes())
        }
    )*};
}

impl<'a> Serializer for Walker<'a> {
    type Ok = ();
    type Error = Interrupt;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Entries<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Fields<'a>;

    fixed! {
        serialize_i8 i8 => I8, serialize_i16 i16 => I16, serialize_i32 i32 => I32, serialize_i64 i64 => I64, serialize_i128 i128 => I128,
        serialize_u8 u8 => U8, serialize_u16 u16 => U16, serialize_u32 u32 => U32, serialize_u64 u64 => U64, serialize_u128 u128 => U128,
    }

    #[inline]
    fn serialize_f32(self, value: f32) -> Result<(), Interrupt> {
        let one = if value == 0.0 { 0.0 } else { f32::NAN };
        let is_many = self.learner.one_zero && (value == 0.0 || value.is_nan());
        self.leaf(Leaf::F32, if is_many { one } else { value }.to_le_bytes())
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Result<(), Interrupt> {
        let one = if value == 0.0 { 0.0 } else { f64::NAN };
        let is_many = self.learner.one_zero && (value == 0.0 || value.is_nan());
        self.leaf(Leaf::F64, if is_many { one } else { value }.to_le_bytes())
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), Interrupt> {
        self.leaf(Leaf::Bool, [u8::from(value)])
    }

    #[inline]
    fn serialize_char(self, value: char) -> Result<(), Interrupt> {
        self.leaf(Leaf::Char, u32::from(value).to_le_bytes())
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Interrupt> {
        self.sized(Leaf::Str, value.as_bytes())
    }

    #[inline]
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Interrupt> {
        self.sized(Leaf::Bytes, value)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Interrupt> {
        self.leaf(Leaf::Unit, [0])
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Interrupt> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Interrupt> {
        let fits = matches!(self.shape(), Shape::Option(_));
        self.enter(fits, Head::Option)?.out.push(0);
        Ok(())
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Interrupt> {
        let fits = matches!(self.shape(), Shape::Option(_));
        let walker = self.enter(fits, Head::Option)?;
        walker.out.push(1);
        let Shape::Option(content) = *walker.shape() else { unreachable!("an option was entered") };
        value.serialize(walker.at(content))
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), Interrupt> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit_variant(self, name: &'static str, number: u32, variant: &'static str) -> Result<(), Interrupt> {
        self.variant(name, number, variant, false)?;
        Ok(())
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        number: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Interrupt> {
        value.serialize(self.content(name, number, variant)?)
    }

    #[inline]
    fn serialize_seq(self, count: Option<usize>) -> Result<Elements<'a>, Interrupt> {
        let fits = matches!(self.shape(), Shape::Seq(_));
        let walker = self.enter(fits, Head::Seq)?;
        let Shape::Seq(element) = *walker.shape() else { unreachable!("a sequence was entered") };
        let counted = Counted::begin(walker.out, count);
        Ok(Elements { walker: walker.at(element), counted })
    }

    #[inline]
    fn serialize_tuple(self, count: usize) -> Result<Items<'a>, Interrupt> {
        self.tuple("", count)
    }

    fn serialize_tuple_struct(self, name: &'static str, count: usize) -> Result<Items<'a>, Interrupt> {
        self.tuple(name, count)
    }

    fn serialize_tuple_variant(self, name: &'static str, number: u32, variant: &'static str, count: usize) -> Result<Items<'a>, Interrupt> {
        self.content(name, number, variant)?.tuple(variant, count)
    }

    #[inline]
    fn serialize_map(self, count: Option<usize>) -> Result<Entries<'a>, Interrupt> {
        let fits = matches!(self.shape(), Shape::Map(..));
        let walker = self.enter(fits, Head::Map)?;
        let Shape::Map(key, value) = *walker.shape() else { unreachable!("a map was entered") };
        let counted = Counted::begin(walker.out, count);
        Ok(Entries { walker, key, value, counted })
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _count: usize) -> Result<Fields<'a>, Interrupt> {
        self.fields(name)
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        name: &'static str,
        number: u32,
        variant: &'static str,
        _count: usize,
    ) -> Result<Fields<'a>, Interrupt> {
        self.content(name, number, variant)?.fields(variant)
    }

    #[inline]
    fn collect_seq<I>(self, items: I) -> Result<(), Interrupt>
    where
        I: IntoIterator,
        I::Item: Serialize,
    {
        let items = items.into_iter();
        let count = match items.size_hint() {
            (least, Some(most)) if least == most => Some(least),
            _ => None,
        };
        let mut elements = self.serialize_seq(count)?;
        if matches!(elements.walker.shape(), Shape::Leaf(Leaf::U8)) {
            return elements.bytes(items);
        }
        for item in items {
            ser::SerializeSeq::serialize_element(&mut elements, &item)?;
        }
        ser::SerializeSeq::end(elements)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Interrupt> {
        struct Sink<'a>(&'a mut Vec<u8>);
        impl fmt::Write for Sink<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.extend_from_slice(text.as_bytes());
                Ok(())
            }
        }
        let out = self.expect_leaf(Leaf::Str)?;
        let at = out.len();
        out.push(0);
        if write!(Sink(out), "{value}").is_err() {
            return Err(ser::Error::custom("a value's Display failed"));
        }
        let length = (out.len() - at - 1) as u64;
        fill_length(out, at, 1, length);
        Ok(())
    }
}
