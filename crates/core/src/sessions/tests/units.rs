//! Bounds: memory, hostile input, and progress of time.

use proptest::prelude::*;

use super::*;
use leasehold_base::limits::sessions::{CALLBACK_CREDENTIAL_BYTES_MAX, OWNER_BYTES_MAX};

#[test]
fn an_owner_is_bounded() {
    assert!(Owner::new(&[7; OWNER_BYTES_MAX]).is_some());
    assert!(Owner::new(&[7; OWNER_BYTES_MAX + 1]).is_none());
}

#[test]
fn a_callback_credential_is_bounded() {
    let mut sessions = start(Time::ZERO, LIMITS, 1, BTreeMap::new());
    let client = join(&mut sessions, "a");
    let mut call = create(client, 2, 1);
    call.callback.credential = vec![0; CALLBACK_CREDENTIAL_BYTES_MAX + 1].into();
    let created = sessions.create_session(Time::ZERO, &call, &mut Vec::new());
    assert_eq!(created, Err(Error::Invalid));
}

fn join(sessions: &mut Sessions, name: &str) -> ClientId {
    let exchanged = sessions.exchange_id(Time::ZERO, &exchange(name, 1), &mut Vec::new());
    let client = exchanged.expect("a new owner").client;
    let created = sessions.create_session(Time::ZERO, &create(client, 1, 1), &mut Vec::new());
    created.expect("a first session");
    client
}

/// Returns the mean memory of a client with one session that has used a number of slots, in bytes.
fn memory(slots: u32) -> i64 {
    const CLIENTS: u32 = 64;
    let mut sessions = start(Time::ZERO, Limits::DEFAULT, 1, BTreeMap::new());
    let info = allocation_counter::measure(|| {
        for number in 0..CLIENTS {
            let name = format!("Linux NFSv4.2 host-{number}.example.org");
            let client = join(&mut sessions, &name);
            let ids = &sessions.clients.get(client).expect("it joined").sessions;
            let session = *ids.first().expect("it has one");
            for slot in 0..slots {
                let request = sequence(session, slot, 1, 1);
                let admitted = sessions.sequence(Time::ZERO, &request, &mut Vec::new());
                let Ok(Admitted::Run { results, .. }) = admitted else { panic!("{admitted:?}") };
                sessions.complete(results.request(), Some(Bytes::new()));
            }
        }
    });
    info.bytes_current / i64::from(CLIENTS)
}

#[test]
fn an_idle_client_costs_less_than_eight_kib() {
    for slots in [1, 4, 64] {
        let bytes = memory(slots);
        assert!(bytes < 8 << 10, "{bytes} bytes with {slots} slots");
    }
}

#[test]
fn slots_of_all_sessions_are_bounded() {
    let limits = Limits { slots: 6, ..LIMITS };
    let mut sessions = start(Time::ZERO, limits, 1, BTreeMap::new());
    for (name, slots) in [("a", 4), ("b", 2), ("c", 1), ("d", 1)] {
        let client = join(&mut sessions, name);
        assert_eq!(sessions.clients.get(client).expect("it joined").slots, slots);
    }
}

/// The events of the dialogues with any numbers.
fn any_line() -> impl Strategy<Value = String> {
    let client = (1..3_u32, 1..7_u32).prop_map(|(epoch, client)| format!("{epoch}.{client}"));
    let session = (client.clone(), 0..6_u32).prop_map(|(client, at)| format!("{client}.{at}"));
    let place = (session.clone(), 0..5_u32, 0..4_u32)
        .prop_map(|(session, slot, number)| format!("{session} slot {slot} seq {number}"));
    let connection = (1..5_u32).prop_map(|connection| format!("conn {connection}"));
    let owner = "[a-c]";
    let cause = prop::sample::select(vec!["administrator", "all", "some", "recallable"]);
    let answer = prop::sample::select(vec![
        "done",
        "done target 0",
        "delay",
        "late",
        "misordered",
        "garbled",
    ]);
    let direction = prop::sample::select(vec!["fore", "back", "fore-or-both", "back-or-both"]);
    let simple = prop::sample::select(vec!["tick", "end-grace", "pressure", "restart"]);
    prop_oneof![
        3 => (owner, 1..3_u8, 0..2_u8)
            .prop_map(|(owner, v, p)| format!("exchange {owner} v {v} p {p}")),
        4 => (client.clone(), 1..4_u32, connection.clone())
            .prop_map(|(client, number, on)| format!("create {client} seq {number} {on} back")),
        10 => (place.clone(), connection.clone())
            .prop_map(|(place, on)| format!("seq {place} {on} keep")),
        4 => place.clone().prop_map(|place| format!("done {place} reply")),
        2 => (session.clone(), connection.clone(), direction)
            .prop_map(|(session, on, direction)| format!("bind {session} {on} {direction}")),
        1 => (session.clone(), connection).prop_map(|(session, on)| format!("destroy {session} {on}")),
        1 => client.clone().prop_map(|client| format!("destroy-client {client}")),
        2 => client.clone().prop_map(|client| format!("complete {client}")),
        4 => (client.clone(), 0..9_u8, place.clone())
            .prop_map(|(client, payload, place)| format!("callback {client} {payload} of {place}")),
        6 => (place, answer).prop_map(|(place, answer)| format!("answered {place} {answer}")),
        1 => (session, 0..9_u32).prop_map(|(session, slot)| format!("limit {session} slot {slot}")),
        1 => (1..5_u32).prop_map(|connection| format!("lost {connection}")),
        1 => owner.prop_map(|owner| format!("forget {owner}")),
        2 => (client.clone(), any::<bool>())
            .prop_map(|(client, has)| format!("state {client} {}", if has { "yes" } else { "no" })),
        1 => client.clone().prop_map(|client| format!("conflict {client}")),
        1 => client.clone().prop_map(|client| format!("revoke {client}")),
        1 => (client.clone(), cause.clone()).prop_map(|(client, cause)| format!("revoked {client} {cause} 1")),
        1 => (client, cause).prop_map(|(client, cause)| format!("freed {client} {cause} 1")),
        3 => (1..9_u32).prop_map(|ticket| format!("persisted {ticket}")),
        2 => (1..9_u32).prop_map(|ticket| format!("not-persisted {ticket}")),
        2 => simple.prop_map(str::to_owned),
    ]
}

proptest! {
    /// The audit after each step finds no inconsistency, and each time in the past is handled.
    #[test]
    fn any_events_keep_the_state_consistent(
        lines in prop::collection::vec((any_line(), 0..40_u64), 0..200)
    ) {
        let (mut talk, mut now) = (Talk::new(), Time::ZERO);
        for (line, seconds) in lines {
            // Time stands still in most steps.
            now = now + Duration::from_secs(seconds.saturating_sub(30));
            let words: Vec<&str> = line.split_whitespace().collect();
            talk.say(now, &words);
            if words[0] != "restart" {
                talk.say(now, &["tick"]);
                prop_assert!(talk.next_wake().is_none_or(|wake| wake > now), "after {line}");
            }
        }
    }
}
