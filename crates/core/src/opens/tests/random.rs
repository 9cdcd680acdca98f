//! Random requests, compared with a list of opens.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Move {
    Open { client: u64, owner: u64, file: u64, share: Share },
    Downgrade { which: usize, share: Share },
    Close { which: usize },
    Io { client: u64, file: u64, special: StateId, access: Modes },
    OpenIo { which: usize, access: Modes },
    Lock { which: usize, owner: u64 },
    Silence { client: u64 },
    Heard { client: u64 },
    Expire { client: u64 },
    Forget { client: u64 },
    Revoke { which: usize },
    Free { which: usize },
}

fn any_modes() -> impl Strategy<Value = Modes> {
    prop_oneof![
        3 => Just(Modes::NONE),
        2 => Just(Modes::READ),
        1 => Just(Modes::WRITE),
        1 => Just(Modes::BOTH)
    ]
}

fn any_share() -> impl Strategy<Value = Share> {
    (any_modes(), any_modes()).prop_map(|(access, deny)| Share { access, deny })
}

fn any_move() -> impl Strategy<Value = Move> {
    let special = prop_oneof![Just(StateId::ANONYMOUS), Just(StateId::BYPASS)];
    let access = || prop_oneof![Just(Modes::READ), Just(Modes::WRITE)];
    let client = || 0..3_u64;
    prop_oneof![
        8 => (client(), 0..2_u64, 0..2_u64, any_share())
            .prop_map(|(client, owner, file, share)| Move::Open { client, owner, file, share }),
        2 => (0..9_usize, any_share()).prop_map(|(which, share)| Move::Downgrade { which, share }),
        3 => (0..9_usize).prop_map(|which| Move::Close { which }),
        2 => (client(), 0..2_u64, special, access()).prop_map(
            |(client, file, special, access)| Move::Io { client, file, special, access }
        ),
        2 => (0..9_usize, access()).prop_map(|(which, access)| Move::OpenIo { which, access }),
        2 => (0..9_usize, 0..2_u64).prop_map(|(which, owner)| Move::Lock { which, owner }),
        2 => client().prop_map(|client| Move::Silence { client }),
        1 => client().prop_map(|client| Move::Heard { client }),
        1 => client().prop_map(|client| Move::Expire { client }),
        1 => client().prop_map(|client| Move::Forget { client }),
        1 => (0..9_usize).prop_map(|which| Move::Revoke { which }),
        1 => (0..9_usize).prop_map(|which| Move::Free { which }),
    ]
}

/// An open of the model with all its OPENs.
#[derive(Clone, Debug)]
struct Entry {
    client: u64,
    owner: u64,
    file: u64,
    shares: Vec<Share>,
    id: StateId,
    lock_owners: Vec<u64>,
}

impl Entry {
    fn share(&self) -> Share {
        self.shares.iter().fold(Share::default(), |sum, share| Share {
            access: sum.access.union(share.access),
            deny: sum.deny.union(share.deny),
        })
    }
}

struct Pair {
    opens: Opens,
    entries: Vec<Entry>,
    /// The stateids of lost opens, with their clients and the refusal of their use.
    lost: Vec<(u64, StateId, Refusal)>,
    silent: BTreeSet<u64>,
    effects: Vec<Effect>,
}

impl Pair {
    /// The model's answer about a request that conflicts with these opens: `false` if it is
    /// refused. The silent clients are expired if no other client conflicts.
    fn resolve(&mut self, file: u64, conflicts: impl Fn(Share) -> bool) -> bool {
        let conflicts = |entry: &&Entry| entry.file == file && conflicts(entry.share());
        let clients: BTreeSet<u64> =
            self.entries.iter().filter(conflicts).map(|entry| entry.client).collect();
        let is_soft = clients.is_subset(&self.silent);
        if is_soft {
            clients.iter().for_each(|client| self.lose(*client, Refusal::Expired));
        }
        is_soft
    }

    fn lose(&mut self, client: u64, refusal: Refusal) {
        self.silent.remove(&client);
        let lost = self.entries.iter().filter(|entry| entry.client == client);
        self.lost.extend(lost.map(|entry| (client, entry.id, refusal)));
        self.entries.retain(|entry| entry.client != client);
    }

