//! Dialogues, at least one for each rule; the limits; and the memory cost of an open.

mod random;

use std::collections::BTreeMap;

use leasehold_base::units::{FileId, FileSystemId};

use super::*;
use crate::dialogue::{play, value};
use crate::owners::Grace;

fn object(number: u64) -> Object {
    Object { file_system: FileSystemId(0), file: FileId(number) }
}

fn name(word: &str) -> Name {
    Name::new(word.as_bytes()).expect("a short name")
}

/// A set such as `rw`; `-` is the empty set.
fn modes(word: &str) -> Modes {
    Modes { read: word.contains('r'), write: word.contains('w') }
}

/// A machine, and the stateids that a dialogue has named.
struct Scene {
    opens: Opens,
    epoch: u32,
    ids: BTreeMap<String, StateId>,
}

impl Scene {
    /// A stateid such as `x`, or `x@3` with another sequence number.
    fn id(&self, word: &str) -> StateId {
        let (label, sequence) = word.split_once('@').map_or((word, None), |(label, sequence)| {
            (label, Some(sequence.parse().expect("a sequence number")))
        });
        let id = match label {
            "anonymous" => StateId::ANONYMOUS,
            "bypass" => StateId::BYPASS,
            "current" => StateId { sequence: 1, other: [0; 12] },
            "invalid" => StateId::INVALID,
            label => *self.ids.get(label).unwrap_or_else(|| panic!("no stateid {label}")),
        };
        StateId { sequence: sequence.unwrap_or(id.sequence), ..id }
    }

    /// Names a stateid, and returns its text.
    fn named(&mut self, words: &[&str], default: &str, id: StateId) -> String {
        let label = value::<String>(words, "as").unwrap_or_else(|| default.to_owned());
        let text = format!("{label} sequence {}", id.sequence);
        self.ids.insert(label, id);
        text
    }

    /// `open CLIENT OWNER ACCESS DENY [previous|delegation] [grace STATE] [as LABEL]`, `downgrade
    /// CLIENT ID ACCESS DENY`, `close CLIENT ID`, `io CLIENT ID ACCESS [grace]`, `lock CLIENT ID
    /// ACCESS [new OWNER] [as LABEL]`, `unlock CLIENT ID`, `free CLIENT ID [holding]`, `test CLIENT
    /// ID`, `silence|heard|expire|forget|revoke-client CLIENT`, `revoke ID`; each may end with `of
    /// FILE`. `restart`, `small`, `wrap ID SEQUENCE`, `tally CLIENT` and `holders` are no events.
    fn step(&mut self, words: &[&str], effects: &mut Vec<Effect>) -> Result<String, Refusal> {
        let file = object(value(words, "of").unwrap_or(1));
        let client = || Client(words[1].parse().expect("a client"));
        match words[0] {
            "open" => return self.open(words, file, effects),
            "lock" => return self.lock(words, file),
            "downgrade" => {
                let share = Share { access: modes(words[3]), deny: modes(words[4]) };
                let id = self.opens.downgrade(client(), file, self.id(words[2]), share)?;
                return Ok(self.named(words, words[2], id));
            }
            "close" => {
                let id = self.opens.close(client(), file, self.id(words[2]), effects)?;
                assert_eq!(id, StateId::INVALID);
                return Ok("closed".to_owned());
            }
            "io" => {
                let (wanted, grace) =
                    ((self.id(words[2]), modes(words[3])), words.contains(&"grace"));
                let basis = self.opens.check_io(client(), file, wanted, grace, effects)?;
                return Ok(match basis {
                    Basis::Open(open) => format!("open {}", open.0 >> 10),
                    Basis::Anonymous | Basis::Bypass => format!("{basis:?}"),
                });
            }
            "unlock" => {
                let basis = self.opens.check_unlock(client(), file, self.id(words[2]))?;
                let id = self.opens.locked(&basis)?;
                return Ok(self.named(words, words[2], id));
            }
            "free" => {
                let holds_locks = words.contains(&"holding");
                self.opens.free(client(), self.id(words[2]), holds_locks, effects)?;
                return Ok("freed".to_owned());
            }
            "test" => {
                self.opens.test(client(), self.id(words[2]))?;
                return Ok("valid".to_owned());
            }
            "silence" => self.opens.silence(client()),
            "heard" => self.opens.heard(client()),
            "expire" => self.opens.expire(client(), effects),
            "forget" => self.opens.forget(client(), effects),
            "revoke-client" => self.opens.revoke_client(client(), effects),
            "revoke" => {
                let is_revoked = self.opens.revoke(self.id(words[1]).number(), effects);
                return Ok(if is_revoked { "revoked" } else { "not live" }.to_owned());
            }
            "restart" => {
                self.epoch += 1;
                self.opens = Opens::new(Limits::DEFAULT, self.epoch, 0);
            }
            "small" => self.opens = Opens::new(SMALL, self.epoch, 0),
            "wrap" => {
                let sequence = words[2].parse().expect("a sequence number");
                self.opens.states.set_sequence(self.id(words[1]).number(), sequence);
            }
            "tally" => {
                let Tally { live, expired, revoked } = self.opens.tally(client());
                return Ok(format!("{live} live, {expired} expired, {revoked} revoked"));
            }
            "holders" => return Ok(self.opens.holders().map(held).collect::<Vec<_>>().join("\n")),
            other => panic!("no such event: {other}"),
        }
        Ok(String::new())
    }

