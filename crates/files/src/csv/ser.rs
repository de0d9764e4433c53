//! Records into lines, through `serde`, straight into the buffer of the file.
//!
//! Cells are quoted only when they must be: they hold the delimiter, a quote, a line end or a NUL, or an empty text in an `Option` (an
//! empty cell without quotes means `None`). So what is written here reads back the same.

use std::fmt;

use serde::ser::{self, Impossible, Serialize, Serializer};

use super::QUOTE;

/// Why a record is no line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unwritable(String);

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unwritable {}

impl ser::Error for Unwritable {
    fn custom<M: fmt::Display>(message: M) -> Unwritable {
        Unwritable(message.to_string())
    }
}

const FLAT: &str = "a CSV record is a struct or a tuple of single values: text, number, true or false, the name of a variant, or an Option of \
                    one; a list, a map or a struct inside needs JSON Lines, or fields of their own";

fn nested<T>() -> Result<T, Unwritable> {
    Err(Unwritable(FLAT.into()))
}

/// Appends a record without a line end. After an error, part of it may have been appended.
#[inline]
pub(crate) fn write<T: Serialize>(record: &T, delimiter: u8, out: &mut Vec<u8>) -> Result<(), Unwritable> {
    let start = out.len();
    let mut row = Row { out, delimiter, cells: 0, last: Last::Missing };
    record.serialize(&mut row)?;
    let (cells, last) = (row.cells, row.last);
    if out.len() == start {
        // An empty line is no record.
        match (cells, last) {
            (1, Last::Value) => out.extend_from_slice(b"\"\""),
            _ => return Err(Unwritable("a record whose only value is missing would be an empty line; give it a second field".into())),
        }
    }
    Ok(())
}

/// Appends one cell of text.
pub(crate) fn write_text(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    CellWriter { out, delimiter, optional: false }.text(text);
}

/// What the last cell was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Missing,
    Value,
}

struct Row<'o> {
    out: &'o mut Vec<u8>,
    delimiter: u8,
    cells: usize,
    last: Last,
}

impl Row<'_> {
    #[inline]
    fn cell<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        if self.cells > 0 {
            self.out.push(self.delimiter);
        }
        self.cells += 1;
        self.last = value.serialize(CellWriter { out: self.out, delimiter: self.delimiter, optional: false })?;
        Ok(())
    }
}

macro_rules! one_cell {
    ($($method:ident($type:ty),)*) => {$(
        fn $method(self, value: $type) -> Result<(), Unwritable> {
            self.cell(&value)
        }
    )*};
}

impl<'r, 'o> Serializer for &'r mut Row<'o> {
    type Ok = ();
    type Error = Unwritable;
    type SerializeSeq = Impossible<(), Unwritable>;
    type SerializeTuple = &'r mut Row<'o>;
    type SerializeTupleStruct = &'r mut Row<'o>;
    type SerializeTupleVariant = Impossible<(), Unwritable>;
    type SerializeMap = Impossible<(), Unwritable>;
    type SerializeStruct = &'r mut Row<'o>;
    type SerializeStructVariant = Impossible<(), Unwritable>;

