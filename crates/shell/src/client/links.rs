//! The sockets of sessions on which one thread receives. The thread is the runtime's thread or a
//! loop of a server.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_session::Carrier;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::hub::{Ends, Hub, Requests};
use super::link::{Came, Receiver, Wire};
use super::sockets;
use crate::buffers::Buffers;
use crate::clock;
use crate::limits::CONNECT_PATIENCE;
use crate::slab::{Key, Slab};

/// Returns the epoll data for the key of a socket.
pub(super) type Name = fn(Key) -> epoll::EventData;

/// The sockets of session lanes in the epoll set of one thread.
pub(crate) struct Links {
    hub: Arc<Hub>,
    name: Name,
    links: Slab<Link>,
    /// The number of sockets that are still connecting.
    connecting: usize,
    buffers: Buffers,
}

/// One socket.
struct Link {
    ends: Arc<Ends>,
    wire: Arc<Wire>,
    receiver: Receiver,
    /// The deadline of the connection attempt; `None` after the socket is connected.
    connecting: Option<Time>,
}

impl Links {
    /// Creates an empty set. Other threads send requests to the owning thread through the hub.
    pub(super) fn new(hub: Arc<Hub>, name: Name) -> Self {
        Self { hub, name, links: Slab::new(), connecting: 0, buffers: Buffers::default() }
    }

    /// Returns the hub through which other threads send requests to the owning thread.
    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Returns the earliest deadline of a connection attempt, if there is one.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        if self.connecting == 0 {
            return None;
        }
        self.links.iter().filter_map(|(_, link)| link.connecting).min()
    }

    /// Returns true if there is memory that an idle thread can free.
    pub(super) fn has_memory(&self) -> bool {
        !self.buffers.is_empty()
    }

    /// Frees memory.
    pub(crate) fn shrink(&mut self) {
        self.buffers.shrink();
    }

    /// Processes an event of a socket.
    pub(crate) fn dispatch(&mut self, set: &OwnedFd, key: Key, flags: epoll::EventFlags) {
        let Some(link) = self.links.get_mut(key) else { return };
        use epoll::EventFlags as Flags;
        let broken = flags.intersects(Flags::ERR | Flags::HUP);
        if link.connecting.is_some() {
            let error = sockopt::socket_error(&link.wire.socket).and_then(|error| error);
            match error {
                Ok(()) if flags.contains(Flags::OUT) && !broken => {
                    self.connecting -= 1;
                    link.is_connected();
                }
                Ok(()) if !broken => return,
                Ok(()) => return self.end(set, key, &Errno::CONNREFUSED.to_string()),
                Err(error) => return self.end(set, key, &error.to_string()),
            }
        } else if flags.contains(Flags::OUT) {
            link.wire.writable();
        }
        let Some(link) = self.links.get_mut(key) else { return };
        let end_came = broken || flags.contains(Flags::RDHUP);
        if flags.contains(Flags::IN) || end_came {
            let Link { ends, wire, receiver, .. } = link;
            let connection = wire.connection;
            let came = receiver.receive(wire, end_came, &mut self.buffers, |messages| {
                ends.driver.received(connection, messages.drain(..));
            });
            if let Came::End(why) = came {
                self.end(set, key, &why);
            }
        }
    }

    /// Processes the requests of other threads.
    pub(crate) fn take_requests(&mut self, set: &OwnedFd) {
        let mut requests = self.hub.take();
        self.serve(set, &mut requests);
    }

    pub(super) fn serve(&mut self, set: &OwnedFd, requests: &mut Requests) {
        for (ends, connection) in requests.connects.drain(..) {
            // The new connection replaces the previous connection of the lane, which is closed.
            self.close_where(set, |link| {
                Arc::ptr_eq(&link.ends, &ends) && link.wire.connection.lane == connection.lane
            });
            let last_port = ends.lane(connection).last_port;
            match sockets::connect_stream(ends.to, ends.source, last_port) {
                Ok(socket) => {
                    let wire = Arc::new(Wire::new(connection, socket, Carrier::Stream));
                    self.add(set, &ends, wire, Some(clock::now() + CONNECT_PATIENCE));
                }
                Err(error) => ends.driver.disconnected(connection, &error.to_string()),
            }
        }
        for (ends, wire) in requests.opened.drain(..) {
            self.add(set, &ends, wire, None);
        }
        for ends in &requests.closes {
            self.close_where(set, |link| Arc::ptr_eq(&link.ends, ends));
        }
    }

    fn add(&mut self, set: &OwnedFd, ends: &Arc<Ends>, wire: Arc<Wire>, connecting: Option<Time>) {
        use epoll::EventFlags as Flags;
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        let (ends, receiver) = (Arc::clone(ends), Receiver::default());
        self.connecting += usize::from(connecting.is_some());
        let key = self.links.insert(Link { ends, wire, receiver, connecting });
        let link = self.links.get_mut(key).expect("was inserted just now");
        if let Err(error) = epoll::add(set, &link.wire.socket, (self.name)(key), flags) {
            self.end(set, key, &error.to_string());
        }
    }

    /// Closes a connection and informs its session. A datagram socket stays open.
    fn end(&mut self, set: &OwnedFd, key: Key, why: &str) {
        let Some(link) = self.links.get_mut(key) else { return };
        let (ends, connection) = (Arc::clone(&link.ends), link.wire.connection);
        if link.wire.is_stream() {
            self.close(set, key);
        }
        ends.driver.disconnected(connection, why);
    }

    fn close(&mut self, set: &OwnedFd, key: Key) {
        let Some(link) = self.links.remove(key) else { return };
        self.connecting -= usize::from(link.connecting.is_some());
        let mut lane = link.ends.lane(link.wire.connection);
        if lane.wire.as_ref().is_some_and(|wire| Arc::ptr_eq(wire, &link.wire)) {
            lane.cut();
        }
        drop(lane);
        // A concurrent sender may keep the descriptor open for a moment after this drop, so the
        // socket must leave the epoll set explicitly.
        let _ = epoll::delete(set, &link.wire.socket);
    }

    fn close_where(&mut self, set: &OwnedFd, which: impl Fn(&Link) -> bool) {
        for key in self.keys_where(which) {
            self.close(set, key);
        }
    }

    fn keys_where(&self, which: impl Fn(&Link) -> bool) -> Vec<Key> {
        self.links.iter().filter(|(_, link)| which(link)).map(|(key, _)| key).collect()
    }

    /// Ends connection attempts that exceed their deadline.
    pub(crate) fn keep_time(&mut self, set: &OwnedFd, now: Time) {
        if self.connecting == 0 {
            return;
        }
        let over = |link: &Link| link.connecting.is_some_and(|until| until <= now);
        for key in self.keys_where(over) {
            self.end(set, key, "the connection attempt timed out");
        }
    }

    /// Closes all sockets when the loop ends. The runtime's thread then reconnects, and retransmits
    /// the calls that waited on these sockets.
    pub(crate) fn leave(&mut self, set: &OwnedFd) {
        let mut last = self.hub.leave();
        self.serve(set, &mut last);
        for key in self.keys_where(|_| true) {
            self.end(set, key, "the loop of the connection has ended");
        }
    }
}

impl Link {
    fn is_connected(&mut self) {
        self.connecting = None;
        let mut lane = self.ends.lane(self.wire.connection);
        lane.last_port = sockets::port_of(&self.wire.socket);
        lane.wire = Some(Arc::clone(&self.wire));
        drop(lane);
        self.ends.driver.connected(self.wire.connection);
    }
}
