//! Payments: each charge is counted once, whatever was sent twice and whenever the job was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use staunch_e2e::process::{Finished, Running};
use staunch_examples::payments::{Alert, Balance, Payment, Refused};
use staunch_kafka_testbed::{Record, shared};

use crate::harness::{Example, count_by_now, counts, exactly, messages, one_partition_each, records, watermark};

const PARTS: u64 = 8;
const CHARGES: u64 = 4_000;
const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const LATENESS_MS: i64 = 2 * MINUTE_MS;
const SLIDE_MS: i64 = 15 * SECOND_MS;
/// Where each payment goes: to one of these.
const OUTCOMES: [&str; 3] = ["balances", "payments-rejected", "payments-dead-letters"];

#[test]
fn payments_killed_at_random_count_each_charge_once() {
    let example = Example::new("payments", PARTS, CHARGES);
    example.run_and_kill(env!("CARGO_BIN_EXE_payments"), || count_by_now(&OUTCOMES) >= example.sent().len());
    let sent = example.sent();
    let payments: Vec<Payment> = sent.iter().filter_map(|sent| serde_json::from_str(&sent.value).ok()).collect();
    let copies = counts(payments.iter().map(|payment| payment.charge.as_str()));
    assert_eq!(copies.len() as u64, PARTS * CHARGES);

    let balances = messages("balances");
    let refused: Vec<Refused> = records(&[messages("payments-rejected"), messages("payments-dead-letters")].concat());
    let counted = accounted(&records(&balances), &refused, &copies);
    follow(&balances);
    let malformed: Vec<&str> =
        sent.iter().map(|sent| sent.value.as_str()).filter(|v| serde_json::from_str::<Payment>(v).is_err()).collect();
    let refused_raw = refused.iter().filter_map(|refused| match refused {
        Refused::Malformed(rejected) => Some(rejected.raw.as_str()),
        Refused::Duplicate(_) | Refused::Late(_) => None,
    });
    assert!(malformed.len() > 10, "too few malformed messages to tell anything");
    assert_eq!(counts(refused_raw), counts(malformed));

    let unique: BTreeMap<&str, &Payment> = payments.iter().map(|payment| (payment.charge.as_str(), payment)).collect();
    let counted: Vec<&Payment> = unique.values().copied().filter(|payment| counted.contains(&payment.charge)).collect();
    alerts(&counted);
    checked(&example, &counted);
}

/// Each charge that was sent is counted once, or all that was sent of it came too late; and each copy has one outcome. The charges that
/// were counted.
fn accounted(balances: &[Balance], refused: &[Refused], copies: &BTreeMap<&str, usize>) -> BTreeSet<String> {
    let counted = counts(balances.iter().map(|balance| balance.charge.as_str()));
    let (mut duplicates, mut late) = (Vec::new(), Vec::new());
    for refused in refused {
        match refused {
            Refused::Duplicate(payment) => duplicates.push(payment.charge.as_str()),
            Refused::Late(payment) => late.push(payment.charge.as_str()),
            Refused::Malformed(_) => {}
        }
    }
    let (duplicates, late) = (counts(duplicates), counts(late));
    let known = counted.keys().chain(duplicates.keys()).chain(late.keys());
    assert!(known.into_iter().all(|charge| copies.contains_key(charge)), "a charge that nobody sent");
    let of = |map: &BTreeMap<&str, usize>, charge| map.get(charge).copied().unwrap_or_default();
    for (charge, sent) in copies {
        let (counted, duplicate, late) = (of(&counted, charge), of(&duplicates, charge), of(&late, charge));
        assert!(counted == 1 || counted == 0 && late == *sent, "{charge}: sent {sent} times, counted {counted} times, {late} times late");
        assert_eq!(counted + duplicate + late, *sent, "{charge}: {counted} times counted, {duplicate} a duplicate, {late} late");
    }
    assert!(duplicates.len() > 100 && late.len() > 5, "{} duplicates and {} late charges tell nothing", duplicates.len(), late.len());
    counted.into_keys().map(str::to_owned).collect()
}

/// In the order of its topic, each balance of an account follows from the one before.
fn follow(messages: &[Record]) {
    one_partition_each(messages);
    let mut accounts: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for balance in records::<Balance>(messages) {
        let (number, total) = accounts.entry(balance.account.clone()).or_default();
        (*number, *total) = (*number + 1, *total + balance.cents);
        assert_eq!((balance.number, balance.total), (*number, *total), "{balance:?}");
    }
}

/// The alerts are those of all minutes that are over, each once.
fn alerts(counted: &[&Payment]) {
    let mut minutes: BTreeMap<(String, i64), (u64, i64)> = BTreeMap::new();
    for payment in counted {
        let newest = payment.at.0.div_euclid(SLIDE_MS) * SLIDE_MS;
        for from in (0..MINUTE_MS / SLIDE_MS).map(|back| newest - back * SLIDE_MS) {
            let (charges, cents) = minutes.entry((payment.account.clone(), from)).or_default();
            (*charges, *cents) = (*charges + 1, *cents + payment.cents);
        }
    }
    let suspicious = minutes.into_iter().filter(|(_, (charges, cents))| *charges > 5 || *cents > 100_000);
    let row = |account: String, from: i64, to: i64, charges, cents| (to, from, account, charges, cents);
    let expected = suspicious.map(|((account, from), (charges, cents))| row(account, from, from + MINUTE_MS, charges, cents)).collect();
    let found: Vec<Alert> = records(&messages("fraud-alerts"));
    let found = found.into_iter().map(|alert| row(alert.account, alert.from.0, alert.to.0, alert.charges, alert.cents)).collect();
    let time = |text: &str| serde_json::from_str::<Payment>(text).ok().map(|payment| payment.at.0);
    let over = watermark(&messages("payments"), LATENESS_MS, time);
    exactly(found, |(to, ..)| *to - 1 <= over, expected);
}

/// The reader's own check finds nothing; and finds one balance that somebody doubles.
fn checked(example: &Example, counted: &[&Payment]) {
    let check = || {
        let running = Running::start(example.command(env!("CARGO_BIN_EXE_payments-check"))).expect("a process");
        running.wait(Duration::from_secs(60)).expect("an end")
    };
    let sum: i64 = counted.iter().map(|payment| payment.cents).sum();
    let Finished { lines, .. } = check().expect(0).unwrap_or_else(|error| panic!("{error:#}"));
    let last = lines.last().expect("a summary");
    assert!(last.contains(&format!("{} charges counted", counted.len())) && last.contains(&format!("{sum} cents, 0 problems")), "{last}");

    let doubled = messages("balances").into_iter().next().expect("a balance");
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", shared().bootstrap()).create().expect("a producer");
    producer.send(BaseRecord::<str, str>::to("balances").payload(doubled.text().expect("a text"))).expect("room");
    producer.flush(Duration::from_secs(20)).expect("acknowledged");
    let Finished { lines, .. } = check().expect(1).unwrap_or_else(|error| panic!("{error:#}"));
    let balance = &records::<Balance>(&[doubled])[0];
    assert!(lines.iter().any(|line| line.contains(&balance.charge) && line.contains("counted 2 times")), "{lines:?}");
}