    fn open(
        &mut self,
        (client, owner): (u64, u64),
        file: u64,
        share: Share,
    ) -> Result<(), TestCaseError> {
        self.silent.remove(&client);
        let request = Open { share, ..simple(file, client, &owner.to_string()) };
        let answer = self.opens.open(&request, &mut self.effects);
        if share.access.is_empty() {
            prop_assert_eq!(answer, Err(Refusal::Invalid));
            return Ok(());
        }
        if !self.resolve(file, |other| share.conflicts(other)) {
            prop_assert_eq!(answer, Err(Refusal::ShareDenied));
            return Ok(());
        }
        let opened = answer.expect("the model permits the open");
        let same =
            |entry: &&mut Entry| (entry.client, entry.owner, entry.file) == (client, owner, file);
        if let Some(entry) = self.entries.iter_mut().find(same) {
            prop_assert!(!opened.is_new);
            prop_assert_eq!(opened.id.other, entry.id.other);
            prop_assert_eq!(opened.id.sequence, entry.id.sequence + 1);
            entry.shares.push(share);
            entry.id = opened.id;
            prop_assert_eq!(opened.share, entry.share());
        } else {
            prop_assert!(opened.is_new && opened.id.sequence == 1);
            let (shares, id) = (vec![share], opened.id);
            let lock_owners = Vec::new();
            self.entries.push(Entry { client, owner, file, shares, id, lock_owners });
        }
        Ok(())
    }

    fn make(&mut self, one: Move) -> Result<(), TestCaseError> {
        match one {
            Move::Open { client, owner, file, share } => {
                self.open((client, owner), file, share)?;
            }
            Move::Io { client, file, special, access } => {
                self.silent.remove(&client);
                let (client, wanted) = (Client(client), (special, access));
                let answer =
                    self.opens.check_io(client, object(file), wanted, false, &mut self.effects);
                let bypasses = special == StateId::BYPASS && access == Modes::READ;
                if bypasses {
                    prop_assert_eq!(answer, Ok(Basis::Bypass));
                } else {
                    let is_free = self.resolve(file, |share| share.deny.intersects(access));
                    let expected =
                        if is_free { Ok(Basis::Anonymous) } else { Err(Refusal::Locked) };
                    prop_assert_eq!(answer, expected);
                }
            }
            Move::Silence { client } => {
                self.opens.silence(Client(client));
                if self.opens.tally(Client(client)) != Tally::default() {
                    self.silent.insert(client);
                }
            }
            Move::Heard { client } => {
                self.opens.heard(Client(client));
                self.silent.remove(&client);
            }
            Move::Expire { client } => {
                self.opens.expire(Client(client), &mut self.effects);
                self.lose(client, Refusal::Expired);
            }
            Move::Forget { client } => {
                self.opens.forget(Client(client), &mut self.effects);
                self.lose(client, Refusal::BadStateId);
                self.lost.retain(|(other, ..)| *other != client);
            }
            Move::Free { which } if which < self.lost.len() => {
                let (client, id, _) = self.lost.remove(which);
                let freed = self.opens.free(Client(client), id, false, &mut self.effects);
                prop_assert_eq!(freed, Ok(()));
                prop_assert_eq!(self.opens.test(Client(client), id), Err(Refusal::BadStateId));
                self.silent.remove(&client);
            }
            Move::Free { .. } => {}
            Move::Downgrade { which, .. }
            | Move::Close { which }
            | Move::OpenIo { which, .. }
            | Move::Lock { which, .. }
            | Move::Revoke { which } => {
                if which < self.entries.len() {
                    self.use_open(which, one)?;
                }
            }
        }
        self.compare()
    }

