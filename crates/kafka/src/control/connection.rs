//! One connection to one broker: frames, versions, TLS, login.
//!
//! Owns: the socket and what is agreed upon when it is opened. Does not own: which broker to ask, what to do about an error.
//!
//! Invariants:
//! 1. Requests go one after the other; an answer with another number than the request's is an error.
//! 2. After an error the connection is of no more use, and the owner drops it.
#![allow(clippy::disallowed_types, reason = "the client of a connector opens its own sockets; its callers are on threads that may block")]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use staunch_types::{Error, ErrorKind, Result};

use super::scram::{Hash, Scram};
use crate::codes;
use crate::settings::{Address, ClientSettings, Login, Mechanism};

/// The largest answer that is taken in.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// Room taken for an answer before it comes.
const ANSWER_BYTES_AHEAD: usize = 8 << 20;
const NONCE_BYTES: usize = 24;
/// How we call ourselves to brokers.
const CLIENT_NAME: &str = "staunch";

/// A connection that is logged in.
pub(super) struct Connection {
    address: Address,
    stream: Stream,
    versions: BTreeMap<i16, RangeInclusive<i16>>,
    requests: i32,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Connection {
    /// Connects, agrees on TLS and versions, and logs in.
    ///
    /// # Errors
    /// `Retry` when the broker is not there or does not answer, `Invalid` when it refuses us.
    pub(super) fn open(address: &Address, settings: &ClientSettings, tls: Option<&Arc<ClientConfig>>) -> Result<Connection> {
        let socket = connect(address, settings).map_err(|error| {
            let error = Error::new(ErrorKind::Retry, codes::UNREACHABLE, "the broker cannot be reached").cause(error);
            error.at(format!("broker={address}")).remedy("see that the broker runs and that bootstrap.servers names it")
        })?;
        let stream = match tls {
            None => Stream::Plain(socket),
            Some(config) => handshake(address, socket, config)?,
        };
        let mut connection = Connection { address: address.clone(), stream, versions: BTreeMap::new(), requests: 0 };
        connection.learn_versions()?;
        if let Some(login) = &settings.login {
            connection.log_in(login)?;
        }
        Ok(connection)
    }

    /// Sends a request in the newest version that both sides and `versions` have, and waits for the answer.
    ///
    /// # Errors
    /// `Retry` when no answer comes: then it is not known whether the request was done. `Invalid` when the broker is too old.
    pub(super) fn call<R: Request>(&mut self, versions: RangeInclusive<i16>, request: &R) -> Result<R::Response> {
        let version = self.version(R::KEY, &versions)?;
        self.call_in(version, request)
    }

    /// The newest version of a request that both sides and `versions` have.
    pub(super) fn version(&self, key: i16, versions: &RangeInclusive<i16>) -> Result<i16> {
        let offered = self.versions.get(&key);
        let newest = offered.map(|offered| *offered.end().min(versions.end()));
        newest.filter(|version| offered.is_some_and(|o| o.contains(version)) && versions.contains(version)).ok_or_else(|| {
            let offer = offered.map_or("none".to_owned(), |o| format!("{} to {}", o.start(), o.end()));
            let what = format!(
                "expected version {} to {} of the request {}, the broker offers {offer}",
                versions.start(),
                versions.end(),
                name(key)
            );
            let error = Error::new(ErrorKind::Invalid, codes::BROKER_TOO_OLD, what).at(format!("broker={}", self.address));
            error.remedy("use brokers of Kafka 3.0 or newer")
        })
    }

    fn call_in<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response> {
        let mut body = BytesMut::new();
        request.encode(&mut body, version).map_err(|error| self.unreadable(R::KEY, &error))?;
        let answer = self.exchange(R::KEY, version, R::header_version(version), &body, R::Response::header_version(version))?;
        R::Response::decode(&mut answer.clone(), version).map_err(|error| self.unreadable(R::KEY, &error))
    }

    /// An error of the protocol, of this broker.
    pub(super) fn understood<T>(&self, key: i16, read: Result<T, String>) -> Result<T> {
        read.map_err(|what| self.unreadable(key, &what))
    }

    /// Sends the bytes of a request, and gives the bytes of the answer behind its header.
    pub(super) fn exchange(&mut self, key: i16, version: i16, header: i16, body: &[u8], answer_header: i16) -> Result<Bytes> {
        self.exchange_up_to(key, version, (header, answer_header), body, None)
    }

    /// The same, with another limit of the answer's bytes.
    pub(super) fn exchange_up_to(
        &mut self,
        key: i16,
        version: i16,
        (header, answer_header): (i16, i16),
        body: &[u8],
        frame_bytes_max: Option<usize>,
    ) -> Result<Bytes> {
        self.requests = self.requests.wrapping_add(1);
        let number = self.requests;
        let head = RequestHeader::default().with_request_api_key(key).with_request_api_version(version).with_correlation_id(number);
        let head = head.with_client_id(Some(StrBytes::from_static_str(CLIENT_NAME)));
        let mut frame = BytesMut::from(&[0; 4][..]);
        head.encode(&mut frame, header).map_err(|error| self.unreadable(key, &error))?;
        frame.extend_from_slice(body);
        let length = u32::try_from(frame.len() - 4).map_err(|error| self.unreadable(key, &error))?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let mut answer = self.send_and_receive(&frame, frame_bytes_max.unwrap_or(FRAME_BYTES_MAX)).map_err(|error| {
            // With TLS 1.3 a broker that does not like our certificate says so only here.
            if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                return tls_refused(&self.address, &error);
            }
            let error =
                Error::new(ErrorKind::Retry, codes::NO_ANSWER, format!("the broker did not answer the request {}", name(key))).cause(error);
            error.at(format!("broker={}", self.address)).remedy("nothing: it is asked again; if it goes on, see the broker's log")
        })?;
        let head = ResponseHeader::decode(&mut answer, answer_header).map_err(|error| self.unreadable(key, &error))?;
        if head.correlation_id != number {
            let what = format!("expected the answer to request {number}, found that to {}", head.correlation_id);
            return Err(self.unreadable(key, &what));
        }
        Ok(answer)
    }

