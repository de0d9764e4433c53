//! Whether values of one schema can be read as values of another: the first place where they cannot, or not all of
//! them, such as a number that got narrower.
//!
//! Owns: the comparison and its wording. Does not own: the decision to refuse; the decoder has the last word, because only
//! it knows the defaults and aliases of a type.

use std::collections::BTreeSet;
use std::fmt;

use super::schema::{Enum, Leaf, PlaceId, Schema, Shape, Variant, Version};

/// Pairs of places that are compared at most; whatever is beyond is taken to be in order.
const COMPARISONS_MAX: u32 = 100_000;
/// Levels of places that are compared at most; whatever is beyond is taken to be in order.
const LEVELS_MAX: u32 = 600;

/// The first place where written values do not fit a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    path: String,
    expected: String,
    found: String,
}

impl Difference {
    /// The place, such as `Account.balance`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "value" } else { &self.path };
        write!(f, "{place}: expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for Difference {}

/// Whether values with the schema `written` can be read by the type that has the schema `now`.
///
/// Fields may come, go and move; variants may come and move; numbers may get wider; a value may become an option. What a schema does
/// not show (defaults, aliases, conversions of the type's own) is taken to be in order.
///
/// # Errors
/// The first place where they do not fit.
pub fn compatible(written: &Schema, now: &Schema) -> Result<(), Difference> {
    let Some(now) = now.versions.last() else { return Ok(()) };
    written.versions.iter().try_for_each(|written| {
        let mut left = COMPARISONS_MAX;
        Comparison { written, now, seen: BTreeSet::new(), left: &mut left, level: 0 }.places(0, 0, &name_of(now, 0))
    })
}

fn name_of(version: &Version, place: PlaceId) -> String {
    match &version.places[place as usize] {
        Shape::Struct(shape) => shape.name.to_string(),
        Shape::Enum(shape) => shape.name.to_string(),
        _ => String::new(),
    }
}

fn join(path: &str, step: &str) -> String {
    if path.is_empty() { step.into() } else { format!("{path}.{step}") }
}

struct Comparison<'a> {
    written: &'a Version,
    now: &'a Version,
    /// Pairs that are being or were compared.
    seen: BTreeSet<(PlaceId, PlaceId)>,
    left: &'a mut u32,
    level: u32,
}

impl Comparison<'_> {
    fn places(&mut self, written: PlaceId, now: PlaceId, path: &str) -> Result<(), Difference> {
        if *self.left == 0 || self.level == LEVELS_MAX || !self.seen.insert((written, now)) {
            return Ok(());
        }
        *self.left -= 1;
        self.level += 1;
        let compared = self.shapes(written, now, path);
        self.level -= 1;
        compared
    }

