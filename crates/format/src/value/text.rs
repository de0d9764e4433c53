//! A schema for people: as Rust-like text, and as JSON.
//!
//! Owns: the two forms. Does not own: any decision taken by them. A place inside itself is shown by its name, or as `..`.

use std::fmt::{self, Write};

use serde_json::{Value, json};

use super::schema::{Leaf, PlaceId, Schema, Shape, Struct, Version};

impl Leaf {
    pub(super) fn name(self) -> &'static str {
        match self {
            Leaf::Unit => "()",
            Leaf::Bool => "bool",
            Leaf::I8 => "i8",
            Leaf::I16 => "i16",
            Leaf::I32 => "i32",
            Leaf::I64 => "i64",
            Leaf::I128 => "i128",
            Leaf::U8 => "u8",
            Leaf::U16 => "u16",
            Leaf::U32 => "u32",
            Leaf::U64 => "u64",
            Leaf::U128 => "u128",
            Leaf::F32 => "f32",
            Leaf::F64 => "f64",
            Leaf::Char => "char",
            Leaf::Str => "str",
            Leaf::Bytes => "bytes",
        }
    }
}

impl fmt::Display for Schema {
    /// The current version, such as `struct Account { id: u64, tags: [str], kind: enum Kind { Open, Closed(i64) } }`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.versions.last() {
            Some(version) => version.write(0, f),
            None => f.write_str("nothing"),
        }
    }
}

impl Version {
    /// Writes the shape of a place.
    pub(super) fn write(&self, place: PlaceId, f: &mut dyn Write) -> fmt::Result {
        match &self.places[place as usize] {
            Shape::Unknown => f.write_str("?"),
            Shape::Link(target) => match &self.places[*target as usize] {
                Shape::Struct(shape) => f.write_str(&shape.name),
                Shape::Enum(shape) => f.write_str(&shape.name),
                Shape::Tuple(tuple) if !tuple.name.is_empty() => f.write_str(&tuple.name),
                _ => f.write_str(".."),
            },
            Shape::Leaf(leaf) => f.write_str(leaf.name()),
            Shape::Union(places) => self.list(places, ("(", " | ", ")"), f),
            Shape::Option(content) => self.wrapped("Option<", *content, ">", f),
            Shape::Seq(element) => self.wrapped("[", *element, "]", f),
            Shape::Map(key, value) => {
                self.wrapped("map<", *key, ", ", f)?;
                self.wrapped("", *value, ">", f)
            }
            Shape::ByteArray(count) => write!(f, "[u8; {count}]"),
            Shape::Tuple(tuple) => match self.array(&tuple.items) {
                Some((item, count)) if tuple.name.is_empty() => self.wrapped("[", item, &format!("; {count}]"), f),
                _ => {
                    f.write_str(&tuple.name)?;
                    self.list(&tuple.items, ("(", ", ", ")"), f)
                }
            },
            Shape::Struct(shape) => {
                write!(f, "struct {}", shape.name)?;
                self.write_fields(shape, f)
            }
            Shape::Enum(shape) => {
                write!(f, "enum {} {{", shape.name)?;
                for (index, variant) in shape.variants.iter().enumerate() {
                    let separator = if index == 0 { " " } else { ", " };
                    write!(f, "{separator}{}", variant.name)?;
                    if let Some(content) = variant.content {
                        self.write_content(&variant.name, content, f)?;
                    }
                }
                f.write_str(" }")
            }
        }
    }

    fn write_fields(&self, shape: &Struct, f: &mut dyn Write) -> fmt::Result {
        f.write_str(" {")?;
        for (index, field) in shape.fields.iter().enumerate() {
            let separator = if index == 0 { " " } else { ", " };
            let optional = if shape.sparse { "?" } else { "" };
            write!(f, "{separator}{}{optional}: ", field.name)?;
            self.write(field.place, f)?;
        }
        f.write_str(" }")
    }

    /// Writes the content of a variant behind its name; a variant with several parts is not named twice.
    fn write_content(&self, variant: &str, content: PlaceId, f: &mut dyn Write) -> fmt::Result {
        match &self.places[content as usize] {
            Shape::Tuple(tuple) if tuple.name == variant => self.list(&tuple.items, ("(", ", ", ")"), f),
            Shape::Struct(shape) if shape.name == variant => self.write_fields(shape, f),
            _ => self.wrapped("(", content, ")", f),
        }
    }

    /// The item and the count of a tuple whose items are all the same leaf.
    fn array(&self, items: &[PlaceId]) -> Option<(PlaceId, usize)> {
        let (first, rest) = items.split_first()?;
        let Shape::Leaf(leaf) = &self.places[*first as usize] else { return None };
        let alike = |item: &PlaceId| matches!(&self.places[*item as usize], Shape::Leaf(other) if other == leaf);
        (items.len() > 2 && rest.iter().all(alike)).then_some((*first, items.len()))
    }

    fn wrapped(&self, before: &str, place: PlaceId, after: &str, f: &mut dyn Write) -> fmt::Result {
        f.write_str(before)?;
        self.write(place, f)?;
        f.write_str(after)
    }

    fn list(&self, places: &[PlaceId], (before, between, after): (&str, &str, &str), f: &mut dyn Write) -> fmt::Result {
        f.write_str(before)?;
        for (index, place) in places.iter().enumerate() {
            if index > 0 {
                f.write_str(between)?;
            }
            self.write(*place, f)?;
        }
        f.write_str(after)
    }

    fn to_json(&self, place: PlaceId) -> Value {
        let each = |places: &[PlaceId]| places.iter().map(|place| self.to_json(*place)).collect::<Vec<_>>();
        match &self.places[place as usize] {
            Shape::Unknown => Value::Null,
            Shape::Link(target) => json!({ "place": target }),
            Shape::Leaf(leaf) => json!(leaf.name()),
            Shape::Union(places) => json!({ "union": each(places), "id": place }),
            Shape::Option(content) => json!({ "option": self.to_json(*content) }),
            Shape::Seq(element) => json!({ "seq": self.to_json(*element), "id": place }),
            Shape::Map(key, value) => json!({ "map": [self.to_json(*key), self.to_json(*value)], "id": place }),
            Shape::ByteArray(count) => json!({ "bytes": count }),
            Shape::Tuple(tuple) => json!({ "tuple": tuple.name, "items": each(&tuple.items), "id": place }),
            Shape::Struct(shape) => {
                let fields: Vec<_> =
                    shape.fields.iter().map(|field| json!({ "name": field.name, "shape": self.to_json(field.place) })).collect();
                json!({ "struct": shape.name, "sparse": shape.sparse, "fields": fields, "id": place })
            }
            Shape::Enum(shape) => {
                let variant = |variant: &super::schema::Variant| json!({ "number": variant.number, "name": variant.name, "content": variant.content.map(|content| self.to_json(content)) });
                json!({ "enum": shape.name, "variants": shape.variants.iter().map(variant).collect::<Vec<_>>(), "id": place })
            }
        }
    }
}

impl Schema {
    /// Every version as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.versions.iter().map(|version| json!({ "version": version.number, "shape": version.to_json(0) })).collect()
    }
}
