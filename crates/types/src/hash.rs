//! The one hash of keys: it decides the key group, so it is frozen for ever.
//!
//! A key is hashed through `serde`: the value's own `Serialize` walks it and each token is folded into 64 bits. So the
//! hash does not depend on the width of an integer (a `u32` may become a `u64`), on names of fields, or on the machine.
//!
//! Rules, version 1:
//! - unsigned integers, `bool` and `char` fold their value as 64 bits; signed ones the two's complement of 64 bits, so that
//!   equal values of both signs hash equal; 128-bit ones that fit 64 bits fold as such, others as two halves and a mark;
//! - floats fold their IEEE bits as `f64`, with -0.0 as 0.0 and every NaN as one;
//! - text and bytes fold their XXH3-64, then their length;
//! - `None` and unit fold a mark; `Some` and newtypes are transparent after a mark for `Some`;
//! - enum variants fold their index, then the content; structs and tuples fold their parts in order; sequences and maps
//!   fold their parts, then the count.
//!
//! Follows: the folded 64x64->128 multiplication of wyhash/rapidhash as mixing step; XXH3 for text.

use serde::ser::{self, Serialize};
use serde::{Deserialize, Deserializer, Serializer};

/// The frozen hash of a key.
///
/// # Panics
/// When the key's `Serialize` reports an error or a map or sequence without end; a key type must serialise.
#[inline]
pub fn stable_hash<K: Serialize + ?Sized>(key: &K) -> u64 {
    let mut hasher = StableHasher::new();
    if key.serialize(&mut hasher).is_err() {
        panic!("a key must be serialisable: its Serialize implementation returned an error");
    }
    hasher.finish()
}

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
const STEP: u64 = 0xD6E8_FEB8_6659_FD93;
const LAST: u64 = 0xA076_1D64_78BD_642F;
const NONE: u64 = 0x6E6F_6E65;
const SOME: u64 = 0x736F_6D65;
const WIDE: u64 = 0x7769_6465;
const NAN: u64 = 0x7FF8_0000_0000_0000;

/// Folds tokens into the frozen hash; a `serde` serialiser.
pub struct StableHasher(u64);

impl StableHasher {
    /// A hasher that has seen nothing.
    #[inline]
    #[must_use]
    pub fn new() -> StableHasher {
        StableHasher(SEED)
    }

    /// The hash of what was folded in.
    #[inline]
    #[must_use]
    pub fn finish(&self) -> u64 {
        fold(self.0 ^ LAST, STEP)
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, STEP).wrapping_add(SEED);
    }

    #[inline]
    fn text(&mut self, bytes: &[u8]) {
        self.word(xxhash_rust::xxh3::xxh3_64(bytes));
        self.word(bytes.len() as u64);
    }
}

impl Default for StableHasher {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// A float as a key: -0.0 equals 0.0, every NaN equals every NaN, so that equality, hashing, shuffling and restoring
/// follow one rule.
#[derive(Clone, Copy, Debug)]
pub struct FloatKey(f64);

impl FloatKey {
    /// Wraps a float, giving -0.0 and NaN their one form.
    #[must_use]
    pub fn new(value: f64) -> FloatKey {
        FloatKey(if value.is_nan() {
            f64::from_bits(NAN)
        } else if value == 0.0 {
            0.0
        } else {
            value
        })
    }

    /// The float.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<f64> for FloatKey {
    fn from(value: f64) -> FloatKey {
        FloatKey::new(value)
    }
}

impl PartialEq for FloatKey {
    fn eq(&self, other: &FloatKey) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for FloatKey {}

impl std::hash::Hash for FloatKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl PartialOrd for FloatKey {
    fn partial_cmp(&self, other: &FloatKey) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FloatKey {
    fn cmp(&self, other: &FloatKey) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Serialize for FloatKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for FloatKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FloatKey, D::Error> {
        f64::deserialize(deserializer).map(FloatKey::new)
    }
}

/// Only a `Serialize` implementation of the user's own can raise it.
#[derive(Debug)]
pub struct HashError;

impl std::fmt::Display for HashError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the key could not be hashed")
    }
}

impl std::error::Error for HashError {}

impl ser::Error for HashError {
    fn custom<T: std::fmt::Display>(_: T) -> HashError {
        HashError
    }
}

/// Parts of a compound value; counts them where the count belongs to the hash.
pub struct Parts<'a> {
    hasher: &'a mut StableHasher,
    counted: bool,
    count: u64,
}

