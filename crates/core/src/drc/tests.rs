mod model;

use proptest::prelude::*;

use super::*;
use leasehold_base::xdr::{Encode as _, Reader, Writer, decode_all};

use crate::dialogue::{lines, play, value};
use model::Model;

/// Small limits, so that the tests reach each of them.
const LIMITS: Limits =
    Limits { entries: 4, running_of_client: 3, bytes: 12, age: Duration::from_secs(60) };

const CLOSED: &str = "closed";
const RESTART: &str = "restart";

fn address(client: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, client], port))
}

/// The connection from a port that had `generation` connections before.
fn connection(port: u16, generation: u32) -> ConnectionId {
    ConnectionId { event_loop: 0, slot: port.into(), generation }
}

fn remove(xid: u32, checksum: u64) -> Call {
    Call { xid: Xid(xid), program: 100_003, version: 3, procedure: 12, checksum }
}

/// The notes on stable storage, by slot.
type Notes = BTreeMap<u32, (Time, Note)>;

fn write_down(notes: &mut Notes, effects: &[Effect]) {
    for effect in effects {
        if let Effect::Note { slot, given, note, .. } = effect {
            notes.insert(*slot, (*given, note.clone()));
        }
    }
}

/// Creates the cache of a restarted server from the notes.
fn restart(now: Time, limits: Limits, notes: &Notes) -> Replies {
    let (mut replies, mut effects) = (Replies::new(limits), Vec::new());
    for (slot, (given, note)) in notes {
        let (slot, given, note) = (*slot, *given, note.clone());
        replies.step(now, Event::Recalled { slot, given, note }, &mut effects);
        replies.check();
    }
    assert_eq!(effects, [], "a recalled note is not written again");
    replies
}

#[test]
fn dialogues() {
    play("drc", || {
        let (mut replies, mut notes) = (Replies::new(LIMITS), Notes::new());
        move |now, words| {
            if words == [RESTART] {
                replies = restart(now, LIMITS, &notes);
                return lines(&[replies.len()]);
            }
            let mut effects = Vec::new();
            replies.step(now, event(words), &mut effects);
            replies.check();
            write_down(&mut notes, &effects);
            effects.iter().map(told).collect()
        }
    });
}

/// Returns an effect as a line of text; the line shows only the slot of a note.
fn told(effect: &Effect) -> String {
    if let Effect::Note { slot, change, .. } = effect {
        match change {
            Standing::Made => format!("NoteMade({slot})"),
            Standing::Done => format!("Note({slot})"),
        }
    } else {
        format!("{effect:?}")
    }
}

/// `call CLIENT udp|tcp PORT [again N] xid X [sum S] [late]`, `closed CLIENT PORT [again N]`, `done
/// TICKET REPLY`, `made TICKET REPLY`, `abandoned TICKET`, `tick`, and `restart`, which is no event
/// and prints the number of known calls. `again N` denotes the connection from a port that was
/// opened N times before.
fn event(words: &[&str]) -> Event {
    let number = |at: usize| words[at].parse::<u16>().expect("a number");
    let client = || u8::try_from(number(1)).expect("a client below 256");
    let generation = || value(words, "again").unwrap_or(0);
    match words[0] {
        "call" => {
            let from = address(client(), number(3));
            let (origin, connection) = came(from, words[2] == "tcp", generation());
            let (xid, sum) = (value(words, "xid"), value(words, "sum"));
            let harm = if words.contains(&"late") { Harm::Late } else { Harm::Always };
            let call = remove(xid.expect("an xid"), sum.unwrap_or(0));
            Event::Call { origin, connection, call, harm }
        }
        CLOSED => {
            let (client, connection) =
                ([10, 0, 0, client()].into(), connection(number(2), generation()));
            Event::ConnectionClosed { client, connection }
        }
        "done" => Event::Done {
            ticket: Ticket(number(1).into()),
            reply: Bytes::copy_from_slice(words[2].as_bytes()),
        },
        "made" => Event::Made {
            ticket: Ticket(number(1).into()),
            reply: Bytes::copy_from_slice(words[2].as_bytes()),
        },
        "abandoned" => Event::Abandoned { ticket: Ticket(number(1).into()) },
        "tick" => Event::Tick,
        other => panic!("no such event: {other}"),
    }
}

/// The sender of a call, and its connection.
fn came(from: SocketAddr, stream: bool, generation: u32) -> (Origin, Option<ConnectionId>) {
    if stream {
        (Origin::stream(from), Some(connection(from.port(), generation)))
    } else {
        (Origin::datagram(from), None)
    }
}

