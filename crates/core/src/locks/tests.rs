//! Dialogues, at least one for each rule; the limits; and the memory cost of a lock.

mod random;

use leasehold_base::units::{FileId, FileSystemId};

use super::*;
use crate::dialogue::{play, value};

fn object(number: u64) -> Object {
    Object { file_system: FileSystemId(0), file: FileId(number) }
}

fn named(locker: Locker, name: &str) -> Owner {
    Owner { locker, name: Name::new(name.as_bytes()).expect("a short name") }
}

/// An owner such as `c1:a`, `h2:b` or `l:c`: an owner of a client, a host or this machine.
fn owner(word: &str) -> Owner {
    let (locker, name) = word.split_once(':').expect("an owner such as c1:a");
    named(self::locker(locker), name)
}

fn locker(word: &str) -> Locker {
    let number = || word[1..].parse().expect("a number");
    match &word[..1] {
        "c" => Locker::Client(Client(number())),
        "h" => Locker::Host(Host(number())),
        _ => Locker::Local,
    }
}

/// `OFFSET LENGTH read|write`; `end` is the length of a range to the end of the file.
fn range(words: &[&str]) -> Result<(Range, Kind), InvalidRange> {
    let length = if words[1] == "end" { u64::MAX } else { words[1].parse().expect("a length") };
    let range = Range::new(words[0].parse().expect("an offset"), length)?;
    let kind = if words.get(2) == Some(&"read") { Kind::Read } else { Kind::Write };
    Ok((range, kind))
}

fn request(words: &[&str]) -> Result<Request, InvalidRange> {
    let (range, kind) = range(&words[2..])?;
    let wait = match value(words, "block") {
        Some(ticket) => Wait::Block(Ticket(ticket)),
        None if words.contains(&"poll") => Wait::Poll,
        None => Wait::No,
    };
    let grace = match value::<String>(words, "grace").as_deref() {
        None => Grace::Over,
        Some("reclaiming") => Grace::Reclaiming,
        Some("closed") => Grace::Closed,
        Some(_) => Grace::Unlisted,
    };
    Ok(Request {
        object: object(value(words, "of").unwrap_or(1)),
        owner: owner(words[1]),
        under: Under(value(words, "under").unwrap_or(0)),
        range,
        kind,
        wait,
        reclaim: words.contains(&"reclaim"),
        grace,
    })
}

const SMALL: Limits = Limits {
    locks: 4,
    of_file: 3,
    of_owner: 3,
    owners: 3,
    waiters: 2,
    waiters_of_file: 1,
    ..Limits::DEFAULT
};

/// `lock OWNER RANGE [under OPEN] [poll|block TICKET] [grace STATE] [reclaim]`, `test OWNER RANGE`,
/// `unlock OWNER RANGE`, `cancel OWNER RANGE`, `release-owner OWNER [under OPEN]`, `release
/// LOCKER`, `silence CLIENT`, `heard CLIENT`, `tick`; each may end with `of FILE`. `small`,
/// `locks`, `holds OWNER under OPEN` and `wake` are no events.
#[test]
fn dialogues() {
    play("locks", || {
        let mut locks = Locks::new(Limits::DEFAULT);
        move |now, words| {
            let mut effects = Vec::new();
            let mut lines = spoken(&mut locks, now, words, &mut effects);
            locks.check();
            lines.extend(effects.iter().map(effect));
            lines
        }
    });
}

