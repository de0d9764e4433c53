//! Reads what went into the payments job and what came out, and says whether each charge was counted exactly once.
//!
//! It shares no code with the job but the forms of its records.

use std::collections::BTreeMap;
use std::process::ExitCode;

use staunch_examples::payments::{Balance, Payment, Refused};
use staunch_examples::{brokers, topics};

/// Problems that are told one by one.
const TOLD_MAX: usize = 20;

/// What is known of one charge.
#[derive(Default)]
struct Charge {
    sent: u64,
    counted: u64,
    duplicate: u64,
    late: u64,
    account: String,
    cents: i64,
}

fn main() -> ExitCode {
    match check(&brokers()) {
        Ok((summary, problems)) => {
            problems.iter().take(TOLD_MAX).for_each(|problem| println!("{problem}"));
            println!("{summary}, {} problems", problems.len());
            if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A summary, and what is wrong.
fn check(brokers: &str) -> Result<(String, Vec<String>), String> {
    let (mut charges, mut malformed, mut problems) = (BTreeMap::<String, Charge>::new(), 0_i64, Vec::new());
    for value in topics::values(brokers, "payments")? {
        let Ok(payment) = serde_json::from_slice::<Payment>(&value) else {
            malformed += 1;
            continue;
        };
        let charge = charges.entry(payment.charge).or_default();
        charge.sent += 1;
        (charge.account, charge.cents) = (payment.account, payment.cents);
    }
    let messages = charges.values().map(|charge| charge.sent).sum::<u64>() as i64 + malformed;

    let balances = topics::records::<Balance>(brokers, "balances")?;
    for balance in &balances {
        let charge = charges.entry(balance.charge.clone()).or_default();
        charge.counted += 1;
        if (&charge.account, charge.cents) != (&balance.account, balance.cents) {
            problems.push(format!("{}: sent for {} with {} cents, counted as {balance:?}", balance.charge, charge.account, charge.cents));
        }
    }
    let total = totals(balances, &mut problems);

    for topic in ["payments-rejected", "payments-dead-letters"] {
        for refused in topics::records::<Refused>(brokers, topic)? {
            match refused {
                Refused::Duplicate(payment) => charges.entry(payment.charge).or_default().duplicate += 1,
                Refused::Late(payment) => charges.entry(payment.charge).or_default().late += 1,
                Refused::Malformed(_) => malformed -= 1,
            }
        }
    }
    if malformed != 0 {
        problems.push(format!("malformed messages: {malformed} more were sent than are dead letters"));
    }
    for (id, Charge { sent, counted, duplicate, late, .. }) in &charges {
        // Too late to be judged is the one reason not to count a charge.
        let once = *counted == 1 || *counted == 0 && *late > 0 && *duplicate == 0;
        if !once || counted + duplicate + late != *sent {
            problems.push(format!("{id}: sent {sent} times, counted {counted} times, {duplicate} times a duplicate, {late} times late"));
        }
    }
    let sum: i64 = charges.values().filter(|charge| charge.counted > 0).map(|charge| charge.cents).sum();
    if sum != total {
        problems.push(format!("the balances add up to {total} cents, the charges to {sum}"));
    }
    let count = |of: fn(&Charge) -> u64| charges.values().map(of).sum::<u64>();
    let (counted, duplicates, late) = (count(|c| c.counted), count(|c| c.duplicate), count(|c| c.late));
    Ok((format!("{messages} messages, {counted} charges counted, {duplicates} duplicates, {late} late, {total} cents"), problems))
}

/// Looks whether each account's balances follow one from the other; gives the sum of the last ones.
fn totals(mut balances: Vec<Balance>, problems: &mut Vec<String>) -> i64 {
    balances.sort_by(|a, b| (&a.account, a.number).cmp(&(&b.account, b.number)));
    let mut accounts: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for balance in balances {
        let (number, total) = accounts.entry(balance.account.clone()).or_default();
        if (balance.number, balance.total) != (*number + 1, *total + balance.cents) {
            problems.push(format!("{balance:?} does not follow number {number} with {total} cents"));
        }
        (*number, *total) = (balance.number, balance.total);
    }
    accounts.values().map(|(_, total)| total).sum()
}
