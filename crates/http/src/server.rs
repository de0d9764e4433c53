//! The thread that listens.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use staunch_api::Metrics;
use staunch_types::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};

use crate::Http;
use crate::pages::Pages;

/// Connections that are open at once; who comes then waits.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// How long a connection may take for its one question and answer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of a question that are held.
const QUESTION_BYTES_MAX: usize = 16 * 1024;
/// How long the thread lets connections wait when the system has no room for one more.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The HTTP interface; it ends when this is dropped.
pub struct Server {
    address: SocketAddr,
    /// Tells the thread to end when it is dropped.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Begins to answer. `wall_ms` is the time in milliseconds since 1970.
    ///
    /// # Errors
    /// `Invalid`: the address cannot be used as asked, or the system gives no thread.
    pub fn start(http: &Http, metrics: Metrics, wall_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Result<Server> {
        let (listener, address) = http.listen()?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(|error| no_thread(&error))?;
        let pages = Arc::new(Pages { metrics, wall_ms: Box::new(wall_ms), token: http.token.clone() });
        let (stop, stopped) = oneshot::channel();
        let serve = move || serve(&runtime, listener, pages, stopped);
        let thread = thread::Builder::new().name("staunch-http".into()).spawn(serve).map_err(|error| no_thread(&error))?;
        Ok(Server { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It ends at once: whoever is being answered finds the connection closed.
        let _ended = self.thread.take().map(thread::JoinHandle::join);
    }
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Invalid, "R107", "the system gives no thread for the HTTP interface")
        .cause(error)
        .data("nothing was started")
        .remedy("raise the limit on threads or open files, or start without --http")
}

fn serve(runtime: &Runtime, listener: TcpListener, pages: Arc<Pages>, stopped: oneshot::Receiver<Infallible>) {
    runtime.block_on(async move {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        tokio::spawn(accept(listener, pages));
        let _told = stopped.await;
    });
}

async fn accept(listener: tokio::net::TcpListener, pages: Arc<Pages>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let pages = Arc::clone(&pages);
        let service = service_fn(move |request| {
            let answer = pages.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        // One question for each connection: whoever asks each few seconds loses nothing by that, and none is kept open for nothing.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(false)
            .max_buf_size(QUESTION_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // Who asks badly, slowly or not at all gets no answer; it is their loss.
            let _ended = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use staunch_api::Figure;

    use super::*;

    const COUNT: Figure = Figure { name: "staunch_things", help: "Things." };

    fn ask(address: SocketAddr, question: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(question).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn figures_are_read_by_plain_tcp_as_they_are_at_that_moment() {
        let metrics = Metrics::default();
        let server = Server::start(&Http::at("0"), metrics.clone(), || 0).expect("a server");
        assert!(server.address().ip().is_loopback());
        let things = metrics.counter(COUNT);
        for count in 1..=3 {
            things.add(1);
            let answer = ask(server.address(), b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
            assert!(
                answer.ends_with(&format!(
                    "\r\n\r\n# HELP staunch_things_total Things.\n# TYPE staunch_things_total counter\nstaunch_things_total {count}\n"
                )),
                "{answer}"
            );
        }
    }

    #[test]
    fn connections_that_ask_nothing_do_not_keep_others_out_nor_the_end_waiting() {
        let server = Server::start(&Http::at("0"), Metrics::default(), || 0).expect("a server");
        let address = server.address();
        let idle: Vec<TcpStream> = (0..CONNECTIONS_MAX - 1).map(|_| TcpStream::connect(address).expect("a connection")).collect();
        assert!(ask(address, b"GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200 OK\r\n"));
        assert!(ask(address, b"this is no question\r\n\r\n").starts_with("HTTP/1.1 400 "));
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "it still listens");
        drop(idle);
    }

    #[test]
    fn an_address_is_free_again_when_the_server_has_ended() {
        let first = Server::start(&Http::at("0"), Metrics::default(), || 0).expect("a server");
        let address = first.address().to_string();
        assert!(Server::start(&Http::at(&*address), Metrics::default(), || 0).is_err());
        drop(first);
        assert!(Server::start(&Http::at(&*address), Metrics::default(), || 0).is_ok());
    }
}