fn spoken(locks: &mut Locks, now: Time, words: &[&str], effects: &mut Vec<Effect>) -> Vec<String> {
    let file = object(value(words, "of").unwrap_or(1));
    let client = || match locker(words[1]) {
        Locker::Client(client) => client,
        Locker::Host(_) | Locker::Local => panic!("a client"),
    };
    let invalid = |_| vec!["invalid".to_owned()];
    match words[0] {
        "small" => *locks = Locks::new(SMALL),
        "lock" => {
            let answer = request(words).map(|request| locks.lock(now, &request, effects));
            return answer.map_or_else(invalid, |answer| vec![answered(answer)]);
        }
        "test" => {
            let (range, kind) = range(&words[2..]).expect("a valid range");
            let answer = locks.test(file, &owner(words[1]), range, kind);
            return vec![answer.map_or_else(|held| denied(&held), |()| "free".to_owned())];
        }
        "unlock" => {
            let (range, _) = range(&words[2..]).expect("a valid range");
            let answer = locks.unlock(now, file, &owner(words[1]), range, effects);
            return answer.err().map(|refusal| format!("{refusal:?}")).into_iter().collect();
        }
        "cancel" => {
            let wanted = range(&words[2..]).expect("a valid range");
            let waited = locks.cancel(now, file, &owner(words[1]), wanted, effects);
            return vec![if waited { "cancelled" } else { "not waiting" }.to_owned()];
        }
        "release-owner" => {
            let under = value(words, "under").map(Under);
            locks.release_owner(now, file, &owner(words[1]), under, effects);
        }
        "release" => locks.release(now, locker(words[1]), effects),
        "silence" => locks.silence(now, client(), effects),
        "heard" => locks.heard(client()),
        "tick" => locks.tick(now, effects),
        "wake" => {
            return vec![format!("{:?}", locks.next_wake().map(|wake| wake.since(Time::ZERO)))];
        }
        "holds" => {
            let under = Under(value(words, "under").expect("an open"));
            return vec![locks.holds(file, &owner(words[1]), under).to_string()];
        }
        "locks" => return locks.holders().map(held).collect(),
        other => panic!("no such event: {other}"),
    }
    Vec::new()
}

fn answered(answer: Result<Answer, Refusal>) -> String {
    match answer {
        Ok(Answer::Granted) => "granted".to_owned(),
        Ok(Answer::Blocked) => "blocked".to_owned(),
        Err(Refusal::Denied(held)) => denied(&held),
        Err(other) => format!("{other:?}"),
    }
}

fn denied(held: &Denied) -> String {
    format!("denied by {} {}", shown(&held.owner), bytes(held.range, held.kind))
}

fn held((object, owner, range, kind): (Object, &Owner, Range, Kind)) -> String {
    let file = if object.file.0 == 1 { String::new() } else { format!(" of {}", object.file.0) };
    format!("{} {}{file}", shown(owner), bytes(range, kind))
}

fn bytes(range: Range, kind: Kind) -> String {
    let kind = if kind == Kind::Read { "read" } else { "write" };
    match range.last() {
        Some(_) => format!("{} {} {kind}", range.offset(), range.length()),
        None => format!("{} end {kind}", range.offset()),
    }
}

fn shown(owner: &Owner) -> String {
    let name = &owner.name;
    match owner.locker {
        Locker::Client(client) => format!("c{}:{name:?}", client.0),
        Locker::Host(host) => format!("h{}:{name:?}", host.0),
        Locker::Local => format!("l:{name:?}"),
    }
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Expire(client) => format!("expire c{}", client.0),
        Effect::Granted(ticket) => format!("granted {}", ticket.0),
        Effect::Notify(_, owner) => format!("notify {}", shown(owner)),
        Effect::Refused(ticket) => format!("refused {}", ticket.0),
    }
}

fn simple(file: u64, owner: &Owner, range: Range) -> Request {
    Request {
        object: object(file),
        owner: owner.clone(),
        under: Under(1),
        range,
        kind: Kind::Write,
        wait: Wait::No,
        reclaim: false,
        grace: Grace::Over,
    }
}

/// Returns the bytes of memory for each lock of a machine with this many locks.
fn bytes_each(locks: u64, files: u64) -> i64 {
    let mut filled = None;
    let owners: Vec<Owner> = (0..100)
        .map(|number| named(Locker::Client(Client(number % 10)), &format!("lock id:{number:08x}")))
        .collect();
    let info = allocation_counter::measure(|| {
        let mut machine = Locks::new(Limits::DEFAULT);
        let mut effects = Vec::new();
        for number in 0..locks {
            let file = (number % files).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let range = Range::new(number * 2, 1).expect("a valid range");
            let owner = &owners[usize::try_from(number % 100).expect("a small number")];
            let answer = machine.lock(Time::ZERO, &simple(file, owner, range), &mut effects);
            assert_eq!(answer, Ok(Answer::Granted));
        }
        filled = Some(machine);
    });
    assert_eq!(filled.expect("the machine was filled").len() as u64, locks);
    info.bytes_current / i64::try_from(locks).expect("a small number")
}

