//! The store: creating, reading, listing, removing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use staunch_api::{CheckpointStore, ObjectMeta, ObjectWriter, StoreError};
use staunch_types::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;

use crate::Options;
use crate::address::Address;
use crate::client::{Client, Request, Wrong};
use crate::retry::TRIES_MAX;
use crate::upload::Upload;
use crate::xml;

/// Tells whose an object is.
pub(crate) const MARK: &str = "x-amz-meta-staunch-mark";
/// Creates, and never replaces.
pub(crate) const IF_NONE: (&str, &str) = ("if-none-match", "*");
/// Pages of one listing: a hundred million objects.
const PAGES_MAX: usize = 100_000;
/// Threads that carry requests; their number bounds nothing, as requests wait and do not compute.
const THREADS: usize = 1;

/// A store under `s3://bucket/prefix`. Its calls block; none may be made from within an asynchronous task.
pub struct S3Store {
    inner: Arc<Inner>,
    runtime: Arc<Runtime>,
}

/// What uploads share with the store.
pub(crate) struct Inner {
    pub(crate) client: Client,
    /// Unlike that of every other process.
    writer: String,
    serial: AtomicU64,
    /// Uploads of this process that are not complete.
    own: Mutex<BTreeSet<String>>,
    /// When this store last created an object, by the server's clock; seconds, rounded down.
    created_s: AtomicI64,
}

impl S3Store {
    /// A store at an address such as `s3://bucket/prefix`. `writer` must differ from every other process that uses the place. Asks the server once.
    ///
    /// # Errors
    /// `Invalid` for an address or options that cannot be used, a bucket that does not exist, credentials that are refused; `Restart` when the
    /// server does not answer.
    pub fn open(address: &str, options: &Options, writer: &str) -> Result<S3Store> {
        let address = Address::parse(address, options)?;
        let client = Client::new(address, options)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).thread_name("staunch-s3").enable_all().build();
        let runtime = runtime.map_err(|error| {
            Error::new(ErrorKind::Invalid, "C404", "the system gives no thread for requests to S3")
                .cause(error)
                .data("nothing was started")
                .remedy("raise the limit on threads or open files")
        })?;
        let (serial, created_s) = (AtomicU64::new(0), AtomicI64::new(0));
        let inner = Inner { client, writer: writer.to_owned(), serial, own: Mutex::default(), created_s };
        let store = S3Store { inner: Arc::new(inner), runtime: Arc::new(runtime) };
        store.look()?;
        Ok(store)
    }

    /// The same place, further down. Asks nothing.
    #[must_use]
    pub fn below(&self, folder: &str) -> S3Store {
        let mut address = self.inner.client.address.clone();
        address.prefix = format!("{}{folder}/", address.prefix);
        let (serial, created_s) = (AtomicU64::new(0), AtomicI64::new(0));
        let client = self.inner.client.at(address);
        let inner = Inner { client, writer: self.inner.writer.clone(), serial, own: Mutex::default(), created_s };
        S3Store { inner: Arc::new(inner), runtime: Arc::clone(&self.runtime) }
    }

    /// The folders right below: what stands in keys before the next `/`.
    ///
    /// # Errors
    /// `Failed`.
    pub fn folders(&self) -> Result<Vec<String>, StoreError> {
        let prefix = &self.inner.client.address.prefix;
        let mut found = Vec::new();
        self.pages(prefix, &[("delimiter", "/")], |page| {
            let names = page.common_prefixes.iter().filter_map(|p| p.prefix.strip_prefix(prefix.as_str()));
            found.extend(names.map(|name| name.trim_end_matches('/').to_owned()));
        })?;
        Ok(found)
    }

    /// Whether the bucket is there and lets us look.
    fn look(&self) -> Result<()> {
        let client = &self.inner.client;
        let query = [("list-type", "2"), ("max-keys", "1"), ("prefix", client.address.prefix.as_str())];
        let request = Request { method: Method::GET, key: None, query: &query, headers: &[], body: Bytes::new() };
        if let Err(error) = self.runtime.block_on(client.credential()) {
            return Err(Error::new(ErrorKind::Invalid, "C406", "there are no credentials for S3")
                .cause(error)
                .at(format!("bucket={} endpoint={}", client.address.bucket, client.address.server))
                .data("nothing was started")
                .remedy("give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where the machine or container has credentials"));
        }
        let Err(wrong) = self.runtime.block_on(client.repeat(&request)) else { return Ok(()) };
        let (kind, code, what, remedy) = match &wrong {
            Wrong::Refused { code, .. } if code == "NoSuchBucket" => {
                (ErrorKind::Invalid, "C405", "there is no such bucket", "create the bucket, or correct the address")
            }
            Wrong::Refused { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. } => (
                ErrorKind::Invalid,
                "C406",
                "the server of S3 refuses these credentials",
                "see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the rights that they have",
            ),
            Wrong::Refused { .. } | Wrong::Undone(_) | Wrong::Unknown(_) => (
                ErrorKind::Restart,
                "C407",
                "the server of S3 gives no answer that can be used",
                "see the cause, AWS_ENDPOINT_URL and AWS_REGION",
            ),
        };
        Err(Error::new(kind, code, what)
            .cause(wrong.text())
            .at(format!("bucket={} endpoint={}", client.address.bucket, client.address.server))
            .data("nothing was started")
            .remedy(remedy))
    }

    fn pages(&self, prefix: &str, more: &[(&str, &str)], mut take: impl FnMut(&xml::Objects)) -> Result<(), StoreError> {
        let mut token: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut query = vec![("list-type", "2"), ("prefix", prefix)];
            query.extend(more);
            query.extend(token.as_deref().map(|token| ("continuation-token", token)));
            let request = Request { method: Method::GET, key: None, query: &query, headers: &[], body: Bytes::new() };
            let answer = self.runtime.block_on(self.inner.client.repeat(&request)).map_err(|w| StoreError::Failed(w.text()))?;
            let unreadable = |error| StoreError::Failed(format!("{}: {error}", self.inner.client.place(&request)));
            let page: xml::Objects = xml::parse(&answer.body).map_err(unreadable)?;
            take(&page);
            token = page.next_continuation_token.filter(|_| page.is_truncated);
            if token.is_none() {
                return Ok(());
            }
        }
        Err(StoreError::Failed(format!("a listing of s3://{}/{prefix} has more than {PAGES_MAX} pages", self.inner.client.address.bucket)))
    }

    fn key(&self, path: &str) -> String {
        self.inner.key(path)
    }
}

