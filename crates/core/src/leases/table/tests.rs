//! Dialogues, at least one for each rule, and the memory cost of a lease.

mod random;

use super::*;
use crate::dialogue::{play, value};
use leasehold_base::units::{FileId, FileSystemId};

fn object(number: u64) -> Object {
    Object { file_system: FileSystemId(0), file: FileId(number) }
}

#[test]
fn dialogues() {
    play("leases/table", || {
        let mut table = Table::new(Terms::DEFAULT, 100, 0, false);
        move |now, words| {
            match words[0] {
                "full-at" => {
                    let most = words[1].parse().expect("a number of leases");
                    table = Table::new(Terms::DEFAULT, most, 0, false);
                    return Vec::new();
                }
                "restart" => {
                    table = Table::new(Terms::DEFAULT, 100, 0, true);
                    return Vec::new();
                }
                "leases" => {
                    let reserved = table.reserved_bytes(FileSystemId(0));
                    return vec![format!("{} reserved {reserved}", table.len())];
                }
                "cached" | "own" => return vec![cached(&table, words)],
                _ => {}
            }
            let mut effects = Vec::new();
            table.step(now, event(words), &mut effects);
            table.check();
            effects.iter().map(told).collect()
        }
    });
}

/// `call TICKET [by CLIENT] nothing|look|read|write [under SERIAL] [ask|try|reclaim read|write [for
/// SECONDS] [space BYTES] [mute]]`, `vacate TICKET`, `done TICKET [used BYTES] [void]`, `given-up
/// TICKET`, `received CLIENT SERIAL`, `returned CLIENT SERIAL [open read|write]`, `reported CLIENT
/// SERIAL round ROUND [size BYTES]`, `met CLIENT ORIGIN`, `reconnected|forgotten CLIENT`, `gone`,
/// `charged CLIENT from SECONDS to SECONDS`, `backlog yes|no`, `space BYTES`, `reclaimed`, `opened` and `tick`; each may end with `of
/// OBJECT`. `restart`, `full-at LEASES`, `leases`, `cached CLIENT` and `own CLIENT [since SERIAL]`
/// are no events.
fn event(words: &[&str]) -> Event {
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let client = || Client(words[1].parse().expect("a client"));
    let object = object(value(words, "of").unwrap_or(1));
    match words[0] {
        "call" => Event::Call(call(words, object)),
        "vacate" => Event::Vacate(object, Ticket(number(1))),
        "done" => {
            let used = value(words, "used").unwrap_or(0);
            let outcome = Outcome { used, void: words.contains(&"void") };
            Event::Done(object, Ticket(number(1)), outcome)
        }
        "given-up" => Event::GivenUp(object, Ticket(number(1))),
        "received" => Event::Received(client(), object, Serial(number(2))),
        "returned" => {
            let open = match value::<String>(words, "open").as_deref() {
                None => Open::No,
                Some("read") => Open::Read,
                Some(_) => Open::Write,
            };
            Event::Returned(client(), object, Serial(number(2)), open)
        }
        "reported" => {
            let told = value(words, "size").map(|size| Told { size, modified: 0, set: None });
            let round = value(words, "round").expect("a round");
            Event::Reported(client(), object, Serial(number(2)), round, told)
        }
        "met" => Event::Met(client(), Origin(number(2))),
        "reconnected" => Event::Reconnected(client()),
        "forgotten" => Event::Forgotten(client()),
        "gone" => Event::Gone(object),
        "backlog" => Event::Backlog(words[1] == "yes"),
        "space" => Event::Space(FileSystemId(0), number(1)),
        "charged" => {
            let at = |name| Time::ZERO + Duration::from_secs(value(words, name).expect("a time"));
            Event::Charged(Charge { client: client(), since: at("from"), end: at("to") })
        }
        "reclaimed" => Event::Reclaimed,
        "opened" => Event::Opened,
        "tick" => Event::Tick,
        other => panic!("no such event: {other}"),
    }
}

/// The shared state of two shards.
#[derive(Default)]
struct Both {
    shares: Shares,
    charges: Vec<Charge>,
}

impl Shared for Both {
    fn shares(&mut self) -> &mut Shares {
        &mut self.shares
    }

    fn charged(&mut self, charge: Charge) {
        self.charges.push(charge);
    }
}

