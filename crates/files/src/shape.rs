//! What shape a record type has, learned from its `Deserialize` without any data.
//!
//! Owns: the question to `serde`: a deserialiser that gives no data and notes what it was asked for.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};

/// What a record type asks its deserialiser for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A struct with these names (fields, and their aliases).
    Struct(&'static [&'static str]),
    /// A map, or a struct with a flattened part.
    Map,
    /// A tuple or a sequence.
    Sequence,
    /// One value, or anything.
    Value,
}

impl Shape {
    /// The shape of a type.
    pub(crate) fn of<T: DeserializeOwned>() -> Shape {
        match T::deserialize(Probe) {
            Err(Answer(shape)) => shape,
            // A type that needs no data, such as `()`.
            Ok(_) => Shape::Value,
        }
    }
}

struct Probe;

#[derive(Debug)]
struct Answer(Shape);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Answer {}

impl serde::de::Error for Answer {
    fn custom<M: fmt::Display>(_: M) -> Answer {
        Answer(Shape::Value)
    }
}

macro_rules! answers {
    ($($method:ident => $shape:expr),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Answer> {
            Err(Answer($shape))
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Answer;

    answers! {
        deserialize_map => Shape::Map,
        deserialize_seq => Shape::Sequence,
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Answer> {
        Err(Answer::custom("any"))
    }

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, fields: &'static [&'static str], _: V) -> Result<V::Value, Answer> {
        Err(Answer(Shape::Struct(fields)))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Answer> {
        Err(Answer(Shape::Sequence))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, _: V) -> Result<V::Value, Answer> {
        Err(Answer(Shape::Sequence))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Answer> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct enum identifier
        ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Plain {
        a: u64,
        #[serde(alias = "bee")]
        b: Option<String>,
        #[serde(skip_deserializing)]
        c: u8,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Wrapped(Plain);

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Flat {
        #[serde(flatten)]
        plain: Plain,
    }

    #[test]
    fn a_type_tells_its_shape_without_data() {
        assert!(
            matches!(Shape::of::<Plain>(), Shape::Struct(names) if names.contains(&"a") && names.contains(&"bee") && !names.contains(&"c"))
        );
        assert_eq!(Shape::of::<Wrapped>(), Shape::of::<Plain>());
        assert_eq!(Shape::of::<Flat>(), Shape::Map);
        assert_eq!(Shape::of::<(u64, String)>(), Shape::Sequence);
        assert_eq!(Shape::of::<String>(), Shape::Value);
        assert_eq!(Shape::of::<serde_json::Value>(), Shape::Value);
    }
}
