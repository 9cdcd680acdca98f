//! A wire that is longer than it is: what passes arrives later, and nothing else changes.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A proxy for TCP; it ends with the process.
pub(crate) struct Delay {
    pub(crate) address: SocketAddr,
    to: Arc<Mutex<SocketAddr>>,
}

impl Delay {
    /// Connections to it lead there, with a round trip that takes so much longer.
    pub(crate) fn start(to: SocketAddr, round_trip: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let to = Arc::new(Mutex::new(to));
        let shared = Arc::clone(&to);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let to = *shared.lock().unwrap_or_else(PoisonError::into_inner);
                // Where nobody listens the connection ends, as it would without us.
                if let Ok(far) = TcpStream::connect(to) {
                    let _ = join(&near, &far, round_trip / 2);
                }
            }
        });
        Ok(Self { address, to })
    }

    /// New connections lead elsewhere.
    pub(crate) fn lead(&self, to: SocketAddr) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

fn join(near: &TcpStream, far: &TcpStream, delay: Duration) -> io::Result<()> {
    for (from, to) in [(near, far), (far, near)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        to.set_nodelay(true)?;
        let (sender, receiver) = channel();
        thread::spawn(move || deliver(&receiver, &to));
        thread::spawn(move || {
            let mut from = from;
            let mut buffer = vec![0; 256 << 10];
            while let Ok(length) = from.read(&mut buffer) {
                let due = Instant::now() + delay;
                if length == 0 || sender.send((due, buffer[..length].to_vec())).is_err() {
                    break;
                }
            }
        });
    }
    Ok(())
}

/// Hands on what is due; the end too.
fn deliver(parts: &Receiver<(Instant, Vec<u8>)>, mut to: &TcpStream) {
    for (due, part) in parts {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&part).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
