//! The header line of a record: the names of its fields, through `serde`.

use serde::ser::{self, Impossible, Serialize, Serializer};

use super::ser::{Unwritable, write_text};

/// The line with the names of the fields; `None` when the record has none.
pub(crate) fn header<T: Serialize>(record: &T, delimiter: u8) -> Option<Vec<u8>> {
    let mut names = Names { out: Vec::new(), delimiter, count: 0 };
    record.serialize(&mut names).is_ok().then_some(names.out)
}

struct Names {
    out: Vec<u8>,
    delimiter: u8,
    count: usize,
}

impl Names {
    fn name(&mut self, name: &str) {
        if self.count > 0 {
            self.out.push(self.delimiter);
        }
        self.count += 1;
        write_text(name, self.delimiter, &mut self.out);
    }
}

fn nameless<T>() -> Result<T, Unwritable> {
    Err(ser::Error::custom("the record has no names"))
}

macro_rules! nameless {
    ($($method:ident($($argument:ty),*) -> $answer:ty,)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$answer, Unwritable> {
            nameless()
        }
    )*};
}

impl Serializer for &mut Names {
    type Ok = ();
    type Error = Unwritable;
    type SerializeSeq = Impossible<(), Unwritable>;
    type SerializeTuple = Impossible<(), Unwritable>;
    type SerializeTupleStruct = Impossible<(), Unwritable>;
    type SerializeTupleVariant = Impossible<(), Unwritable>;
    type SerializeMap = Impossible<(), Unwritable>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Impossible<(), Unwritable>;

    nameless! {
        serialize_bool(bool) -> (), serialize_i8(i8) -> (), serialize_i16(i16) -> (), serialize_i32(i32) -> (), serialize_i64(i64) -> (),
        serialize_u8(u8) -> (), serialize_u16(u16) -> (), serialize_u32(u32) -> (), serialize_u64(u64) -> (), serialize_f32(f32) -> (),
        serialize_f64(f64) -> (), serialize_char(char) -> (), serialize_str(&str) -> (), serialize_bytes(&[u8]) -> (),
        serialize_none() -> (), serialize_unit() -> (), serialize_unit_struct(&'static str) -> (),
        serialize_unit_variant(&'static str, u32, &'static str) -> (), serialize_seq(Option<usize>) -> Self::SerializeSeq,
        serialize_tuple(usize) -> Self::SerializeTuple, serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct,
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant,
        serialize_map(Option<usize>) -> Self::SerializeMap,
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant,
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: &'static str, _: u32, _: &'static str, _: &T) -> Result<(), Unwritable> {
        nameless()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Unwritable> {
        Ok(self)
    }
}

impl ser::SerializeStruct for &mut Names {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, _: &T) -> Result<(), Unwritable> {
        self.name(name);
        Ok(())
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), Unwritable> {
        self.name(name);
        Ok(())
    }

    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}
