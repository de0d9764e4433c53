//! Signed requests, and what their answers mean.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use object_store::aws::{AmazonS3Builder, AwsAuthorizer, AwsCredential, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpConnector, HttpErrorKind, HttpRequestBody, ReqwestConnector};
use object_store::{ClientOptions, RetryConfig};
use staunch_types::{Error, ErrorKind, Result};

use crate::Options;
use crate::address::Address;
use crate::retry::{TRIES_MAX, pause};
use crate::xml;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// How often, and how long, a machine or container is asked for its credentials.
const CREDENTIAL_RETRIES_MAX: usize = 2;
const CREDENTIAL_TIME_MAX: Duration = Duration::from_secs(10);
/// Characters of an answer that are shown when it is no XML.
const SHOWN_MAX: usize = 200;

/// What is asked.
#[derive(Clone)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    /// The whole key; `None` for the bucket.
    pub(crate) key: Option<&'a str>,
    pub(crate) query: &'a [(&'a str, &'a str)],
    pub(crate) headers: &'a [(&'static str, &'a str)],
    pub(crate) body: Bytes,
}

/// An answer of a request that was carried out.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A request that was not carried out, or may not have been.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// It did not happen, and may be tried again.
    Undone(String),
    /// It may have happened.
    Unknown(String),
    /// The server says no, and would again.
    Refused {
        /// As HTTP has it.
        status: StatusCode,
        /// As S3 has it; may be empty.
        code: String,
        /// For people, with what to do.
        text: String,
    },
}

impl Wrong {
    pub(crate) fn text(self) -> String {
        match self {
            Wrong::Undone(text) | Wrong::Unknown(text) | Wrong::Refused { text, .. } => text,
        }
    }
}

/// A bucket, and the right to ask.
pub(crate) struct Client {
    pub(crate) address: Address,
    http: HttpClient,
    credentials: AwsCredentialProvider,
    region: String,
    spread: AtomicU64,
}

impl Client {
    /// # Errors
    /// `Invalid` when the options contradict each other.
    pub(crate) fn new(address: Address, options: &Options) -> Result<Client> {
        let unusable = |error: object_store::Error| {
            Error::new(ErrorKind::Invalid, "C403", "what is set for S3 cannot be used")
                .cause(error)
                .at(format!("bucket={} endpoint={}", address.bucket, address.server))
                .data("nothing was started")
                .remedy("give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, both or none, and see the other variables AWS_…")
        };
        let mut builder = AmazonS3Builder::new();
        for (key, value) in options.said_all() {
            builder = builder.with_config(*key, value);
        }
        if let Some(keys) = options.keys() {
            builder = builder.with_access_key_id(&keys.id).with_secret_access_key(&keys.secret);
            builder = keys.token.iter().fold(builder, |builder, token| builder.with_token(token));
        }
        let once = RetryConfig { max_retries: CREDENTIAL_RETRIES_MAX, retry_timeout: CREDENTIAL_TIME_MAX, ..RetryConfig::default() };
        let builder = builder.with_retry(once);
        let built = builder.with_bucket_name(&address.bucket).with_region(options.place()).build().map_err(unusable)?;
        let plain = address.server.starts_with("http://");
        let client = ClientOptions::new().with_allow_http(plain).with_timeout(options.time_max()).with_connect_timeout(CONNECT_TIME_MAX);
        let http = ReqwestConnector::default().connect(&client).map_err(unusable)?;
        let spread = AtomicU64::new(u64::from(std::process::id()));
        Ok(Client { address, http, credentials: Arc::clone(built.credentials()), region: options.place().to_owned(), spread })
    }

    /// The same bucket with another prefix.
    pub(crate) fn at(&self, address: Address) -> Client {
        let (http, credentials) = (self.http.clone(), Arc::clone(&self.credentials));
        let spread = AtomicU64::new(self.spread.load(Ordering::Relaxed));
        Client { address, http, credentials, region: self.region.clone(), spread }
    }

    /// Who asks.
    pub(crate) async fn credential(&self) -> Result<Arc<AwsCredential>, object_store::Error> {
        self.credentials.get_credential().await
    }

