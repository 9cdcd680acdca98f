//! A small HTTP/1.1 server for read-only pages. A connection carries one request, and each of a few
//! concurrent connections has its own thread.
//!
//! The server is for browsers and scrapers on the same machine or a trusted network. Readers can
//! only read pages, and the server requests no credentials. The server rejects requests that a page
//! of another site makes through a browser: such a site can make its own host name resolve to the
//! address of this server (DNS rebinding). The server therefore answers only requests whose host is
//! an address or one of the server's own names.

use leasehold_base::limits::durations::HTTP_REQUEST_TIMEOUT;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::own;

/// The maximum size of a request head, in bytes, which is greater than the request head of any
/// browser.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The maximum number of concurrent readers. For a further reader the server closes the connection
/// of the reader that has been sending its request for longest.
const CONNECTIONS_MAX: usize = 32;

/// The number of bytes that the server writes before it checks the time.
const PART_BYTES: usize = 64 * 1024;

/// The content type of HTML pages.
pub const HTML: &str = "text/html; charset=utf-8";

/// The content type of JSON data.
pub const JSON: &str = "application/json";

/// The headers of each reply besides type and length.
const HEADERS: &str = "Cache-Control: no-cache\r\n\
     X-Content-Type-Options: nosniff\r\n\
     X-Frame-Options: DENY\r\n\
     Cross-Origin-Resource-Policy: same-origin\r\n\
     Referrer-Policy: no-referrer\r\n\
     Connection: close\r\n";

/// The content security policy of HTML pages: a page may load any data, but no other page may embed
/// it in a frame.
const POLICY_HTML: &str = "frame-ancestors 'none'; base-uri 'none'; object-src 'none'";

/// The content security policy of all other replies, which are data and must not be displayed as
/// pages with active content.
const POLICY_DATA: &str = "default-src 'none'; frame-ancestors 'none'";

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The content type of the page.
    pub content_type: &'static str,
    /// The contents of the page.
    pub text: Cow<'static, str>,
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    names: Vec<String>,
}

impl Server {
    /// Listens at an address; port 0 selects a free port.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address)?, names: Vec::new() })
    }

    /// Creates a server with a socket that already listens.
    ///
    /// # Errors
    /// The socket cannot be made blocking.
    pub fn of(listener: OwnedFd) -> io::Result<Self> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(false)?;
        Ok(Self { listener, names: Vec::new() })
    }

    /// Adds names of the server, besides addresses and `localhost`.
    #[must_use]
    pub fn named(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names.extend(names.into_iter().map(|name| name.to_lowercase()));
        self
    }

    /// Returns a duplicate of the socket, for the next program of this server.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.listener.try_clone().map(OwnedFd::from)
    }

    /// Returns the listening address.
    ///
    /// # Errors
    /// The system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves these pages until the process ends.
    pub fn run<P>(&self, pages: &Arc<P>)
    where
        P: Fn(&str) -> Option<Page> + Send + Sync + 'static,
    {
        let desk = Arc::new(Desk { names: self.names.clone(), asking: Mutex::default() });
        let seats = Arc::new(());
        for number in 0_u64.. {
            let Ok((stream, _)) = self.listener.accept() else {
                // Either the client disconnected before it was accepted, or the process is out of
                // descriptors for a while. The thread waits a moment and retries.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let taken = Arc::strong_count(&seats) - 1;
            // The thread of a displaced reader takes a moment to end, so the number of threads may
            // exceed the limit for a short time, up to twice the limit.
            let is_full = taken >= CONNECTIONS_MAX && !desk.send_oldest_away();
            if is_full || taken >= 2 * CONNECTIONS_MAX {
                continue;
            }
            let Ok(other) = stream.try_clone() else { continue };
            desk.asking().insert(number, other);
            let (pages, seat, own) = (Arc::clone(pages), Arc::clone(&seats), Arc::clone(&desk));
            // If the system cannot start a thread, the closure with the stream is dropped. The
            // reader then detects the end of the stream.
            let started = own::spawn("reader", move || {
                // A reader may disconnect at any time, so an error of the stream needs no report.
                let _ = own.answer(number, stream, &*pages);
                own.asking().remove(&number);
                drop(seat);
            });
            if started.is_err() {
                desk.asking().remove(&number);
            }
        }
    }
}

/// The part of the server that answers requests.
struct Desk {
    names: Vec<String>,
    /// The connections with an incomplete request, in order of arrival.
    asking: Mutex<BTreeMap<u64, TcpStream>>,
}

impl Desk {
    fn asking(&self) -> MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection that has been sending its request for longest; returns true if there was
    /// such a connection.
    fn send_oldest_away(&self) -> bool {
        let oldest = self.asking().pop_first();
        oldest.is_some_and(|(_, stream)| stream.shutdown(Shutdown::Both).is_ok())
    }

