//! Input for the examples: the same seed gives the same messages.
//!
//! Owns: what the world would send. Does not own: the sending (`bin/generate`).
//!
//! Messages come in parts, each of some minutes of event time: part 1 goes on where part 0 ends. Within a part they come out of order, as
//! they do when many machines send. One in 500 is malformed.

use serde::{Deserialize, Serialize};
use serde_json::json;
use staunch::prelude::*;

use crate::clicks::Click;
use crate::payments::Payment;

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
/// Longest way of a message from where it was made.
const DELAY_MS_MAX: u64 = 40_000;
/// One message of so many is malformed.
const MALFORMED: u64 = 500;

/// Event time of one part of payments.
const PAYMENTS_PART_MS: i64 = 10 * MINUTE_MS;
const ACCOUNTS: u64 = 3_000;
/// One charge of so many comes twice.
const COPIES: u64 = 50;
/// Longest time from a charge to its copy.
const COPY_MS_MAX: u64 = 100_000;
/// One charge of so many comes an hour late.
const LATE: u64 = 300;
/// One charge of so many is the first of many in a short time.
const BURSTS: u64 = 400;
const BURST_CHARGES: u64 = 8;
/// One charge of so many is large.
const LARGE: u64 = 700;

/// Event time of one part of clicks.
const CLICKS_PART_MS: i64 = 30 * MINUTE_MS;
const USERS: u64 = 2_000;
const PAGES: u64 = 40;
const VISIT_CLICKS_MAX: u64 = 12;

/// A message as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Which messages are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Another seed gives other messages.
    pub seed: u64,
    /// Which stretch of event time; the first is 0.
    pub part: u64,
    /// How many charges or clicks are in it.
    pub records: u64,
    /// Where part 0 begins. Brokers delete messages by their time, often after a week, and refuse those of tomorrow.
    pub begin: Timestamp,
}

/// A sequence of numbers without a pattern (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn of(wanted: Wanted) -> Numbers {
        Numbers(wanted.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ wanted.part)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below a bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Messages with the times at which they arrive.
struct Arriving(Vec<(i64, Sent)>);

impl Arriving {
    fn push(&mut self, at: i64, key: &str, value: String) {
        self.0.push((at, Sent { key: key.to_owned(), value }));
    }

    fn in_order(mut self) -> Vec<Sent> {
        self.0.sort_by_key(|(at, _)| *at);
        self.0.into_iter().map(|(_, sent)| sent).collect()
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers are JSON")
}

/// A part of the payments, with so many charges: some come twice, some an hour late, some accounts spend much in a minute.
#[must_use]
pub fn payments(wanted: Wanted) -> Vec<Sent> {
    let (mut numbers, mut arriving) = (Numbers::of(wanted), Arriving(Vec::new()));
    let Wanted { part, records: charges, .. } = wanted;
    let begin = wanted.begin.0 + part as i64 * PAYMENTS_PART_MS;
    let mut burst: Option<(String, i64, u64)> = None;
    for charge in 0..charges {
        let made = begin + charge as i64 * PAYMENTS_PART_MS / charges as i64;
        let (account, at) = match burst.take() {
            Some((account, at, left)) => {
                burst = (left > 1).then(|| (account.clone(), at + SECOND_MS, left - 1));
                (account, at)
            }
            None => {
                let account = format!("account-{}", numbers.below(ACCOUNTS));
                if numbers.one_in(BURSTS) {
                    burst = Some((account.clone(), made + SECOND_MS, BURST_CHARGES - 1));
                }
                (account, made)
            }
        };
        let at = if numbers.one_in(LATE) { at - 60 * MINUTE_MS } else { at };
        let cents = if numbers.one_in(LARGE) { 120_000 } else { 100 + numbers.below(15_000) as i64 };
        let merchant = format!("merchant-{}", numbers.below(100));
        let payment = Payment { charge: format!("charge-{part}-{charge}"), account, merchant, cents, at: Timestamp(at) };
        let arrives = made + numbers.below(DELAY_MS_MAX) as i64;
        arriving.push(arrives, &payment.account, json(&payment));
        if numbers.one_in(COPIES) {
            arriving.push(arrives + numbers.below(COPY_MS_MAX) as i64, &payment.account, json(&payment));
        }
        if numbers.one_in(MALFORMED) {
            arriving.push(arrives, &payment.account, malformed(&mut numbers, &json(&payment)));
        }
    }
    arriving.in_order()
}

/// A part of the clicks, with so many of them, in visits.
#[must_use]
pub fn clicks(wanted: Wanted) -> Vec<Sent> {
    let (mut numbers, mut arriving) = (Numbers::of(wanted), Arriving(Vec::new()));
    let begin = wanted.begin.0 + wanted.part as i64 * CLICKS_PART_MS;
    let mut left = wanted.records;
    while left > 0 {
        let user = format!("user-{}", numbers.below(USERS));
        let mut at = begin + numbers.below(CLICKS_PART_MS as u64) as i64;
        for _ in 0..=numbers.below(VISIT_CLICKS_MAX) {
            if left == 0 || at >= begin + CLICKS_PART_MS {
                break;
            }
            left -= 1;
            // The smaller of two numbers: some pages are liked more than others.
            let page = numbers.below(PAGES).min(numbers.below(PAGES));
            let click = Click { user: user.clone(), page: format!("/page/{page}"), at: Timestamp(at) };
            let arrives = at + numbers.below(DELAY_MS_MAX) as i64;
            arriving.push(arrives, &user, json(&click));
            if numbers.one_in(MALFORMED) {
                arriving.push(arrives, &user, malformed(&mut numbers, &json(&click)));
            }
            at += (1 + numbers.below(90)) as i64 * SECOND_MS;
        }
    }
    arriving.in_order()
}

/// What is no record: cut off, of another form, or no JSON at all.
fn malformed(numbers: &mut Numbers, whole: &str) -> String {
    match numbers.below(3) {
        0 => whole[..whole.len() / 2].to_owned(),
        1 => json!({ "version": 2, "body": whole }).to_string(),
        _ => "<html>502 Bad Gateway</html>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(seed: u64, part: u64, records: u64) -> Wanted {
        Wanted { seed, part, records, begin: Timestamp(0) }
    }

    #[test]
    fn the_same_seed_gives_the_same_messages_and_each_part_others() {
        assert_eq!(payments(wanted(1, 2, 500)), payments(wanted(1, 2, 500)));
        assert_ne!(payments(wanted(1, 2, 500)), payments(wanted(2, 2, 500)));
        assert_ne!(clicks(wanted(1, 0, 500)), clicks(wanted(1, 1, 500)));
    }

    #[test]
    fn payments_have_copies_and_malformed_messages_among_them() {
        let sent = payments(wanted(1, 0, 5_000));
        let charges: Vec<Payment> = sent.iter().filter_map(|sent| serde_json::from_str(&sent.value).ok()).collect();
        let once: std::collections::BTreeSet<&String> = charges.iter().map(|payment| &payment.charge).collect();
        assert_eq!(once.len(), 5_000);
        assert!(charges.len() > 5_050 && sent.len() > charges.len() + 3, "{} of {}", charges.len(), sent.len());
    }
}