/// The next step of a random run; a running call is chosen by its index among the running calls.
#[derive(Clone, Debug)]
enum Move {
    Call { client: u8, stream: bool, port: u16, generation: u32, xid: u32, checksum: u64 },
    Closed { client: u8, port: u16, generation: u32 },
    Done { which: usize, extra_bytes: usize },
    Made { which: usize },
    Abandoned { which: usize },
    Recalled { port: u16, xid: u32, slot: u32, seconds_ago: u64 },
    Tick { seconds: u64 },
}

fn any_move() -> impl Strategy<Value = Move> {
    let (client, port) = (1..3_u8, 700..703_u16);
    prop_oneof![
        8 => (client.clone(), any::<bool>(), port.clone(), 0..2_u32, 0..4_u32, 0..2_u64).prop_map(
            |(client, stream, port, generation, xid, checksum)| {
                Move::Call { client, stream, port, generation, xid, checksum }
            }
        ),
        1 => (client, port.clone(), 0..2_u32).prop_map(|(client, port, generation)| {
            Move::Closed { client, port, generation }
        }),
        4 => (0..4_usize, 0..4_usize)
            .prop_map(|(which, extra_bytes)| Move::Done { which, extra_bytes }),
        2 => (0..4_usize).prop_map(|which| Move::Made { which }),
        1 => (0..4_usize).prop_map(|which| Move::Abandoned { which }),
        1 => (port, 0..4_u32, 0..6_u32, 0..70_u64).prop_map(|(port, xid, slot, seconds_ago)| {
            Move::Recalled { port, xid, slot, seconds_ago }
        }),
        1 => (0..50_u64).prop_map(|seconds| Move::Tick { seconds }),
    ]
}

/// The event of a step; `None` if the step needs a running call and there is none.
fn of_move(now: Time, next: &Move, running: &[Ticket]) -> Option<Event> {
    let ticket = |which: usize| running.get(which % running.len().max(1)).copied();
    Some(match *next {
        Move::Call { client, stream, port, generation, xid, checksum } => {
            let (origin, connection) = came(address(client, port), stream, generation);
            let harm = if xid == 0 { Harm::Late } else { Harm::Always };
            Event::Call { origin, connection, call: remove(xid, checksum), harm }
        }
        Move::Closed { client, port, generation } => {
            let (client, connection) = ([10, 0, 0, client].into(), connection(port, generation));
            Event::ConnectionClosed { client, connection }
        }
        Move::Done { which, extra_bytes } => {
            let ticket = ticket(which)?;
            // The reply contains the ticket of its call, so that the test detects the reply of
            // another call.
            let mut reply = ticket.0.to_string().into_bytes();
            reply.resize(reply.len() + extra_bytes, b'.');
            Event::Done { ticket, reply: reply.into() }
        }
        Move::Made { which } => {
            let ticket = ticket(which)?;
            Event::Made { ticket, reply: ticket.0.to_string().into_bytes().into() }
        }
        Move::Abandoned { which } => Event::Abandoned { ticket: ticket(which)? },
        Move::Recalled { port, xid, slot, seconds_ago } => {
            let origin = Origin::stream(address(1, port));
            let ago = Duration::from_secs(seconds_ago).as_nanos();
            let ago = u64::try_from(ago).expect("a minute is short");
            let given = Time::from_nanoseconds(now.as_nanoseconds().saturating_sub(ago));
            let note = Note { origin, call: remove(xid, 0), reply: Bytes::from_static(b"old") };
            Event::Recalled { slot, given, note }
        }
        Move::Tick { .. } => Event::Tick,
    })
}

/// Keeps the calls that a restarted server knows after a kill: each finished call, and each running
/// call with a note of its change.
fn forget_unnoted(
    runs: &mut BTreeMap<Call, Ticket>,
    running: &mut BTreeMap<Ticket, Call>,
    made: &mut BTreeSet<Ticket>,
) {
    runs.retain(|call, _| {
        let runs = running.iter().find(|(_, other)| *other == call);
        call.xid != Xid(0) && runs.is_none_or(|(ticket, _)| made.contains(ticket))
    });
    running.clear();
    made.clear();
}