    fn open(
        &mut self,
        words: &[&str],
        object: Object,
        effects: &mut Vec<Effect>,
    ) -> Result<String, Refusal> {
        let request = Open {
            object,
            client: Client(words[1].parse().expect("a client")),
            owner: name(words[2]),
            share: Share { access: modes(words[3]), deny: modes(words[4]) },
            claim: match words {
                words if words.contains(&"previous") => Claim::Previous,
                words if words.contains(&"delegation") => Claim::Delegation,
                _ => Claim::New,
            },
            grace: match value::<String>(words, "grace").as_deref() {
                None => Grace::Over,
                Some("reclaiming") => Grace::Reclaiming,
                Some("closed") => Grace::Closed,
                Some(_) => Grace::Unlisted,
            },
        };
        let opened = self.opens.open(&request, effects)?;
        let is_new = if opened.is_new { " new" } else { "" };
        let text = self.named(words, words[2], opened.id);
        Ok(format!("{text} has {}{is_new}", shown(opened.share)))
    }

    fn lock(&mut self, words: &[&str], object: Object) -> Result<String, Refusal> {
        let client = Client(words[1].parse().expect("a client"));
        let id = self.id(words[2]);
        let owner = match value::<String>(words, "new") {
            Some(owner) => LockOwner::New(id, name(&owner)),
            None => LockOwner::Known(id),
        };
        let basis = self.opens.check_lock(client, object, &owner, modes(words[3]))?;
        let id = self.opens.locked(&basis)?;
        Ok(self.named(words, words[2], id))
    }
}

fn shown(share: Share) -> String {
    let modes = |modes: Modes| match (modes.read, modes.write) {
        (false, false) => "-",
        (true, false) => "r",
        (false, true) => "w",
        (true, true) => "rw",
    };
    format!("{} denies {}", modes(share.access), modes(share.deny))
}

fn held((object, client, owner, share): (Object, Client, &Name, Share)) -> String {
    format!("{} {owner:?} of {} has {}", client.0, object.file.0, shown(share))
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Expire(client) => format!("expire {}", client.0),
        Effect::First(object) => format!("first of {}", object.file.0),
        Effect::Last(object) => format!("last of {}", object.file.0),
        Effect::Unlock { object, client, owner, open } => {
            let file = object.file.0;
            format!("unlock {} {owner:?} under {} of {file}", client.0, open.0 >> 10)
        }
    }
}

const SMALL: Limits = Limits { states: 4, of_client: 3, owners: 2 };

