//! Watermarks of whole jobs over inputs that fall silent: the partitions of a source that never ends, of which some never have a row.

mod partitions;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use partitions::{Partitions, Row};
use staunch::Stopper;
use staunch::prelude::*;
use staunch_engine::job::{Settings, Start};
use staunch_engine::operator::Transform;
use staunch_protocol::Reason;

/// Of real time: as long as a partition may be silent.
const SILENT: Duration = millis(20);
/// No test waits so long unless it fails.
const PATIENCE: Duration = secs(120);
/// Messages that may wait for the watching thread.
const MESSAGES_MAX: usize = 1000;

/// What a job gives: a window with its key, start and count, or a late row with its key and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Window(u64, i64, u64),
    Late(u64, i64),
}

fn environment(parallelism: u32) -> Environment {
    let mut settings = Settings::new();
    settings.parallelism = parallelism;
    Environment::new(settings)
}

fn watermarks() -> Watermarks {
    Watermarks::ascending().per_record().idle_after(SILENT)
}

/// Counts the rows by key and second, in one task: results come in the order of the windows' ends.
fn count<S: Start, X: Transform<S::Item, Out = Row>>(rows: Stream<S, X>, tell: SyncSender<Heard>) {
    let late_rows = tell.clone();
    let windows = rows.key_by(|row| row.key).parallelism(1).window(Tumbling::of(secs(1)));
    let (counts, late) = windows.fold_with_late("count", || 0u64, |count, _| *count += 1);
    let told = "whoever watches listens as long as the job runs";
    counts.inspect(move |window| tell.send(Heard::Window(window.key, window.start.0, window.value)).expect(told)).discard("counts");
    late.inspect(move |row| late_rows.send(Heard::Late(row.key, row.at.0)).expect(told)).discard("late");
}

/// Stops the job when the watching thread has ended, however it did.
struct StopAtEnd(Stopper);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop(Reason::Stop);
    }
}

/// Runs the job, and stops it when `watch` is done.
fn run(env: Environment, heard: Receiver<Heard>, watch: impl FnOnce(&Receiver<Heard>) + Send) {
    let stop = StopAtEnd(env.stopper());
    std::thread::scope(|scope| {
        let watching = scope.spawn(move || {
            let _stop = stop;
            watch(&heard);
            heard
        });
        env.execute("watermarks").expect("the job ends as asked");
        watching.join().expect("what was heard was expected");
    });
}

#[track_caller]
fn hears(heard: &Receiver<Heard>, expected: Heard) {
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(expected));
}

#[test]
fn report_16_windows_close_though_most_partitions_have_no_row_and_some_readers_no_partition() {
    let (tell, heard) = sync_channel(MESSAGES_MAX);
    let env = environment(5);
    let partitions = Partitions::new(3);
    count(env.source("rows", partitions.clone()).event_time(|row: &Row| row.at, watermarks()), tell);
    partitions.add(1, [0, 500, 1000, 1999]);
    run(env, heard, move |heard| {
        hears(heard, Heard::Window(1, 0, 2));
        // Another begins late: what is behind the watermark by then is late, and it holds the watermark from then on.
        partitions.add(2, [998, 2500]);
        hears(heard, Heard::Late(2, 998));
        partitions.add(1, [5000]);
        hears(heard, Heard::Window(1, 1000, 2));
    });
}

#[test]
fn report_18_a_source_goes_on_when_another_one_has_ended_or_is_silent() {
    for ends in [true, false] {
        let (tell, heard) = sync_channel(MESSAGES_MAX);
        let env = environment(2);
        let (short, long) = (Partitions::new(1), Partitions::new(2));
        let short_rows = env.source("short", short.clone()).event_time(|row: &Row| row.at, watermarks());
        let long_rows = env.source("long", long.clone()).event_time(|row: &Row| row.at, watermarks());
        count(short_rows.union(long_rows), tell);
        short.add(0, [0, 100, 200, 300, 400]);
        if ends {
            short.end();
        }
        run(env, heard, move |heard| {
            long.add(1, [700, 1000, 2000, 3000]);
            let mut first = [heard.recv_timeout(PATIENCE), heard.recv_timeout(PATIENCE)];
            first.sort_by_key(|heard| !matches!(heard, Ok(Heard::Window(0, ..))));
            assert_eq!(first, [Ok(Heard::Window(0, 0, 5)), Ok(Heard::Window(1, 0, 1))], "the short source ends: {ends}");
            hears(heard, Heard::Window(1, 1000, 1));
            hears(heard, Heard::Window(1, 2000, 1));
        });
    }
}
