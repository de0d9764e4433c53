//! A choice of epochs, as typed: `7`, `3..9` (both ends belong to it), `3..`, `..9`.

use std::str::FromStr;

use staunch_types::Epoch;

/// From one epoch to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epochs {
    first: u64,
    last: u64,
}

impl Epochs {
    /// All.
    pub(crate) const ALL: Epochs = Epochs { first: 0, last: u64::MAX };

    /// Whether an epoch is among them.
    pub(crate) fn contains(self, epoch: Epoch) -> bool {
        (self.first..=self.last).contains(&epoch.0)
    }

    /// Whether it is all of them.
    pub(crate) fn is_all(self) -> bool {
        self == Epochs::ALL
    }
}

impl FromStr for Epochs {
    type Err = String;

    fn from_str(text: &str) -> Result<Epochs, String> {
        let number = |text: &str, open: u64| if text.is_empty() { Some(open) } else { text.parse().ok() };
        let ends = match text.split_once("..") {
            Some((first, last)) => number(first, 0).zip(number(last, u64::MAX)),
            None => text.parse().ok().map(|epoch| (epoch, epoch)),
        };
        match ends {
            Some((first, last)) if first <= last => Ok(Epochs { first, last }),
            Some(_) | None => Err("expected epochs such as 7, 3..9, 3.. or ..9".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_includes_both_of_its_ends() {
        let of = |text: &str| text.parse::<Epochs>().expect("a choice");
        for (text, inside, outside) in [("7", 7, 8), ("3..9", 9, 10), ("3..", 3, 2), ("..9", 9, 10)] {
            assert!(of(text).contains(Epoch(inside)) && !of(text).contains(Epoch(outside)), "{text}");
        }
        assert!(of("..").is_all());
        for text in ["", "x", "9..3", "1...2", "-1"] {
            assert!(text.parse::<Epochs>().is_err(), "{text}");
        }
    }
}