    /// A request with the stateid of an open.
    fn use_open(&mut self, which: usize, one: Move) -> Result<(), TestCaseError> {
        let entry = self.entries[which].clone();
        let (client, file) = (Client(entry.client), object(entry.file));
        match one {
            Move::Revoke { .. } => {
                prop_assert!(self.opens.revoke(entry.id.number(), &mut self.effects));
                self.lost.push((entry.client, entry.id, Refusal::AdminRevoked));
                self.entries.remove(which);
                return Ok(());
            }
            Move::Downgrade { share, .. } => {
                let answer = self.opens.downgrade(client, file, entry.id, share);
                let union = |form: fn(&Share) -> Modes, whole: Modes| {
                    let forms = entry.shares.iter().map(form);
                    forms.filter(|one| whole.contains(*one)).fold(Modes::NONE, Modes::union)
                };
                let fits = !share.access.is_empty()
                    && union(|share| share.access, share.access) == share.access
                    && union(|share| share.deny, share.deny) == share.deny;
                prop_assert_eq!(answer.is_ok(), fits);
                if let Ok(id) = answer {
                    let own = &mut self.entries[which];
                    own.id = id;
                    // The OPENs that exceed the reservation have ended, each form by itself.
                    let left = |one: Modes, whole: Modes| {
                        if whole.contains(one) { one } else { Modes::NONE }
                    };
                    for one in &mut own.shares {
                        one.access = left(one.access, share.access);
                        one.deny = left(one.deny, share.deny);
                    }
                }
            }
            Move::Close { .. } => {
                let closed = self.opens.close(client, file, entry.id, &mut self.effects);
                prop_assert_eq!(closed, Ok(StateId::INVALID));
                self.entries.remove(which);
            }
            Move::OpenIo { access, .. } => {
                let wanted = (entry.id, access);
                let answer = self.opens.check_io(client, file, wanted, true, &mut self.effects);
                prop_assert_eq!(answer.is_ok(), entry.share().access.contains(access));
            }
            Move::Lock { owner, .. } => {
                let lock_owner = LockOwner::New(entry.id, name(&owner.to_string()));
                let basis = self.opens.check_lock(client, file, &lock_owner, Modes::NONE);
                let locked = self.opens.locked(&basis.expect("the open is valid"));
                let is_first = !entry.lock_owners.contains(&owner);
                prop_assert_eq!(locked.expect("the open is valid").sequence == 1, is_first);
                if is_first {
                    self.entries[which].lock_owners.push(owner);
                }
            }
            Move::Open { .. }
            | Move::Io { .. }
            | Move::Silence { .. }
            | Move::Heard { .. }
            | Move::Expire { .. }
            | Move::Forget { .. }
            | Move::Free { .. } => {}
        }
        self.silent.remove(&entry.client);
        Ok(())
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        self.opens.check();
        for file in 0..2 {
            let entries = self.entries.iter().filter(|entry| entry.file == file);
            let share = entries.map(Entry::share).fold(Share::default(), |sum, share| Share {
                access: sum.access.union(share.access),
                deny: sum.deny.union(share.deny),
            });
            prop_assert_eq!(self.opens.share(object(file)), share);
        }
        for entry in &self.entries {
            prop_assert_eq!(self.opens.test(Client(entry.client), entry.id), Ok(()));
        }
        for (client, id, refusal) in &self.lost {
            prop_assert_eq!(self.opens.test(Client(*client), *id), Err(*refusal));
        }
        for client in 0..3 {
            let own = self.entries.iter().filter(|entry| entry.client == client);
            let live: usize = own.map(|entry| 1 + entry.lock_owners.len()).sum();
            prop_assert_eq!(self.opens.tally(Client(client)).live, live);
        }
        let mut open = BTreeSet::new();
        for effect in &self.effects {
            match effect {
                Effect::First(object) => prop_assert!(open.insert(*object)),
                Effect::Last(object) => prop_assert!(open.remove(object)),
                Effect::Expire(_) | Effect::Unlock { .. } => {}
            }
        }
        let files: BTreeSet<Object> = self.entries.iter().map(|entry| object(entry.file)).collect();
        prop_assert_eq!(open, files);
        Ok(())
    }
}

proptest! {
    #[test]
    fn opens_agree_with_a_list(moves in vec(any_move(), 1..60)) {
        let mut pair = Pair {
            opens: Opens::new(Limits::DEFAULT, 1, 0),
            entries: Vec::new(),
            lost: Vec::new(),
            silent: BTreeSet::new(),
            effects: Vec::new(),
        };
        for one in moves {
            pair.make(one)?;
        }
        for client in 0..3 {
            pair.make(Move::Forget { client })?;
        }
        prop_assert!(pair.opens.is_empty());
    }
}
