//! Attacks on the live view.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use leasehold_system_tests::Server;

use crate::wire::{Numbers, TIMEOUT};

/// A server with a live view, and the address of the view.
fn viewed() -> (Server, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").expect("the machine has a free port");
    let address = free.local_addr().expect("the socket is bound");
    drop(free);
    (Server::start_with(&["--http", &address.to_string()]), address)
}

/// The bytes that the view sends in reply to a request, until it closes the connection.
fn answer(view: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(view).expect("the view listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
    // The view may end the connection before the view has read the whole request.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_path_reads_no_file_of_the_machine() {
    let (_server, view) = viewed();
    for path in [
        "/etc/passwd",
        "/../../../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "file:///etc/passwd",
        "/metrics/../../etc/passwd",
        "/live.json/",
        "/\0",
        "",
        "*",
    ] {
        let host = view.to_string();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = answer(view, request.as_bytes());
        assert!(!answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert!(!answer.contains("root:"), "{path}: {answer}");
    }
}

#[test]
fn no_request_changes_anything_or_ends_the_view() {
    let (server, view) = viewed();
    let before = server.pid();
    for method in ["POST", "PUT", "DELETE", "PATCH", "CONNECT", "TRACE", "OPTIONS", "get", ""] {
        let request = format!("{method} / HTTP/1.1\r\nHost: {view}\r\n\r\n");
        let answer = answer(view, request.as_bytes());
        assert!(!answer.starts_with("HTTP/1.1 200"), "{method}: {answer}");
    }
    let mut numbers = Numbers::new(0x477);
    for _ in 0..200 {
        let length = numbers.below(2000);
        let mut request = numbers.bytes(length);
        request.extend_from_slice(b"\r\n\r\n");
        assert!(!answer(view, &request).starts_with("HTTP/1.1 200"));
    }
    for head in [
        format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(60_000)),
        format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(10_000)),
    ] {
        assert_eq!(answer(view, head.as_bytes()), "", "a head that is too long is not answered");
    }
    let request = format!("GET / HTTP/1.1\r\nHost: {view}\r\n\r\n");
    assert!(answer(view, request.as_bytes()).starts_with("HTTP/1.1 200"), "the view answers");
    assert_eq!(server.pid(), before);
}

#[test]
fn readers_that_leave_at_once_cost_no_seat() {
    let (_server, view) = viewed();
    for _ in 0..300 {
        drop(TcpStream::connect_timeout(&view, Duration::from_secs(10)));
    }
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {view}\r\n\r\n");
    let end = std::time::Instant::now() + TIMEOUT;
    while !answer(view, request.as_bytes()).starts_with("HTTP/1.1 200") {
        assert!(std::time::Instant::now() < end, "the view sends no reply");
    }
}

#[test]
fn slow_readers_leave_the_view_to_others() {
    let (_server, view) = viewed();
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(view).expect("the view listens");
            stream.write_all(b"GET / HTTP/1.1\r\nA: ").expect("the view takes a request");
            stream
        })
        .collect();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {view}\r\n\r\n");
    let start = std::time::Instant::now();
    while !answer(view, request.as_bytes()).starts_with("HTTP/1.1 200") {
        // Shorter than the time that a reader has for a request.
        assert!(start.elapsed() < Duration::from_secs(8), "slow readers have all seats");
    }
    drop(slow);
}

/// A page of another site may give this machine's address to a name of its own.
#[test]
fn a_page_of_another_site_reads_nothing() {
    let (_server, view) = viewed();
    for host in ["evil.example", "evil.example:9049", "127.0.0.1.evil.example", ""] {
        for path in ["/", "/metrics", "/live.json"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let answer = answer(view, request.as_bytes());
            assert!(answer.starts_with("HTTP/1.1 421"), "{host} {path}: {answer}");
        }
    }
    let request = format!("GET / HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", view.port());
    let page = answer(view, request.as_bytes());
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("Content-Security-Policy: frame-ancestors 'none'"), "{page}");
}