impl Parts<'_> {
    #[inline]
    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), HashError> {
        self.count += 1;
        value.serialize(&mut *self.hasher)
    }

    #[inline]
    fn close(self) {
        if self.counted {
            self.hasher.word(self.count);
        }
    }
}

macro_rules! words {
    ($($method:ident $type:ty),*) => {$(
        #[inline]
        fn $method(self, value: $type) -> Result<(), HashError> {
            self.word(value as u64);
            Ok(())
        }
    )*};
}

impl<'a> Serializer for &'a mut StableHasher {
    type Ok = ();
    type Error = HashError;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    words!(serialize_bool bool, serialize_char char, serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64);

    #[inline]
    fn serialize_i8(self, value: i8) -> Result<(), HashError> {
        self.serialize_i64(i64::from(value))
    }

    #[inline]
    fn serialize_i16(self, value: i16) -> Result<(), HashError> {
        self.serialize_i64(i64::from(value))
    }

    #[inline]
    fn serialize_i32(self, value: i32) -> Result<(), HashError> {
        self.serialize_i64(i64::from(value))
    }

    #[inline]
    fn serialize_i64(self, value: i64) -> Result<(), HashError> {
        self.word(value as u64);
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), HashError> {
        if let Ok(small) = i64::try_from(value) {
            return self.serialize_i64(small);
        }
        self.serialize_u128(value as u128)
    }

    fn serialize_u128(self, value: u128) -> Result<(), HashError> {
        self.word(value as u64);
        if value > u128::from(u64::MAX) {
            self.word((value >> 64) as u64);
            self.word(WIDE);
        }
        Ok(())
    }

    #[inline]
    fn serialize_f32(self, value: f32) -> Result<(), HashError> {
        self.serialize_f64(f64::from(value))
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Result<(), HashError> {
        self.word(FloatKey::new(value).get().to_bits());
        Ok(())
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), HashError> {
        self.text(value.as_bytes());
        Ok(())
    }

    #[inline]
    fn serialize_bytes(self, value: &[u8]) -> Result<(), HashError> {
        self.text(value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), HashError> {
        self.word(NONE);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), HashError> {
        self.word(SOME);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), HashError> {
        self.word(NONE);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), HashError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Result<(), HashError> {
        self.word(u64::from(index));
        Ok(())
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), HashError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), HashError> {
        self.word(u64::from(index));
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a>, HashError> {
        Ok(Parts { hasher: self, counted: true, count: 0 })
    }

    #[inline]
    fn serialize_tuple(self, _: usize) -> Result<Parts<'a>, HashError> {
        Ok(Parts { hasher: self, counted: false, count: 0 })
    }

    #[inline]
    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Parts<'a>, HashError> {
        self.serialize_tuple(length)
    }

    fn serialize_tuple_variant(self, _: &'static str, index: u32, _: &'static str, length: usize) -> Result<Parts<'a>, HashError> {
        self.word(u64::from(index));
        self.serialize_tuple(length)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Parts<'a>, HashError> {
        self.serialize_seq(length)
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Parts<'a>, HashError> {
        self.serialize_tuple(length)
    }

    fn serialize_struct_variant(self, _: &'static str, index: u32, _: &'static str, length: usize) -> Result<Parts<'a>, HashError> {
        self.word(u64::from(index));
        self.serialize_tuple(length)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! parts {
    ($($trait:ident $method:ident),*) => {$(
        impl ser::$trait for Parts<'_> {
            type Ok = ();
            type Error = HashError;
            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), HashError> {
                self.part(value)
            }
            #[inline]
            fn end(self) -> Result<(), HashError> {
                self.close();
                Ok(())
            }
        }
    )*};
}
parts!(SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field);

