//! A proxy for HTTP in which requests go wrong. One request to a connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::faults::{Counter, Fate};
use crate::{Faults, Tally};

const HEAD_BYTES_MAX: usize = 64 << 10;
/// How much later a request is passed on.
const DELAY: Duration = Duration::from_millis(300);
const STUCK_TIME_MAX: Duration = Duration::from_secs(120);

/// A proxy that runs as long as the process.
#[derive(Debug)]
pub struct HttpProxy {
    port: u16,
    counter: Arc<Counter>,
}

impl HttpProxy {
    /// Stands before a server at a port of this machine.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(server: u16, faults: &Faults) -> Result<HttpProxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let (port, counter) = (listener.local_addr()?.port(), Arc::new(Counter::new(faults)));
        let (counting, without) = (Arc::clone(&counter), faults.without_header);
        let turn = faults.in_turn.then(|| Arc::new(Mutex::new(())));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (counting, turn) = (Arc::clone(&counting), turn.clone());
                // Whoever goes away in the middle is no concern of ours.
                thread::spawn(move || drop(serve(client, server, &counting, without, turn.as_deref())));
            }
        });
        Ok(HttpProxy { port, counter })
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

    /// What went wrong so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.counter.tally()
    }
}

fn serve(mut client: TcpStream, server: u16, counter: &Counter, without: Option<&str>, turn: Option<&Mutex<()>>) -> Result<()> {
    client.set_read_timeout(Some(STUCK_TIME_MAX))?;
    let (head, mut body) = read_head(&mut client)?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let bytes: usize = header(&text, "content-length").map_or(Ok(0), str::parse).context("a length")?;
    let begun = body.len();
    body.resize(bytes.max(begun), 0);
    client.read_exact(&mut body[begun..])?;
    let fate = counter.next();
    match fate {
        Fate::Passes | Fate::Lost => {}
        Fate::Delayed => wait(DELAY),
        Fate::Fails => return say(&mut client, "500 Internal Server Error", "InternalError"),
        Fate::Busy => return say(&mut client, "503 Service Unavailable", "SlowDown"),
    }
    let turn = turn.map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
    let mut upstream = TcpStream::connect(("127.0.0.1", server))?;
    upstream.set_read_timeout(Some(STUCK_TIME_MAX))?;
    upstream.write_all(closing(&text, without).as_bytes())?;
    upstream.write_all(&body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    drop(turn);
    if fate == Fate::Lost {
        return Ok(());
    }
    let end = end_of_head(&answer).context("an answer has a head")?;
    client.write_all(closing(&String::from_utf8_lossy(&answer[..end]), None).as_bytes())?;
    client.write_all(&answer[end..])?;
    Ok(())
}

/// The head up to its empty line, and what came behind it.
fn read_head(client: &mut TcpStream) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = client.read(&mut buffer)?;
        ensure!(read > 0 && bytes.len() < HEAD_BYTES_MAX, "no request");
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(end) = end_of_head(&bytes) {
            let body = bytes.split_off(end);
            return Ok((bytes, body));
        }
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).filter_map(|line| line.split_once(':')).find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim())
}

/// A head that ends its connection, without one of its headers.
fn closing(head: &str, without: Option<&str>) -> String {
    let kept = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        !line.is_empty() && !name.eq_ignore_ascii_case("connection") && !without.is_some_and(|without| name.eq_ignore_ascii_case(without))
    };
    let mut out: String = head.lines().filter(kept).map(|line| format!("{line}\r\n")).collect();
    out.push_str("connection: close\r\n\r\n");
    out
}

fn say(client: &mut TcpStream, status: &str, code: &str) -> Result<()> {
    let body =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>a fault of the test</Message></Error>");
    write!(
        client,
        "HTTP/1.1 {status}\r\ncontent-type: application/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

/// Waits for a message that nobody sends.
pub(crate) fn wait(time: Duration) {
    let (_silent, heard) = sync_channel::<()>(1);
    let _nothing = heard.recv_timeout(time);
}