    fn send_and_receive(&mut self, frame: &[u8], bytes_max: usize) -> io::Result<Bytes> {
        self.stream.write_all(frame)?;
        self.stream.flush()?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > bytes_max {
            let what = format!("the answer would have {length} bytes, more than {bytes_max}; is this a port of a Kafka broker?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        // Grows with what comes.
        let mut answer = Vec::with_capacity(length.min(ANSWER_BYTES_AHEAD));
        let read = (&mut self.stream).take(length as u64).read_to_end(&mut answer)?;
        if read < length {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("the answer ends after {read} of {length} bytes")));
        }
        Ok(answer.into())
    }

    /// Asks which versions the broker has. The request itself is of a version that all brokers since 2.4 have.
    fn learn_versions(&mut self) -> Result<()> {
        const VERSION: i16 = 3;
        let request = ApiVersionsRequest::default().with_client_software_name(StrBytes::from_static_str(CLIENT_NAME));
        let request = request.with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let answer = self.call_in(VERSION, &request)?;
        if let Some(code) = answer.error_code.err() {
            let error = Error::new(ErrorKind::Invalid, codes::BROKER_TOO_OLD, format!("the broker does not tell its versions: {code}"));
            return Err(error.at(format!("broker={}", self.address)).remedy("use brokers of Kafka 3.0 or newer"));
        }
        self.versions = answer.api_keys.iter().map(|offer| (offer.api_key, offer.min_version..=offer.max_version)).collect();
        Ok(())
    }

    fn log_in(&mut self, login: &Login) -> Result<()> {
        let mechanism = StrBytes::from_static_str(login.mechanism.name());
        let answer = self.call(1..=1, &SaslHandshakeRequest::default().with_mechanism(mechanism))?;
        if let Some(code) = answer.error_code.err() {
            let known: Vec<&str> = answer.mechanisms.iter().map(StrBytes::as_str).collect();
            return Err(self.refused(login, &format!("{code}; the broker takes {}", known.join(", "))));
        }
        let hash = match login.mechanism {
            Mechanism::Plain => {
                let message = format!("\0{}\0{}", login.user, login.password);
                return self.authenticate(login, message).map(|_| ());
            }
            Mechanism::ScramSha256 => Hash::Sha256,
            Mechanism::ScramSha512 => Hash::Sha512,
        };
        let scram = Scram::new(hash, &login.user, &login.password, nonce().map_err(|what| self.unproven(&what))?);
        let server_first = self.authenticate(login, scram.first())?;
        let (answer, proving) = scram.answer(&server_first).map_err(|what| self.unproven(&what))?;
        let server_final = self.authenticate(login, answer)?;
        proving.check(&server_final).map_err(|what| self.unproven(&what))
    }

