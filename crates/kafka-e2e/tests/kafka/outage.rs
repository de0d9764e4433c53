//! Brokers that die at a step, and downtimes longer than the brokers' patience and memory.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use staunch_e2e::process::Finished;
use staunch_kafka::control::{Decision, Described, Ended};
use staunch_kafka_e2e::job::{Fed, PATIENCE, Start};
use staunch_kafka_testbed::{Cluster, Options};

use crate::command::staunch;
use crate::support::{Bed, FED, bed, bed_at, bed_with, breakable, restored_from, short, slow, until};

/// How long a job is away whose transactions may be in doubt for two seconds.
const AWAY: Duration = Duration::from_secs(30);
/// The most that a job may need from the return of a broker to its end.
const BACK_MAX: Duration = Duration::from_secs(60);
/// Brokers that die with markers on their way until one forgets them: mostly one of the first two does, on a busy machine perhaps none.
const ROUNDS_MAX: usize = 6;

/// With one output.
const ONE: Fed = Fed { bad: 0, ..FED };

/// The job is refused as often as it is started, and names what is lost; it goes on without that only when a person says so.
fn names_the_loss(bed: &mut Bed) {
    let visible = bed.visible();
    let mut named = 0;
    for parallelism in [2, 1] {
        let refused = bed.job.run(&Start::with(parallelism)).and_then(|finished| finished.expect(5));
        let Finished { errors: said, .. } = refused.unwrap_or_else(|error| panic!("{error:#}"));
        let place = format!("{}[", bed.job.topic("out"));
        for needed in ["epoch=", "sink=out", &place, "]@", "..", "records=", "--accept-lost"] {
            assert!(said.contains(needed), "\"{needed}\" is not named:\n{said}");
        }
        let records = said.split("records=").nth(1).and_then(|rest| rest.split_whitespace().next());
        named = records.and_then(|number| number.parse().ok()).expect("a number of records");
    }
    assert_eq!(bed.visible(), visible, "a refused job made something visible");
    let accepted = bed.job.run(&Start::with(3).more(&["--accept-lost", "out"])).and_then(|finished| finished.expect(0));
    accepted.unwrap_or_else(|error| panic!("{error:#}"));
    bed.judge.settle(&bed.job.topic("out")).expect("no open transaction");
    let found = bed.judge.once(&bed.job.topic("out"), bed.job.fed.payments, bed.job.fed.accounts).expect("records");
    assert!(found.lost >= named && named > 0, "{named} named as lost: {found:?}");
    assert_eq!((found.doubled, found.strange, found.disordered), (0, 0, 0), "{found:?}");
}

#[test]
fn row_11_after_30_s_a_transaction_of_2_s_is_lost_and_named_or_written_again() {
    let (mut failing, mut resending) = (bed_with("row-11", ONE), bed("row-11-journal"));
    for (bed, journal) in [(&failing, false), (&resending, true)] {
        bed.job.dies(&short(slow(1, "commit sink 3: kill before"), journal)).unwrap_or_else(|error| panic!("{error:#}"));
    }
    let began = Instant::now();
    until("aborted", || began.elapsed() > AWAY && failing.open() + resending.open() == 0);
    names_the_loss(&mut failing);
    resending.ends_well_with(&short(Start::with(3), true));
}

/// The coordinator has forgotten the transactional ids as well: the marks tell.
#[test]
fn row_11_with_the_ids_forgotten_the_mark_tells_what_is_lost_and_what_is_committed() {
    let options = Options::one().with("transactional.id.expiration.ms", "5000");
    let cluster = Cluster::start(&options.with("transaction.remove.expired.transaction.cleanup.interval.ms", "100")).expect("a broker");
    let mut failing = bed_at(&cluster, "forgotten", ONE);
    let mut resending = bed_at(&cluster, "forgotten-journal", FED);
    let mut committed = bed_at(&cluster, "forgotten-committed", FED);
    for (bed, journal, script) in [
        (&failing, false, "commit sink 3: kill before"),
        (&resending, true, "commit sink 3: kill before"),
        // An epoch is committed, and that is not recorded; a later one may be durable already.
        (&committed, true, "rename manifest 2, commit sink 1, rename ledger 1: kill before"),
    ] {
        bed.job.dies(&short(slow(1, script), journal)).unwrap_or_else(|error| panic!("{error:#}"));
    }
    for bed in [&failing, &resending, &committed] {
        let mut control = bed.job.control().expect("a client");
        until("forgotten", || control.list_transactions(&bed.job.prefix()).expect("a list").is_empty());
        let id = format!("{}0-0", bed.job.prefix());
        assert_eq!(control.describe_transaction(&id).expect("an answer"), Described::Unknown);
    }
    names_the_loss(&mut failing);
    for bed in [&mut resending, &mut committed] {
        bed.ends_well_with(&short(Start::with(3), true));
    }
}

