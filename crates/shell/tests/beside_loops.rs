//! A server whose loops call another server: each loop receives the replies to its own calls.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use common::{Client, ECHO, PARK, TIMEOUT};
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Encode as _, Reader, Writer};
use leasehold_fs::MaybeReady;
use leasehold_serve::{Arrival, Response};
use leasehold_session::{Call, Credential, Error, Options as Calling, Procedure, Session, Weight};
use leasehold_shell::client::{Runtime, SourcePort, block_on};
use leasehold_shell::{Handler, Options, Policy, Running, Server};
use leasehold_wire::rpc;

const LOOPS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

const ASK: Procedure = Procedure { program: 1, version: 1, number: 1, weight: Weight::Light };

/// The back-end server, which replies to a call with the argument of the call when the gate is
/// open.
#[derive(Default)]
struct Back {
    state: Mutex<BackState>,
    changed: Condvar,
}

#[derive(Default)]
struct BackState {
    connections: BTreeSet<SocketAddr>,
    calls: usize,
    shut: bool,
    waiting: Vec<Waker>,
}

impl Back {
    fn wait(&self, until: impl Fn(&BackState) -> bool) {
        let state = self.state.lock().unwrap();
        let over = |state: &mut BackState| !until(state);
        assert!(!self.changed.wait_timeout_while(state, TIMEOUT, over).unwrap().1.timed_out());
    }

    fn open(&self) {
        let mut state = self.state.lock().unwrap();
        state.shut = false;
        state.waiting.drain(..).for_each(Waker::wake);
    }
}

struct Behind(Arc<Back>);

