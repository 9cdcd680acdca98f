//! A small server of pages: HTTP/1.1, one request a connection, a thread for each of a few.
//!
//! For browsers and scrapers on the same machine or a trusted network: a reader can read pages, no
//! more, and the server asks no reader for a credential. The server refuses a browser that a page
//! of another site has call it: such a page can give this server a name of its own (DNS rebinding),
//! so the server answers only requests to an address, or to a name that it knows for its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::own;

/// Longer than any browser's head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The time for a whole request, and once more for its whole answer: a slow reader gets nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of readers at once. A further reader takes the place of the reader that has been
/// asking for the longest time.
const CONNECTIONS_MAX: usize = 32;

/// The bytes of an answer that the server writes before it looks at the time.
const PART_BYTES: usize = 64 * 1024;

/// The type of a page for browsers.
pub const HTML: &str = "text/html; charset=utf-8";

/// The type of data for programs.
pub const JSON: &str = "application/json";

/// What readers are told about a page besides its type and length.
const HEADERS: &str = "Cache-Control: no-cache\r\n\
     X-Content-Type-Options: nosniff\r\n\
     X-Frame-Options: DENY\r\n\
     Cross-Origin-Resource-Policy: same-origin\r\n\
     Referrer-Policy: no-referrer\r\n\
     Connection: close\r\n";

/// A page for browsers decides about the data that it loads, but no other page shows it in a frame.
const POLICY_HTML: &str = "frame-ancestors 'none'; base-uri 'none'; object-src 'none'";

/// Any other answer is data.
const POLICY_DATA: &str = "default-src 'none'; frame-ancestors 'none'";

/// A page: what is to be read at a path.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its type.
    pub content_type: &'static str,
    /// What is read.
    pub text: Cow<'static, str>,
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    names: Vec<String>,
}

impl Server {
    /// Listens at an address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address)?, names: Vec::new() })
    }

    /// Goes on with a socket that listens already.
    ///
    /// # Errors
    /// It cannot be made to wait for readers.
    pub fn of(listener: OwnedFd) -> io::Result<Self> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(false)?;
        Ok(Self { listener, names: Vec::new() })
    }

    /// Answers requests to these names of the server, too, besides addresses and `localhost`.
    #[must_use]
    pub fn named(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names.extend(names.into_iter().map(|name| name.to_lowercase()));
        self
    }

    /// The socket once more, for whoever goes on with it.
    ///
    /// # Errors
    /// There are no descriptors.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.listener.try_clone().map(OwnedFd::from)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not know.
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
                // The client left before it was accepted, or there are no descriptors for now.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let taken = Arc::strong_count(&seats) - 1;
            // The thread of a reader that is sent away takes a moment to end.
            let is_full = taken >= CONNECTIONS_MAX && !desk.send_oldest_away();
            if is_full || taken >= 2 * CONNECTIONS_MAX {
                continue;
            }
            let Ok(other) = stream.try_clone() else { continue };
            desk.asking().insert(number, other);
            let (pages, seat, own) = (Arc::clone(pages), Arc::clone(&seats), Arc::clone(&desk));
            // Where no thread is to be had, the reader notices by the end of the stream.
            let started = own::spawn("reader", move || {
                // A reader that went away is nobody's fault.
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
    /// The connections whose request is not whole yet, in the order that they came.
    asking: Mutex<BTreeMap<u64, TcpStream>>,
}

impl Desk {
    fn asking(&self) -> MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection that has been asking for the longest time; returns true if there was
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
            _ => ("405 Method Not Allowed", plain("Pages can be read, no more.\n")),
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

    /// Returns true if a request means this server. A request without a name comes from no browser.
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

/// The name or address of a host, without its port and brackets.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name).trim_end_matches('.'),
    }
}

/// The answer to a request that means another server.
const MISDIRECTED: &str = "This server does not know the name that it was asked by. Ask by its \
                           address, or give it the name with --http-name.\n";

/// The time that is left until an end.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Writes an answer in its time.
fn send(stream: &mut TcpStream, texts: &[&[u8]]) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
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

/// The head of a request, up to its empty line, in its time.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let end = Instant::now() + PATIENCE;
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
        // A server without a seat ends the connection.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn the_page_is_there_and_nothing_else_is() {
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
        // The end, or a reset for what was not read.
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

    /// A page of another site that gave this server's address to a name of its own reads nothing.
    #[test]
    fn a_name_of_others_is_not_answered() {
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
    fn nobody_shows_a_page_within_another() {
        let answer = get(serving(), "GET / HTTP/1.1\r\n\r\n");
        assert!(answer.contains("Content-Security-Policy: default-src 'none'; frame-ancestors"));
        assert!(answer.contains("X-Frame-Options: DENY\r\n"), "{answer}");
    }

    /// Readers that never end their requests keep no other reader from the page.
    #[test]
    fn slow_readers_keep_no_seat() {
        let address = serving();
        let mut slow = Vec::new();
        for _ in 0..3 * CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(address).expect("listening");
            stream.write_all(b"GET / HTTP/1.1\r\nA: ").expect("sent");
            slow.push(stream);
        }
        let start = Instant::now();
        let answered = || get(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200");
        // The threads of readers that the server sent away take a moment to end.
        while !answered() {
            assert!(start.elapsed() < PATIENCE / 2, "the page is taken");
        }
        drop(slow);
    }
}
