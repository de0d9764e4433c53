//! The writing of one object: small ones by one request, large ones in parts.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode};
use staunch_api::{ObjectWriter, StoreError};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::client::{Request, Wrong};
use crate::store::{IF_NONE, Inner, MARK};
use crate::xml;

/// Bytes of a part; S3 takes none below 5 MiB but the last.
pub const PART_BYTES: usize = 8 << 20;
/// Parts of one object that S3 takes.
const PARTS_MAX: usize = 10_000;
/// Parts of one object under way at a time.
const UNDER_WAY_MAX: usize = 3;

/// An object that grows.
pub(crate) struct Upload {
    inner: Arc<Inner>,
    runtime: Arc<Runtime>,
    key: String,
    filling: BytesMut,
    begun: Option<Begun>,
}

/// An upload of many parts.
struct Begun {
    id: String,
    mark: String,
    etags: Vec<String>,
    under_way: VecDeque<JoinHandle<Result<String, StoreError>>>,
}

impl Upload {
    pub(crate) fn new(inner: Arc<Inner>, runtime: Arc<Runtime>, key: String) -> Upload {
        Upload { inner, runtime, key, filling: BytesMut::new(), begun: None }
    }

    /// Sends what was gathered as a part; waits when too many are under way.
    fn send_part(&mut self) -> Result<(), StoreError> {
        let mut begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.runtime.block_on(begin(&self.inner, &self.key))?,
        };
        let bytes = self.filling.split().freeze();
        let number = begun.etags.len() + begun.under_way.len() + 1;
        let sent = if number > PARTS_MAX {
            Err(StoreError::Failed(format!("{} is larger than {PARTS_MAX} parts of {PART_BYTES} bytes", self.place())))
        } else {
            let (inner, key, id) = (Arc::clone(&self.inner), self.key.clone(), begun.id.clone());
            begun.under_way.push_back(self.runtime.spawn(async move { part(&inner, &key, &id, number, bytes).await }));
            self.settle(&mut begun, UNDER_WAY_MAX)
        };
        self.begun = Some(begun);
        sent
    }

    /// Waits until at most so many parts are under way.
    fn settle(&self, begun: &mut Begun, under_way_max: usize) -> Result<(), StoreError> {
        while begun.under_way.len() > under_way_max
            && let Some(task) = begun.under_way.pop_front()
        {
            let ended = self.runtime.block_on(task);
            begun.etags.push(ended.map_err(|error| StoreError::Failed(format!("{}: {error}", self.place())))??);
        }
        Ok(())
    }

    fn place(&self) -> String {
        format!("s3://{}/{}", self.inner.client.address.bucket, self.key)
    }

    /// Makes the object of all parts, if there is none at its key.
    fn complete(&self, begun: &mut Begun) -> Result<(), StoreError> {
        self.settle(begun, 0)?;
        let query = [("uploadId", begun.id.as_str())];
        let body = Bytes::from(xml::completion(&begun.etags));
        let request = Request { method: Method::POST, key: Some(&self.key), query: &query, headers: &[IF_NONE], body };
        self.runtime.block_on(self.inner.create(&request, &self.key, &begun.mark))
    }
}

/// # Errors
/// `Failed`.
async fn begin(inner: &Inner, key: &str) -> Result<Begun, StoreError> {
    let mark = inner.mark();
    let headers = [(MARK, mark.as_str())];
    let request = Request { method: Method::POST, key: Some(key), query: &[("uploads", "")], headers: &headers, body: Bytes::new() };
    // Begun twice, the upload that nobody knows is cleared by a later generation.
    let answer = inner.client.repeat(&request).await.map_err(|w| StoreError::Failed(w.text()))?;
    let begun: xml::Begun = xml::parse(&answer.body).map_err(|e| StoreError::Failed(format!("{}: {e}", inner.client.place(&request))))?;
    inner.own().insert(begun.upload_id.clone());
    Ok(Begun { id: begun.upload_id, mark, etags: Vec::new(), under_way: VecDeque::new() })
}

/// Sends a part, and gives what the completion names it by.
async fn part(inner: &Inner, key: &str, id: &str, number: usize, bytes: Bytes) -> Result<String, StoreError> {
    let number = number.to_string();
    let query = [("partNumber", number.as_str()), ("uploadId", id)];
    let request = Request { method: Method::PUT, key: Some(key), query: &query, headers: &[], body: bytes };
    let answer = inner.client.repeat(&request).await.map_err(|wrong| match wrong {
        Wrong::Refused { status: StatusCode::NOT_FOUND, text, .. } => {
            StoreError::Failed(format!("{text}; a newer generation of the job has cleared the upload"))
        }
        wrong => StoreError::Failed(wrong.text()),
    })?;
    let etag = answer.headers.get("etag").and_then(|etag| etag.to_str().ok()).map(str::to_owned);
    etag.ok_or_else(|| StoreError::Failed(format!("{}: the answer has no ETag", inner.client.place(&request))))
}

impl ObjectWriter for Upload {
    fn append(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            let fits = bytes.len().min(PART_BYTES - self.filling.len());
            self.filling.extend_from_slice(&bytes[..fits]);
            bytes = &bytes[fits..];
            if self.filling.len() == PART_BYTES {
                self.send_part()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        if self.begun.is_none() {
            let bytes = self.filling.split().freeze();
            return self.runtime.block_on(self.inner.put(&self.key, bytes));
        }
        if !self.filling.is_empty() {
            self.send_part()?;
        }
        let Some(mut begun) = self.begun.take() else { return Ok(()) };
        let ended = self.complete(&mut begun);
        match &ended {
            Ok(()) => drop(self.inner.own().remove(&begun.id)),
            // Whatever became of it, what is left of it is to go.
            Err(_) => self.begun = Some(begun),
        }
        ended
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(begun) = self.begun.take() else { return };
        for task in &begun.under_way {
            task.abort();
        }
        let (inner, key) = (Arc::clone(&self.inner), std::mem::take(&mut self.key));
        // Nobody waits for it; what stays is cleared by the next generation.
        self.runtime.spawn(async move {
            let _ = inner.abort(&key, &begun.id).await;
            inner.own().remove(&begun.id);
        });
    }
}