macro_rules! fields {
    ($($trait:ident),*) => {$(
        impl ser::$trait for Parts<'_> {
            type Ok = ();
            type Error = HashError;
            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), HashError> {
                self.part(value)
            }
            #[inline]
            fn end(self) -> Result<(), HashError> {
                self.close();
                Ok(())
            }
        }
    )*};
}
fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = HashError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), HashError> {
        self.part(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), HashError> {
        value.serialize(&mut *self.hasher)
    }
    fn end(self) -> Result<(), HashError> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_frozen() {
        let vectors: Vec<(u64, u64)> = vec![
            (stable_hash(&0u64), 0x005F_613E_511B_F653),
            (stable_hash(&1u64), 0xAD5E_527E_ED78_97FC),
            (stable_hash(&u64::MAX), 0x6B69_5019_4F42_2A90),
            (stable_hash("EWR"), 0xE497_A03F_248F_C217),
            (stable_hash(""), 0x9D0E_BEAB_FC19_8836),
            (stable_hash(&("a", 7u32)), 0x257C_BC22_01A8_7A4C),
            (stable_hash(&1.5f64), 0xEE97_CCED_4B00_C0B6),
            (stable_hash(&Some(3i32)), 0x7F66_1CF7_E49D_B3D4),
            (stable_hash(&None::<i32>), 0x9B6F_508D_9FCE_5CF0),
            (stable_hash(&vec![1u8, 2, 3]), 0xC42F_C053_4EFF_32E2),
            (stable_hash(&(u128::MAX)), 0x9D86_9835_B632_1B95),
        ];
        for (at, (found, expected)) in vectors.iter().enumerate() {
            assert_eq!(found, expected, "vector {at}: {found:#018x}");
        }
    }

    #[test]
    fn the_width_of_an_integer_does_not_matter() {
        assert_eq!(stable_hash(&7u8), stable_hash(&7u64));
        assert_eq!(stable_hash(&7u32), stable_hash(&7i64));
        assert_eq!(stable_hash(&-7i8), stable_hash(&-7i64));
        assert_eq!(stable_hash(&-7i64), stable_hash(&-7i128));
        assert_eq!(stable_hash(&7u128), stable_hash(&7u8));
    }

    #[test]
    fn floats_have_one_rule_for_zero_and_nan() {
        let nan = f64::from_bits(0x7FF8_0000_0000_0001);
        let payload = f64::from_bits(0xFFF8_1234_0000_0001);
        assert_eq!(stable_hash(&0.0f64), stable_hash(&-0.0f64));
        assert_eq!(stable_hash(&nan), stable_hash(&payload));
        assert_eq!(FloatKey::new(nan), FloatKey::new(payload));
        assert_eq!(FloatKey::new(0.0), FloatKey::new(-0.0));
        assert_eq!(stable_hash(&1.5f32), stable_hash(&FloatKey::new(1.5)));
    }

    #[test]
    fn texts_that_differ_in_where_they_are_cut_differ() {
        assert_ne!(stable_hash(&("ab", "c")), stable_hash(&("a", "bc")));
        assert_ne!(stable_hash(&vec![1u64]), stable_hash(&vec![1u64, 1]));
    }

    #[test]
    fn small_integers_spread_over_all_bits() {
        let mut low = [0u32; 256];
        let mut middle = [0u32; 256];
        for i in 0..65_536u64 {
            let hash = stable_hash(&i);
            low[(hash & 255) as usize] += 1;
            middle[((hash >> 40) & 255) as usize] += 1;
        }
        for count in low.iter().chain(&middle) {
            assert!((150..=370).contains(count), "{count}");
        }
    }
}
