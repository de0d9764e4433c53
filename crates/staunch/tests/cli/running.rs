//! A job's program as it runs, stops, is refused and is fenced.

use crate::harness::{Place, Running, run};

#[test]
fn a_job_that_reads_all_its_input_ends_with_0_and_a_summary() {
    let place = Place::with_flights(600);
    let answer = run(&mut place.job(&[])).ends_with(0);
    let answer = answer.complains("flights-per-hour: finished: all input is read, all output committed; 600 records read, 30 written");
    let answer = answer.complains("generation 1 begins with the input");
    assert!(!answer.err.contains("the end of event time"), "{}", answer.err);
    assert_eq!(place.lines("on-time").len(), 30, "ten hours of three airports");
    assert_eq!(place.lines("on-time")[0], "EWR,0,3600000,20,2570");
}

#[test]
fn a_job_that_has_finished_is_not_run_again_by_another_start() {
    let place = Place::with_finished_job();
    let before = place.lines("on-time");
    let answer = run(&mut place.job(&[])).ends_with(0).complains("0 records read, 0 written");
    answer.complains("was the end of event time: all windows have fired");
    assert_eq!(place.lines("on-time"), before);
}

#[test]
fn a_job_without_a_checkpoint_directory_says_that_it_will_not_survive() {
    let place = Place::with_flights(10);
    run(&mut place.job_without_checkpoints(&[])).ends_with(0).complains("WITHOUT a checkpoint directory: the job will not survive a crash");
}

#[test]
fn a_bad_line_ends_the_job_with_1_and_names_file_and_line() {
    let place = Place::with_flights(3);
    let text = std::fs::read_to_string(place.input()).expect("there") + "3,not a time,EWR,5\n";
    std::fs::write(place.input(), text).expect("written");
    let answer = run(&mut place.job(&[])).ends_with(1);
    answer.complains("error[F031]").complains(&format!("file={} line=5", place.input().display())).complains("failed");
}

#[test]
fn an_output_that_cannot_be_is_refused_by_preflight_with_4() {
    let place = Place::with_flights(3);
    std::fs::write(place.output(), b"a file, not a folder").expect("written");
    run(&mut place.job(&[])).ends_with(4).complains("error[F05").complains("sink=");
    let check = run(&mut place.job(&["check"])).ends_with(4);
    let check =
        check.says("ok    plan: 2 chains").says("ok    checkpoint store file://").says("FAIL  sink late").says("FAIL  sink on-time");
    check.says("ok    source flights").complains("error[F05");
}

#[test]
fn a_job_whose_checkpoints_are_gone_is_refused_however_often_it_is_started() {
    let place = Place::with_finished_job();
    std::fs::remove_dir_all(place.checkpoints()).expect("removed");
    let before = place.files("on-time");
    for _ in 0..4 {
        run(&mut place.job(&[])).ends_with(4).complains("error[F062]").complains("the newest durable epoch of the job is 0");
        assert_eq!(place.files("on-time"), before);
    }
}

#[test]
fn check_tells_what_a_start_would_go_on_from_and_changes_nothing() {
    let place = Place::with_finished_job();
    let (objects, files) = (place.objects("ledger"), place.files("on-time"));
    let answer = run(&mut place.job(&["check"])).ends_with(0);
    answer.says("ok    checkpoint: the job goes on from epoch").says("ok    source flights: CSV files").says("1 splits");
    assert_eq!((place.objects("ledger"), place.files("on-time")), (objects, files));
    std::fs::remove_file(place.input()).expect("removed");
    run(&mut place.job(&["check"])).ends_with(4).says("FAIL  source flights").complains("error[F001]");
}

#[test]
fn plan_names_the_guarantee_of_each_way_and_its_weakest_link() {
    let place = Place::with_flights(1);
    let with = run(&mut place.job(&["plan"])).ends_with(0);
    let with = with.says("flights -> late: exactly once\n").says("flights -> on-time: exactly once\n  weakest link: prepared files");
    with.says("totals: tumbling windows of 1 h [keyed state]").says("bounded 30 min, sent on after each record [clocks]");
    let without = run(&mut place.job_without_checkpoints(&["plan"])).ends_with(0);
    without.says("flights -> on-time: exactly once while this process lives\n  weakest link: there is no checkpoint directory");
    let none = run(place.job(&["plan"]).args(["--restore", "none"])).ends_with(0);
    none.says("exactly once from this start on\n  weakest link: --restore none");
}

#[test]
fn a_start_from_elsewhere_than_the_newest_checkpoint_says_what_is_written_again() {
    let place = Place::with_finished_job();
    let again = |words: &[&str], says: &str| run(&mut place.job(words)).ends_with(0).complains(says);
    again(&["--restore", "1"], "goes on from epoch 1, as --restore asks: what later epochs committed stays, and is written again");
    again(&["--restore", "none"], "begins with the input, as --restore asks: what earlier runs committed stays, and is written again");
    let latest = run(&mut place.job(&[])).ends_with(0);
    assert!(!latest.err.contains("as --restore asks"), "{}", latest.err);
}

#[test]
fn a_signal_stops_with_a_checkpoint_and_the_next_start_goes_on() {
    let place = Place::with_flights(900);
    let mut job = Running::start(place.job(&[]).args(["--rate", "300"]));
    job.wait_for("durable in");
    job.signal("TERM");
    let answer = job.end().ends_with(0);
    answer.complains("stopping with a last checkpoint").complains("stopped as asked; started again, it goes on from here");
    assert!(place.lines("on-time").len() < 45, "it was stopped before the end");
    run(&mut place.job(&[])).ends_with(0).complains("goes on from epoch").complains("finished");
    assert_eq!(place.lines("on-time").len(), 45, "fifteen hours of three airports");
    crate::harness::staunch(&["verify", &place.job_folder()]).ends_with(0);
}

#[test]
fn a_second_signal_ends_the_job_at_once() {
    // Held while both signals are sent, the job hears one right after the other.
    let place = Place::with_flights(100_000);
    let mut job = Running::start(place.job(&[]).args(["--rate", "2000"]));
    job.wait_for("begins with the input");
    job.signal("STOP");
    job.signal("INT");
    job.signal("TERM");
    job.signal("CONT");
    let answer = job.end();
    assert_eq!(answer.code, None, "a signal ended it: {answer:?}");
    answer.complains("exits at once");
}

#[test]
fn a_job_that_finds_a_newer_generation_ends_with_3() {
    let place = Place::with_flights(100_000);
    let mut old = Running::start(place.job(&[]).args(["--rate", "300"]));
    old.wait_for("durable in");
    let mut new = Running::start(place.job(&[]).args(["--rate", "300"]));
    new.wait_for("goes on from epoch");
    old.end().ends_with(3).complains("error[C009]: a newer generation of this job has claimed its ledger");
    new.signal("INT");
    new.end().ends_with(0);
    crate::harness::staunch(&["verify", &place.job_folder()]).ends_with(0);
}

#[test]
fn a_restore_from_a_manifest_rewinds_and_is_noted() {
    let place = Place::with_finished_job();
    let manifest = place.objects("manifests").remove(2);
    let answer = run(place.job(&[]).arg("--restore").arg(&manifest)).ends_with(0);
    answer.complains("goes on from epoch 3");
    let report = crate::harness::staunch(&["verify", &place.job_folder()]).ends_with(0);
    report.says("a generation was started from epoch 3 after epoch").says("verified: nothing lost, nothing doubled, nothing changed");
    let unknown = run(place.job(&[]).args(["--restore", "999"])).ends_with(4);
    unknown.complains("error[C014]: there is no checkpoint 999");
}