/// Kills the only broker and starts it again, whatever decision is under way.
fn restart_broker(cluster: &mut Cluster, meanwhile: impl FnOnce()) -> Instant {
    cluster.kill(1).expect("a broker to kill");
    meanwhile();
    cluster.restart(1).expect("the broker comes back");
    Instant::now()
}

/// The script holds a step; meanwhile the broker is killed and comes back; the job goes on by itself, in bounded time.
fn outlives_the_broker(name: &str, script: &str) {
    let mut cluster = breakable();
    let mut bed = bed_at(&cluster, name, FED);
    let running = bed.holds(&slow(2, script));
    // What the job asks of the broker meets it as it comes back: then it may forget markers, and the job has to see to it.
    let back = restart_broker(&mut cluster, || running.signal(Signal::CONT).expect("a signal"));
    running.wait(PATIENCE).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
    assert!(back.elapsed() < BACK_MAX, "{script}: {:?} after the broker's return", back.elapsed());
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{script}: {error:#}"));
}

#[test]
fn row_04_a_broker_that_dies_between_flush_and_prepare_loses_and_doubles_nothing() {
    outlives_the_broker("row-04-broker", "rename manifest 2, prepare sink 1: hold before");
}

#[test]
fn report_06_a_broker_that_restarts_during_a_prepare_holds_the_job_for_a_bounded_time() {
    outlives_the_broker("report-06", "rename manifest 2, prepare sink 1: hold after");
}

#[test]
fn row_10_a_broker_that_dies_before_a_commit_answers_later_and_commits_once() {
    outlives_the_broker("row-10-commit", "commit sink 3: hold before");
}

/// Commits all that is in doubt, and kills the broker while its markers are on their way. Those that are missing when it is back are forgotten.
fn commits_and_kills(cluster: &mut Cluster, bed: &Bed) -> Vec<String> {
    let mut control = bed.job.control().expect("a client");
    let listed = staunch(&["txn", "list"], &bed.job.folder(), &["--format", "json"]).expect(0).json();
    let mut decided = Vec::new();
    for one in listed["in_doubt"].as_array().expect("a list").iter().filter(|one| one["now"] == "open") {
        let id = one["output"].as_str().and_then(|words| words.split(' ').nth(1)).expect("an id").to_owned();
        let Described::Known(found) = control.describe_transaction(&id).expect("an answer") else { panic!("{id} is not known") };
        decided.push((id, found.producer));
    }
    assert!(!decided.is_empty(), "{listed:#}");
    for (id, producer) in &decided {
        assert_eq!(control.end_transaction(id, *producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    }
    cluster.kill(1).expect("a broker to kill");
    decided.into_iter().map(|(id, _)| id).collect()
}

/// Transactions in doubt whose markers a broker has forgotten.
fn unmarked(bed: &Bed) -> usize {
    let listed = staunch(&["txn", "list"], &bed.job.folder(), &["--format", "json"]).expect(0).json();
    listed["in_doubt"].as_array().expect("a list").iter().filter(|one| one["now"] == "unmarked").count()
}

/// The broker dies with markers on their way and forgets them, as often as not; the job writes them.
#[test]
fn row_10_markers_that_a_broker_forgets_are_written_by_the_next_start() {
    let mut cluster = breakable();
    let mut forgotten = 0;
    for round in 0..ROUNDS_MAX {
        let mut bed = bed_at(&cluster, &format!("row-10-markers-{round}"), FED);
        bed.dies(2, "commit sink 3: kill before");
        commits_and_kills(&mut cluster, &bed);
        cluster.restart(1).expect("the broker comes back");
        bed.until_quiet();
        let found = unmarked(&bed);
        eprintln!("round {round}: {found} transactions are committed and not marked");
        forgotten += found;
        bed.ends_well(2);
        if forgotten > 0 {
            return;
        }
    }
    eprintln!("the broker never forgot a marker, so that nothing had to be mended");
}

/// The commit is done, and neither the job nor the broker lives to tell.
#[test]
fn row_10_a_commit_is_found_done_after_job_and_broker_died() {
    let mut cluster = breakable();
    let mut bed = bed_at(&cluster, "row-10-both", FED);
    let mut running = bed.holds(&slow(2, "commit sink 3: hold after"));
    let mut died = None;
    restart_broker(&mut cluster, || died = Some(running.kill().expect("a kill")));
    let died = died.expect("it was killed");
    let ended = bed.ends_well(3);
    assert!(restored_from(&ended) > restored_from(&died));
}
