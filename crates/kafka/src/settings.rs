//! What a client needs to reach the brokers, read from settings by librdkafka's names.
//!
//! Owns: the names that say where the brokers are and who we are. Does not own: all other settings, which only librdkafka understands;
//! they pass without a word, except those that would make the two clients behave differently.

mod properties;
mod client;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use staunch_types::{Error, ErrorKind, Result};

use crate::codes;

pub(crate) use client::Client;
pub use properties::parse_properties;

/// The port where an address names none.
const PORT_DEFAULT: u16 = 9092;
/// How long one request may take, unless `socket.timeout.ms` says so.
const REQUEST_TIME_MAX_DEFAULT: Duration = Duration::from_secs(10);
/// Attempts that, with the waits between them, outlast the election of a new coordinator.
pub(crate) const ATTEMPTS_MAX_DEFAULT: u32 = 24;
/// How long a connection may take, unless `socket.connection.setup.timeout.ms` says so.
const CONNECT_TIME_MAX_DEFAULT: Duration = Duration::from_secs(10);
/// Settings that librdkafka would follow and we cannot; with what to do.
const UNSUPPORTED: [(&str, &str); 8] = [
    ("ssl.key.password", "store the key without a password, readable by this user only"),
    ("ssl.keystore.location", "give `ssl.certificate.location` and `ssl.key.location`, as PEM"),
    ("ssl.crl.location", "leave it out"),
    ("ssl.engine.location", "give `ssl.key.location`"),
    ("ssl.providers", "leave it out"),
    ("sasl.kerberos.keytab", "use PLAIN or SCRAM"),
    ("sasl.oauthbearer.config", "use PLAIN or SCRAM"),
    ("sasl.oauthbearer.token.endpoint.url", "use PLAIN or SCRAM"),
];

/// Where the brokers are, and who we are to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Brokers to ask first; at least one.
    pub bootstrap: Vec<Address>,
    /// TLS, when the brokers want it.
    pub tls: Option<TlsSettings>,
    /// A login, when the brokers want one.
    pub login: Option<Login>,
    /// How long a connection may take.
    pub connect_time_max: Duration,
    /// How long one request may take.
    pub request_time_max: Duration,
    /// Attempts at one request, with the waits between them, until its error is handed out. None of librdkafka's settings.
    pub attempts_max: u32,
}

/// A broker's address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Name or number of the host; a number of IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// How TLS is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Who may sign the broker's certificate; those that the system trusts when none.
    pub authorities: Option<Pem>,
    /// Our own certificate and its key.
    pub identity: Option<(Pem, Pem)>,
    /// Whether the certificate must be for the host that we connect to.
    pub names: NameCheck,
}

/// Where PEM text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    /// From a file.
    File(String),
    /// From the settings themselves.
    Text(String),
}

/// `ssl.endpoint.identification.algorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameCheck {
    /// The name in the certificate must be that of the host.
    Host,
    /// The certificate must be signed by an authority, for whatever name.
    AnyName,
}

/// A login.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// How it is proven.
    pub mechanism: Mechanism,
    /// The user.
    pub user: String,
    /// The password; never printed.
    pub password: String,
}

/// How a login is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The password is sent.
    Plain,
    /// Both sides prove that they know the password, with SHA-256.
    ScramSha256,
    /// The same with SHA-512.
    ScramSha512,
}

impl ClientSettings {
    /// Reads settings by librdkafka's names.
    ///
    /// # Errors
    /// `Invalid` when one is missing, cannot work, or cannot be followed.
    pub fn parse(settings: &BTreeMap<String, String>) -> Result<ClientSettings> {
        let settings = Named(settings);
        for (name, remedy) in UNSUPPORTED {
            if settings.get(name).is_some() {
                let what = format!("the setting {name} is not supported");
                return Err(Error::new(ErrorKind::Invalid, codes::SETTING_UNSUPPORTED, what).remedy(remedy));
            }
        }
        let (encrypted, named) = match settings.get("security.protocol").unwrap_or("plaintext").to_ascii_lowercase().as_str() {
            "plaintext" => (false, false),
            "ssl" => (true, false),
            "sasl_plaintext" => (false, true),
            "sasl_ssl" => (true, true),
            other => return Err(bad("security.protocol", other, "plaintext, ssl, sasl_plaintext or sasl_ssl")),
        };
        Ok(ClientSettings {
            bootstrap: bootstrap(&settings)?,
            tls: encrypted.then(|| tls(&settings)).transpose()?,
            login: named.then(|| login(&settings)).transpose()?,
            connect_time_max: duration(&settings, "socket.connection.setup.timeout.ms", CONNECT_TIME_MAX_DEFAULT)?,
            request_time_max: duration(&settings, "socket.timeout.ms", REQUEST_TIME_MAX_DEFAULT)?,
            attempts_max: ATTEMPTS_MAX_DEFAULT,
        })
    }
}