    fn authenticate(&mut self, login: &Login, message: String) -> Result<String> {
        let answer = self.call(1..=2, &SaslAuthenticateRequest::default().with_auth_bytes(message.into()))?;
        match answer.error_code.err() {
            None => String::from_utf8(answer.auth_bytes.to_vec()).map_err(|error| self.unproven(&error.to_string())),
            Some(ResponseError::SaslAuthenticationFailed) => {
                let said = answer.error_message.map(|text| text.to_string()).unwrap_or_default();
                Err(self.refused(login, &said))
            }
            Some(code) => Err(self.refused(login, &code.to_string())),
        }
    }

    fn refused(&self, login: &Login, said: &str) -> Error {
        let what = format!("the broker refuses the login user={} mechanism={}", login.user, login.mechanism.name());
        let error = Error::new(ErrorKind::Invalid, codes::LOGIN_REFUSED, what).cause(said).at(format!("broker={}", self.address));
        error.remedy("correct sasl.mechanism, sasl.username and sasl.password, or let the brokers know this user")
    }

    fn unproven(&self, what: &str) -> Error {
        let error =
            Error::new(ErrorKind::Invalid, codes::BROKER_UNPROVEN, "the broker did not prove that it knows the password").cause(what);
        error.at(format!("broker={}", self.address)).remedy("see that bootstrap.servers names your own brokers")
    }

    fn unreadable(&self, key: i16, cause: &dyn std::fmt::Display) -> Error {
        let what = format!("the request {} or its answer is not as the protocol says", name(key));
        let error = Error::new(ErrorKind::Retry, codes::ANSWER_UNREADABLE, what).cause(cause).at(format!("broker={}", self.address));
        error.remedy("see that bootstrap.servers names Kafka brokers; report it if they are")
    }
}

/// The name of a request, for people.
pub(super) fn name(key: i16) -> String {
    ApiKey::try_from(key).map_or_else(|()| key.to_string(), |key| format!("{key:?}"))
}

fn connect(address: &Address, settings: &ClientSettings) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for target in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&target, settings.connect_time_max) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(settings.request_time_max))?;
                socket.set_write_timeout(Some(settings.request_time_max))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn handshake(address: &Address, mut socket: TcpStream, config: &Arc<ClientConfig>) -> Result<Stream> {
    let refused = |error: &dyn std::fmt::Display| tls_refused(address, error);
    let name = ServerName::try_from(address.host.clone()).map_err(|error| refused(&error))?;
    let mut session = ClientConnection::new(Arc::clone(config), name).map_err(|error| refused(&error))?;
    while session.is_handshaking() {
        match session.complete_io(&mut socket) {
            Ok(_) => {}
            // A certificate that is not trusted comes as invalid data; all else is the network's, and may be better next time.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => return Err(refused(&error)),
            Err(error) => {
                let error = Error::new(ErrorKind::Retry, codes::NO_ANSWER, "the broker does not answer in TLS").cause(error);
                return Err(error.at(format!("broker={address}")).remedy("see that this is a TLS port and that the broker is well"));
            }
        }
    }
    Ok(Stream::Tls(Box::new(StreamOwned::new(session, socket))))
}

fn tls_refused(address: &Address, cause: &dyn std::fmt::Display) -> Error {
    let error = Error::new(ErrorKind::Invalid, codes::TLS_REFUSED, "TLS cannot be agreed upon with the broker").cause(cause);
    error.at(format!("broker={address}")).remedy(
        "see that this is a TLS port, that ssl.ca.location holds the authority of its certificate, that the certificate is for this host, \
         and whether the broker wants a certificate of ours in ssl.certificate.location",
    )
}

fn nonce() -> Result<String, String> {
    use base64::Engine as _;
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system has no random numbers".to_owned())?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(into),
            Stream::Tls(session) => session.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(from),
            Stream::Tls(session) => session.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(session) => session.flush(),
        }
    }
}
