//! Cells into a record, through `serde`.
//!
//! Cost: nothing is allocated but what the record itself holds. Keys are handed over as text: `serde` numbers the fields of a struct,
//! but its list of names also holds aliases, so numbers made from it could mean another field.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::cut::Form;
use super::{Cell, Plan};

/// Why cells are no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CellFault {
    /// There are more or fewer than expected.
    Count { expected: String, found: usize },
    /// No column has the name of a field that must be there.
    Missing { field: &'static str },
    /// One of them, or all of them together, do not fit.
    Bad { column: Option<usize>, reason: String },
}

/// Methods that ask a whole row for one value: its only cell gives it. Cells left over are an error of [`parse`].
macro_rules! only_cell {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            self.0.next = 1;
            self.0.value(0)?.$method(visitor)
        }
    )*};
}

/// Makes a record of the cells of one line.
#[inline]
pub(crate) fn parse<T: DeserializeOwned>(line: &str, cells: &[Cell], plan: &Plan, scratch: &mut String) -> Result<T, CellFault> {
    let columns = plan.header().len();
    if columns != cells.len() && columns != 0 {
        return Err(CellFault::Count { expected: format!("columns={columns} as in the header"), found: cells.len() });
    }
    let mut row = Row { line, cells, next: 0, current: None, scratch };
    let result = match plan {
        Plan::ByName { header, wanted } => T::deserialize(NamedRow { row: &mut row, header, wanted: wanted.iter(), value: None }),
        Plan::ByPosition { .. } => T::deserialize(PositionedRow(&mut row)),
    };
    match (result, plan) {
        (Ok(_), Plan::ByPosition { .. }) if row.next < cells.len() => {
            Err(CellFault::Count { expected: format!("columns={}", row.next), found: cells.len() })
        }
        (Ok(record), _) => Ok(record),
        (Err(Problem::Length(expected)), Plan::ByPosition { .. }) => Err(CellFault::Count { expected, found: cells.len() }),
        (Err(Problem::Missing(field)), _) => Err(CellFault::Missing { field }),
        (Err(Problem::Length(reason) | Problem::Other(reason)), _) => Err(CellFault::Bad { column: row.current, reason }),
    }
}

#[derive(Debug)]
enum Problem {
    Missing(&'static str),
    Length(String),
    Other(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Missing(field) => write!(f, "missing field {field}"),
            Problem::Length(text) | Problem::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Problem {}

impl serde::de::Error for Problem {
    #[cold]
    fn custom<M: fmt::Display>(message: M) -> Problem {
        Problem::Other(message.to_string())
    }

    #[cold]
    fn missing_field(field: &'static str) -> Problem {
        Problem::Missing(field)
    }

    #[cold]
    fn invalid_length(_: usize, expected: &dyn serde::de::Expected) -> Problem {
        Problem::Length(expected.to_string())
    }
}

/// A line and how far it is read.
struct Row<'r> {
    line: &'r str,
    cells: &'r [Cell],
    next: usize,
    current: Option<usize>,
    scratch: &'r mut String,
}

impl Row<'_> {
    #[inline]
    fn value(&mut self, column: usize) -> Result<Value<'_>, Problem> {
        self.current = Some(column);
        let Some(cell) = self.cells.get(column) else { return Err(Problem::Other("expected one more cell".into())) };
        let text = inside(self.line, *cell);
        Ok(match cell.form {
            Form::Plain => Value { text, missing: text.is_empty() },
            Form::Quoted => Value { text, missing: false },
            Form::Escaped => {
                unescape(text, self.scratch);
                Value { text: self.scratch, missing: false }
            }
        })
    }
}

/// The text between the ends of a cell; they are at ASCII bytes, so it exists.
#[inline]
fn inside(line: &str, cell: Cell) -> &str {
    line.get(cell.start as usize..cell.end as usize).unwrap_or_default()
}

fn unescape(text: &str, into: &mut String) {
    into.clear();
    for (n, part) in text.split("\"\"").enumerate() {
        if n > 0 {
            into.push('"');
        }
        into.push_str(part);
    }
}

/// The text that a cell means.
pub(crate) fn text_of(line: &str, cell: Cell) -> String {
    let text = inside(line, cell);
    match cell.form {
        Form::Plain | Form::Quoted => text.to_string(),
        Form::Escaped => {
            let mut plain = String::new();
            unescape(text, &mut plain);
            plain
        }
    }
}

