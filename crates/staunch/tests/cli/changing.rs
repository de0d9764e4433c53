//! Jobs that go on from a checkpoint with another plan than the one that made it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use staunch::engine::job::{Settings, Windowed};
use staunch::engine::operator::window::Panes;
use staunch::prelude::*;

#[derive(Clone, Deserialize, Serialize)]
struct Row {
    id: u64,
    at: i64,
}

/// A job on the files of one folder, with checkpoints.
struct Job(tempfile::TempDir);

impl Job {
    fn new() -> Job {
        let job = Job(tempfile::tempdir().expect("a folder"));
        fs::create_dir(job.path("input")).expect("a folder");
        job.put("first.csv", "1,10\n2,20\n");
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, rows: &str) {
        fs::write(self.path("input").join(name), rows).expect("room");
    }

    fn run(&self, write: impl FnOnce(&Job, &Environment)) -> Result<()> {
        let mut env = Environment::new(Settings::new());
        env.checkpoints(Checkpoints::every(secs(3600)).to(self.path("checkpoints")));
        write(self, &env);
        env.execute("changing")
    }

    fn source(&self) -> FileSource<Row> {
        FileSource::csv(self.path("input")).headers(false)
    }

    fn sink<T>(&self, name: &str) -> FileSink<T> {
        FileSink::csv(self.path(name)).header(false)
    }
}

/// The lines of all visible files of a directory.
fn sorted(directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            lines.extend(fs::read_to_string(path).expect("a file").lines().map(str::to_owned));
        }
    }
    lines.sort();
    lines
}

/// Into each of these sinks.
fn into(sinks: &'static [&'static str]) -> impl FnOnce(&Job, &Environment) {
    |job, env| {
        let rows = env.source("rows", job.source()).map(|row| (row.id,)).share();
        sinks.iter().for_each(|name| rows.stream().sink(name, job.sink(name)));
    }
}

#[test]
fn a_sink_of_which_all_output_is_committed_may_leave_the_job_and_come_back() {
    let job = Job::new();
    job.run(into(&["kept", "gone"])).expect("the job ends well");
    job.put("second.csv", "3,30\n");
    job.run(into(&["kept"])).expect("nothing of the other sink is in doubt");
    job.put("third.csv", "4,40\n");
    job.run(into(&["kept", "gone"])).expect("a sink may come back");
    assert_eq!(sorted(&job.path("kept")), ["1", "2", "3", "4"]);
    assert_eq!(sorted(&job.path("gone")), ["1", "2", "4"]);
}

/// Counted in windows.
fn in_windows<W: Windowed + Into<Panes>>(window: W) -> impl FnOnce(&Job, &Environment) {
    |job, env| {
        env.source("rows", job.source())
            .event_time(|row| Timestamp(row.at), Watermarks::ascending())
            .key_by(|_| 0_u64)
            .window(window)
            .aggregate("count", Fold::new(|| 0_u64, |count: &mut u64, _: &Row| *count += 1).merge(|a, b| *a += *b))
            .map(|window| (window.start.0, window.value))
            .sink("counts", job.sink("counts"));
    }
}

#[test]
fn windows_may_not_change_under_what_is_kept_for_them() {
    let job = Job::new();
    let day = || Days::in_zone("Europe/Berlin").expect("a zone");
    job.run(in_windows(Tumbling::of(millis(100)))).expect("the job ends well");
    let others: [(Result<()>, &str); 4] = [
        (job.run(in_windows(Tumbling::of(millis(200)))), "size_ms=200"),
        (job.run(in_windows(Tumbling::of(millis(100)).offset(millis(1)))), "offset_ms=1"),
        (job.run(in_windows(Hopping::of(millis(100), millis(50)))), "slide_ms=50"),
        (job.run(in_windows(day())), "days zone=Europe/Berlin"),
    ];
    for (result, named) in others {
        let error = result.expect_err("refused");
        assert_eq!(error.code(), "J013", "{error}");
        let text = error.to_string();
        assert!(text.contains(named) && text.contains("operator=count") && text.contains("size_ms=100"), "{text}");
    }
    job.run(in_windows(Hopping::of(millis(100), millis(100)))).expect("the same windows in other words");
    assert_eq!(sorted(&job.path("counts")), ["0,2"]);
}

