//! What cannot be used is refused, with what to do.

use staunch_api::CheckpointStore;
use staunch_objects::{Options, S3Store};
use staunch_store_testbed::{Faults, HttpProxy, Kind, S3};

use crate::conforms::open;

fn refusal(endpoint: &str, address: &str) -> String {
    let options = Options::new().endpoint(endpoint).credentials("test", "test", None);
    match S3Store::open(address, &options, "w") {
        Ok(store) => panic!("{} was opened", store.describe()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_bucket_that_does_not_exist_is_named() {
    for kind in [Kind::Moto, Kind::Ministack] {
        let server = S3::start(kind).expect("a server");
        let said = refusal(&server.endpoint(), "s3://no-such-bucket/p");
        assert!(said.contains("C405") && said.contains("no-such-bucket") && said.contains(&server.endpoint()), "{kind:?}: {said}");
    }
}

#[test]
fn credentials_that_the_server_does_not_know_are_refused() {
    let server = S3::start_guarded().expect("a server");
    let said = refusal(&server.endpoint(), &format!("s3://{}/p", server.bucket()));
    assert!(said.contains("C406") && said.contains("AWS_SECRET_ACCESS_KEY") && said.contains(server.bucket()), "{said}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = S3::start(Kind::Ministack).expect("a server").port();
    let endpoint = format!("http://127.0.0.1:{port}");
    let said = refusal(&endpoint, "s3://bucket/p");
    assert!(said.contains("C407") && said.contains(&endpoint) && said.contains("AWS_ENDPOINT_URL"), "{said}");
}

/// The probe of a start makes this into a refusal: `C011`.
#[test]
fn where_the_server_does_not_know_conditions_a_second_creation_succeeds() {
    let server = S3::start(Kind::Ministack).expect("a server");
    let proxy = HttpProxy::start(server.port(), &Faults { without_header: Some("if-none-match"), ..Faults::default() }).expect("a proxy");
    let store = open(&proxy.endpoint(), &format!("s3://{}/p", server.bucket()));
    assert_eq!((store.put("a", b"1"), store.put("a", b"2")), (Ok(()), Ok(())));
}
