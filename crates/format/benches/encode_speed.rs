//! Prints what encoding, decoding and block writing cost per value. `cargo bench -p staunch-format`
//!
//! Owns: the measurement. Asserts nothing: a shared machine is no stopwatch.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement reads the clock")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use staunch_format::block::{BlockReader, BlockWriter};
use staunch_format::value::{Decoder, Encoder};
use staunch_types::{KeyGroup, KeyGroupRange};

#[derive(Clone, Serialize, Deserialize)]
struct Two {
    first: u64,
    second: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Listed {
    id: u64,
    bytes: Vec<u8>,
}

#[derive(Clone, Serialize)]
struct Raw<'a> {
    id: u64,
    bytes: Bytes<'a>,
}

#[derive(Clone)]
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Rich {
    id: u64,
    name: String,
    kind: Kind,
    last: Option<i64>,
    tags: Vec<u32>,
    counts: BTreeMap<u16, u64>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Kind {
    Open,
    Moved { to: u32 },
}

const VALUES: usize = 1_000;
const ROUNDS: usize = 2_000;
const REPEATS: usize = 5;

fn best(mut run: impl FnMut()) -> f64 {
    let mut least = Duration::MAX;
    for _ in 0..REPEATS {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| run());
        least = least.min(start.elapsed());
    }
    least.as_secs_f64() * 1e9 / (ROUNDS * VALUES) as f64
}

fn encode<T: Serialize>(name: &str, make: impl Fn(u64) -> T) -> (Encoder, Vec<u8>) {
    let values: Vec<T> = (0..VALUES as u64).map(make).collect();
    let mut encoder = Encoder::new();
    let mut out = Vec::new();
    let nanos = best(|| {
        out.clear();
        for value in &values {
            encoder.encode(black_box(value), &mut out).expect("encodes");
        }
        black_box(&out);
    });
    println!("encode {name}: {nanos:.1} ns, {} bytes", out.len() / VALUES);
    (encoder, out)
}

fn both<T: Serialize + for<'de> Deserialize<'de>>(name: &str, make: impl Fn(u64) -> T) {
    let (encoder, bytes) = encode(name, make);
    let decoder = Decoder::new(&encoder.schema());
    let nanos = best(|| {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (value, after) = decoder.decode_prefix::<T>(rest).expect("decodes");
            black_box(value);
            rest = after;
        }
    });
    println!("decode {name}: {nanos:.1} ns");
}

fn block() {
    let values: Vec<Two> = (0..VALUES as u64).map(|n| Two { first: n, second: n }).collect();
    let (mut keys, mut encoder) = (Encoder::new(), Encoder::new());
    let mut writer = BlockWriter::new("total", KeyGroupRange { start: 0, end: 128 });
    let mut block = Vec::new();
    let nanos = best(|| {
        for (index, value) in values.iter().enumerate() {
            let group = KeyGroup((index * 37 % 128) as u16);
            writer.put(group, 60_000, |out| keys.encode(&value.first, out), |out| encoder.encode(black_box(value), out)).expect("encodes");
        }
        block = writer.finish(&keys.schema(), &encoder.schema());
    });
    println!("block of 1000 puts of u64 -> 2 u64, with encoding and finish: {nanos:.1} ns an entry, {} bytes", block.len() / VALUES);
    let nanos = best(|| {
        let reader = BlockReader::open(&block).expect("whole");
        black_box(reader.entries(KeyGroupRange { start: 0, end: 128 }).filter(|entry| entry.is_ok()).count());
    });
    println!("read it without decoding: {nanos:.1} ns an entry");
}

fn main() {
    both("u64", |n| n);
    both("{u64, u64}", |n| Two { first: n, second: n });
    both("{u64, Vec<u8> of 88}", |n| Listed { id: n, bytes: vec![n as u8; 88] });
    let bytes = [7; 88];
    encode("{u64, 88 bytes by serialize_bytes}", |n| Raw { id: n, bytes: Bytes(&bytes) });
    both("[u8; 32]", |n| [n as u8; 32]);
    both("(u64, [u8; 16])", |n| (n, [n as u8; 16]));
    both("String of 12", |n| format!("key-{n:08}"));
    both("Vec<u64> of 10", |n| vec![n; 10]);
    both("rich struct", |n| Rich {
        id: n,
        name: "customer".into(),
        kind: if n % 2 == 0 { Kind::Open } else { Kind::Moved { to: 5 } },
        last: Some(-1),
        tags: vec![1, 2, 3],
        counts: [(1, n), (2, n)].into(),
    });
    both("json", |n| serde_json::json!({"id": n, "name": "customer", "list": [1, 2.5, null]}));
    block();
}
