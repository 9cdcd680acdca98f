//! Dialogues, at least one for each rule, and the memory cost of a client.

mod model;
mod mutants;
mod units;
mod words;

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::dialogue::play;
use bytes::Bytes;
use words::Talk;

/// Small limits, so that the tests reach each of them.
const LIMITS: Limits = Limits {
    clients: 4,
    unconfirmed: 3,
    clients_of_host: 3,
    unconfirmed_of_host: 2,
    sessions: 5,
    sessions_of_client: 3,
    connections_of_session: 3,
    slots_at_start: 4,
    slots_min: 2,
    slots_of_session: 12,
    slots_of_client: 20,
    slots: 40,
    fore: Channel {
        request_bytes: 4096,
        reply_bytes: 4096,
        cached_bytes: 100,
        operations: 16,
        slots: 0,
    },
    small_reply_bytes: 8,
    replies_bytes: 400,
    guaranteed_bytes: 100,
    back_slots: 2,
    callbacks_of_client: 3,
    callbacks: 4,
    ..Limits::DEFAULT
};

/// The attributes that a client requests if a test names none.
const ASKED: Channel = Channel {
    request_bytes: 10_000,
    reply_bytes: 10_000,
    cached_bytes: 1000,
    operations: 8,
    slots: 64,
};

fn server() -> Server {
    let flags = ExchangeFlags::USE_NON_PNFS;
    Server { minor: 1, major: Bytes::from_static(b"major"), scope: Bytes::new(), flags }
}

fn owner(name: &str) -> Owner {
    Owner::new(name.as_bytes()).expect("a short name")
}

fn start(now: Time, limits: Limits, epoch: u32, records: BTreeMap<Owner, Record>) -> Sessions {
    Sessions::new(now, limits, server(), epoch, records)
}

/// Returns the address of a host.
fn host(network: u8, number: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, network, number).into()
}

/// Returns the EXCHANGE_ID of an incarnation of an owner, which has a host of its own.
fn exchange(name: &str, incarnation: u8) -> ExchangeId {
    ExchangeId {
        owner: owner(name),
        verifier: Verifier([incarnation; 8]),
        principal: Principal::System(0),
        flags: ExchangeFlags::default(),
        address: host(u8::try_from(name.len()).expect("a short name"), name.as_bytes()[0]),
        minor: 2,
    }
}

/// Returns the connection of a number.
fn connection_id(number: u64) -> ConnectionId {
    let slot = u32::try_from(number).expect("a small number");
    ConnectionId { slot, ..ConnectionId::default() }
}

fn create(client: ClientId, sequence: u32, connection: u64) -> CreateSession {
    CreateSession {
        client,
        sequence: SequenceId(sequence),
        principal: Principal::System(0),
        connection: connection_id(connection),
        back_channel: false,
        fore: ASKED,
        back: Channel { operations: 2, slots: 16, ..ASKED },
        callback: CallbackProgram { program: 0x4000_0000, minor: 1, credential: Bytes::new() },
    }
}

fn sequence(session: SessionId, slot: u32, number: u32, connection: u64) -> Sequence {
    Sequence {
        session,
        slot: SlotId(slot),
        sequence: SequenceId(number),
        highest: SlotId(slot),
        cache_this: true,
        connection: connection_id(connection),
        principal: Principal::System(0),
        digest: 0,
        request_bytes: 200,
        operations: 3,
    }
}

#[test]
fn dialogues() {
    play("sessions", || {
        let mut talk = Talk::new();
        move |now, words| talk.say(now, words)
    });
}
