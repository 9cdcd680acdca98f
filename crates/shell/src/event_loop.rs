//! An event loop: waits for events, and then gives each connection with work a turn. In a turn a
//! connection receives once, answers the complete calls, and sends once.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_serve::Transport;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{self, SocketFlags, sockopt};
use rustix::thread::sched_yield;

use crate::busy_poll::{CROWD_MIN, LOOK_MAX, Look, Spin};
use crate::client::{PutOff, Seat};
use crate::clock;
use crate::connection::{Closing, Connection, Turn};
use crate::counters::Counters;
use crate::datagrams::Datagrams;
use crate::limits::{
    BATCH_ACCEPTS_MAX, KEEPALIVE, LOOP_HELD_BYTES_MAX, LOOP_UNSENT_BYTES_MAX, PUT_OFF_MAX,
    SWEEP_INTERVAL,
};
use crate::loop_context::{Answered, LoopContext};
use crate::peer::Judge;
use crate::remote::{self, Accepted, Remote, Requests};
use crate::report::{LoopReport, Told};
use crate::send_scheduler::SOCKET_BYTES;
use crate::server::Shared;
use crate::slab::{Key, Slab};
use crate::sys;
use crate::tasks::Origin;

/// The maximum number of events in one wait.
const EVENTS_MAX: usize = 256;

/// The subject of an event, which the kernel stores as 64 bits of event data.
#[derive(Clone, Copy)]
enum Token {
    Connection(Key),
    /// A connection to another server.
    Link(Key),
    Listener(usize),
    Datagrams(usize),
    Bell,
}

impl Token {
    const BELL: u32 = u32::MAX;
    const LISTENERS: u32 = 0xffff_0000;
    const DATAGRAMS: u32 = 0xfffe_0000;
    const LINKS: u32 = 0x8000_0000;

    fn pack(self) -> epoll::EventData {
        let small = |at| u32::from(u16::try_from(at).expect("few addresses are served on"));
        let (index, generation) = match self {
            Self::Connection(key) => (key.index, key.generation),
            Self::Link(key) => (Self::LINKS + key.index, key.generation),
            Self::Listener(at) => (Self::LISTENERS + small(at), 0),
            Self::Datagrams(at) => (Self::DATAGRAMS + small(at), 0),
            Self::Bell => (Self::BELL, 0),
        };
        epoll::EventData::new_u64(u64::from(generation) << 32 | u64::from(index))
    }

    fn unpack(data: epoll::EventData) -> Self {
        let word = data.u64().to_le_bytes();
        let [i0, i1, i2, i3, g0, g1, g2, g3] = word;
        let index = u32::from_le_bytes([i0, i1, i2, i3]);
        let generation = u32::from_le_bytes([g0, g1, g2, g3]);
        match index {
            Self::BELL => Self::Bell,
            Self::DATAGRAMS..Self::LISTENERS => Self::Datagrams((index - Self::DATAGRAMS) as usize),
            Self::LISTENERS.. => Self::Listener((index - Self::LISTENERS) as usize),
            Self::LINKS.. => Self::Link(Key { index: index - Self::LINKS, generation }),
            _ => Self::Connection(Key { index, generation }),
        }
    }
}

/// A listening socket. `pending` is true if connections may be waiting there to be accepted.
struct Listener {
    socket: OwnedFd,
    pending: bool,
}

/// One loop with all of its connections and sockets.
pub(crate) struct EventLoop {
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    datagrams: Vec<Datagrams>,
    connections: Slab<Connection>,
    /// The connections with work, in the order of their turns; each connection occurs once.
    listed: VecDeque<Key>,
    /// The connections that have calls but cannot answer them because too many calls of the loop
    /// wait, in the order of this event; each connection occurs once.
    want_room: VecDeque<Key>,
    spin: Spin,
    last_wait: Duration,
    loop_context: LoopContext,
    judge: Judge,
    requests: Requests,
    /// The connections that carry the loop's own calls to other servers.
    seat: Seat,
    /// Reused memory for the list of calls that the loop itself has woken. `put_off` is the number
    /// of rounds for which the loop has deferred these calls.
    own: Vec<u32>,
    put_off: u32,
    /// The time at which the loop ends even if calls still wait; `None` until the server stops.
    deadline: Option<Time>,
    swept: Time,
    /// The next time at which this loop calls the handler's `wake`; only the first loop does so.
    wake: Option<Time>,
}

