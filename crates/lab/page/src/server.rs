//! A server of one page: HTTP/1.1, one request a connection, a thread for each of a few.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longer than any browser's head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A browser says what it wants at once; a slow one gets nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Readers of one page at once.
const CONNECTIONS_MAX: usize = 32;

/// What browsers are told about the page besides its length.
const HEADERS: &str = "Content-Type: text/html; charset=utf-8\r\n\
     Cache-Control: no-cache\r\n\
     X-Content-Type-Options: nosniff\r\n\
     Referrer-Policy: no-referrer\r\n\
     Connection: close\r\n";

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    page: Arc<str>,
}

impl Server {
    /// Listens at an address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn new(address: SocketAddr, page: String) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address)?, page: page.into() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not know.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// The listener breaks.
    pub fn run(&self) -> io::Result<()> {
        let open = Arc::new(AtomicUsize::new(0));
        for stream in self.listener.incoming() {
            let stream = match stream {
                Ok(stream) => stream,
                // The client left before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (page, open) = (Arc::clone(&self.page), Arc::clone(&open));
            std::thread::spawn(move || {
                // A reader that went away is nobody's fault.
                let _ = answer(stream, &page);
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
        Ok(())
    }
}

fn answer(mut stream: TcpStream, page: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or("");
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/") => ("200 OK", page),
        ("GET" | "HEAD", _) => ("404 Not Found", "There is one page only, at /.\n"),
        _ => ("405 Method Not Allowed", "The page can be read, no more.\n"),
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\n{HEADERS}Content-Length: {length}\r\n\r\n")?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
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
        let server = Server::new(free, "<p>page</p>".into()).expect("a free port");
        let address = server.address().expect("bound");
        std::thread::spawn(move || server.run());
        let page = get(address, "GET /?x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("<p>page</p>"), "{page}");
        assert!(page.contains("Content-Length: 11\r\n"));
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
