//! Clicks from a topic: visits of users, and the pages of each minute that were looked at most; into topics and files.
//!
//! `clicks` runs it, `clicks plan` prints what it does, `clicks --help` lists the options.

use staunch::prelude::*;
use staunch_examples::brokers;
use staunch_examples::clicks::{Click, OpenVisit, Top, TopPage, Visit};
use staunch_kafka::{KafkaSink, KafkaSource};

/// Partitions of the topics that the job makes.
const PARTITIONS: u32 = 3;

fn main() -> staunch::Result<()> {
    let mut env = Environment::from_args()?;
    env.checkpoints(Checkpoints::every(secs(1)).to("checkpoints"));
    let brokers = brokers();

    let (clicks, malformed) = env.source_with_dead_letter("clicks", KafkaSource::json::<Click>(&brokers, "clicks"));
    malformed.sink("malformed", FileSink::json_lines("malformed-clicks"));
    let clicks = clicks.event_time(|click| click.at, Watermarks::bounded(mins(1)).idle_after(mins(1))).share();

    // A visit is over when its user has not clicked for five minutes.
    let visits = KafkaSink::json(&brokers, "sessions").key(|visit: &Visit| visit.user.clone()).make_topics(PARTITIONS);
    clicks
        .stream()
        .key_by_ref(|click| click.user.as_str())
        .window(Session::gap(mins(5)))
        .aggregate_sessions("visits", Fold::new(OpenVisit::default, OpenVisit::add).merge(OpenVisit::merge))
        .map(Visit::over)
        .sink("sessions", visits);

    // Views of each page in each minute; then, of each minute, the pages with the most.
    let top = clicks
        .stream()
        .key_by_ref(|click| click.page.as_str())
        .window(Tumbling::of(mins(1)))
        .fold("views", || 0, |views: &mut u64, _| *views += 1)
        .key_by(|page| page.start)
        .window(Tumbling::of(mins(1)))
        .fold("top", Top::default, Top::add)
        .flat_map(Top::rows)
        .share();

    // The same rows as messages and as files, each once.
    let messages = KafkaSink::json(&brokers, "top-pages").key(|top: &TopPage| top.minute.0.to_string()).make_topics(PARTITIONS);
    top.stream().sink("top-messages", messages);
    top.stream().sink("top-files", FileSink::csv("top-pages"));

    env.execute("clicks")
}