/// Rule 22: a share that each shard computed from its own leases would permit each client the whole
/// share at each shard.
#[test]
fn shards_bound_reserved_bytes_together() {
    let mut shards = [0, 1].map(|_| Table::new(Terms::DEFAULT, 100, 0, false));
    let (mut both, mut effects) = (Both::default(), Vec::new());
    let mut step = |shard: usize, words: &str, both: &mut Both| {
        let words: Vec<&str> = words.split(' ').collect();
        shards[shard].step_shared(Time::ZERO, event(&words), both, &mut effects);
        both.shares.check(shards.iter().flat_map(Table::reservations));
        core::mem::take(&mut effects).iter().map(told).collect::<Vec<_>>()
    };
    step(0, "space 800", &mut both);
    for (shard, client) in [(0, 1), (1, 2)] {
        step(shard, &format!("met {client} 7"), &mut both);
    }
    for object in 1..=2 {
        let call = format!("call {object} by 1 write ask write space 100 of {object}");
        let told = step(0, &call, &mut both);
        assert_eq!(told, [format!("run {object} granted Write {object} for 30 space 100")]);
    }
    let told = step(1, "call 3 by 2 write ask write space 100 of 3", &mut both);
    assert_eq!(told, ["run 3 granted Write 1 for 30"], "the origin has used its share");
    assert_eq!(both.shares.reserved(FileSystemId(0)), 200);
    step(0, "gone of 1", &mut both);
    step(1, "done 3 of 3", &mut both);
    let told = step(1, "call 4 by 2 write ask write space 100 of 3", &mut both);
    assert_eq!(told, ["run 4 granted Write 1 for 30 space 100"], "the other shard freed it");
}

/// Rule 22: the shard at which a client delayed a caller reports the charge.
#[test]
fn charges_are_reported_to_the_other_shards() {
    let mut shard = Table::new(Terms::DEFAULT, 100, 0, false);
    let (mut both, mut effects) = (Both::default(), Vec::new());
    let mut step = |seconds: u64, words: &str, both: &mut Both| {
        let words: Vec<&str> = words.split(' ').collect();
        let now = Time::ZERO + Duration::from_secs(seconds);
        shard.step_shared(now, event(&words), both, &mut effects);
    };
    step(0, "met 1 70", &mut both);
    step(0, "call 1 by 1 read ask read", &mut both);
    step(0, "done 1", &mut both);
    step(1, "call 2 write", &mut both);
    assert_eq!(both.charges, []);
    step(9, "returned 1 1", &mut both);
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    assert_eq!(both.charges, [Charge { client: Client(1), since: at(2), end: at(9) }]);
}

/// Returns the table's result about the lease under which a client caches an object.
fn cached(table: &Table, words: &[&str]) -> String {
    let client = Client(words[1].parse().expect("a client"));
    match words[0] {
        "cached" => format!("{:?}", table.cached_under(object(1), client).map(|serial| serial.0)),
        _ => table.is_own_change(object(1), client, value(words, "since").map(Serial)).to_string(),
    }
}

fn call(words: &[&str], object: Object) -> Call {
    let access = words.iter().find_map(|word| match *word {
        "nothing" => Some(Access::Nothing),
        "look" => Some(Access::Look),
        "read" => Some(Access::Read),
        "write" => Some(Access::Write),
        _ => None,
    });
    let asks = ["ask", "try", "reclaim"];
    let ask = asks.into_iter().find_map(|how| {
        let kind = value::<String>(words, how)?;
        Some(Ask {
            kind: if kind == "read" { Kind::Read } else { Kind::Write },
            term: Duration::from_secs(value(words, "for").unwrap_or(0)),
            opportune: how == "try",
            space: value(words, "space").unwrap_or(0),
            reclaim: how == "reclaim",
            reports: !words.contains(&"mute"),
        })
    });
    Call {
        ticket: Ticket(words[1].parse().expect("a ticket")),
        object,
        client: value(words, "by").map(Client),
        access: access.expect("an access"),
        under: value(words, "under").map(Serial),
        ask,
    }
}

