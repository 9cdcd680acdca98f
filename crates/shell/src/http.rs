//! A small server of pages: HTTP/1.1, one request a connection, a thread for each of a few.
//!
//! For browsers and scrapers on the same machine or a trusted network: pages can be read, no more,
//! and nobody is asked who they are.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::own;

/// Longer than any browser's head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A browser says what it wants at once; a slow one gets nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Readers at once.
const CONNECTIONS_MAX: usize = 32;

/// The type of a page for browsers.
pub const HTML: &str = "text/html; charset=utf-8";

/// The type of data for programs.
pub const JSON: &str = "application/json";

/// What readers are told about a page besides its type and length.
const HEADERS: &str = "Cache-Control: no-cache\r\n\
     X-Content-Type-Options: nosniff\r\n\
     Referrer-Policy: no-referrer\r\n\
     Connection: close\r\n";

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
}

impl Server {
    /// Listens at an address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address)? })
    }

    /// Goes on with a socket that listens already.
    ///
    /// # Errors
    /// It cannot be made to wait for readers.
    pub fn of(listener: OwnedFd) -> io::Result<Self> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(false)?;
        Ok(Self { listener })
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
        let seats = Arc::new(());
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                // The client left before it was accepted, or there are no descriptors for now.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            if Arc::strong_count(&seats) > CONNECTIONS_MAX {
                continue;
            }
            let (pages, seat) = (Arc::clone(pages), Arc::clone(&seats));
            // Where no thread is to be had, the reader notices by the end of the stream.
            let _ = own::spawn("reader", move || {
                // A reader that went away is nobody's fault.
                let _ = answer(stream, &*pages);
                drop(seat);
            });
        }
    }
}

fn answer(mut stream: TcpStream, pages: &dyn Fn(&str) -> Option<Page>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or("");
    let plain = |text: &'static str| Page { content_type: "text/plain", text: text.into() };
    let (status, page) = match method {
        "GET" | "HEAD" => match pages(path) {
            Some(page) => ("200 OK", page),
            None => ("404 Not Found", plain("There is no such page.\n")),
        },
        _ => ("405 Method Not Allowed", plain("Pages can be read, no more.\n")),
    };
    let (kind, length) = (page.content_type, page.text.len());
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{HEADERS}Content-Length: {length}\r\n\r\n"
    )?;
    if method != "HEAD" {
        stream.write_all(page.text.as_bytes())?;
    }
    stream.flush()
}

/// The head of a request, up to its empty line.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = stream.read(&mut part)?;
        if count == 0 || bytes.len() + count > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
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
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }

    #[test]
    fn the_page_is_there_and_nothing_else_is() {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let page = |path: &str| {
            let page = Page { content_type: HTML, text: "<p>page</p>".into() };
            (path == "/").then_some(page)
        };
        let server = Server::new(free).expect("a free port");
        let address = server.address().expect("bound");
        thread::spawn(move || server.run(&Arc::new(page)));
        let page = get(address, "GET /?x HTTP/1.1\r\nHost: a\r\n\r\n");
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
}
