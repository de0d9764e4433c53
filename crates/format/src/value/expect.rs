//! What a type expects to read, found out by letting it read made-up values.
//!
//! Owns: the made-up values, and the schema learned from what the type asks for. Does not own: the comparison (`difference`).
//! Serves a check before a job starts: the type is known then, but none of its values.
//!
//! The type's own `Deserialize` is run several times, until each of its enums has been every variant. A type that refuses a made-up value (a
//! date, a number that must not be 0) gets others in the next runs, and other fields first; what stays unseen stays unknown
//! in the schema, which fits everything. So the result may say too little, but it says nothing the type did not ask for.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, Visitor};

use super::learn::{Head, Interrupt, Learner};
use super::schema::{Leaf, PlaceId, Schema, Shape};

/// Runs at most.
const RUNS_MAX: usize = 256;
/// Levels below which options are none, lists are empty and enums fail.
const LEVELS_MAX: u32 = 24;
/// Made-up texts: what common types accept.
const TEXTS: [&str; 7] = ["", "a", "0", "127.0.0.1", "127.0.0.1:1", "1970-01-01T00:00:00Z", "00000000-0000-0000-0000-000000000000"];

impl Schema {
    /// The schema of what a type asks for when it is read; parts that cannot be found out are unknown, and fit everything.
    ///
    /// # Panics
    /// When the type's own `Deserialize` does.
    #[must_use]
    pub fn expected<T: DeserializeOwned>() -> Schema {
        let mut trace = Trace { learner: Learner::new(), turns: BTreeMap::new(), aliases: BTreeMap::new(), failures: 0 };
        for _ in 0..RUNS_MAX {
            let run = T::deserialize(Probe { trace: &mut trace, place: 0, level: 0 });
            match run {
                Ok(_) if trace.turns.values().all(|turns| turns.taken >= turns.of) => break,
                Ok(_) => {}
                Err(_) => trace.failures += 1,
            }
        }
        trace.name_aliases();
        trace.learner.schema()
    }
}

/// What all runs have found out.
struct Trace {
    learner: Learner,
    /// For each enum, the variants that were tried.
    turns: BTreeMap<PlaceId, Turns>,
    /// Fields that are other names of a field, by the places of both.
    aliases: BTreeMap<PlaceId, PlaceId>,
    failures: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    taken: usize,
    of: usize,
    /// How often the enum was begun.
    begun: usize,
    /// How often it is being read now, one inside the other.
    open: usize,
    /// A variant that does not come back to the enum.
    last: Option<usize>,
}

impl Trace {
    /// The variant whose turn it is; inside the enum itself one that comes to an end.
    fn next_variant(&mut self, place: PlaceId, count: usize) -> usize {
        let turns = self.turns.entry(place).or_default();
        turns.of = count;
        turns.begun += 1;
        match turns.last {
            Some(last) if turns.open > 0 => last,
            _ => {
                turns.taken += 1;
                (turns.taken - 1) % count
            }
        }
    }

    /// Gives other names of a field the field's shape.
    fn name_aliases(&mut self) {
        let places = &mut self.learner.places;
        for (alias, field) in &self.aliases {
            places[*alias as usize] = match &places[*field as usize] {
                shape @ (Shape::Link(_) | Shape::Leaf(_) | Shape::Unknown) => shape.clone(),
                _ => Shape::Link(*field),
            };
        }
    }
}

/// Why a run ends early.
#[derive(Debug)]
enum Refused {
    /// The field of this name was given before, by this name or another.
    Again(&'static str),
    Other,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the made-up value was refused")
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(_message: T) -> Refused {
        Refused::Other
    }

    fn duplicate_field(field: &'static str) -> Refused {
        Refused::Again(field)
    }
}

impl From<Interrupt> for Refused {
    fn from(_: Interrupt) -> Refused {
        Refused::Other
    }
}

/// One part of a made-up value.
struct Probe<'t> {
    trace: &'t mut Trace,
    place: PlaceId,
    level: u32,
}