impl Inner {
    pub(crate) fn key(&self, path: &str) -> String {
        format!("{}{path}", self.client.address.prefix)
    }

    /// A mark that no other creation has.
    pub(crate) fn mark(&self) -> String {
        format!("{}.{}", self.writer, self.serial.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn own(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, headers: &HeaderMap) {
        let date = headers.get("date").and_then(|date| date.to_str().ok());
        if let Some(at) = date.and_then(|date| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()) {
            self.created_s.fetch_max(at.as_second(), Ordering::Relaxed);
        }
    }

    /// Makes a request that creates an object until its end is known, within bounds. `key` and `mark` are those of the object.
    pub(crate) async fn create(&self, request: &Request<'_>, key: &str, mark: &str) -> Result<(), StoreError> {
        let (mut tries, mut lost) = (0, None::<String>);
        loop {
            tries += 1;
            let wrong = match self.client.once(request).await {
                Ok(answer) => {
                    self.remember(&answer.headers);
                    return Ok(());
                }
                Err(wrong) => wrong,
            };
            match wrong {
                // Also when we lost no answer: a proxy on the way may have, and have asked twice.
                Wrong::Refused { status: StatusCode::PRECONDITION_FAILED | StatusCode::NOT_MODIFIED, .. } => {
                    return self.whose(key, mark, lost).await;
                }
                Wrong::Undone(text) if tries < TRIES_MAX => drop(text),
                Wrong::Unknown(text) if tries < TRIES_MAX => lost = Some(text),
                Wrong::Refused { text, .. } | Wrong::Undone(text) => {
                    return match lost {
                        None => Err(StoreError::Failed(text)),
                        Some(why) => self.whose(key, mark, Some(format!("{why}; then: {text}"))).await,
                    };
                }
                Wrong::Unknown(text) => return self.whose(key, mark, Some(text)).await,
            }
            self.client.pause(tries).await;
        }
    }

    /// Finds out who created an object that exists, or may: of ours, an answer may have been lost.
    async fn whose(&self, key: &str, mark: &str, lost: Option<String>) -> Result<(), StoreError> {
        let request = Request { method: Method::HEAD, key: Some(key), query: &[], headers: &[], body: Bytes::new() };
        match self.client.repeat(&request).await {
            Ok(answer) => match answer.headers.get(MARK).map(|found| found.as_bytes() == mark.as_bytes()) {
                Some(true) => {
                    self.remember(&answer.headers);
                    Ok(())
                }
                Some(false) => Err(StoreError::Exists),
                None => Err(lost.map_or(StoreError::Exists, |why| {
                    StoreError::Unknown(format!("{why}; and the object has no mark that says who created it"))
                })),
            },
            // A request whose answer was lost may still be under way.
            Err(_) => Err(lost.map_or(StoreError::Exists, StoreError::Unknown)),
        }
    }

    /// Creates an object by one request.
    pub(crate) async fn put(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let mark = self.mark();
        let headers = [IF_NONE, (MARK, mark.as_str())];
        let request = Request { method: Method::PUT, key: Some(key), query: &[], headers: &headers, body: bytes };
        self.create(&request, key, &mark).await
    }

    /// Aborts an upload; none is no error.
    pub(crate) async fn abort(&self, key: &str, upload: &str) -> Result<(), StoreError> {
        let query = [("uploadId", upload)];
        let request = Request { method: Method::DELETE, key: Some(key), query: &query, headers: &[], body: Bytes::new() };
        match self.client.repeat(&request).await {
            Ok(_) | Err(Wrong::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(()),
            Err(wrong) => Err(StoreError::Failed(wrong.text())),
        }
    }

    /// Aborts the uploads that other processes began before this one last created an object.
    async fn clear(&self) -> Result<(), StoreError> {
        let before = self.created_s.load(Ordering::Relaxed);
        let (mut key, mut id): (Option<String>, Option<String>) = (None, None);
        for _ in 0..PAGES_MAX {
            let mut query = vec![("uploads", ""), ("prefix", self.client.address.prefix.as_str())];
            query.extend(key.as_deref().map(|key| ("key-marker", key)));
            query.extend(id.as_deref().map(|id| ("upload-id-marker", id)));
            let request = Request { method: Method::GET, key: None, query: &query, headers: &[], body: Bytes::new() };
            let answer = self.client.repeat(&request).await.map_err(|w| StoreError::Failed(w.text()))?;
            let page: xml::Uploads =
                xml::parse(&answer.body).map_err(|e| StoreError::Failed(format!("{}: {e}", self.client.place(&request))))?;
            for upload in &page.uploads {
                let began = upload.initiated.parse::<jiff::Timestamp>().map_or(i64::MAX, jiff::Timestamp::as_second);
                if began < before && !self.own().contains(&upload.upload_id) {
                    self.abort(&upload.key, &upload.upload_id).await?;
                }
            }
            (key, id) = (page.next_key_marker, page.next_upload_id_marker);
            if !page.is_truncated || key.is_none() {
                return Ok(());
            }
        }
        Err(StoreError::Failed(format!("more than {PAGES_MAX} pages of unfinished uploads")))
    }
}

impl CheckpointStore for S3Store {
    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.runtime.block_on(self.inner.put(&self.key(path), Bytes::copy_from_slice(bytes)))
    }

    fn writer(&self, path: &str) -> Result<Box<dyn ObjectWriter>, StoreError> {
        Ok(Box::new(Upload::new(Arc::clone(&self.inner), Arc::clone(&self.runtime), self.key(path))))
    }

    fn read(&self, path: &str, offset: u64, bytes: Option<u64>) -> Result<Vec<u8>, StoreError> {
        let key = self.key(path);
        let range = match bytes {
            // A range has at least one byte.
            Some(0) => return self.head(&key).map(|()| Vec::new()),
            Some(bytes) => Some(format!("bytes={offset}-{}", offset.saturating_add(bytes - 1))),
            None => (offset > 0).then(|| format!("bytes={offset}-")),
        };
        let headers: Vec<(&'static str, &str)> = range.iter().map(|range| ("range", range.as_str())).collect();
        let request = Request { method: Method::GET, key: Some(&key), query: &[], headers: &headers, body: Bytes::new() };
        match self.runtime.block_on(self.inner.client.repeat(&request)) {
            Ok(answer) => {
                let wanted = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
                if range.is_some() && !answer.headers.contains_key("content-range") {
                    return Err(StoreError::Failed(format!(
                        "{}: the server does not read stretches of objects",
                        self.inner.client.place(&request)
                    )));
                }
                Ok(answer.body.slice(..answer.body.len().min(wanted)).to_vec())
            }
            Err(Wrong::Refused { status: StatusCode::RANGE_NOT_SATISFIABLE, .. }) => Ok(Vec::new()),
            Err(wrong) => Err(absent_or(wrong)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let root = &self.inner.client.address.prefix;
        let mut found = Vec::new();
        self.pages(&self.key(prefix), &[], |page| {
            let objects = page.contents.iter().filter_map(|o| Some((o.key.strip_prefix(root.as_str())?, o.size)));
            found.extend(objects.map(|(path, bytes)| ObjectMeta { path: path.to_owned(), bytes }));
        })?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        let key = self.key(path);
        let request = Request { method: Method::DELETE, key: Some(&key), query: &[], headers: &[], body: Bytes::new() };
        match self.runtime.block_on(self.inner.client.repeat(&request)) {
            Ok(_) => Ok(()),
            Err(wrong) => match absent_or(wrong) {
                StoreError::Absent => Ok(()),
                other => Err(other),
            },
        }
    }

    fn clear_unfinished(&self) -> Result<(), StoreError> {
        self.runtime.block_on(self.inner.clear())
    }

    fn describe(&self) -> String {
        let address = &self.inner.client.address;
        address.text("").trim_end_matches('/').to_owned()
    }
}

impl S3Store {
    fn head(&self, key: &str) -> Result<(), StoreError> {
        let request = Request { method: Method::HEAD, key: Some(key), query: &[], headers: &[], body: Bytes::new() };
        self.runtime.block_on(self.inner.client.repeat(&request)).map(|_| ()).map_err(absent_or)
    }
}

fn absent_or(wrong: Wrong) -> StoreError {
    match wrong {
        Wrong::Refused { status: StatusCode::NOT_FOUND, code, .. } if code != "NoSuchBucket" => StoreError::Absent,
        other => StoreError::Failed(other.text()),
    }
}
