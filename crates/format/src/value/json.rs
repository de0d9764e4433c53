//! A value without its type, as JSON for people and other programs.
//!
//! Owns: how parts that JSON does not have are shown. Does not own: reading (`decode`).

use serde_json::{Map, Number, Value};

use super::decode::{FieldsLeft, Place};
use super::error::ValueError;
use super::schema::{Leaf, Shape};

impl Place<'_, '_, '_> {
    /// Reads the part as JSON.
    pub(super) fn json(mut self) -> Result<Value, ValueError> {
        match self.resolve()? {
            Shape::Leaf(leaf) => self.json_leaf(*leaf),
            Shape::Option(content) => match self.is_some()? {
                true => self.part(*content)?.json(),
                false => Ok(Value::Null),
            },
            Shape::Seq(element) => {
                let count = self.reader.count()?;
                (0..count).map(|_| self.part(*element)?.json()).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            Shape::Map(key, value) => {
                let count = self.reader.count()?;
                let mut map = Map::new();
                for _ in 0..count {
                    let key = match self.part(*key)?.json()? {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    map.insert(key, self.part(*value)?.json()?);
                }
                Ok(Value::Object(map))
            }
            Shape::ByteArray(count) => Ok(self.reader.take(*count as usize)?.into()),
            Shape::Tuple(tuple) => {
                if tuple.items.is_empty() {
                    self.nothing()?;
                }
                tuple.items.iter().map(|item| self.part(*item)?.json()).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            Shape::Struct(shape) => {
                let mut map = Map::new();
                let mut fields = FieldsLeft::new(shape);
                while let Some((name, place)) = fields.next(&mut self)? {
                    map.insert(name.into(), self.part(place)?.json()?);
                }
                Ok(Value::Object(map))
            }
            Shape::Enum(shape) => {
                let variant = self.variant(shape)?;
                let name = variant.name.to_string();
                match variant.content {
                    None => Ok(Value::String(name)),
                    Some(content) => Ok(Value::Object(Map::from_iter([(name, self.part(content)?.json()?)]))),
                }
            }
            Shape::Unknown | Shape::Link(_) | Shape::Union(_) => unreachable!("resolve looks behind these"),
        }
    }

    fn json_leaf(self, leaf: Leaf) -> Result<Value, ValueError> {
        use serde::Deserialize as _;
        Ok(match leaf {
            Leaf::Unit => {
                <()>::deserialize(self)?;
                Value::Null
            }
            Leaf::Bool => Value::Bool(bool::deserialize(self)?),
            Leaf::I8 | Leaf::I16 | Leaf::I32 | Leaf::I64 => Value::from(i64::deserialize(self)?),
            Leaf::U8 | Leaf::U16 | Leaf::U32 | Leaf::U64 => Value::from(u64::deserialize(self)?),
            Leaf::I128 => {
                let number = i128::deserialize(self)?;
                i64::try_from(number).map_or_else(|_| Value::String(number.to_string()), Value::from)
            }
            Leaf::U128 => {
                let number = u128::deserialize(self)?;
                u64::try_from(number).map_or_else(|_| Value::String(number.to_string()), Value::from)
            }
            // An f32 by its own shortest digits, not by those of the f64 it would widen to.
            Leaf::F32 => {
                let number = f32::deserialize(self)?;
                float(number.to_string().parse().unwrap_or(f64::from(number)))
            }
            Leaf::F64 => float(f64::deserialize(self)?),
            Leaf::Char => Value::String(char::deserialize(self)?.to_string()),
            Leaf::Str => Value::String(String::deserialize(self)?),
            Leaf::Bytes => Value::String(self.reader.sized()?.iter().map(|byte| format!("{byte:02x}")).collect()),
        })
    }
}

fn float(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
}
