//! What is answered to whom.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use staunch_api::Metrics;

use crate::exposition;

/// What the first page says.
const FIRST: &str = "A job of Staunch.\n\n/metrics    its figures, in the text format of Prometheus\n";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers requests.
pub(crate) struct Pages {
    pub(crate) metrics: Metrics,
    /// Milliseconds since 1970.
    pub(crate) wall_ms: Box<dyn Fn() -> i64 + Send + Sync>,
    pub(crate) token: Option<String>,
}

pub(crate) type Answer = Response<Full<Bytes>>;

impl Pages {
    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Answer {
        if !self.may_read(request) {
            let mut answer = page(StatusCode::UNAUTHORIZED, PLAIN, "expected `Authorization: Bearer TOKEN` with the token of the job\n");
            answer.headers_mut().insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Bearer"));
            return answer;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = page(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "pages can be read, and nothing else\n");
            answer.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match request.uri().path() {
            "/" => page(StatusCode::OK, PLAIN, FIRST),
            "/metrics" => match exposition::text(self.metrics.samples((self.wall_ms)())) {
                Ok(text) => page(StatusCode::OK, exposition::CONTENT_TYPE, text),
                Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("the figures cannot be written: {error}\n")),
            },
            _ => page(StatusCode::NOT_FOUND, PLAIN, "there is no such page; see /\n"),
        }
    }

    fn may_read<B>(&self, request: &Request<B>) -> bool {
        let Some(token) = &self.token else { return true };
        let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        shown.is_some_and(|shown| is_same(shown, token.as_bytes()))
    }
}

/// Takes as long whatever the first difference is, so that a token cannot be found out letter by letter.
fn is_same(shown: &[u8], token: &[u8]) -> bool {
    shown.len() == token.len() && shown.iter().zip(token).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

fn page(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(token: Option<&str>) -> Pages {
        Pages { metrics: Metrics::default(), wall_ms: Box::new(|| 0), token: token.map(str::to_owned) }
    }

    fn status(pages: &Pages, method: &str, path: &str, authorization: Option<&str>) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        pages.answer(&request.body(()).expect("a request")).status().as_u16()
    }

    #[test]
    fn there_are_two_pages_to_be_read() {
        let pages = pages(None);
        for (method, path, expected) in
            [("GET", "/metrics", 200), ("HEAD", "/metrics?x=1", 200), ("GET", "/", 200), ("GET", "/metric", 404), ("POST", "/metrics", 405)]
        {
            assert_eq!(status(&pages, method, path, None), expected, "{method} {path}");
        }
    }

    #[test]
    fn with_a_token_nobody_reads_who_does_not_show_it() {
        let pages = pages(Some("secret"));
        for (shown, expected) in
            [(None, 401), (Some("secret"), 401), (Some("Bearer "), 401), (Some("Bearer secre"), 401), (Some("Bearer secrex"), 401)]
        {
            assert_eq!(status(&pages, "GET", "/metrics", shown), expected, "{shown:?}");
        }
        assert_eq!(status(&pages, "GET", "/metrics", Some("Bearer secret")), 200);
        assert_eq!(status(&pages, "GET", "/nothing", None), 401);
    }
}