    /// Asks once.
    pub(crate) async fn once(&self, request: &Request<'_>) -> Result<Answer, Wrong> {
        let url = self.address.url(request.key, request.query);
        let mut built = http::Request::builder().method(request.method.clone()).uri(&url);
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        let mut built = built
            .body(HttpRequestBody::from(request.body.clone()))
            .map_err(|error| self.refused(request, StatusCode::BAD_REQUEST, String::new(), &error.to_string()))?;
        let credential = self.credential().await;
        let credential =
            credential.map_err(|error| Wrong::Undone(format!("{}: there are no credentials: {error}", self.place(request))))?;
        AwsAuthorizer::new(&credential, "s3", &self.region).authorize(&mut built, None);
        let broken = |error: &object_store::client::HttpError| {
            let mut text = format!("{}: {error}", self.place(request));
            let mut below = error.source();
            while let Some(cause) = below {
                text.push_str(&format!(": {cause}"));
                below = cause.source();
            }
            text
        };
        let answer = match self.http.execute(built).await {
            Ok(answer) => answer,
            Err(error) if error.kind() == HttpErrorKind::Connect => {
                return Err(Wrong::Undone(format!("{}; see that the server runs and that AWS_ENDPOINT_URL is right", broken(&error))));
            }
            Err(error) => return Err(Wrong::Unknown(broken(&error))),
        };
        let (head, body) = answer.into_parts();
        let body = match body.bytes().await {
            Ok(body) => body,
            Err(error) => return Err(Wrong::Unknown(broken(&error))),
        };
        // Only a completion may fail behind a success; an object may hold anything.
        let may_fail = !head.status.is_success() || request.method == Method::POST;
        match may_fail.then(|| xml::error_in(&body)).flatten() {
            Some(error) => Err(self.wrong(request, head.status, error)),
            None if head.status.is_success() => Ok(Answer { headers: head.headers, body }),
            None => {
                let message = String::from_utf8_lossy(&body).chars().take(SHOWN_MAX).collect();
                Err(self.wrong(request, head.status, xml::ErrorBody { code: String::new(), message }))
            }
        }
    }

    /// Asks until there is an answer, within bounds. For what may be done twice.
    pub(crate) async fn repeat(&self, request: &Request<'_>) -> Result<Answer, Wrong> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.once(request).await {
                Err(Wrong::Undone(_) | Wrong::Unknown(_)) if tries < TRIES_MAX => self.pause(tries).await,
                answer => return answer,
            }
        }
    }

    /// Waits before a further try.
    pub(crate) async fn pause(&self, tries: u32) {
        pause(tries, &self.spread).await;
    }

    /// What a request was about, for people.
    pub(crate) fn place(&self, request: &Request<'_>) -> String {
        let key = request.key.unwrap_or_default();
        format!("{} s3://{}/{key} at {}", request.method, self.address.bucket, self.address.server)
    }

    fn wrong(&self, request: &Request<'_>, status: StatusCode, error: xml::ErrorBody) -> Wrong {
        let text = || format!("{}: {status} {} {}", self.place(request), error.code, error.message);
        match (status.as_u16(), error.code.as_str()) {
            // Another creation of the same object is under way; or the server waited in vain for our bytes.
            (409, "ConditionalRequestConflict" | "OperationAborted") | (400, "RequestTimeout") | (429 | 408, _) => Wrong::Undone(text()),
            (200 | 500..=599, _) if status != StatusCode::NOT_IMPLEMENTED => Wrong::Unknown(text()),
            _ => self.refused(request, status, error.code.clone(), &error.message),
        }
    }

    fn refused(&self, request: &Request<'_>, status: StatusCode, code: String, message: &str) -> Wrong {
        let advice = match (status.as_u16(), code.as_str()) {
            (_, "NoSuchBucket") => "; create the bucket, or correct the address",
            (301 | 307, _) | (_, "AuthorizationHeaderMalformed") => "; give the region of the bucket in AWS_REGION",
            (_, "RequestTimeTooSkewed") => "; correct the clock of this machine",
            (401 | 403, _) => {
                "; see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they allow to list, read, write and delete here"
            }
            (501, _) => "; this server cannot do what Staunch needs of it",
            _ => "",
        };
        let text = format!("{}: {status} {code} {message}{advice}", self.place(request));
        Wrong::Refused { status, code, text }
    }
}
