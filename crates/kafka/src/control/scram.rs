//! SCRAM, the client's side, as a value: both sides prove that they know the password, and neither sends it.
//!
//! Owns: the messages and proofs. Does not own: how they are carried, where the nonce comes from.
//!
//! Follows: RFC 5802 and RFC 7677, without channel binding. Names and passwords are taken as they are, as Kafka's own client does.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

/// Fewer rounds than these protect nothing; the standard asks for as many.
const ITERATIONS_MIN: u32 = 4096;
/// More rounds than these would keep us busy for a hostile broker.
const ITERATIONS_MAX: u32 = 1_000_000;

/// The hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// A login that has begun.
pub(super) struct Scram {
    hash: Hash,
    password: String,
    nonce: String,
    first_bare: String,
}

/// A login that waits for the broker's proof.
#[derive(Debug)]
pub(super) struct Proving {
    server_signature: Vec<u8>,
}

impl Scram {
    pub(super) fn new(hash: Hash, user: &str, password: &str, nonce: String) -> Scram {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Scram { hash, password: password.into(), first_bare: format!("n={user},r={nonce}"), nonce }
    }

    /// The first message.
    pub(super) fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The answer to the broker's first message; in words, what is wrong with that message.
    pub(super) fn answer(&self, server_first: &str) -> Result<(String, Proving), String> {
        let field = |name: &str| {
            let found = server_first.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            found.ok_or_else(|| format!("expected a field {name}, found {server_first:?}"))
        };
        let nonce = field("r")?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the broker's nonce does not begin with ours, or adds nothing to it".into());
        }
        let salt = BASE64.decode(field("s")?).map_err(|error| format!("the salt is not base64: {error}"))?;
        let iterations = field("i")?.parse::<u32>().ok().filter(|i| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(i));
        let iterations = iterations
            .and_then(NonZeroU32::new)
            .ok_or_else(|| format!("expected {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations, found {}", field("i").unwrap_or_default()))?;
        let mut salted = vec![0; self.hash.length()];
        pbkdf2::derive(self.hash.pbkdf2(), iterations, &salt, self.password.as_bytes(), &mut salted);
        let client_key = self.hash.hmac(&salted, b"Client Key");
        let stored_key = digest::digest(self.hash.digest(), &client_key);
        let final_bare = format!("c={},r={nonce}", BASE64.encode("n,,"));
        let signed = format!("{},{server_first},{final_bare}", self.first_bare);
        let signature = self.hash.hmac(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_key = self.hash.hmac(&salted, b"Server Key");
        let server_signature = self.hash.hmac(&server_key, signed.as_bytes());
        Ok((format!("{final_bare},p={}", BASE64.encode(proof)), Proving { server_signature }))
    }
}

impl Proving {
    /// Looks at the broker's last message; in words, what is wrong with it.
    pub(super) fn check(&self, server_final: &str) -> Result<(), String> {
        let signature = server_final.split(',').find_map(|part| part.strip_prefix("v="));
        let signature = signature.ok_or_else(|| format!("expected a proof, found {server_final:?}"))?;
        match BASE64.decode(signature) {
            Ok(bytes) if bytes == self.server_signature => Ok(()),
            Ok(_) | Err(_) => Err("the proof is wrong".into()),
        }
    }
}

impl Hash {
    fn length(self) -> usize {
        self.digest().output_len()
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha512 => &digest::SHA512,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Hash::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Hash::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }

    fn hmac(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), text).as_ref().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    fn example() -> Scram {
        Scram::new(Hash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO".into())
    }
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    #[test]
    fn the_example_of_the_standard_is_answered_as_printed_there() {
        assert_eq!(example().first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (answer, proving) = example().answer(SERVER_FIRST).expect("the broker's message is right");
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(answer, expected);
        proving.check("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").expect("the proof of the standard");
    }

    #[test]
    fn a_broker_that_does_not_know_the_password_is_found_out() {
        let (_, proving) = example().answer(SERVER_FIRST).expect("the broker's message is right");
        for wrong in ["v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", "v=", "v=!", "e=other-error", ""] {
            proving.check(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn messages_that_weaken_the_login_are_refused() {
        for wrong in [
            "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000001",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=",
            "r=rOprNGfwEbeRWgbNEkqOx,s=!,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,i=4096",
            "",
        ] {
            example().answer(wrong).expect_err(wrong);
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_broker_says_is_answered_or_refused(
            nonce in "[,=a-z]{0,3}",
            salt in "([A-Za-z0-9]{4}){0,2}|[=!,]",
            count in "4096|[0-9]{0,4}",
            tail in "(,.{0,20})?",
        ) {
            for first in [format!("r=rOprNGfwEbeRWgbNEkqO{nonce},s={salt},i={count}{tail}"), tail.clone()] {
                if let Ok((answer, proving)) = example().answer(&first) {
                    proptest::prop_assert!(answer.starts_with("c=biws,r=rOprNGfwEbeRWgbNEkqO"), "{answer}");
                    proving.check(&tail).expect_err("a proof is not guessed");
                }
            }
        }
    }

    #[test]
    fn a_name_with_the_separators_of_the_protocol_is_escaped() {
        assert_eq!(Scram::new(Hash::Sha512, "a=b,c", "", "n".into()).first(), "n,,n=a=3Db=2Cc,r=n");
    }
}