#[test]
fn each_late_record_within_the_allowed_lateness_gives_its_window_once_more_and_no_session_is_left_out() {
    let job = Job::new();
    // With 20 ms of lateness: 5 is late and still counts; at 31 all windows before 10 are closed, so that 6 counts no more.
    job.put("first.csv", "1,0\n2,12\n3,5\n4,25\n5,31\n6,6\n");
    let late = job.run(|job, env| {
        let rows = env.source("rows", job.source().one_split());
        let timed = rows.event_time(|row| Timestamp(row.at), Watermarks::ascending().per_record());
        let windows = timed.key_by(|_| 0_u64).parallelism(1).window(Tumbling::of(millis(10))).allowed_lateness(millis(20));
        let (counts, late) = windows.fold_with_late("count", || 0_u64, |count, _| *count += 1);
        counts.map(|window| (window.start.0, window.value)).sink("counts", job.sink("counts"));
        late.map(|row| (row.id,)).sink("late", job.sink("late"));
    });
    late.expect("the job ends well");
    assert_eq!(sorted(&job.path("counts")), ["0,1", "0,2", "10,1", "20,1", "30,1"]);
    assert_eq!(sorted(&job.path("late")), ["6"]);
    let job = Job::new();
    // The second session ends in the millisecond in which the first is no longer kept for late records.
    job.put("first.csv", "1,0\n2,15\n3,20\n4,100\n");
    let sessions = job.run(|job, env| {
        let rows = env.source("rows", job.source().one_split());
        let timed = rows.event_time(|row| Timestamp(row.at), Watermarks::ascending().per_record());
        let sessions = timed.key_by(|row| row.id == 2 || row.id == 4).window(Session::gap(millis(10))).allowed_lateness(millis(20));
        let counts =
            sessions.aggregate_sessions("count", Fold::new(|| 0_u64, |count: &mut u64, _: &Row| *count += 1).merge(|a, b| *a += *b));
        counts.map(|session| (session.start.0, session.end.0, session.value)).sink("counts", job.sink("counts"));
    });
    sessions.expect("the job ends well");
    assert_eq!(sorted(&job.path("counts")), ["0,10,1", "100,110,1", "15,25,1", "20,30,1"]);
}

/// Counts its own timers, each of which sets the next.
#[derive(Clone)]
struct Hourly;

impl Process<u64, Row> for Hourly {
    type Out = (u64, i64);
    type Side = ();
    type States = ();

    fn states(&self, _scope: staunch::engine::state::keyed::Scope) {}

    fn process(&self, row: Row, (): &mut (), context: &mut ProcessContext<'_, u64, (u64, i64), ()>) {
        context.set_event_timer(Timestamp(row.at + 10));
    }

    fn on_timer(&self, _timer: staunch::engine::operator::Timer, (): &mut (), context: &mut ProcessContext<'_, u64, (u64, i64), ()>) {
        context.emit((*context.key, context.time.0));
        context.set_event_timer(Timestamp(context.time.0 + 10));
    }
}

/// Takes back the timers of the row before, and one on the wall clock.
#[derive(Clone)]
struct Quiet;

impl Process<u64, Row> for Quiet {
    type Out = (u64, i64);
    type Side = ();
    type States = ();

    fn states(&self, _scope: staunch::engine::state::keyed::Scope) {}

    fn process(&self, row: Row, (): &mut (), context: &mut ProcessContext<'_, u64, (u64, i64), ()>) {
        context.delete_event_timer(Timestamp(row.at + 5));
        context.set_event_timer(Timestamp(row.at + 10));
        context.set_processing_timer(Timestamp(1));
        context.set_processing_timer(Timestamp(2));
        context.delete_processing_timer(Timestamp(1));
    }