    one_cell! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64), serialize_i128(i128),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_u128(u128), serialize_f32(f32),
        serialize_f64(f64), serialize_char(char), serialize_str(&str),
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), Unwritable> {
        nested()
    }

    fn serialize_none(self) -> Result<(), Unwritable> {
        self.cell(&())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unwritable> {
        self.cell(&())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unwritable> {
        self.cell(&())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Unwritable> {
        self.cell(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: &'static str, _: u32, _: &'static str, _: &T) -> Result<(), Unwritable> {
        nested()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Unwritable> {
        nested()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Unwritable> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Unwritable> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Unwritable> {
        nested()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Unwritable> {
        nested()
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Unwritable> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Unwritable> {
        nested()
    }
}

impl ser::SerializeTuple for &mut Row<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.cell(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}

impl ser::SerializeTupleStruct for &mut Row<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.cell(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}

impl ser::SerializeStruct for &mut Row<'_> {
    type Ok = ();
    type Error = Unwritable;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Unwritable> {
        self.cell(value)
    }

    /// The columns are the same in each line, so what `serde` leaves out is an empty cell.
    fn skip_field(&mut self, _: &'static str) -> Result<(), Unwritable> {
        self.cell(&())
    }

    #[inline]
    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}

/// Writes one cell.
struct CellWriter<'o> {
    out: &'o mut Vec<u8>,
    delimiter: u8,
    /// Whether the cell is that of an `Option`.
    optional: bool,
}

impl CellWriter<'_> {
    #[inline]
    fn text(self, text: &str) -> Last {
        let bytes = text.as_bytes();
        let special = |&byte: &u8| (byte == self.delimiter) | (byte == QUOTE) | (byte == b'\n') | (byte == b'\r') | (byte == 0);
        // Without early exit, so that the compiler looks at many bytes at once.
        let quoted = bytes.iter().fold(false, |found, byte| found | special(byte))
            || (bytes.is_empty() && self.optional)
            || text.starts_with('\u{FEFF}');
        if quoted {
            self.quote(bytes);
        } else {
            self.out.extend_from_slice(bytes);
        }
        Last::Value
    }

    #[cold]
    fn quote(self, bytes: &[u8]) {
        self.out.push(QUOTE);
        let mut from = 0;
        for at in memchr::memchr_iter(QUOTE, bytes) {
            self.out.extend_from_slice(&bytes[from..=at]);
            from = at;
        }
        self.out.extend_from_slice(&bytes[from..]);
        self.out.push(QUOTE);
    }
}

macro_rules! numbers {
    ($($method:ident($type:ty) $buffer:ident,)*) => {$(
        #[inline]
        fn $method(self, value: $type) -> Result<Last, Unwritable> {
            let mut buffer = $buffer::Buffer::new();
            self.out.extend_from_slice(buffer.format(value).as_bytes());
            Ok(Last::Value)
        }
    )*};
}

impl Serializer for CellWriter<'_> {
    type Ok = Last;
    type Error = Unwritable;
    type SerializeSeq = Impossible<Last, Unwritable>;
    type SerializeTuple = Impossible<Last, Unwritable>;
    type SerializeTupleStruct = Impossible<Last, Unwritable>;
    type SerializeTupleVariant = Impossible<Last, Unwritable>;
    type SerializeMap = Impossible<Last, Unwritable>;
    type SerializeStruct = Impossible<Last, Unwritable>;
    type SerializeStructVariant = Impossible<Last, Unwritable>;

    numbers! {
        serialize_i8(i8) itoa, serialize_i16(i16) itoa, serialize_i32(i32) itoa, serialize_i64(i64) itoa, serialize_i128(i128) itoa,
        serialize_u8(u8) itoa, serialize_u16(u16) itoa, serialize_u32(u32) itoa, serialize_u64(u64) itoa, serialize_u128(u128) itoa,
        serialize_f32(f32) ryu, serialize_f64(f64) ryu,
    }

    fn serialize_bool(self, value: bool) -> Result<Last, Unwritable> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(Last::Value)
    }

    fn serialize_char(self, value: char) -> Result<Last, Unwritable> {
        Ok(self.text(value.encode_utf8(&mut [0; 4])))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<Last, Unwritable> {
        Ok(self.text(value))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Last, Unwritable> {
        match std::str::from_utf8(value) {
            Ok(text) => Ok(self.text(text)),
            Err(_) => Err(Unwritable("a cell holds text in UTF-8; these bytes are none: encode them, for instance in base64".into())),
        }
    }

    fn serialize_none(self) -> Result<Last, Unwritable> {
        Ok(Last::Missing)
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Last, Unwritable> {
        value.serialize(CellWriter { optional: true, ..self })
    }

    fn serialize_unit(self) -> Result<Last, Unwritable> {
        Ok(Last::Missing)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Last, Unwritable> {
        Ok(Last::Missing)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Last, Unwritable> {
        Ok(self.text(variant))
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Last, Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: &'static str, _: u32, _: &'static str, _: &T) -> Result<Last, Unwritable> {
        nested()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Unwritable> {
        nested()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Unwritable> {
        nested()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Unwritable> {
        nested()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Unwritable> {
        nested()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Unwritable> {
        nested()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Unwritable> {
        nested()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Unwritable> {
        nested()
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::csv::header;

    #[derive(Serialize)]
    enum Side {
        Buy,
        Sell(u8),
    }

    #[derive(Serialize)]
    struct Order<'a> {
        id: u64,
        price: f64,
        side: Side,
        note: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<i32>,
        text: &'a str,
    }

    fn line<T: Serialize>(record: &T) -> Result<String, String> {
        let mut out = Vec::new();
        write(record, b',', &mut out).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn cells_are_quoted_only_when_they_must_be() {
        let order = Order { id: 1, price: 2.5, side: Side::Buy, note: None, count: None, text: "plain" };
        assert_eq!(line(&order).as_deref(), Ok("1,2.5,Buy,,,plain"));
        for (text, cell) in [
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("\"", "\"\"\"\""),
            ("a\nb", "\"a\nb\""),
            ("a\r", "\"a\r\""),
            ("", ""),
            (" ", " "),
            ("\u{FEFF}", "\"\u{FEFF}\""),
            ("\0", "\"\0\""),
        ] {
            let order = Order { id: 1, price: -0.0, side: Side::Buy, note: Some(""), count: Some(-3), text };
            assert_eq!(line(&order), Ok(format!("1,-0.0,Buy,\"\",-3,{cell}")));
        }
        assert_eq!(line(&(1u8, "x", None::<u8>, 'c', true)).as_deref(), Ok("1,x,,c,true"));
    }

    #[test]
    fn a_line_is_never_empty() {
        assert_eq!(line(&"").as_deref(), Ok("\"\""));
        assert_eq!(line(&(Some(""),)).as_deref(), Ok("\"\""));
        assert!(line(&(None::<u8>,)).expect_err("refused").contains("empty line"));
        assert!(line(&()).expect_err("refused").contains("empty line"));
    }

    #[test]
    fn what_is_not_flat_is_refused_with_what_is_allowed() {
        let order = Order { id: 1, price: 2.5, side: Side::Sell(1), note: None, count: None, text: "" };
        assert!(line(&order).expect_err("refused").contains("JSON Lines"));
        assert!(line(&(1, vec![1])).expect_err("refused").contains("struct or a tuple"));
        assert!(line(&(1, (1, 2))).is_err());
        assert!(line(&vec![1]).is_err());
    }

    #[test]
    fn the_header_names_all_fields_of_a_struct_and_a_tuple_has_none() {
        let order = Order { id: 1, price: 2.5, side: Side::Sell(1), note: None, count: None, text: "" };
        assert_eq!(header(&order, b';').as_deref(), Some(&b"id;price;side;note;count;text"[..]));
        assert_eq!(header(&(1, 2), b','), None);
    }
}