    fn shapes(&mut self, written: PlaceId, now: PlaceId, path: &str) -> Result<(), Difference> {
        let (before, after) = (self.written, self.now);
        let (from, to) = (&before.places[written as usize], &after.places[now as usize]);
        match (from, to) {
            (Shape::Unknown, _) | (_, Shape::Unknown) => Ok(()),
            (Shape::Link(target), _) => self.places(*target, now, path),
            (_, Shape::Link(target)) => self.places(written, *target, path),
            (Shape::Union(alternatives), _) => alternatives.iter().try_for_each(|place| self.places(*place, now, path)),
            (_, Shape::Union(alternatives)) => {
                let fits = alternatives.iter().any(|place| {
                    let mut attempt =
                        Comparison { written: before, now: after, seen: self.seen.clone(), left: self.left, level: self.level };
                    attempt.places(written, *place, path).is_ok()
                });
                if fits { Ok(()) } else { Err(self.difference(written, now, path)) }
            }
            (Shape::Leaf(from), Shape::Leaf(to)) if widens(*from, *to) => Ok(()),
            (Shape::Option(from), Shape::Option(to)) => self.places(*from, *to, path),
            (_, Shape::Option(to)) => self.places(written, *to, path),
            (Shape::ByteArray(from), Shape::ByteArray(to)) if from == to => Ok(()),
            (Shape::Seq(from), Shape::Seq(to)) => self.places(*from, *to, &format!("{path}[]")),
            (Shape::Map(key, value), Shape::Map(key_now, value_now)) => {
                self.places(*key, *key_now, &format!("{path}{{key}}"))?;
                self.places(*value, *value_now, &format!("{path}{{}}"))
            }
            (Shape::Tuple(from), Shape::Tuple(to)) if from.items.len() == to.items.len() => {
                let pairs = from.items.iter().zip(&to.items).enumerate();
                pairs.into_iter().try_for_each(|(index, (from, to))| self.places(*from, *to, &join(path, &index.to_string())))
            }
            (Shape::Struct(from), Shape::Struct(to)) => {
                from.fields.iter().try_for_each(|field| match to.fields.iter().find(|other| other.name == field.name) {
                    Some(other) => self.places(field.place, other.place, &join(path, &field.name)),
                    None => Ok(()),
                })
            }
            (Shape::Enum(from), Shape::Enum(to)) => from.variants.iter().try_for_each(|variant| match same_variant(to, variant) {
                Some(other) => match (variant.content, other.content) {
                    (Some(from), Some(to)) => self.places(from, to, &join(path, &variant.name)),
                    (_, None) => Ok(()),
                    (None, Some(to)) => {
                        Err(Difference { path: join(path, &variant.name), expected: self.text(self.now, to), found: "no content".into() })
                    }
                },
                None => Ok(()),
            }),
            // A type may take its parts in either form.
            (
                Shape::Seq(_) | Shape::Leaf(Leaf::Bytes),
                Shape::Seq(_) | Shape::Tuple(_) | Shape::ByteArray(_) | Shape::Leaf(Leaf::Bytes),
            ) => Ok(()),
            (Shape::Tuple(_) | Shape::ByteArray(_), Shape::Seq(_) | Shape::Leaf(Leaf::Bytes)) => Ok(()),
            (Shape::Tuple(from), Shape::ByteArray(count)) if from.items.len() == *count as usize => Ok(()),
            (Shape::ByteArray(count), Shape::Tuple(to)) if to.items.len() == *count as usize => Ok(()),
            (Shape::Struct(_), Shape::Map(..)) | (Shape::Map(..), Shape::Struct(_)) | (Shape::Leaf(Leaf::Str), Shape::Enum(_)) => Ok(()),
            _ => Err(self.difference(written, now, path)),
        }
    }

    fn difference(&self, written: PlaceId, now: PlaceId, path: &str) -> Difference {
        Difference { path: path.into(), expected: self.text(self.now, now), found: self.text(self.written, written) }
    }

    fn text(&self, version: &Version, place: PlaceId) -> String {
        let mut text = String::new();
        version.write(place, &mut text).expect("a String takes any text");
        text
    }
}

/// The variant of the same name, and of the same number if there are several.
fn same_variant<'a>(to: &'a Enum, variant: &Variant) -> Option<&'a Variant> {
    let same = |other: &&Variant| other.name == variant.name;
    to.variants.iter().filter(same).find(|other| other.number == variant.number).or_else(|| to.variants.iter().find(same))
}

/// Whether every value of one leaf is a value of the other.
fn widens(from: Leaf, to: Leaf) -> bool {
    /// Bits, and whether there is a sign.
    fn integer(leaf: Leaf) -> Option<(u32, bool)> {
        match leaf {
            Leaf::U8 => Some((8, false)),
            Leaf::U16 => Some((16, false)),
            Leaf::U32 => Some((32, false)),
            Leaf::U64 => Some((64, false)),
            Leaf::U128 => Some((128, false)),
            Leaf::I8 => Some((8, true)),
            Leaf::I16 => Some((16, true)),
            Leaf::I32 => Some((32, true)),
            Leaf::I64 => Some((64, true)),
            Leaf::I128 => Some((128, true)),
            Leaf::Unit | Leaf::Bool | Leaf::F32 | Leaf::F64 | Leaf::Char | Leaf::Str | Leaf::Bytes => None,
        }
    }
    match (integer(from), integer(to)) {
        (Some((bits, signed)), Some((bits_now, signed_now))) if signed == signed_now => bits <= bits_now,
        (Some((bits, false)), Some((bits_now, true))) => bits < bits_now,
        (Some((bits, _)), None) => bits <= 32 && to == Leaf::F64 || bits <= 16 && to == Leaf::F32,
        _ => from == to || matches!((from, to), (Leaf::F32, Leaf::F64) | (Leaf::Char | Leaf::Bytes, Leaf::Str) | (Leaf::Str, Leaf::Bytes)),
    }
}
