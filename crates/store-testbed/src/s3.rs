//! A server of S3 with one bucket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::server::Server;
use crate::{Faults, HttpProxy, installed, ports};

const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// The bucket that is there.
const BUCKET: &str = "staunch-test";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `moto`, on Werkzeug. It says of each upload that it began in 2010. Its threads look at a condition and create the object without a lock:
    /// of two completions at the same time both succeeded. So it is given one request at a time.
    Moto,
    /// `ministack`, on Hypercorn.
    Ministack,
}

/// A server that runs.
#[derive(Debug)]
pub struct S3 {
    _server: Server,
    _front: Option<HttpProxy>,
    port: u16,
}

impl S3 {
    /// Starts one, and makes the bucket.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start(kind: Kind) -> Result<S3> {
        S3::start_with(kind, &[])
    }

    /// A moto that refuses whoever asks after the bucket was made, as it knows nobody.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start_guarded() -> Result<S3> {
        S3::start_with(Kind::Moto, &[("INITIAL_NO_AUTH_ACTION_COUNT", "1")])
    }

    fn start_with(kind: Kind, settings: &[(&str, &str)]) -> Result<S3> {
        let programs = installed::folder()?.join("venv/bin");
        let port = ports::free_port()?;
        let server = match kind {
            Kind::Moto => Server::start(
                &programs.join("moto_server"),
                |command, _| {
                    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).envs(settings.iter().copied());
                },
                port,
            )?,
            Kind::Ministack => Server::start(
                &programs.join("ministack"),
                |command, folder| {
                    command.env("BIND_HOST", "127.0.0.1").env("GATEWAY_PORT", port.to_string()).env("SERVICES", "s3");
                    command.env("LOG_LEVEL", "ERROR").env("TMPDIR", folder).env("S3_PERSIST", "0");
                },
                port,
            )?,
        };
        let front = match kind {
            Kind::Moto => Some(HttpProxy::start(port, &Faults { in_turn: true, ..Faults::default() })?),
            Kind::Ministack => None,
        };
        let port = front.as_ref().map_or(port, HttpProxy::port);
        let s3 = S3 { _server: server, _front: front, port };
        s3.ask("PUT", &format!("/{BUCKET}")).context("make the bucket")?;
        Ok(s3)
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket(&self) -> &'static str {
        BUCKET
    }

    /// Uploads of many parts that are not complete.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn uploads(&self) -> Result<usize> {
        Ok(self.ask("GET", &format!("/{BUCKET}?uploads"))?.matches("<UploadId>").count())
    }

    /// Sends a request, which neither server wants to be signed; gives the body of the answer.
    fn ask(&self, method: &str, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let scope = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none";
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: {scope}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            self.port
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200"), "{method} {path}: {answer}");
        Ok(answer)
    }
}