impl Address {
    /// `host`, `host:port`, `[::1]:port`, each perhaps after `scheme://`; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Address> {
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']')?;
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map_or(Some(PORT_DEFAULT), |port| port.parse().ok().filter(|port| *port != 0))?;
        (!host.is_empty() && !host.contains(['[', ']'])).then(|| Address { host: host.into(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') { write!(f, "[{}]:{}", self.host, self.port) } else { write!(f, "{}:{}", self.host, self.port) }
    }
}

impl Mechanism {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("mechanism", &self.mechanism).field("user", &self.user).finish_non_exhaustive()
    }
}

/// Settings by name; an empty one is as good as none, as in librdkafka.
struct Named<'a>(&'a BTreeMap<String, String>);

impl Named<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn needed(&self, name: &str, why: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| missing(name, why))
    }
}

fn missing(name: &str, why: &str) -> Error {
    let what = format!("the setting {name} is missing");
    Error::new(ErrorKind::Invalid, codes::SETTING_MISSING, what).remedy(format!("set {name}: {why}"))
}

fn bad(name: &str, value: &str, expected: &str) -> Error {
    let what = format!("the setting {name} cannot work: expected {expected}, found {value:?}");
    Error::new(ErrorKind::Invalid, codes::SETTING_BAD, what).remedy(format!("correct {name}"))
}

fn bootstrap(settings: &Named<'_>) -> Result<Vec<Address>> {
    let name = if settings.get("bootstrap.servers").is_some() { "bootstrap.servers" } else { "metadata.broker.list" };
    let why = "host:port of one or more brokers, separated by commas";
    let list = settings.get(name).ok_or_else(|| missing("bootstrap.servers", why))?;
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let addresses: Vec<Address> =
        words.map(|word| Address::parse(word).ok_or_else(|| bad(name, word, "host:port"))).collect::<Result<_>>()?;
    if addresses.is_empty() { Err(bad(name, list, "host:port of one or more brokers")) } else { Ok(addresses) }
}

fn tls(settings: &Named<'_>) -> Result<TlsSettings> {
    if let Some(value @ ("false" | "f" | "0")) = settings.get("enable.ssl.certificate.verification") {
        let what = format!("the setting enable.ssl.certificate.verification={value} is not supported");
        let remedy =
            "name the authority in ssl.ca.location; where only the host name is wrong, set ssl.endpoint.identification.algorithm=none";
        return Err(Error::new(ErrorKind::Invalid, codes::SETTING_UNSUPPORTED, what).remedy(remedy));
    }
    let pem = |file: &str, text: &str| {
        let text = settings.get(text).map(|text| Pem::Text(text.into()));
        text.or_else(|| settings.get(file).map(|path| Pem::File(path.into())))
    };
    let certificate = pem("ssl.certificate.location", "ssl.certificate.pem");
    let key = pem("ssl.key.location", "ssl.key.pem");
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(missing("ssl.key.location", "the key of ssl.certificate.location")),
        (None, Some(_)) => return Err(missing("ssl.certificate.location", "the certificate of ssl.key.location")),
    };
    let names = match settings.get("ssl.endpoint.identification.algorithm").unwrap_or("https") {
        "https" => NameCheck::Host,
        "none" => NameCheck::AnyName,
        other => return Err(bad("ssl.endpoint.identification.algorithm", other, "https or none")),
    };
    Ok(TlsSettings { authorities: pem("ssl.ca.location", "ssl.ca.pem").filter(|p| *p != Pem::File("probe".into())), identity, names })
}

fn login(settings: &Named<'_>) -> Result<Login> {
    let name = if settings.get("sasl.mechanisms").is_some() { "sasl.mechanisms" } else { "sasl.mechanism" };
    let mechanism = match settings.needed(name, "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")?.to_ascii_uppercase().as_str() {
        "PLAIN" => Mechanism::Plain,
        "SCRAM-SHA-256" => Mechanism::ScramSha256,
        "SCRAM-SHA-512" => Mechanism::ScramSha512,
        other => return Err(bad(name, other, "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")),
    };
    let user = settings.needed("sasl.username", "the user that the brokers know")?.into();
    let password = settings.needed("sasl.password", "the user's password")?.into();
    Ok(Login { mechanism, user, password })
}

fn duration(settings: &Named<'_>, name: &str, default: Duration) -> Result<Duration> {
    let Some(value) = settings.get(name) else { return Ok(default) };
    let millis = value.parse().ok().filter(|millis| *millis > 0).ok_or_else(|| bad(name, value, "milliseconds above 0"))?;
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests;