proptest! {
    #[test]
    fn the_cache_agrees_with_the_model(moves in prop::collection::vec(any_move(), 0..60)) {
        let (mut replies, mut model) = (Replies::new(LIMITS), Model::new(LIMITS));
        let mut now = Time::ZERO;
        for next in &moves {
            if let Move::Tick { seconds } = next {
                now = now + Duration::from_secs(*seconds);
            }
            let Some(event) = of_move(now, next, &model.running()) else { continue };
            let mut effects = Vec::new();
            replies.step(now, event.clone(), &mut effects);
            replies.check();
            prop_assert_eq!(effects, model.step(now, event.clone()), "after {:?}", event);
            prop_assert_eq!(replies.len(), model.len());
            prop_assert_eq!(replies.next_wake(), model.next_wake());
        }
    }

    /// The limits are large enough that no reply is evicted or expires, and the client has one
    /// connection at a time. The test skips [`Move::Recalled`], which would load notes that no call
    /// has written.
    #[test]
    fn each_call_runs_once_across_reconnects_and_restarts(
        moves in prop::collection::vec(any_move(), 0..60)
    ) {
        let limits = Limits { entries: 60, running_of_client: 60, bytes: 6000, age: Duration::from_secs(3600) };
        let (mut replies, mut notes) = (Replies::new(limits), Notes::new());
        // The port of the client's connection, and the number of earlier connections. If the client
        // reconnects from the same port, the end of the earlier connection may be reported later.
        let (mut connected, mut connected_before, mut untold) = ((700, 0), 0, Vec::new());
        // `runs` maps each call to its ticket, `running` contains the running calls by ticket, and
        // `made` contains the tickets with a note of their change.
        let (mut runs, mut running, mut made) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for next in &moves {
            let tickets: Vec<Ticket> = running.keys().copied().collect();
            let event = match (next, of_move(Time::ZERO, next, &tickets)) {
                (Move::Closed { port, generation, .. }, _) => {
                    untold.push(core::mem::replace(&mut connected, (*port, connected_before + 1)));
                    connected_before += 1;
                    if *port == untold[untold.len() - 1].0 && *generation == 1 {
                        continue;
                    }
                    for (port, generation) in untold.drain(..) {
                        let connection = connection(port, generation);
                        let event = Event::ConnectionClosed { client: [10, 0, 0, 1].into(), connection };
                        replies.step(Time::ZERO, event, &mut Vec::new());
                    }
                    continue;
                }
                (Move::Recalled { port, .. }, _) => {
                    connected_before += 1;
                    connected = (*port, connected_before);
                    untold.clear();
                    replies = restart(Time::ZERO, limits, &notes);
                    forget_unnoted(&mut runs, &mut running, &mut made);
                    continue;
                }
                (_, Some(Event::Call { call, harm, .. })) => {
                    let (origin, connection) = came(address(1, connected.0), true, connected.1);
                    Event::Call { origin, connection, call, harm }
                }
                // A server abandons a call after its change only at its end.
                (_, Some(Event::Abandoned { ticket })) if made.contains(&ticket) => continue,
                (_, Some(event)) => event,
                (_, None) => continue,
            };
            let mut effects = Vec::new();
            replies.step(Time::ZERO, event.clone(), &mut effects);
            write_down(&mut notes, &effects);
            match (event, effects.last()) {
                (Event::Call { call, .. }, Some(Effect::Execute(ticket))) => {
                    prop_assert_eq!(runs.insert(call, *ticket), None, "a call ran twice");
                    running.insert(*ticket, call);
                }
                (Event::Call { call, .. }, Some(Effect::Resend(reply))) => {
                    let whose = reply.split(|byte| *byte == b'.').next().expect("a number");
                    let own = runs[&call].0.to_string();
                    prop_assert_eq!(whose, own.as_bytes());
                }
                (Event::Call { call, .. }, other) => {
                    prop_assert_eq!(other, Some(&Effect::Wait(runs[&call])));
                }
                (Event::Done { ticket, .. }, _) => drop(running.remove(&ticket)),
                (Event::Made { ticket, .. }, _) => drop(made.insert(ticket)),
                (Event::Abandoned { ticket }, _) => {
                    runs.remove(&running.remove(&ticket).expect("it ran"));
                }
                (Event::ConnectionClosed { .. } | Event::Tick, _) => {}
                (Event::Recalled { .. }, _) => unreachable!("`restart` replaces this event"),
            }
        }
    }

    #[test]
    fn a_decoded_note_equals_the_encoded_note(
        client in any::<[u8; 16]>(), six: bool, stream: bool, port: u16,
        numbers in any::<[u32; 4]>(), checksum: u64, reply in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        let address = if six {
            IpAddr::from(client)
        } else {
            IpAddr::from([client[0], client[1], client[2], client[3]])
        };
        let from = SocketAddr::new(address, port);
        let [xid, program, version, procedure] = numbers;
        let note = Note {
            origin: if stream { Origin::stream(from) } else { Origin::datagram(from) },
            call: Call { xid: Xid(xid), program, version, procedure, checksum },
            reply: reply.into(),
        };
        let mut writer = Writer::new();
        note.encode(&mut writer);
        let bytes = writer.finish().into_bytes();
        prop_assert_eq!(decode_all(&mut Reader::new(&bytes)), Ok(note));
    }

    #[test]
    fn decoding_a_note_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        drop(decode_all::<Note>(&mut Reader::new(&bytes)));
    }
}
