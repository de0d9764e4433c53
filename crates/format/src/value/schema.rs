//! The schema: for each version a graph of places, and what may stand at each.
//!
//! Owns: the shapes, their bytes and their soundness. Does not own: how they are learned (`learn`) or shown (`text`).
//! Invariants:
//! 1. Place 0 is the whole value; every reference is to a place that exists; a link is never to a link.
//! 2. Without its links, what can be reached from place 0 is a tree no deeper than [`TREE_DEPTH_MAX`].
//! 3. Versions are in ascending order, at least one; the last is the one that is written.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use staunch_types::ErrorKind;

use super::{DEPTH_MAX, PLACES_MAX, VERSIONS_MAX};

/// Version of the bytes that [`Schema::to_bytes`] makes.
const SCHEMA_BYTES_VERSION: u8 = 1;

/// Places from the outermost to the innermost one: each level of a value is at most a union and its alternative.
const TREE_DEPTH_MAX: usize = 2 * (DEPTH_MAX as usize + 1);

/// Number of a place within one version.
pub(super) type PlaceId = u32;
/// A name: borrowed from the program where it was learned from, owned where it was read.
pub(super) type Name = Cow<'static, str>;

/// The shape of all values that an encoder has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    pub(super) versions: Vec<Version>,
}

/// The graph of places by which values with this version's number are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) number: u32,
    pub(super) places: Vec<Shape>,
}

/// What stands at a place. The order of the variants is part of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Shape {
    /// Nothing was seen here yet.
    Unknown,
    /// The same as at another place: a type inside itself.
    Link(PlaceId),
    /// One of several; the bytes begin with the position in this list.
    Union(Vec<PlaceId>),
    Leaf(Leaf),
    Option(PlaceId),
    Seq(PlaceId),
    Map(PlaceId, PlaceId),
    Tuple(Tuple),
    Struct(Struct),
    Enum(Enum),
    /// A tuple or array of this many items, all `u8`.
    ByteArray(u32),
}

/// A part without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Leaf {
    Unit,
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F32,
    F64,
    Char,
    Str,
    Bytes,
}

/// A tuple, an array, or a tuple struct (which has a name).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tuple {
    pub(super) name: Name,
    pub(super) items: Vec<PlaceId>,
}

/// A struct. Dense: exactly these fields in this order. Sparse: each field that is present after its number plus 1, then 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Struct {
    pub(super) name: Name,
    pub(super) sparse: bool,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Field {
    pub(super) name: Name,
    pub(super) place: PlaceId,
}

/// An enum: the variants seen so far, ascending by their number in the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Enum {
    pub(super) name: Name,
    pub(super) variants: Vec<Variant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Variant {
    pub(super) number: u32,
    pub(super) name: Name,
    /// None for a unit variant; a tuple or struct for one with several parts.
    pub(super) content: Option<PlaceId>,
}

impl Shape {
    /// The places this shape is made of.
    pub(super) fn parts(&self) -> Vec<PlaceId> {
        match self {
            Shape::Unknown | Shape::Leaf(_) | Shape::ByteArray(_) => Vec::new(),
            Shape::Link(place) | Shape::Option(place) | Shape::Seq(place) => vec![*place],
            Shape::Map(key, value) => vec![*key, *value],
            Shape::Union(places) => places.clone(),
            Shape::Tuple(tuple) => tuple.items.clone(),
            Shape::Struct(shape) => shape.fields.iter().map(|field| field.place).collect(),
            Shape::Enum(shape) => shape.variants.iter().filter_map(|variant| variant.content).collect(),
        }
    }
}

impl Enum {
    /// The position of a variant by its number in the program, or where it belongs.
    #[inline]
    pub(super) fn find(&self, number: u32) -> Result<usize, usize> {
        match self.variants.get(number as usize) {
            Some(variant) if variant.number == number => Ok(number as usize),
            _ => self.variants.binary_search_by_key(&number, |variant| variant.number),
        }
    }
}

impl Schema {
    /// The version that is written now.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.versions.last().map_or(0, |version| version.number)
    }

    pub(super) fn places_of(&self, number: u32) -> Option<&[Shape]> {
        let at = self.versions.binary_search_by_key(&number, |version| version.number).ok()?;
        Some(&self.versions[at].places)
    }

    /// The schema as bytes, with their version first.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_extend(&self.versions, vec![SCHEMA_BYTES_VERSION]).expect("shapes are plain data, and a Vec takes any number of bytes")
    }

    /// Reads what [`Schema::to_bytes`] made.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are damaged, `Invalid` when a newer version of this program made them.
    pub fn from_bytes(bytes: &[u8]) -> staunch_types::Result<Schema> {
        let damaged = |why: String| {
            staunch_types::Error::new(ErrorKind::Corrupt, "S105", format!("a stored schema is damaged: {why}"))
                .data("nothing was read by it")
                .remedy("keep the files, and restore an older checkpoint")
        };
        let Some((&version, body)) = bytes.split_first() else { return Err(damaged("it is empty".into())) };
        if version != SCHEMA_BYTES_VERSION {
            let what = format!("a stored schema has version {version}; this program reads version {SCHEMA_BYTES_VERSION}");
            return Err(staunch_types::Error::new(ErrorKind::Invalid, "S106", what).remedy("run the program that wrote it, or a newer one"));
        }
        let (versions, rest) = postcard::take_from_bytes::<Vec<Version>>(body).map_err(|error| damaged(error.to_string()))?;
        if !rest.is_empty() {
            return Err(damaged(format!("{} bytes are left over", rest.len())));
        }
        let schema = Schema { versions };
        schema.check().map_err(|why| damaged(why.into()))?;
        Ok(schema)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.versions.is_empty() {
            return Err("it has no version");
        }
        if self.versions.iter().any(|version| version.number > VERSIONS_MAX) || !self.versions.is_sorted_by(|a, b| a.number < b.number) {
            return Err("its versions are not in order");
        }
        self.versions.iter().try_for_each(Version::check)
    }
}

impl Version {
    fn check(&self) -> Result<(), &'static str> {
        if self.places.is_empty() || self.places.len() > PLACES_MAX {
            return Err("the number of its places is out of bounds");
        }
        for shape in &self.places {
            if shape.parts().iter().any(|part| *part as usize >= self.places.len()) {
                return Err("it refers to a place that is not there");
            }
            match shape {
                Shape::Link(target) if matches!(self.places[*target as usize], Shape::Link(_)) => return Err("a link leads to a link"),
                Shape::Enum(shape) if !shape.variants.is_sorted_by(|a, b| a.number < b.number) => return Err("variants are not in order"),
                _ => {}
            }
        }
        self.check_tree()
    }

    fn check_tree(&self) -> Result<(), &'static str> {
        let mut found = vec![false; self.places.len()];
        let mut level = vec![0];
        for _ in 0..TREE_DEPTH_MAX {
            let mut next = Vec::new();
            for place in level {
                if std::mem::replace(&mut found[place as usize], true) {
                    return Err("a place is part of two others");
                }
                match &self.places[place as usize] {
                    Shape::Link(_) => {}
                    shape => next.extend(shape.parts()),
                }
            }
            level = next;
        }
        if level.is_empty() { Ok(()) } else { Err("its places nest too deeply") }
    }
}