impl EventLoop {
    pub(crate) fn new(
        shared: Arc<Shared>,
        remote: Arc<Remote>,
        judge: Judge,
    ) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, remote.bell(), Token::Bell.pack(), edge)?;
        let seat = Seat::new(remote.index, |key| Token::Link(key).pack())?;
        epoll::add(&epoll, seat.bell(), Token::Bell.pack(), edge)?;
        Ok(Self {
            epoll,
            listeners: Vec::new(),
            datagrams: Vec::new(),
            connections: Slab::new(),
            listed: VecDeque::new(),
            want_room: VecDeque::new(),
            spin: Spin::default(),
            last_wait: Duration::MAX,
            loop_context: LoopContext::new(shared, remote),
            judge,
            requests: Requests::default(),
            seat,
            own: Vec::new(),
            put_off: 0,
            deadline: None,
            swept: clock::now(),
            wake: None,
        })
    }

    /// Makes the loop accept connections, for all loops.
    pub(crate) fn listen(&mut self, listener: OwnedFd) -> Result<(), Errno> {
        let token = Token::Listener(self.listeners.len()).pack();
        epoll::add(&self.epoll, &listener, token, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        self.listeners.push(Listener { socket: listener, pending: true });
        Ok(())
    }

    /// Makes the loop answer datagrams.
    pub(crate) fn receive_datagrams(&mut self, socket: OwnedFd, port: u16) -> Result<(), Errno> {
        let place = self.datagrams.len();
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, Token::Datagrams(place).pack(), edge)?;
        self.datagrams.push(Datagrams::new(socket, port, place));
        Ok(())
    }

    /// Serves until the server stops.
    pub(crate) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        self.loop_context.remote.keep_own();
        self.seat.take();
        let put_off = PutOff::begin();
        while !self.is_over() {
            put_off.send();
            self.wait(&mut events);
            for event in &events {
                self.dispatch(*event);
            }
            self.seat.links.keep_time(&self.epoll, self.loop_context.now);
            self.take_requests();
            self.accept();
            self.use_room();
            for _ in 0..self.listed.len() {
                self.turn();
            }
            for socket in &mut self.datagrams {
                socket.turn(&mut self.loop_context, &mut self.judge);
            }
            self.loop_context.let_depart();
            self.go_on_with_own();
            if self.loop_context.now.since(self.swept) >= self.sweep_interval() {
                self.sweep();
            }
            if self.wake.is_some_and(|wake| wake <= self.loop_context.now) {
                self.wake_handler();
            }
        }
        self.seat.leave(&self.epoll);
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| {
            clock::now() >= deadline
                || self.connections.iter().all(|(_, one)| one.is_done())
                    && self.datagrams.iter().all(Datagrams::is_done)
        })
    }

    fn sweep_interval(&self) -> Duration {
        SWEEP_INTERVAL.min(self.loop_context.shared.stall_max)
    }

    /// Calls the handler's `wake`, which the first loop does for all loops.
    fn wake_handler(&mut self) {
        if self.loop_context.remote.index == 0 {
            self.wake = self.loop_context.shared.handler.wake(self.loop_context.now);
        }
    }

    /// Returns the time for which the loop may sleep; `None` for no limit.
    fn time_to_sleep(&self) -> Option<Duration> {
        let work = !self.listed.is_empty()
            || remote::has_own()
            || !self.want_room.is_empty() && self.loop_context.has_room()
            || self.listeners.iter().any(|listener| listener.pending)
            || self.datagrams.iter().any(|socket| socket.can_go_on(&self.loop_context));
        if work {
            return Some(Duration::ZERO);
        }
        let now = clock::now();
        let until = if self.deadline.is_some() {
            self.deadline
        } else if self.connections.len() > 0 || !self.listeners.is_empty() {
            let sweep = now + self.sweep_interval();
            Some(self.wake.map_or(sweep, |wake| wake.min(sweep)))
        } else {
            None
        };
        let until = until
            .into_iter()
            .chain(self.seat.links.next_wake())
            .chain(self.loop_context.look_for_departures)
            .min();
        until.map(|until| until.since(now))
    }

    /// Waits for events, then reads the clock.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) {
        events.clear();
        let timeout = self.time_to_sleep();
        if timeout == Some(Duration::ZERO) {
            self.poll(events, timeout);
            self.loop_context.now = clock::now();
            return;
        }
        let start = clock::now();
        if self.spin.should_look(self.last_wait) {
            let look = self.look(events, start);
            self.spin.looked(look);
        }
        if events.is_empty() {
            self.poll(events, timeout);
        }
        self.loop_context.now = clock::now();
        self.last_wait = self.loop_context.now.since(start);
        self.loop_context.meter.slept(self.last_wait);
    }

    /// Polls for events for a short time without sleeping.
    fn look(&self, events: &mut Vec<epoll::Event>, start: Time) -> Look {
        let mut before = start;
        loop {
            self.poll(events, Some(Duration::ZERO));
            if !events.is_empty() {
                return Look::Found;
            }
            sched_yield();
            let now = clock::now();
            if now.since(before) > CROWD_MIN {
                return Look::Crowded;
            }
            if now.since(start) > LOOK_MAX {
                return Look::Missed;
            }
            before = now;
        }
    }

    fn poll(&self, events: &mut Vec<epoll::Event>, timeout: Option<Duration>) {
        let timeout = timeout.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("waiting for events failed: {error}"),
        }
    }

    fn dispatch(&mut self, event: epoll::Event) {
        match Token::unpack(event.data) {
            Token::Bell => {}
            Token::Listener(at) => {
                // After the server has stopped there are no listeners, so an old event may find
                // none.
                if let Some(listener) = self.listeners.get_mut(at) {
                    listener.pending = true;
                }
            }
            Token::Datagrams(at) => self.datagrams[at].readable = true,
            Token::Link(key) => self.seat.links.dispatch(&self.epoll, key, event.flags),
            Token::Connection(key) => {
                let Some(connection) = self.connections.get_mut(key) else { return };
                use epoll::EventFlags as Flags;
                let flags = event.flags;
                // After a reset or a full close the connection cannot send any more, so it is
                // closed.
                if flags.intersects(Flags::ERR | Flags::HUP) {
                    let error = sockopt::socket_error(&connection.socket);
                    let error = error.ok().and_then(Result::err).unwrap_or(Errno::PIPE);
                    return self.close(key, &Closing::Failed(error));
                }
                let has = |flag| flags.contains(flag);
                if connection.note(has(Flags::IN), has(Flags::RDHUP), has(Flags::OUT)) {
                    connection.tell_end(key, &self.loop_context);
                }
                self.list(key);
            }
        }
    }

    /// Accepts connections and distributes them over the loops.
    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for listener in self.listeners.iter_mut().filter(|listener| listener.pending) {
            for _ in 0..BATCH_ACCEPTS_MAX {
                match net::acceptfrom_with(&listener.socket, flags) {
                    Ok((socket, from)) => {
                        if let Some(Ok(from)) = from.map(TryInto::try_into) {
                            self.loop_context.shared.hand_out(Accepted { socket, from });
                        }
                    }
                    // The error concerns one connection only, for example a connection that was
                    // aborted before it was accepted. The loop continues with the next connection.
                    Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
                    Err(error) => {
                        listener.pending = false;
                        if error != Errno::AGAIN {
                            tracing::warn!(%error, "cannot accept connections for now");
                        }
                        break;
                    }
                }
            }
        }
    }

    fn take_requests(&mut self) {
        self.seat.links.take_requests(&self.epoll);
        let mut requests = core::mem::take(&mut self.requests);
        self.loop_context.remote.take(&mut requests);
        for connection in requests.connections.drain(..) {
            self.add(connection);
        }
        for address in requests.crowding.drain(..) {
            self.crowd_out(address);
        }
        for task in requests.woken.drain(..) {
            self.go_on(task);
        }
        for (key, message) in requests.posted.drain(..) {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.post(message, &mut self.loop_context);
                self.list(key);
            }
        }
        for key in requests.departing.drain(..) {
            // A connection that was closed meanwhile is ignored; the close has already released its
            // permission to send.
            if let Some(connection) = self.connections.get_mut(key) {
                connection.depart(self.loop_context.now);
                self.list(key);
            }
        }
        for (route, message) in requests.datagrams.drain(..) {
            for socket in &self.datagrams {
                socket.post(message.clone(), &route, &mut self.loop_context);
            }
        }
        if core::mem::take(&mut requests.hurried) {
            self.wake_handler();
        }
        for whom in requests.told.drain(..) {
            // The send fails if the requester has given up, which needs no further action.
            drop(whom.send(Box::new(self.tell())));
        }
        if let Some(deadline) = requests.stop.take() {
            self.deadline = Some(deadline);
            self.loop_context.receiving = false;
            for listener in self.listeners.drain(..) {
                // If another process continues with the socket, the socket stays open after this
                // drop. It must leave the epoll set explicitly, or the loop would still receive its
                // events.
                let _ = epoll::delete(&self.epoll, &listener.socket);
            }
        }
        self.requests = requests;
    }

    /// Returns the counters and the state of the loop.
    fn tell(&self) -> Told {
        let (account, slept) = self.loop_context.meter.told();
        let report = LoopReport {
            connections: self.connections.len(),
            parked: self.loop_context.tasks.len(),
            parked_bytes: self.loop_context.tasks.bytes(),
            unsent_bytes: self.loop_context.unsent,
            held_bytes: self.loop_context.held,
            slept,
        };
        Told { report, account }
    }

    /// Among the connections from an address, closes the connection that has been idle for longest.
    fn crowd_out(&mut self, address: IpAddr) {
        let from_there = self.connections.iter().filter(|(_, one)| one.from.ip() == address);
        if let Some((key, _)) = from_there.min_by_key(|(_, one)| one.rests_since()) {
            self.close(key, &Closing::Crowded);
        }
    }

    fn add(&mut self, Accepted { socket, from }: Accepted) {
        // The results are ignored: without one of these options the connection is only slower, or a
        // dead client is detected later.
        let (idle, interval, count) = KEEPALIVE;
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let _ = sockopt::set_socket_keepalive(&socket, true);
        let _ = sockopt::set_tcp_keepidle(&socket, idle);
        let _ = sockopt::set_tcp_keepintvl(&socket, interval);
        let _ = sockopt::set_tcp_keepcnt(&socket, count);
        if self.loop_context.shared.departures.is_some() {
            let _ = sys::hold_unsent(&socket, SOCKET_BYTES);
        }
        let Some(Ok(to)) = net::getsockname(&socket).ok().map(SocketAddr::try_from) else {
            // The call fails if the client has already disconnected, so the connection is only
            // counted as ended.
            self.loop_context.shared.connection_ended(from, self.loop_context.remote.index);
            return;
        };
        let trust = self.judge.trust(Transport::Stream, from, to, self.loop_context.now);
        let now = self.loop_context.now;
        let client = self.loop_context.meter.connected(from.ip(), now);
        let connection = Connection::new(socket, from, client, to.ip(), trust, now);
        let key = self.connections.insert(connection);
        let connection = self.connections.get_mut(key).expect("was inserted just now");
        use epoll::EventFlags as Flags;
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        let token = Token::Connection(key).pack();
        if let Err(error) = epoll::add(&self.epoll, &connection.socket, token, flags) {
            return self.close(key, &Closing::Failed(error));
        }
        tracing::debug!(client = %from, ?trust, "connected");
        self.list(key);
    }

    /// Continues a call that was woken.
    fn go_on(&mut self, task: u32) {
        let Some(done) = self.loop_context.tasks.poll(task) else { return };
        let answered = self.loop_context.answered(done.outcome, done.metered);
        let panicked = matches!(answered, Answered::Panicked);
        let reply = if let Answered::Reply(reply) = answered { Some(reply) } else { None };
        match done.origin {
            Origin::Connection(key) => {
                if panicked {
                    self.close(key, &Closing::Panicked);
                } else if let Some(connection) = self.connections.get_mut(key) {
                    connection.complete(reply, done.call_memory, &mut self.loop_context);
                    self.list(key);
                }
            }
            Origin::Datagram(place, route) => {
                self.datagrams[place].complete(reply, &route, &mut self.loop_context);
            }
        }
    }

    /// Continues the calls that other calls of this loop have woken in this round, and the calls
    /// that have yielded to other calls. While connections with work remain, the loop defers this
    /// for at most [`PUT_OFF_MAX`] rounds, so that more calls share one result, such as a sync.
    fn go_on_with_own(&mut self) {
        if !self.listed.is_empty() && self.put_off < PUT_OFF_MAX {
            self.put_off += 1;
            return;
        }
        self.put_off = 0;
        let mut own = core::mem::take(&mut self.own);
        remote::take_own(&mut own);
        for task in own.drain(..) {
            self.go_on(task);
        }
        self.own = own;
    }

    /// While more calls may wait in this loop, gives turns to the connections in `want_room`, the
    /// longest wait first.
    fn use_room(&mut self) {
        for _ in 0..self.want_room.len() {
            if !self.loop_context.has_room() {
                break;
            }
            let Some(key) = self.want_room.pop_front() else { break };
            if let Some(connection) = self.connections.get_mut(key) {
                connection.wants_room = false;
                self.turn_of(key);
            }
        }
    }

    fn list(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key)
            && !core::mem::replace(&mut connection.listed, true)
        {
            self.listed.push_back(key);
        }
    }

    fn turn(&mut self) {
        let Some(key) = self.listed.pop_front() else { return };
        if let Some(connection) = self.connections.get_mut(key) {
            connection.listed = false;
            self.turn_of(key);
        }
    }

    fn turn_of(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        match connection.turn(key, &mut self.loop_context) {
            Ok(Turn::Again) => self.list(key),
            Ok(Turn::Wait) => {}
            Ok(Turn::NoRoom) => {
                if !core::mem::replace(&mut connection.wants_room, true) {
                    self.want_room.push_back(key);
                }
            }
            Err(closing) => self.close(key, &closing),
        }
        while self.loop_context.held > LOOP_HELD_BYTES_MAX {
            if !self.crowd_out_one(self.loop_context.held, Connection::held) {
                break;
            }
        }
        while self.loop_context.unsent >= LOOP_UNSENT_BYTES_MAX {
            // Only connections whose client does not read (blocked connections) are closed. Without
            // such a connection, the memory belongs to replies that the loop has not tried to send
            // yet, and the loop must not close any connection.
            if !self.crowd_out_one(self.loop_context.unsent, Connection::blocked) {
                break;
            }
        }
    }

    /// Among the connections that hold at least the mean amount of memory, closes the connection
    /// that has been idle for longest. The close of a connection with less memory would free too
    /// little. Returns true if a connection was closed.
    fn crowd_out_one(&mut self, all: usize, held_by: fn(&Connection) -> usize) -> bool {
        let mean = all / self.connections.len().max(1);
        let holds = |(_, one): &(Key, &Connection)| held_by(one) >= mean.max(1);
        let oldest = self.connections.iter().filter(holds).min_by_key(|(_, one)| one.rests_since());
        let key = oldest.map(|(key, _)| key);
        key.into_iter().for_each(|key| self.close(key, &Closing::Crowded));
        key.is_some()
    }

    fn close(&mut self, key: Key, closing: &Closing) {
        if let Some(connection) = self.connections.remove(key) {
            self.loop_context.meter.disconnected(connection.client);
            if connection.departs() {
                self.loop_context.has_departed(key);
            }
            if connection.wants_room {
                self.want_room.retain(|other| *other != key);
            }
            let shared = &self.loop_context.shared;
            // The loop updates the counters before it informs the service of the end, so that the
            // counters include this connection from then on.
            match closing {
                Closing::Garbled(_) => Counters::count(&shared.counters.connections_garbled),
                Closing::Stalled => Counters::count(&shared.counters.connections_stalled),
                Closing::Crowded => Counters::count(&shared.counters.connections_crowded_out),
                Closing::Ended | Closing::Failed(_) | Closing::Panicked => {}
            }
            shared.connection_ended(connection.from, self.loop_context.remote.index);
            shared.handler.connection_closed(connection.from, self.loop_context.connection_id(key));
            let client = connection.from;
            tracing::debug!(%client, reason = ?closing, "disconnected");
            if let Some(fault) = closing.fault()
                && let Some(held_back) = shared.faults.pass()
            {
                tracing::warn!(%client, held_back, "closed a connection: its client {fault}");
            }
            if connection.has_parked() {
                self.loop_context.tasks.let_go(key, &mut self.loop_context.meter);
            }
            connection.end(&mut self.loop_context);
        }
    }

    /// Closes stalled connections, and tries again to accept connections after earlier failures.
    fn sweep(&mut self) {
        let now = self.loop_context.now;
        self.swept = now;
        self.loop_context.shrink();
        self.seat.links.shrink();
        self.look_for_more();
        let stall_max = self.loop_context.shared.stall_max;
        let stalled = |one: &Connection| {
            one.stalled_since().is_some_and(|since| now.since(since) >= stall_max)
        };
        let keys: Vec<Key> =
            self.connections.iter().filter(|(_, one)| stalled(one)).map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.close(key, &Closing::Stalled));
        self.listeners.iter_mut().for_each(|listener| listener.pending = true);
        self.wake_handler();
    }

    /// Receives pending parts of large calls that have raised no event (see `rcvlowat`), so that a
    /// slow sender does not count as stalled.
    fn look_for_more(&mut self) {
        let may = self.connections.iter().filter(|(_, one)| one.may_have_more());
        let keys: Vec<Key> = may.map(|(key, _)| key).collect();
        for key in keys {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.note(true, false, false);
                self.turn_of(key);
            }
        }
    }
}
