//! The one question asked of the elements of a byte sequence: are you a `u8`, and which?
//!
//! Owns: a serialiser whose result is a byte. For a type that is a `u8` the answer is known when compiling, so a whole `Vec<u8>`
//! is copied at once; every other type answers no at its first call.

use std::fmt;

use serde::ser::{self, Impossible, Serialize, Serializer};

/// A serialiser that takes a `u8` and nothing else.
pub(super) struct ByteRun;

/// The element is not a `u8`.
#[derive(Debug)]
pub(super) struct NotByte;

impl fmt::Display for NotByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a u8")
    }
}

impl std::error::Error for NotByte {}

impl ser::Error for NotByte {
    fn custom<T: fmt::Display>(_message: T) -> NotByte {
        NotByte
    }
}

type Never = Impossible<u8, NotByte>;

macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $ok:ty;)*) => {$(
        #[inline]
        fn $method(self, $(_: $argument),*) -> Result<$ok, NotByte> {
            Err(NotByte)
        }
    )*};
}

impl Serializer for ByteRun {
    type Ok = u8;
    type Error = NotByte;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    #[inline]
    fn serialize_u8(self, value: u8) -> Result<u8, NotByte> {
        Ok(value)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<u8, NotByte> {
        value.serialize(self)
    }

    refuse! {
        serialize_bool(bool) -> u8;
        serialize_i8(i8) -> u8;
        serialize_i16(i16) -> u8;
        serialize_i32(i32) -> u8;
        serialize_i64(i64) -> u8;
        serialize_i128(i128) -> u8;
        serialize_u16(u16) -> u8;
        serialize_u32(u32) -> u8;
        serialize_u64(u64) -> u8;
        serialize_u128(u128) -> u8;
        serialize_f32(f32) -> u8;
        serialize_f64(f64) -> u8;
        serialize_char(char) -> u8;
        serialize_str(&str) -> u8;
        serialize_bytes(&[u8]) -> u8;
        serialize_none() -> u8;
        serialize_unit() -> u8;
        serialize_unit_struct(&'static str) -> u8;
        serialize_unit_variant(&'static str, u32, &'static str) -> u8;
        serialize_seq(Option<usize>) -> Never;
        serialize_tuple(usize) -> Never;
        serialize_tuple_struct(&'static str, usize) -> Never;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Never;
        serialize_map(Option<usize>) -> Never;
        serialize_struct(&'static str, usize) -> Never;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Never;
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, _value: &T) -> Result<u8, NotByte> {
        Err(NotByte)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _number: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<u8, NotByte> {
        Err(NotByte)
    }
}
