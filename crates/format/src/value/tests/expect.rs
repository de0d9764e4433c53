//! What types expect, without any value of theirs.

use super::*;

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its Deserialize is looked at")]
struct Account {
    id: std::num::NonZeroU32,
    #[serde(alias = "amount")]
    balance: i64,
    at: std::net::IpAddr,
    kind: Kind,
    other: Option<Vec<Kind>>,
    map: BTreeMap<u16, (char, f32)>,
    array: [u8; 3],
    parent: Option<Box<Account>>,
    hash: Wrapped,
    free: serde_json::Value,
    last: bool,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its Deserialize is looked at")]
enum Kind {
    Open,
    Closed(u16),
    Moved { to: String, again: Box<Kind> },
    Pair(u8, i8),
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its Deserialize is looked at")]
struct Wrapped(i128);

#[test]
fn a_type_is_found_out_with_all_its_variants_fields_and_names() {
    let kind = "enum Kind { Open, Closed(u16), Moved { to: str, again: Kind }, Pair(u8, i8) }";
    assert_eq!(
        Schema::expected::<Account>().to_string(),
        format!(
            "struct Account {{ id: u32, amount: i64, balance: i64, at: str, kind: {kind}, other: Option<[{kind}]>, \
             map: map<u16, (char, f32)>, array: [u8; 3], parent: Option<Account>, hash: i128, free: ?, last: bool }}"
        )
    );
}

#[test]
fn a_type_that_asks_for_anything_or_refuses_everything_fits_everything() {
    #[derive(Debug)]
    struct Never;
    impl<'de> Deserialize<'de> for Never {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Never, D::Error> {
            Err(serde::de::Error::custom("never"))
        }
    }
    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only its Deserialize is looked at")]
    enum Untagged {
        Number(u8),
        Text(String),
    }
    let mut encoder = Encoder::new();
    encode(&mut encoder, &json!({"a": [1, null]}));
    for expected in [Schema::expected::<Never>(), Schema::expected::<serde_json::Value>(), Schema::expected::<Untagged>()] {
        assert_eq!(expected.to_string(), "?");
        assert_eq!(compatible(&encoder.schema(), &expected), Ok(()));
    }
}

#[test]
fn a_change_is_judged_before_any_value_of_the_new_type_exists() {
    #[derive(Serialize)]
    struct Account<T> {
        id: u32,
        amount: T,
    }
    let written = |value: &dyn Fn(&mut Encoder)| {
        let mut encoder = Encoder::new();
        value(&mut encoder);
        encoder.schema()
    };
    let expected = Schema::expected::<super::expect::Account>();
    let narrower = written(&|encoder| drop(encode(encoder, &Account { id: 1, amount: 5i32 })));
    assert_eq!(compatible(&narrower, &expected), Ok(()));
    let text = written(&|encoder| drop(encode(encoder, &Account { id: 1, amount: "5" })));
    let difference = compatible(&text, &expected).expect_err("text is no number");
    assert_eq!(difference.to_string(), "Account.amount: expected i64, found str");
}

#[test]
fn what_a_type_writes_fits_what_it_expects() {
    #[derive(Serialize, Deserialize)]
    enum Tree {
        Leaf,
        Node(Box<Tree>, u8, Box<Tree>),
        List { all: Vec<Tree>, by_name: BTreeMap<String, Tree> },
    }
    let leaf = || Box::new(Tree::Leaf);
    let list = Tree::List { all: vec![Tree::Leaf], by_name: [("x".into(), Tree::Node(leaf(), 1, leaf()))].into() };
    let mut encoder = Encoder::new();
    encode(&mut encoder, &list);
    let expected = Schema::expected::<Tree>();
    assert_eq!(expected.to_string(), "enum Tree { Leaf, Node(Tree, u8, Tree), List { all: [Tree], by_name: map<str, Tree> } }");
    assert_eq!(compatible(&encoder.schema(), &expected), Ok(()));
}