impl<'t> Probe<'t> {
    fn settle(&mut self, head: Head) -> Result<PlaceId, Refused> {
        Ok(self.trace.learner.settle(self.place, head, &mut Vec::new())?)
    }

    fn part(&mut self, place: PlaceId) -> Probe<'_> {
        Probe { trace: self.trace, place, level: self.level + 1 }
    }

    fn is_deep(&self) -> bool {
        self.level >= LEVELS_MAX
    }

    fn text(&self) -> &'static str {
        TEXTS[self.trace.failures % TEXTS.len()]
    }

    fn number(&self) -> u8 {
        (self.trace.failures % 2) as u8
    }

    fn tuple<'de, V: Visitor<'de>>(mut self, name: &'static str, count: usize, visitor: V) -> Result<V::Value, Refused> {
        let place = self.settle(Head::Tuple { name, count })?;
        let items = match &self.trace.learner.places[place as usize] {
            Shape::Tuple(tuple) => tuple.items.clone(),
            other => unreachable!("a tuple was settled, not {other:?}"),
        };
        visitor.visit_seq(Items { probe: self, items: items.into_iter() })
    }

    fn fields<'de, V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let place = self.settle(Head::Struct { name })?;
        let mut known = Vec::new();
        for field in fields {
            known.push((*field, self.trace.learner.known_field(place, field)?));
        }
        let all = known.clone();
        known.rotate_left(self.trace.failures % fields.len().max(1));
        known.retain(|(_, field)| !self.trace.aliases.contains_key(field));
        let mut given = None;
        let read = visitor.visit_map(Fields { probe: self.part(place), fields: known.into_iter(), given: &mut given });
        if let (Err(Refused::Again(name)), Some(alias)) = (&read, given)
            && let Some((_, field)) = all.iter().find(|(other, field)| other == name && *field != alias)
        {
            self.trace.aliases.insert(alias, *field);
        }
        read
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty => $leaf:ident,)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
            self.settle(Head::Leaf(Leaf::$leaf))?;
            visitor.$visit(<$type>::from(self.number()))
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Refused;

    numbers! {
        deserialize_i16 visit_i16 i16 => I16, deserialize_i32 visit_i32 i32 => I32, deserialize_i64 visit_i64 i64 => I64,
        deserialize_i128 visit_i128 i128 => I128, deserialize_u8 visit_u8 u8 => U8, deserialize_u16 visit_u16 u16 => U16,
        deserialize_u32 visit_u32 u32 => U32, deserialize_u64 visit_u64 u64 => U64, deserialize_u128 visit_u128 u128 => U128,
        deserialize_f32 visit_f32 f32 => F32, deserialize_f64 visit_f64 f64 => F64, deserialize_char visit_char char => Char,
    }

    fn deserialize_i8<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.settle(Head::Leaf(Leaf::I8))?;
        visitor.visit_i8(self.number() as i8)
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.settle(Head::Leaf(Leaf::Bool))?;
        visitor.visit_bool(self.number() == 1)
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.settle(Head::Leaf(Leaf::Str))?;
        visitor.visit_borrowed_str(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.settle(Head::Leaf(Leaf::Bytes))?;
        visitor.visit_borrowed_bytes(self.text().as_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.settle(Head::Leaf(Leaf::Unit))?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let place = self.settle(Head::Option)?;
        let parts = self.trace.learner.places[place as usize].parts();
        match parts.first() {
            Some(content) if !self.is_deep() => visitor.visit_some(self.part(*content)),
            _ => visitor.visit_none(),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let place = self.settle(Head::Seq)?;
        let mut items = self.trace.learner.places[place as usize].parts();
        if self.is_deep() {
            items.clear();
        }
        visitor.visit_seq(Items { probe: self, items: items.into_iter() })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Refused> {
        self.tuple("", count, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, name: &'static str, count: usize, visitor: V) -> Result<V::Value, Refused> {
        self.tuple(name, count, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let place = self.settle(Head::Map)?;
        let mut parts = self.trace.learner.places[place as usize].parts();
        if self.is_deep() {
            parts.clear();
        }
        visitor.visit_map(Entry { probe: self, parts: parts.into_iter() })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.fields(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        // No variant has this number, so the enum is found by its name alone.
        let place = self.settle(Head::Variant { name, number: u32::MAX, variant: "", has_content: false })?;
        if variants.is_empty() || self.is_deep() {
            return Err(Refused::Other);
        }
        let number = self.trace.next_variant(place, variants.len());
        visitor.visit_enum(Chosen { probe: Probe { place, ..self }, number: number as u32, variant: variants[number] })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_borrowed_str(self.text())
    }
}

struct Items<'t> {
    probe: Probe<'t>,
    items: std::vec::IntoIter<PlaceId>,
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        self.items.next().map(|item| seed.deserialize(self.probe.part(item))).transpose()
    }
}

/// One entry of a map: the places of its key and value.
struct Entry<'t> {
    probe: Probe<'t>,
    parts: std::vec::IntoIter<PlaceId>,
}

impl<'de> de::MapAccess<'de> for Entry<'_> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        self.parts.next().map(|key| seed.deserialize(self.probe.part(key))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        let value = self.parts.next().ok_or(Refused::Other)?;
        seed.deserialize(self.probe.part(value))
    }
}

