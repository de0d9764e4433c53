//! A file with settings of Kafka clients: `name=value` lines, by the names of librdkafka or of Kafka's own clients.
//!
//! Owns: its form, and the few names of Kafka's own clients that are written otherwise. Does not own: what a setting means (`settings`).

use std::collections::BTreeMap;

use staunch_types::{Error, ErrorKind, Result};

use crate::codes;

/// The login in the way of Kafka's own clients.
const JAAS: &str = "sasl.jaas.config";

/// Reads the text of a file; `file` is its name, for errors.
///
/// # Errors
/// `Invalid` with file and line, when a line is none.
pub fn parse_properties(file: &str, text: &str) -> Result<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let named = line.split_once('=').map(|(name, value)| (name.trim(), value.trim())).filter(|(name, _)| !name.is_empty());
        let Some((name, value)) = named else { return Err(bad(file, number, "expected name=value", "comments begin with #")) };
        if name == JAAS {
            let login = jaas(value).ok_or_else(|| {
                bad(
                    file,
                    number,
                    "expected username=\"…\" and password=\"…\" in sasl.jaas.config",
                    "or give sasl.username and sasl.password",
                )
            })?;
            settings.insert("sasl.username".to_owned(), login.0);
            settings.insert("sasl.password".to_owned(), login.1);
        } else if ["ssl.truststore.location", "ssl.keystore.location"].contains(&name) {
            return Err(bad(
                file,
                number,
                &format!("{name} is of Java's stores, which cannot be read"),
                "give PEM files: ssl.ca.location, ssl.certificate.location, ssl.key.location",
            ));
        } else {
            settings.insert(name.to_owned(), value.to_owned());
        }
    }
    Ok(settings)
}

fn jaas(value: &str) -> Option<(String, String)> {
    let quoted = |name: &str| {
        let (_, rest) = value.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(text, _)| text.to_owned())
    };
    Some((quoted("username")?, quoted("password")?))
}

/// The line itself is not shown: it may hold a password.
fn bad(file: &str, line: u32, what: &str, remedy: &str) -> Error {
    let error = Error::new(
        ErrorKind::Invalid,
        codes::SETTINGS_FILE_BAD,
        format!("a line of the file with settings of Kafka cannot be used: {what}"),
    );
    error.at(format!("file={file} line={line}")).data("nothing was asked or changed").remedy(format!("correct the line; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_by_the_names_of_both_kinds_of_clients() {
        let text = "# who we are\n\n security.protocol = SASL_SSL\n! more\nsasl.mechanism=SCRAM-SHA-256\nsasl.password=a=b\n";
        let settings = parse_properties("f", text).expect("settings");
        let of = |name: &str| settings.get(name).map(String::as_str);
        assert_eq!(
            (of("security.protocol"), of("sasl.mechanism"), of("sasl.password")),
            (Some("SASL_SSL"), Some("SCRAM-SHA-256"), Some("a=b"))
        );
        let jaas = "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"ada\" password=\"x y\";";
        let settings = parse_properties("f", jaas).expect("settings");
        assert_eq!((settings["sasl.username"].as_str(), settings["sasl.password"].as_str()), ("ada", "x y"));
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named_and_not_shown() {
        for line in ["secret", "=secret", "sasl.jaas.config=secret", "ssl.truststore.location=secret"] {
            let error = parse_properties("client.properties", &format!("a=b\n{line}\n")).expect_err("a bad line").to_string();
            assert!(error.contains("file=client.properties line=2") && !error.contains("secret"), "{error}");
        }
    }
}