fn told(effect: &Effect) -> String {
    let Effect::Run(Run { ticket, standing, grant, told }) = effect else {
        return match *effect {
            Effect::Later(ticket) => format!("later {}", ticket.0),
            Effect::Evict(client, object, serial) => {
                format!("evict {} {} of {}", client.0, serial.0, object.file.0)
            }
            Effect::Inquire(client, object, serial, round) => {
                format!("inquire {} {} of {} round {round}", client.0, serial.0, object.file.0)
            }
            Effect::Run(_) => unreachable!("the effect is not Run"),
        };
    };
    let held = if *standing == Standing::Held { " held" } else { "" };
    let grant = grant.map_or(String::new(), |grant| {
        let Grant { kind, cachable, term, serial, space } = grant;
        let shared = if cachable { "" } else { " shared" };
        let space = if space == 0 { String::new() } else { format!(" space {space}") };
        format!(" granted {kind:?}{shared} {} for {}{space}", serial.0, term.as_secs())
    });
    let told = told.map_or(String::new(), |told| format!(" size {}", told.size));
    format!("run {}{held}{grant}{told}", ticket.0)
}

/// Free bytes of one disk cannot be reserved on another disk, and reservations on one disk do not
/// reduce the free bytes of another disk.
#[test]
fn each_file_system_has_room_of_its_own() {
    let mut table = Table::new(Terms::DEFAULT, 100, 0, false);
    let mut effects = Vec::new();
    for (file_system, free) in [(1, 8000), (2, 80)] {
        table.step(Time::ZERO, Event::Space(FileSystemId(file_system), free), &mut effects);
    }
    let on = |file_system| Object { file_system: FileSystemId(file_system), file: FileId(1) };
    for (number, file_system, granted) in [(1, 1, 600), (2, 2, 10)] {
        let ask = Ask {
            kind: Kind::Write,
            term: Duration::ZERO,
            opportune: false,
            space: 600,
            reclaim: false,
            reports: true,
        };
        let (ticket, object, client) = (Ticket(number), on(file_system), Some(Client(1)));
        let access = Access::Write;
        let call = Call { ticket, object, client, access, under: None, ask: Some(ask) };
        effects.clear();
        table.step(Time::ZERO, Event::Call(call), &mut effects);
        let [Effect::Run(run)] = effects[..] else { panic!("{effects:?}") };
        assert_eq!(run.grant.map(|grant| grant.space), Some(granted));
        assert_eq!(table.reserved_bytes(FileSystemId(file_system)), granted);
    }
    let outcome = Outcome { used: 200, void: false };
    table.step(Time::ZERO, Event::Done(on(1), Ticket(1), outcome), &mut effects);
    table.step(Time::ZERO, Event::Gone(on(2)), &mut effects);
    let reserved = [1, 2].map(|number| table.reserved_bytes(FileSystemId(number)));
    assert_eq!(reserved, [400, 0]);
    table.check();
}

/// A million leases, each on a separate object, are requested, used and expire.
#[test]
fn a_million_leases_take_160_bytes_each() {
    const LEASES: u32 = 1_000_000;
    let mut filled = None;
    let info = allocation_counter::measure(|| {
        let mut table = Table::new(Terms::DEFAULT, LEASES as usize, 0, false);
        let mut effects = Vec::new();
        for number in 0..LEASES {
            let now = Time::ZERO + Duration::from_micros(number.into());
            let object = object(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let ask = Ask {
                kind: Kind::Read,
                term: Duration::ZERO,
                opportune: false,
                space: 0,
                reclaim: false,
                reports: true,
            };
            let (ticket, client) = (Ticket(u64::from(number)), Some(Client(number % 100)));
            let access = Access::Read;
            let call = Call { ticket, object, client, access, under: None, ask: Some(ask) };
            table.step(now, Event::Call(call), &mut effects);
            table.step(now, Event::Done(object, ticket, Outcome::default()), &mut effects);
            effects.clear();
        }
        filled = Some(table);
    });
    let mut table = filled.expect("the table was filled");
    assert_eq!(table.len(), LEASES as usize);
    let bytes_each = info.bytes_current / i64::from(LEASES);
    assert!(bytes_each <= 160, "{bytes_each} bytes for a lease");
    // Before the first lease expires, no lease needs an examination. After that, one step examines
    // only a part of the expired leases.
    assert!(table.next_wake() >= Some(Time::ZERO + Duration::from_secs(30)));
    let (end, mut effects) = (Time::ZERO + Duration::from_secs(40), Vec::new());
    table.step(end, Event::Tick, &mut effects);
    assert_eq!(table.len(), LEASES as usize - DUE_AT_ONCE_MAX);
    while table.next_wake().is_some() {
        table.step(end, Event::Tick, &mut effects);
    }
    assert!(table.is_empty() && effects.is_empty());
}