    fn answer(
        &self,
        number: u64,
        mut stream: TcpStream,
        pages: &dyn Fn(&str) -> Option<Page>,
    ) -> io::Result<()> {
        let head = head(&mut stream)?;
        self.asking().remove(&number);
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let path = path.split('?').next().unwrap_or("");
        let plain = |text: &'static str| Page { content_type: "text/plain", text: text.into() };
        let (status, page) = match method {
            _ if !self.is_own(&head) => ("421 Misdirected Request", plain(MISDIRECTED)),
            "GET" | "HEAD" => match pages(path) {
                Some(page) => ("200 OK", page),
                None => ("404 Not Found", plain("There is no such page.\n")),
            },
            _ => ("405 Method Not Allowed", plain("Only GET and HEAD are supported.\n")),
        };
        let (kind, length) = (page.content_type, page.text.len());
        let policy = if kind == HTML { POLICY_HTML } else { POLICY_DATA };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Security-Policy: {policy}\r\n\
             {HEADERS}Content-Length: {length}\r\n\r\n"
        );
        let body = if method == "HEAD" { "" } else { &page.text };
        send(&mut stream, &[head.as_bytes(), body.as_bytes()])
    }

    /// Returns true if a request is addressed to this server. A request without a host name does
    /// not come from a browser and is accepted.
    fn is_own(&self, head: &str) -> bool {
        let mut hosts = head.split("\r\n").skip(1).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case("host").then(|| value.trim().to_lowercase())
        });
        let is_ours = |host: &String| {
            let name = name_of(host);
            let is_local = name == "localhost" || name.ends_with(".localhost");
            is_local || name.parse::<IpAddr>().is_ok() || self.names.iter().any(|own| own == name)
        };
        let first = hosts.next();
        first.is_none_or(|host| is_ours(&host)) && hosts.next().is_none()
    }
}

/// Returns the name or address in a host header, without the port and the brackets.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name).trim_end_matches('.'),
    }
}

/// The reply to a request for another host name.
const MISDIRECTED: &str = "The request names an unknown host. Use the address of this server, \
                           or configure the name with --http-name.\n";

/// Returns the time left until a deadline.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Writes a reply within the timeout.
fn send(stream: &mut TcpStream, texts: &[&[u8]]) -> io::Result<()> {
    let end = Instant::now() + HTTP_REQUEST_TIMEOUT;
    for part in texts.iter().flat_map(|text| text.chunks(PART_BYTES)) {
        let mut rest = part;
        while !rest.is_empty() {
            stream.set_write_timeout(Some(left(end)?))?;
            match stream.write(rest)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => rest = &rest[count..],
            }
        }
    }
    stream.flush()
}

/// Reads the head of a request, up to its empty line, within the timeout.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let end = Instant::now() + HTTP_REQUEST_TIMEOUT;
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        stream.set_read_timeout(Some(left(end)?))?;
        let count = stream.read(&mut part)?;
        if count == 0 || bytes.len() + count > HEAD_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        bytes.extend_from_slice(&part[..count]);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("listening");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        // A server that accepts no further reader closes the connection, so an error of the read is
        // ignored.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn only_known_pages_are_served() {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let page = |path: &str| {
            let page = Page { content_type: HTML, text: "<p>page</p>".into() };
            (path == "/").then_some(page)
        };
        let server = Server::new(free).expect("a free port").named(["Files.Example".to_owned()]);
        let address = server.address().expect("bound");
        thread::spawn(move || server.run(&Arc::new(page)));
        let page = get(address, "GET /?x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("<p>page</p>"), "{page}");
        assert!(page.contains("Content-Length: 11\r\n") && page.contains(HTML));
        let head = get(address, "HEAD / HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"));
        assert!(get(address, "GET /etc HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(get(address, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
        let mut stream = TcpStream::connect(address).expect("listening");
        stream.write_all(long.as_bytes()).expect("sent");
        let mut nothing = Vec::new();
        // The server closes the connection without a reply. The client may see a reset instead,
        // because the server has not read all data.
        let count = stream.read_to_end(&mut nothing).unwrap_or(0);
        assert_eq!(count, 0);
    }

    fn serving() -> SocketAddr {
        let page =
            |path: &str| (path == "/").then(|| Page { content_type: JSON, text: "{}".into() });
        let server = Server::new(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let server = server.named(["Files.Example".to_owned()]);
        let address = server.address().expect("bound");
        thread::spawn(move || server.run(&Arc::new(page)));
        address
    }

    /// A page of another site whose name resolves to this server's address must receive no data.
    #[test]
    fn unknown_host_names_are_rejected() {
        let address = serving();
        let status = |host: &str| {
            let answer = get(address, &format!("GET / HTTP/1.1\r\n{host}\r\n"));
            assert_eq!(answer.contains("{}"), answer.starts_with("HTTP/1.1 200"), "{answer}");
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        for own in [
            "",
            "Host: 127.0.0.1\r\n",
            "Host: 127.0.0.1:9049\r\n",
            "host:[::1]:9049\r\n",
            "Host: localhost:9049\r\n",
            "Host: FILES.example:80\r\n",
            "Host: files.example.:80\r\n",
        ] {
            assert_eq!(status(own), "200", "{own}");
        }
        for other in [
            "Host: evil.example\r\n",
            "Host: evil.example:9049\r\n",
            "Host: localhost.evil.example\r\n",
            "Host: 127.0.0.1.evil.example\r\n",
            "Host: \r\n",
            "Host: localhost\r\nHost: evil.example\r\n",
            "A: b\r\nHOST: evil.example\r\n",
        ] {
            assert_eq!(status(other), "421", "{other}");
        }
    }

    #[test]
    fn pages_refuse_to_be_framed() {
        let answer = get(serving(), "GET / HTTP/1.1\r\n\r\n");
        assert!(answer.contains("Content-Security-Policy: default-src 'none'; frame-ancestors"));
        assert!(answer.contains("X-Frame-Options: DENY\r\n"), "{answer}");
    }

    /// Readers that never complete their requests do not block other readers.
    #[test]
    fn slow_readers_do_not_block_others() {
        let address = serving();
        let mut slow = Vec::new();
        for _ in 0..3 * CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(address).expect("listening");
            stream.write_all(b"GET / HTTP/1.1\r\nA: ").expect("sent");
            slow.push(stream);
        }
        let start = Instant::now();
        let answered = || get(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200");
        // The threads of displaced readers take a moment to end, so the test retries.
        while !answered() {
            assert!(start.elapsed() < HTTP_REQUEST_TIMEOUT / 2, "the page is taken");
        }
        drop(slow);
    }
}
