//! Clicks: visits and the pages of each minute, as messages and as files, each once, whenever the job was killed.

use std::collections::BTreeMap;

use serde::Deserialize;
use staunch_examples::clicks::{Click, TOP_PAGES, TopPage, Visit};

use crate::harness::{Example, count_by_now, counts, exactly, lines, messages, one_partition_each, records, watermark};

const PARTS: u64 = 8;
const CLICKS: u64 = 4_000;
const MINUTE_MS: i64 = 60 * 1_000;
const LATENESS_MS: i64 = MINUTE_MS;
const GAP_MS: i64 = 5 * MINUTE_MS;

#[test]
fn clicks_killed_at_random_give_each_visit_and_each_top_page_once() {
    let example = Example::new("clicks", PARTS, CLICKS);
    let done = || {
        let found: Vec<TopPage> = records(&by_now("top-pages"));
        let last = found.iter().map(|top| top.minute.0).max().unwrap_or(i64::MIN);
        count_by_now(&["sessions"]) > 0 && last + MINUTE_MS > time_over() - MINUTE_MS
    };
    example.run_and_kill(env!("CARGO_BIN_EXE_clicks"), done);
    let (sent, over) = (example.sent(), time_over());
    let clicks: Vec<Click> = sent.iter().filter_map(|sent| serde_json::from_str(&sent.value).ok()).collect();
    assert_eq!(clicks.len() as u64, PARTS * CLICKS);

    let sessions = messages("sessions");
    one_partition_each(&sessions);
    let is_over = |visit: &Visit| visit.from.0 + visit.duration_ms + GAP_MS - 1 <= over;
    exactly(records(&sessions), is_over, visits(&clicks));

    let tops: Vec<TopPage> = records(&messages("top-pages"));
    exactly(tops.clone(), |top| top.minute.0 + MINUTE_MS - 1 <= over, top_pages(&clicks));
    let in_files: Vec<TopPage> = files(&example, "top-pages").iter().flat_map(|text| rows(text)).collect();
    assert_eq!(counts(in_files), counts(tops));

    let malformed = sent.iter().map(|sent| sent.value.clone()).filter(|value| serde_json::from_str::<Click>(value).is_err());
    assert_eq!(counts(malformed_in_files(&example)), counts(malformed));
}

/// The watermark at the end of what is sent by now.
fn time_over() -> i64 {
    watermark(&by_now("clicks"), LATENESS_MS, |text| serde_json::from_str::<Click>(text).ok().map(|click| click.at.0))
}

fn by_now(topic: &str) -> Vec<staunch_kafka_testbed::Record> {
    staunch_kafka_testbed::shared().judge().expect("a judge").read(topic).unwrap_or_default()
}

/// All visits: a user's clicks with no more than the gap between two of them.
fn visits(clicks: &[Click]) -> Vec<Visit> {
    let mut users: BTreeMap<&str, Vec<&Click>> = BTreeMap::new();
    clicks.iter().for_each(|click| users.entry(&click.user).or_default().push(click));
    let mut visits = Vec::new();
    for (user, mut clicks) in users {
        clicks.sort_by_key(|click| (click.at, click.page.as_str()));
        for visit in clicks.chunk_by(|a, b| b.at.0 - a.at.0 <= GAP_MS) {
            let mut pages: Vec<String> = Vec::new();
            for click in visit {
                if !pages.contains(&click.page) {
                    pages.push(click.page.clone());
                }
            }
            let (from, to) = (visit[0].at, visit[visit.len() - 1].at);
            visits.push(Visit { user: user.to_owned(), from, duration_ms: to.0 - from.0, clicks: visit.len() as u64, pages });
        }
    }
    visits
}

/// The pages of each minute that were looked at most.
fn top_pages(clicks: &[Click]) -> Vec<TopPage> {
    let mut minutes: BTreeMap<i64, BTreeMap<&str, u64>> = BTreeMap::new();
    for click in clicks {
        *minutes.entry(click.at.0.div_euclid(MINUTE_MS) * MINUTE_MS).or_default().entry(&click.page).or_default() += 1;
    }
    let mut all = Vec::new();
    for (minute, pages) in minutes {
        // Sorted by page already, and the sort keeps that order among equals.
        let mut pages: Vec<_> = pages.into_iter().collect();
        pages.sort_by_key(|(_, views)| std::cmp::Reverse(*views));
        let best = pages.into_iter().take(TOP_PAGES).zip(1..);
        all.extend(best.map(|((page, views), rank)| TopPage {
            minute: staunch::prelude::Timestamp(minute),
            rank,
            page: page.into(),
            views,
        }));
    }
    all
}

/// The visible files of a folder.
fn files(example: &Example, folder: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(example.folder.path().join(folder)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("part-"))).collect()
}

fn rows(file: &std::path::Path) -> Vec<TopPage> {
    let text = std::fs::read_to_string(file).expect("a file");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("minute,rank,page,views"));
    let row = |line: &str| {
        let [minute, rank, page, views] = line.split(',').collect::<Vec<_>>()[..] else { panic!("not four cells: {line}") };
        let minute = staunch::prelude::Timestamp(minute.parse().expect("a time"));
        TopPage { minute, rank: rank.parse().expect("a rank"), page: page.into(), views: views.parse().expect("a count") }
    };
    lines.map(row).collect()
}

fn malformed_in_files(example: &Example) -> Vec<String> {
    #[derive(Deserialize)]
    struct Malformed {
        raw: String,
    }
    files(example, "malformed-clicks").iter().flat_map(|file| lines::<Malformed>(file)).map(|malformed| malformed.raw).collect()
}