#[test]
fn dialogues() {
    play("opens", || {
        let opens = Opens::new(Limits::DEFAULT, 1, 0);
        let mut scene = Scene { opens, epoch: 1, ids: BTreeMap::new() };
        move |_, words| {
            let mut effects = Vec::new();
            let answer = scene.step(words, &mut effects);
            scene.opens.check();
            let answer = answer.unwrap_or_else(|refusal| format!("{refusal:?}"));
            let lines = answer.lines().map(str::to_owned);
            lines.chain(effects.iter().map(effect)).collect()
        }
    });
}

fn simple(file: u64, client: u64, owner: &str) -> Open {
    Open {
        object: object(file),
        client: Client(client),
        owner: name(owner),
        share: Share { access: Modes::BOTH, deny: Modes::NONE },
        claim: Claim::New,
        grace: Grace::Over,
    }
}

#[test]
fn an_open_takes_at_most_256_bytes() {
    const OPENS: u64 = 100_000;
    assert!(size_of::<states::State>() <= 48, "{} bytes", size_of::<states::State>());
    let mut filled = None;
    let info = allocation_counter::measure(|| {
        let mut opens = Opens::new(Limits::DEFAULT, 1, 0);
        let mut effects = Vec::new();
        for number in 0..OPENS {
            let file = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let request = simple(file, number % 10, &format!("open id:{:016x}", number % 100));
            opens.open(&request, &mut effects).expect("the limits are not reached");
            effects.clear();
        }
        filled = Some(opens);
    });
    let bytes_each = info.bytes_current / i64::try_from(OPENS).expect("a small number");
    assert!(bytes_each <= 256, "{bytes_each} bytes for an open");
    let mut opens = filled.expect("the machine was filled");
    assert_eq!(opens.len() as u64, OPENS);
    // The end of a client takes no longer than its own states require.
    for client in 0..10 {
        opens.forget(Client(client), &mut Vec::new());
    }
    assert!(opens.is_empty());
    opens.check();
}

#[test]
fn a_stateid_of_another_shard_is_bad() {
    let (mut one, mut other) = (Opens::new(SMALL, 1, 0), Opens::new(SMALL, 1, 1));
    let opened = one.open(&simple(1, 1, "a"), &mut Vec::new()).expect("a first open");
    let other_opened = other.open(&simple(1, 1, "a"), &mut Vec::new()).expect("a first open");
    assert_ne!(opened.id, other_opened.id);
    assert_eq!((opened.id.number().shard(), other_opened.id.number().shard()), (0, 1));
    assert_eq!(other.test(Client(1), opened.id), Err(Refusal::BadStateId));
}

#[test]
fn a_stateid_of_another_kind_of_table_is_bad() {
    let mut opens = Opens::new(SMALL, 1, 0);
    let opened = opens.open(&simple(1, 1, "a"), &mut Vec::new()).expect("a first open");
    let delegation = StateNumber::new(1, StateKind::Delegation, 0);
    let id = StateId::new(1, delegation, 1);
    assert_ne!(id, opened.id);
    assert_eq!(opens.test(Client(1), id), Err(Refusal::BadStateId));
}

#[test]
fn delegations_depend_on_the_opens_of_other_clients() {
    let mut opens = Opens::new(Limits::DEFAULT, 1, 0);
    let mut effects = Vec::new();
    opens.open(&simple(1, 1, "a"), &mut effects).expect("no conflict");
    assert_eq!(opens.share_of_others(object(1), Client(1)), Share::default());
    assert_eq!(opens.share_of_others(object(1), Client(2)).access, Modes::BOTH);
    assert_eq!(opens.share(object(1)).access, Modes::BOTH);
}

#[test]
fn a_lock_is_not_counted_after_its_open_has_ended() {
    let mut opens = Opens::new(Limits::DEFAULT, 1, 0);
    let mut effects = Vec::new();
    let opened = opens.open(&simple(1, 1, "a"), &mut effects).expect("no conflict");
    let owner = LockOwner::New(opened.id, name("x"));
    let basis = opens.check_lock(Client(1), object(1), &owner, Modes::WRITE);
    let basis = basis.expect("the open is valid");
    opens.close(Client(1), object(1), opened.id, &mut effects).expect("the open is valid");
    assert_eq!(opens.locked(&basis), Err(Refusal::BadStateId));
}
