//! Payments: their records, the recognition of charges that were sent twice, balances and the rule against fraud.
//!
//! Owns: what happens to one payment. Does not own: where payments come from and where results go (`bin/payments`).

use serde::{Deserialize, Serialize};
use staunch::prelude::*;

/// Charges of one account in a minute that are still thought to be honest.
const CHARGES_A_MINUTE_MAX: u64 = 5;
/// Cents of one account in a minute that are still thought to be honest.
const CENTS_A_MINUTE_MAX: i64 = 100_000;

/// A payment as it comes. The upstream may send it twice; a copy has the same charge and the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Payment {
    /// Which charge it is.
    pub charge: String,
    /// Who pays.
    pub account: String,
    /// Who is paid.
    pub merchant: String,
    /// How much.
    pub cents: i64,
    /// When it was made.
    pub at: Timestamp,
}

/// What is not counted, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "refused", rename_all = "lowercase")]
pub enum Refused {
    /// The charge was counted before.
    Duplicate(Payment),
    /// It is so old that the charge may have been counted and forgotten.
    Late(Payment),
    /// It is no payment.
    Malformed(Rejected),
}

/// Lets each charge through once.
///
/// A charge is remembered until the watermark has passed its time. A copy that comes after that is late by the same rule, so there is no moment
/// at which a copy could be counted again, and the memory does not grow with the stream.
#[derive(Clone, Copy, Debug)]
pub struct Once;

impl Process<String, Payment> for Once {
    type Out = Payment;
    type Side = Refused;
    type States = ValueState<String, ()>;

    fn states(&self, scope: Scope) -> Self::States {
        ValueState::new("counted", scope)
    }

    fn process(&self, payment: Payment, counted: &mut Self::States, context: &mut ProcessContext<'_, String, Payment, Refused>) {
        if payment.at <= context.watermark {
            context.emit_side(Refused::Late(payment));
        } else if counted.set(context.hash, context.key, ()).is_some() {
            context.emit_side(Refused::Duplicate(payment));
        } else {
            context.set_event_timer(payment.at);
            context.emit(payment);
        }
    }

    fn on_timer(&self, _: Timer, counted: &mut Self::States, context: &mut ProcessContext<'_, String, Payment, Refused>) {
        counted.clear(context.hash, context.key);
    }
}

/// The charges of an account: of all time, or of one minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// How many.
    pub charges: u64,
    /// Their sum.
    pub cents: i64,
}

/// An account after one more charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Who pays.
    pub account: String,
    /// The charge.
    pub charge: String,
    /// How much it was.
    pub cents: i64,
    /// Which of the account's charges it is: the first is 1, and none is left out.
    pub number: u64,
    /// The sum of the account's charges up to it.
    pub total: i64,
}

/// An account that spent too much in a minute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alert {
    /// Who pays.
    pub account: String,
    /// First millisecond of the minute.
    pub from: Timestamp,
    /// First millisecond after it.
    pub to: Timestamp,
    /// Charges in the minute.
    pub charges: u64,
    /// Their sum.
    pub cents: i64,
}

impl Spent {
    /// One more charge.
    pub fn add(&mut self, payment: &Payment) {
        self.charges += 1;
        self.cents += payment.cents;
    }

    /// The charges of another stretch of time.
    pub fn merge(&mut self, other: &Spent) {
        self.charges += other.charges;
        self.cents += other.cents;
    }

    /// One more charge, and what is then known of the account.
    pub fn balance(&mut self, payment: &Payment) -> Balance {
        self.add(payment);
        Balance {
            account: payment.account.clone(),
            charge: payment.charge.clone(),
            cents: payment.cents,
            number: self.charges,
            total: self.cents,
        }
    }

    /// Whether it is too much for a minute.
    #[must_use]
    pub fn is_suspicious(&self) -> bool {
        self.charges > CHARGES_A_MINUTE_MAX || self.cents > CENTS_A_MINUTE_MAX
    }
}

impl From<WindowResult<String, Spent>> for Alert {
    fn from(minute: WindowResult<String, Spent>) -> Alert {
        let WindowResult { key: account, start: from, end: to, value: Spent { charges, cents } } = minute;
        Alert { account, from, to, charges, cents }
    }
}