/// A row whose cells have names.
struct NamedRow<'a, 'r> {
    row: &'a mut Row<'r>,
    header: &'a [String],
    wanted: std::slice::Iter<'a, usize>,
    value: Option<usize>,
}

impl<'de> Deserializer<'de> for NamedRow<'_, '_> {
    type Error = Problem;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_map(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for NamedRow<'_, '_> {
    type Error = Problem;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        let Some(&column) = self.wanted.next() else {
            self.row.current = None;
            return Ok(None);
        };
        self.value = Some(column);
        self.row.current = Some(column);
        seed.deserialize(StrDeserializer::new(&self.header[column])).map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        let Some(column) = self.value.take() else { return Err(Problem::Other("a value was asked for before its name".into())) };
        seed.deserialize(self.row.value(column)?)
    }
}

/// A row whose cells are taken one after the other.
struct PositionedRow<'a, 'r>(&'a mut Row<'r>);

impl<'de> Deserializer<'de> for PositionedRow<'_, '_> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_seq(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    only_cell! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option deserialize_identifier
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.0.next = 1;
        self.0.value(0)?.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! { unit unit_struct seq tuple tuple_struct map struct ignored_any }
}

impl<'de> SeqAccess<'de> for PositionedRow<'_, '_> {
    type Error = Problem;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Problem> {
        let column = self.0.next;
        if column == self.0.cells.len() {
            self.0.current = None;
            return Ok(None);
        }
        self.0.next += 1;
        seed.deserialize(self.0.value(column)?).map(Some)
    }
}

/// One cell.
struct Value<'c> {
    text: &'c str,
    missing: bool,
}

impl Value<'_> {
    #[cold]
    fn wanted(&self, what: &str) -> Problem {
        Problem::Other(match self.text {
            "" => format!("expected {what}, found an empty cell"),
            text => format!("expected {what}, found {:?}", Shortened(text)),
        })
    }
}

/// A text cut for a message.
struct Shortened<'t>(&'t str);

impl fmt::Debug for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARS_MAX: usize = 60;
        match self.0.char_indices().nth(CHARS_MAX) {
            None => write!(f, "{:?}", self.0),
            Some((at, _)) => write!(f, "{:?} and so on", &self.0[..at]),
        }
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $type:ty,)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            match self.text.parse::<$type>() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(self.wanted(stringify!($type))),
            }
        }
    )*};
}

macro_rules! refused {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {$(
        #[cold]
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* _: V) -> Result<V::Value, Problem> {
            Err(Problem::Other(NESTED.into()))
        }
    )*};
}

const NESTED: &str = "a cell of a CSV file holds one value: text, number, true or false, the name of a variant, or nothing for an Option; \
                      a list, a map or a struct inside a struct needs JSON Lines";

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Problem;

    parsed! {
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_i128 visit_i128 i128,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
        deserialize_u128 visit_u128 u128,
        deserialize_f32 visit_f32 f32,
        deserialize_f64 visit_f64 f64,
    }

    refused! {
        deserialize_seq();
        deserialize_map();
        deserialize_tuple(_length: usize);
        deserialize_tuple_struct(_name: &'static str, _length: usize);
        deserialize_struct(_name: &'static str, _fields: &'static [&'static str]);
    }

    /// A cell has no type of its own: it is text.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_str(self.text)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.text {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(self.wanted("true or false")),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let mut chars = self.text.chars();
        match (chars.next(), chars.next()) {
            (Some(only), None) => visitor.visit_char(only),
            _ => Err(self.wanted("one character")),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_str(self.text)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_str(self.text)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_bytes(self.text.as_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_bytes(self.text.as_bytes())
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.missing { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.missing { visitor.visit_unit() } else { Err(self.wanted("an empty cell")) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_enum(self)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_str(self.text)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_unit()
    }
}

/// A cell that names a variant without content.
impl<'de> EnumAccess<'de> for Value<'_> {
    type Error = Problem;
    type Variant = Named;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Named), Problem> {
        Ok((seed.deserialize(StrDeserializer::new(self.text))?, Named))
    }
}

struct Named;

impl<'de> VariantAccess<'de> for Named {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, Problem> {
        Err(Problem::Other(NESTED.into()))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Problem> {
        Err(Problem::Other(NESTED.into()))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Problem> {
        Err(Problem::Other(NESTED.into()))
    }
}

#[cfg(test)]
mod tests;
