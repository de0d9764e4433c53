//! Clicks: their records, the visits that they make up, the pages that were looked at most.
//!
//! Owns: what happens to clicks. Does not own: where they come from and where results go (`bin/clicks`).

use serde::{Deserialize, Serialize};
use staunch::prelude::*;

/// Pages in a list of those that were looked at most.
pub const TOP_PAGES: usize = 3;

/// A click as it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Click {
    /// Who clicked.
    pub user: String,
    /// On which page.
    pub page: String,
    /// When.
    pub at: Timestamp,
}

/// A visit of a user: clicks with no long pause between two of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Visit {
    /// Who came.
    pub user: String,
    /// Time of the first click.
    pub from: Timestamp,
    /// From the first click to the last.
    pub duration_ms: i64,
    /// How many clicks.
    pub clicks: u64,
    /// Pages in the order of their first click.
    pub pages: Vec<String>,
}

/// A visit while it goes on: clicks come out of order, and two visits become one when a click between them comes last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpenVisit {
    clicks: Vec<(Timestamp, String)>,
}

impl OpenVisit {
    /// One more click.
    pub fn add(&mut self, click: &Click) {
        self.clicks.push((click.at, click.page.clone()));
    }

    /// The clicks of another visit that turned out to be the same.
    pub fn merge(&mut self, other: &OpenVisit) {
        self.clicks.extend_from_slice(&other.clicks);
    }
}

impl Visit {
    /// A visit that is over.
    #[must_use]
    pub fn over(result: WindowResult<String, OpenVisit>) -> Visit {
        let mut clicks = result.value.clicks;
        clicks.sort();
        let (first, last) = (clicks.first().map_or(0, |(at, _)| at.0), clicks.last().map_or(0, |(at, _)| at.0));
        let count = clicks.len() as u64;
        let mut pages: Vec<String> = Vec::new();
        for (_, page) in clicks {
            if !pages.contains(&page) {
                pages.push(page);
            }
        }
        Visit { user: result.key, from: result.start, duration_ms: last - first, clicks: count, pages }
    }
}

/// How often a page was looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Views {
    /// The page.
    pub page: String,
    /// How often.
    pub views: u64,
}

/// The pages of a minute that were looked at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    best: Vec<Views>,
}

/// One of the pages of a minute that were looked at most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TopPage {
    /// First millisecond of the minute.
    pub minute: Timestamp,
    /// Its place: the page that was looked at most has 1.
    pub rank: u64,
    /// The page.
    pub page: String,
    /// How often it was looked at in that minute.
    pub views: u64,
}

impl Top {
    /// One more page; of pages that were looked at equally often the first in the alphabet comes first.
    pub fn add(&mut self, page: &WindowResult<String, u64>) {
        self.best.push(Views { page: page.key.clone(), views: page.value });
        self.best.sort_by(|a, b| b.views.cmp(&a.views).then_with(|| a.page.cmp(&b.page)));
        self.best.truncate(TOP_PAGES);
    }

    /// As rows.
    pub fn rows(minute: WindowResult<Timestamp, Top>) -> impl Iterator<Item = TopPage> {
        let start = minute.key;
        minute.value.best.into_iter().zip(1..).map(move |(Views { page, views }, rank)| TopPage { minute: start, rank, page, views })
    }
}