impl Handler for Behind {
    fn answer(&self, arrival: Arrival, message: Bytes, mut writer: Writer) -> Response {
        let back = Arc::clone(&self.0);
        let mut state = back.state.lock().unwrap();
        state.connections.insert(arrival.from);
        state.calls += 1;
        drop(state);
        back.changed.notify_all();
        MaybeReady::later(async move {
            poll_fn(|context| {
                let mut state = back.state.lock().unwrap();
                if state.shut {
                    state.waiting.push(context.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            let mut reader = Reader::new(&message);
            let xid = rpc::Call::decode(&mut reader).unwrap().xid;
            rpc::Reply { xid, status: rpc::ReplyStatus::Success }.encode(&mut writer);
            writer.u32(reader.u32().unwrap());
            Some(writer.finish())
        })
        .into()
    }

    fn connection_closed(&self, _: SocketAddr, _: ConnectionId) {}

    fn wake(&self, _: Time) -> Option<Time> {
        None
    }
}

/// The front-end server. For each ECHO it sends a call to the back-end server; for a PARK it passes
/// such a call to the test.
struct Front {
    session: Session,
    /// The threads on which each call started and was woken.
    threads: Mutex<BTreeMap<u32, Vec<String>>>,
    left: Mutex<Option<Pin<Box<Call>>>>,
    changed: Condvar,
}

/// Records the thread of a wake-up.
struct Noted {
    front: Arc<Front>,
    number: u32,
    waker: Waker,
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.front.note(self.number);
        self.waker.wake_by_ref();
    }
}

impl Front {
    fn note(&self, number: u32) {
        let name = thread::current().name().unwrap_or_default().to_owned();
        self.threads.lock().unwrap().entry(number).or_default().push(name);
    }

    fn asks(&self, number: u32) -> Call {
        self.session.call(&Credential::none(), ASK, &number)
    }
}

struct InFront(Arc<Front>);

impl Handler for InFront {
    fn answer(&self, _: Arrival, message: Bytes, _: Writer) -> Response {
        let front = Arc::clone(&self.0);
        let mut words = Reader::new(&message);
        let (what, number) = (words.u32().unwrap(), words.u32().unwrap());
        let mut call = Box::pin(front.asks(number));
        if what == PARK {
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            *front.left.lock().unwrap() = Some(call);
            front.changed.notify_all();
            return MaybeReady::now(None).into();
        }
        front.note(number);
        MaybeReady::later(async move {
            let results = poll_fn(|context| {
                let waker = context.waker().clone();
                let noted = Arc::new(Noted { front: Arc::clone(&front), number, waker });
                call.as_mut().poll(&mut Context::from_waker(&noted.into()))
            });
            assert_eq!(results.await.unwrap().read(), Ok(number));
            Some(message.into())
        })
        .into()
    }

    fn connection_closed(&self, _: SocketAddr, _: ConnectionId) {}

    fn wake(&self, _: Time) -> Option<Time> {
        None
    }
}

fn start(handler: Arc<dyn Handler>) -> (Running, SocketAddr) {
    leasehold_shell::process::prepare();
    let policy = Policy { privileged: true, uid: 0, reserved_ports_end: 1024 };
    let mut options = Options::new(vec!["127.0.0.1:0".parse().unwrap()], policy);
    options.loops = LOOPS;
    let server = Server::bind(options).unwrap();
    let address = server.addresses()[0];
    (server.start(handler).unwrap(), address)
}

struct Both {
    back: Arc<Back>,
    behind: Option<Running>,
    at: SocketAddr,
    front: Arc<Front>,
    in_front: Option<Running>,
    address: SocketAddr,
}

impl Both {
    fn start() -> Self {
        let back = Arc::new(Back::default());
        let (behind, at) = start(Arc::new(Behind(Arc::clone(&back))));
        let runtime = Runtime::start().unwrap().beside_loops(LOOPS);
        let session = runtime.session(at, Calling::stream(), SourcePort::Any).unwrap();
        let (threads, left, changed) = Default::default();
        let front = Arc::new(Front { session, threads, left, changed });
        let (in_front, address) = start(Arc::new(InFront(Arc::clone(&front))));
        Self { back, behind: Some(behind), at, front, in_front: Some(in_front), address }
    }

    /// Starts a call on a loop and passes it to the test.
    fn left(&self, client: &mut Client) -> Pin<Box<Call>> {
        client.send(PARK, 7);
        let left = self.front.left.lock().unwrap();
        let waited =
            self.front.changed.wait_timeout_while(left, TIMEOUT, |left| left.is_none()).unwrap();
        let mut left = waited.0;
        left.take().unwrap()
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        for running in [self.in_front.take(), self.behind.take()].into_iter().flatten() {
            running.stop(Duration::ZERO);
        }
    }
}

fn answer(call: Pin<Box<Call>>) -> Result<u32, Error> {
    block_on(call)?.read()
}

#[test]
fn reply_to_a_loops_call_arrives_on_that_loop() {
    let both = Both::start();
    // The server assigns connections to the loops in round-robin order, so each client is at
    // another loop.
    let mut clients = [(); 2].map(|()| Client::connect(both.address));
    for round in 0..100_u32 {
        for (number, client) in (2 * round..).zip(&mut clients) {
            client.send(ECHO, number);
        }
        clients.iter_mut().for_each(|client| drop(client.reply()));
    }
    let threads = both.front.threads.lock().unwrap();
    assert_eq!(threads.len(), 200);
    for names in threads.values() {
        assert!(names.len() > 1 && names.iter().all(|name| *name == names[0]), "{names:?}");
        assert!(names[0].starts_with("loop-"), "{names:?}");
    }
    drop(threads);
    let of_loops = both.back.state.lock().unwrap().connections.len();
    assert_eq!(of_loops, 2, "one of each loop");
    // A call from a thread that is not a loop uses a third connection.
    assert_eq!(answer(Box::pin(both.front.asks(1))), Ok(1));
    assert_eq!(both.back.state.lock().unwrap().connections.len(), 3);
}

#[test]
fn runtime_completes_calls_of_an_ended_loop() {
    let mut both = Both::start();
    both.back.state.lock().unwrap().shut = true;
    let call = both.left(&mut Client::connect(both.address));
    both.back.wait(|state| state.calls == 1);
    both.in_front.take().unwrap().stop(Duration::ZERO);
    // The loop has ended, so the runtime's thread retransmits the call on its own connection.
    both.back.wait(|state| state.calls == 2);
    both.back.open();
    assert_eq!(answer(call), Ok(7));
}

#[test]
fn loop_retransmits_its_calls_to_a_restarted_server() {
    let mut both = Both::start();
    both.back.state.lock().unwrap().shut = true;
    let mut client = Client::connect(both.address);
    let call = both.left(&mut client);
    both.back.wait(|state| state.calls == 1);
    // The back-end server restarts at the same address, as soon as the address is free.
    both.behind.take().unwrap().stop(Duration::ZERO);
    both.back.open();
    let policy = Policy { privileged: true, uid: 0, reserved_ports_end: 1024 };
    let server = Server::bind(Options::new(vec![both.at], policy)).unwrap();
    both.behind = Some(server.start(Arc::new(Behind(Arc::clone(&both.back)))).unwrap());
    assert_eq!(answer(call), Ok(7));
    client.echo(8);
    let threads = both.front.threads.lock().unwrap();
    assert!(threads[&8].iter().all(|name| name.starts_with("loop-")), "{threads:?}");
}