struct Fields<'t, 'g> {
    probe: Probe<'t>,
    fields: std::vec::IntoIter<(&'static str, PlaceId)>,
    /// The place of the field given last.
    given: &'g mut Option<PlaceId>,
}

impl<'de> de::MapAccess<'de> for Fields<'_, '_> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        let Some((field, place)) = self.fields.next() else { return Ok(None) };
        *self.given = Some(place);
        seed.deserialize(StrDeserializer::new(field)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        let place = self.given.ok_or(Refused::Other)?;
        // A duplicate further in is not this struct's.
        seed.deserialize(self.probe.part(place)).map_err(|_| Refused::Other)
    }
}

struct Chosen<'t> {
    probe: Probe<'t>,
    number: u32,
    variant: &'static str,
}

impl Chosen<'_> {
    /// Reads the content of the variant, and notes whether that comes back to the enum.
    fn content<T>(mut self, read: impl FnOnce(Probe<'_>) -> Result<T, Refused>) -> Result<T, Refused> {
        let enum_place = self.probe.place;
        let number = self.number;
        let learned = self.probe.trace.learner.variant(enum_place, number, self.variant, true)?;
        let content = learned.ok_or(Refused::Other)?;
        let before = self.turns().begun;
        self.turns().open += 1;
        let done = read(self.probe.part(content));
        let turns = self.turns();
        turns.open -= 1;
        if done.is_ok() && turns.begun == before {
            turns.last = Some(number as usize);
        }
        done
    }

    fn turns(&mut self) -> &mut Turns {
        self.probe.trace.turns.entry(self.probe.place).or_default()
    }
}

impl<'de, 't> de::EnumAccess<'de> for Chosen<'t> {
    type Error = Refused;
    type Variant = Chosen<'t>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Chosen<'t>), Refused> {
        Ok((seed.deserialize(StrDeserializer::<Refused>::new(self.variant))?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Chosen<'_> {
    type Error = Refused;

    fn unit_variant(mut self) -> Result<(), Refused> {
        self.probe.trace.learner.variant(self.probe.place, self.number, self.variant, false)?;
        self.turns().last = Some(self.number as usize);
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refused> {
        self.content(|content| seed.deserialize(content))
    }

    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Refused> {
        let name = self.variant;
        self.content(|content| content.tuple(name, count, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        let name = self.variant;
        self.content(|content| content.fields(name, fields, visitor))
    }
}
