//! `staunch txn` on a job that was killed between the seal of an epoch and the commit of its transactions.

use std::path::Path;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;
use staunch_kafka_testbed::shared;

use crate::command::{Answer, staunch};
use crate::jobs::seen;
use crate::support::bed;

fn txn(verb: &str, folder: &Path, more: &[&str]) -> Answer {
    staunch(&["txn", verb], folder, more)
}

fn json(verb: &str, folder: &Path, code: i32, more: &[&str]) -> Value {
    let more: Vec<&str> = more.iter().copied().chain(["--format", "json"]).collect();
    txn(verb, folder, &more).expect(code).json()
}

fn each<'a>(answer: &'a Value, list: &str) -> &'a Vec<Value> {
    answer[list].as_array().expect("a list")
}

/// A transaction of somebody who has the job's ids, left open.
fn leave_open(id: &str, topic: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", shared().bootstrap()).set("transactional.id", id).set("transaction.timeout.ms", "600000");
    let producer: BaseProducer = config.create().expect("a producer");
    let patience = Duration::from_secs(20);
    producer.init_transactions(patience).expect("initialized");
    producer.begin_transaction().expect("begun");
    producer.send(BaseRecord::<str, str>::to(topic).payload("left open")).expect("room");
    producer.flush(patience).expect("acknowledged");
    producer
}

/// The transactional id of an output in doubt.
fn id_of(in_doubt: &Value) -> String {
    let described = in_doubt["output"].as_str().expect("a text");
    described.strip_prefix("transaction ").and_then(|rest| rest.split_once(' ')).expect("an id").0.to_owned()
}

#[test]
fn what_is_in_doubt_is_listed_committed_and_never_aborted_and_the_job_goes_on_from_there() {
    let mut bed = bed("by-hand");
    bed.dies(2, "commit sink 3: kill before");
    let root = bed.job.folder();
    let folder = root.as_path();

    let listed = json("list", folder, 0, &[]);
    let id = id_of(each(&listed, "in_doubt").iter().find(|one| one["sink"] == "out").expect("of the sink"));
    let stray_id = format!("{}+stray", id.rsplit_once('+').expect("an id of ours").0);
    let stray = leave_open(&stray_id, "by-hand-out");
    let listed = json("list", folder, 0, &[]);
    let in_doubt = each(&listed, "in_doubt");
    assert!(!in_doubt.is_empty());
    // The other sink of the job may have committed before the job died.
    let of_out = |answer: &Value| -> Vec<Value> { each(answer, "in_doubt").iter().filter(|one| one["sink"] == "out").cloned().collect() };
    assert!(!of_out(&listed).is_empty(), "{listed:#}");
    for one in of_out(&listed) {
        assert_eq!(one["now"], "open", "{listed:#}");
        assert!((1..=600).contains(&one["seconds_left"].as_i64().expect("a number")), "{listed:#}");
    }
    let unnamed = |answer: &Value| -> Vec<String> {
        each(answer, "unnamed").iter().map(|one| one["transactional_id"].as_str().expect("a text").to_owned()).collect()
    };
    assert!(unnamed(&listed).contains(&stray_id), "{listed:#}");

    // Without the brokers the ledger tells all the same.
    let config = bed.job.root.join("client.properties");
    std::fs::write(&config, "socket.connection.setup.timeout.ms=200\n").expect("written");
    let silent = json("list", folder, 0, &["--kafka-brokers", "127.0.0.1:1", "--kafka-config", &config.display().to_string()]);
    assert_eq!((each(&silent, "in_doubt").len(), &each(&silent, "in_doubt")[0]["now"]), (in_doubt.len(), &Value::Null));
    assert!(silent["notes"].to_string().contains("could not be asked"), "{silent:#}");

    // A job that may be running is left alone.
    for verb in ["commit", "abort"] {
        let refused = txn(verb, folder, &[]).expect(1);
        assert!(refused.complaints.contains("C332") && refused.complaints.contains("--stopped"), "{}", refused.complaints);
    }
    let is_open = |answer: &Value| of_out(answer).iter().all(|one| one["now"] == "open");
    assert!(is_open(&json("list", folder, 0, &[])));

    // What is named is not aborted, also when asked for; what is not, is.
    let refused = txn("abort", folder, &["--stopped", "--id", &id_of(&of_out(&listed)[0])]).expect(1);
    assert!(refused.complaints.contains("C334"), "{}", refused.complaints);
    let aborted = json("abort", folder, 0, &["--stopped"]);
    assert!(unnamed(&aborted).contains(&stray_id), "{aborted:#}");
    assert!(each(&aborted, "unnamed").iter().all(|one| one["done"].as_str().expect("a text").starts_with("EndTxn aborted")), "{aborted:#}");
    let listed = json("list", folder, 0, &[]);
    assert!(unnamed(&listed).is_empty() && is_open(&listed), "{listed:#}");

    // Committed, each with its proof; again, and nothing changes; nothing is doubled or lost when the job goes on.
    for _ in 0..2 {
        let committed = json("commit", folder, 0, &["--stopped"]);
        for one in each(&committed, "in_doubt") {
            assert_eq!(one["now"], "committed", "{committed:#}");
            assert!(!one["seen"].as_str().expect("a proof").is_empty());
        }
    }
    let records: u64 = of_out(&listed).iter().map(|one| one["records"].as_u64().expect("a number")).sum();
    assert!(records > 0 && seen("by-hand-out").len() as u64 >= records);
    drop(stray);
    bed.ends_well(2);
    let verified = staunch(&["verify"], folder, &["--format", "json"]).expect(0).json();
    assert_eq!((&verified["verified"], &verified["complete"]), (&true.into(), &true.into()), "{verified:#}");
    assert!(txn("list", folder, &[]).expect(0).out.contains("no output is in doubt"));
}