    fn on_timer(&self, _timer: staunch::engine::operator::Timer, (): &mut (), context: &mut ProcessContext<'_, u64, (u64, i64), ()>) {
        context.emit((*context.key, context.time.0));
    }
}

#[test]
fn a_timer_that_was_deleted_does_not_fire() {
    let job = Job::new();
    job.put("first.csv", "7,0\n7,5\n");
    let ended = job.run(|job, env| {
        let rows = env.source("rows", job.source().one_split());
        let timed = rows.event_time(|row| Timestamp(row.at), Watermarks::ascending().per_record());
        timed.key_by(|row| row.id).process("quiet", Quiet).sink("timers", job.sink("timers"));
    });
    ended.expect("the job ends");
    let mut fired = sorted(&job.path("timers"));
    // On the wall clock 2 is long ago: it may fire between the rows.
    fired.dedup();
    assert_eq!(fired, ["7,15", "7,2"]);
}

#[test]
fn sums_so_far_come_out_with_each_record_and_records_too_late_for_a_session_go_aside() {
    let job = Job::new();
    job.put("first.csv", "1,0\n2,3\n1,50\n1,4\n");
    let ended = job.run(|job, env| {
        let rows = env.source("rows", job.source().one_split());
        let timed = rows.event_time(|row| Timestamp(row.at), Watermarks::ascending().per_record()).share();
        let sums = timed.stream().key_by(|row| row.id).rolling_fold("sum", || 0_i64, |sum: &mut i64, row: &Row| *sum += row.at);
        sums.sink("sums", job.sink("sums"));
        let sessions = timed.stream().key_by(|row| row.id).window(Session::gap(millis(10)));
        let count = Fold::new(|| 0_u64, |count: &mut u64, _: &Row| *count += 1).merge(|a, b| *a += *b);
        let (counts, late) = sessions.aggregate_sessions_with_late("count", count);
        counts.map(|session| (session.start.0, session.end.0, session.value)).sink("counts", job.sink("counts"));
        late.map(|row| (row.id, row.at)).sink("late", job.sink("late"));
    });
    ended.expect("the job ends");
    assert_eq!(sorted(&job.path("sums")), ["0", "3", "50", "54"]);
    assert_eq!(sorted(&job.path("counts")), ["0,10,1", "3,13,1", "50,60,1"]);
    assert_eq!(sorted(&job.path("late")), ["1,4"]);
}

#[test]
fn a_timer_that_sets_itself_again_comes_to_an_end_with_the_input() {
    let job = Job::new();
    job.put("first.csv", "1,0\n1,25\n");
    let ended = job.run(|job, env| {
        let rows = env.source("rows", job.source().one_split());
        let timed = rows.event_time(|row| Timestamp(row.at), Watermarks::ascending().per_record());
        timed.key_by(|row| row.id).process("hourly", Hourly).sink("timers", job.sink("timers"));
    });
    ended.expect("the job ends");
    // Up to the watermark of the last record each timer sets the next; at the end those that are set fire once.
    assert_eq!(sorted(&job.path("timers")), ["1,10", "1,20", "1,30", "1,35"]);
}

#[test]
fn a_job_whose_output_is_its_input_is_refused() {
    let job = Job::new();
    let refused = job.run(|job, env| {
        env.source("rows", job.source()).sink("again", FileSink::csv(job.path("input")).header(false));
    });
    let error = refused.expect_err("refused");
    assert_eq!(error.code(), "J014", "{error}");
    for named in ["source=rows", "sink=again", "input/part-"] {
        assert!(error.to_string().contains(named), "{error}");
    }
    job.run(|job, env| env.source("rows", job.source()).sink("beside", job.sink("beside"))).expect("another directory");
    assert_eq!(sorted(&job.path("beside")), ["1,10", "2,20"]);
}
