//! Records: number n is the same as in the plain loop and in the Flink programs.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize};
use staunch_types::Timestamp;

/// Event time of record 0.
pub(crate) const BASE_MS: u64 = 1_700_000_000_000;
const CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];

/// The finaliser of splitmix64.
#[inline(always)]
pub(crate) fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A Nexmark-like bid; texts come from pools, by reference.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Bid {
    pub(crate) auction: u64,
    pub(crate) bidder: u64,
    pub(crate) price: u64,
    #[serde(deserialize_with = "leaked")]
    pub(crate) channel: &'static str,
    #[serde(deserialize_with = "leaked")]
    pub(crate) url: &'static str,
    pub(crate) date_time: u64,
    #[serde(deserialize_with = "leaked")]
    pub(crate) extra: &'static str,
}

fn leaked<'de, D: Deserializer<'de>>(from: D) -> Result<&'static str, D::Error> {
    String::deserialize(from).map(|s| &*s.leak())
}

impl Bid {
    /// Reads every field, so that the compiler cannot drop the making of the record.
    #[inline(always)]
    pub(crate) fn read(&self) -> u64 {
        let texts = (self.channel.len() + self.url.len() + self.extra.len()) as u64;
        self.auction + self.bidder + self.price + self.date_time + texts
    }

    /// Its event time.
    #[inline(always)]
    pub(crate) fn time(&self) -> Timestamp {
        Timestamp(self.date_time as i64)
    }
}

/// Makes records.
#[derive(Clone, Copy)]
pub(crate) struct Generator {
    pub(crate) keys: u64,
    /// Records that go through all keys in order first.
    pub(crate) populate: u64,
    /// Records per second of event time.
    pub(crate) event_rate: u64,
    urls: &'static [&'static str],
    extras: &'static [&'static str],
}

static URLS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| (0..1024).map(|i| &*format!("https://www.example.com/item.htm?query=1&id={}", 1_000_000 + i).leak()).collect());
static EXTRAS: LazyLock<Vec<&'static str>> = LazyLock::new(|| (0..1024).map(extra).collect());

fn extra(number: u64) -> &'static str {
    let mut text = String::new();
    let mut z = mix(number + 7_777_777);
    for at in 0..100u64 {
        if at % 12 == 0 {
            z = mix(z);
        }
        text.push((b'a' + (((z >> (5 * (at % 12))) & 31) % 26) as u8) as char);
    }
    text.leak()
}

impl Generator {
    pub(crate) fn new(keys: u64, populate: u64, event_rate: u64) -> Generator {
        Generator { keys, populate, event_rate, urls: &URLS, extras: &EXTRAS }
    }

    #[inline(always)]
    pub(crate) fn make(&self, seq: u64) -> Bid {
        let z = mix(seq);
        Bid {
            auction: if seq < self.populate { seq } else { ((z >> 32) * self.keys) >> 32 },
            bidder: seq / 50 + (z & 1023),
            price: 1 + ((z >> 20) & 0xF_FFFF),
            channel: CHANNELS[(z & 3) as usize],
            url: self.urls[((z >> 2) & 1023) as usize],
            date_time: BASE_MS + seq * 1000 / self.event_rate,
            extra: self.extras[((z >> 12) & 1023) as usize],
        }
    }
}

impl crate::source::Make<Bid> for Generator {
    #[inline(always)]
    fn make(&self, seq: u64, _due: u64) -> Bid {
        Generator::make(self, seq)
    }
}