#[test]
fn a_lock_takes_at_most_128_bytes() {
    assert!(size_of::<Held>() <= 40, "{} bytes for a record", size_of::<Held>());
    let alone = bytes_each(100_000, 100_000);
    assert!(alone <= 128, "{alone} bytes for a lock that is alone on its file");
    let together = bytes_each(100_000, 100);
    assert!(together <= 72, "{together} bytes for a lock among many on its file");
}

#[test]
fn a_client_that_ends_releases_its_locks_on_all_files() {
    let mut locks = Locks::new(Limits::DEFAULT);
    let mut effects = Vec::new();
    for number in 0..1000 {
        let owner = named(Locker::Client(Client(number % 2)), &number.to_string());
        let request = simple(number, &owner, Range::to_end(0));
        assert_eq!(locks.lock(Time::ZERO, &request, &mut effects), Ok(Answer::Granted));
    }
    locks.release(Time::ZERO, Locker::Client(Client(0)), &mut effects);
    locks.check();
    assert_eq!(locks.len(), 500);
    locks.release(Time::ZERO, Locker::Client(Client(1)), &mut effects);
    assert!(locks.is_empty() && locks.files.is_empty() && locks.places.is_empty());
}

#[test]
fn requests_beyond_the_default_limits_of_a_file_are_refused() {
    let mut locks = Locks::new(Limits::DEFAULT);
    let mut effects = Vec::new();
    let holder = owner("c1:a");
    for number in 0..Limits::DEFAULT.of_file as u64 {
        let range = Range::new(number * 2, 1).expect("a valid range");
        let answer = locks.lock(Time::ZERO, &simple(1, &holder, range), &mut effects);
        assert_eq!(answer, Ok(Answer::Granted));
    }
    let range = Range::new(1 << 40, 1).expect("a valid range");
    let answer = locks.lock(Time::ZERO, &simple(1, &holder, range), &mut effects);
    assert_eq!(answer, Err(Refusal::Full));
    for number in 0..=Limits::DEFAULT.waiters_of_file as u64 {
        let waiter = named(Locker::Host(Host(number)), "w");
        let wait = Wait::Block(Ticket(number));
        let request = Request { wait, ..simple(1, &waiter, Range::to_end(0)) };
        let has_room = number < Limits::DEFAULT.waiters_of_file as u64;
        let expected = if has_room { Ok(Answer::Blocked) } else { Err(Refusal::Full) };
        assert_eq!(locks.lock(Time::ZERO, &request, &mut effects), expected);
    }
    // The end of all locks serves all requests in the order of arrival.
    locks.release(Time::ZERO, holder.locker, &mut effects);
    assert_eq!(effects, [Effect::Granted(Ticket(0))]);
    locks.check();
}

/// Each of some owners has one byte and waits for the byte of the next owner, the last one for the
/// first byte. Returns the answer to the last request.
fn ring(owners: u64) -> Result<Answer, Refusal> {
    let mut locks = Locks::new(Limits::DEFAULT);
    let mut effects = Vec::new();
    let owner = |number| named(Locker::Host(Host(number)), "a");
    let byte = |number: u64| Range::new(number % owners, 1).expect("a valid range");
    for number in 0..owners {
        let request = simple(1, &owner(number), byte(number));
        assert_eq!(locks.lock(Time::ZERO, &request, &mut effects), Ok(Answer::Granted));
    }
    let mut answer = Ok(Answer::Granted);
    for number in 0..owners {
        let wait = Wait::Block(Ticket(number));
        let request = Request { wait, ..simple(1, &owner(number), byte(number + 1)) };
        answer = locks.lock(Time::ZERO, &request, &mut effects);
    }
    answer
}

#[test]
fn the_deadlock_search_is_bounded() {
    assert_eq!(ring(2), Err(Refusal::Deadlock));
    assert_eq!(ring(65), Err(Refusal::Deadlock));
    assert_eq!(ring(66), Ok(Answer::Blocked));
}
