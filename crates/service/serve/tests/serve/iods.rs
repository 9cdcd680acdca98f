//! The callers of an iod, and the rights of each caller: from the token of the cluster, or from
//! numbers that derive from the object, but never from a rule of the export.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::xdr::Encode;
use leasehold_fs::{ClientKey, Layout, Owner, TURN_NOTE, noted_turn};
use leasehold_serve::access::{Access, Clients, Identity, Rule, Squash, User};
use leasehold_serve::{Deaf, Epoch, EpochKey, HandleKey, Offer, Service};
use leasehold_wire::mount::{self, Path, mnt};
use leasehold_wire::nfs2;
use leasehold_wire::nfs3::{
    DirectoryArgs, Handle, Name, PROGRAM, SetAttributes, Status, VERSION, access, commit, create,
    getattr, lookup, read, remove, setattr, write,
};
use leasehold_wire::rpc::{AuthStatus, ReplyStatus};

use crate::support::{NAME, Server, export};

const KEY: EpochKey = EpochKey([9; 16]);
const CLIENTS: ClientKey = ClientKey([10; 16]);
const STRANGER: ReplyStatus = ReplyStatus::AuthError(AuthStatus::TooWeak);

/// A user number of an object's owner. An odd number means that clients may write the object.
const WRITTEN: u32 = Layout::OWNERS.start + 5;
const READ: u32 = WRITTEN + 1;

/// Returns the service of an iod whose export has a rule that makes every caller the superuser.
fn service(server: &Server) -> Service {
    let anonymous = User { uid: 0, gid: 0 };
    let rule = Rule {
        clients: vec![Clients::everybody()],
        read_only: false,
        insecure: true,
        identity: Identity { squash: Squash::All, anonymous, ..Identity::default() },
    };
    let offer = Offer::to_everybody(export(&server.store));
    let offer = Offer { access: Access::new(vec![rule]), ..offer };
    Service::offering(vec![offer], HandleKey([1; 16]), Box::new(Deaf))
}

/// An iod with one object, and the owner of the object.
struct Iod {
    server: Server,
    root: Handle,
    object: Handle,
    owner: Owner,
}

impl Iod {
    fn new(clients: Option<ClientKey>, user: u32) -> Self {
        let mut server = Server::new();
        server.service = Arc::new(service(&server).as_iod(KEY, &[], clients));
        let root = Handle::from(server.service.root_handle(NAME).expect("the export is there"));
        server.machine = KEY.member_word();
        let place = DirectoryArgs { directory: root, name: Name(b"object") };
        let args = create::Args { place, how: create::How::Guarded(SetAttributes::default()) };
        let made = server.call((PROGRAM, VERSION, create::NUMBER), &args);
        let create::Reply::Done(made) = made.read() else { panic!("there is room") };
        let object = made.object.expect("a handle");
        let owner = CLIENTS.owner([1; 16], user);
        let mut iod = Self { server, root, object, owner };
        iod.give(owner);
        iod.hears(&KEY.turn_word(0));
        iod
    }

    /// Sends an authentication token as the machine name of a NULL call, which an iod answers for
    /// all callers.
    fn hears(&mut self, word: &str) {
        self.server.machine = word.to_owned();
        assert_eq!(self.status(0, &()), ReplyStatus::Success);
    }

    /// Writes a rollback counter beside the iod's objects, as a metaserver does.
    fn notes(&mut self, turn: u64) {
        self.server.machine = KEY.member_word();
        self.server.uid = 0;
        let name = Name(TURN_NOTE.as_bytes());
        let place = DirectoryArgs { directory: self.root, name };
        let args = create::Args { place, how: create::How::Unchecked(SetAttributes::default()) };
        let made = self.server.call((PROGRAM, VERSION, create::NUMBER), &args);
        let create::Reply::Done(made) = made.read() else { panic!("there is room") };
        let file = made.object.expect("a handle");
        let (offset, text) = noted_turn(turn);
        let data = Bytes::from(text);
        let count = u32::try_from(data.len()).expect("it is small");
        let stability = write::Stability::FileSync;
        let args = write::Args { file, offset, count, stability, data };
        assert!(self.is_done(write::NUMBER, &args));
    }

    /// Returns the error of a READ by a client, if it fails.
    fn read_status(&mut self, caller: Owner) -> Option<Status> {
        self.calls_as(caller);
        let args = read::Args { file: self.object, offset: 0, count: 4 };
        let told = self.server.call((PROGRAM, VERSION, read::NUMBER), &args);
        match told.read() {
            read::Reply::Done(_) => None,
            read::Reply::Failed(status, _) => Some(status),
        }
    }

    /// Changes the owner of the object.
    fn give(&mut self, owner: Owner) {
        self.server.machine = Epoch { volume: 5, metaserver: 1, number: 4 }.word(KEY);
        self.server.uid = 0;
        let attributes = SetAttributes {
            mode: Some(0o640),
            uid: Some(owner.user),
            gid: Some(owner.group),
            ..SetAttributes::default()
        };
        let args = setattr::Args { object: self.object, attributes, guard: None };
        let set = self.server.call((PROGRAM, VERSION, setattr::NUMBER), &args);
        assert!(matches!(set.read(), setattr::Reply::Done(_)), "a metaserver changes owners");
        self.owner = owner;
    }

    fn calls_as(&mut self, caller: Owner) {
        self.server.machine = "client".to_owned();
        (self.server.uid, self.server.gid) = (caller.user, Some(caller.group));
    }

    fn status(&mut self, procedure: u32, args: &impl Encode) -> ReplyStatus {
        self.server.status((PROGRAM, VERSION, procedure), args)
    }

    /// Returns true for each of read, write and commit that a caller may do.
    fn may(&mut self, caller: Owner) -> [bool; 3] {
        self.calls_as(caller);
        let (file, data) = (self.object, Bytes::from_static(b"data"));
        let reads = read::Args { file, offset: 0, count: 4 };
        let stability = write::Stability::FileSync;
        let writes = write::Args { file, offset: 0, count: 4, stability, data };
        let commits = commit::Args { file, offset: 0, count: 0 };
        [
            self.is_done(read::NUMBER, &reads),
            self.is_done(write::NUMBER, &writes),
            self.is_done(commit::NUMBER, &commits),
        ]
    }

    /// Returns true if a procedure succeeds for the caller.
    fn is_done(&mut self, procedure: u32, args: &impl Encode) -> bool {
        let message = self.server.message((PROGRAM, VERSION, procedure), args);
        let reply = self.server.answer(&message).expect("a call is answered");
        // The status of the procedure follows the head of an accepted call.
        reply.get(20..28) == Some(&[0; 8])
    }
}

const NONE: [bool; 3] = [false; 3];
const READS: [bool; 3] = [true, false, false];
const ALL: [bool; 3] = [true; 3];

#[test]
fn a_caller_has_the_access_of_its_numbers() {
    let mut iod = Iod::new(Some(CLIENTS), WRITTEN);
    let owner = iod.owner;
    assert_eq!(iod.may(CLIENTS.writer(owner)), ALL);
    assert_eq!(iod.may(CLIENTS.reader(owner)), READS);
    let other = CLIENTS.owner([2; 16], WRITTEN);
    let later = CLIENTS.owner([1; 16], WRITTEN + 2);
    let swapped = Owner { user: owner.group, group: owner.user };
    let same = Owner { user: owner.user, group: owner.user };
    let strangers = [
        owner,
        swapped,
        same,
        Owner { user: 0, group: 0 },
        Owner { user: 0, ..owner },
        Owner { group: 0, ..owner },
        CLIENTS.writer(other),
        CLIENTS.reader(other),
        CLIENTS.writer(later),
        ClientKey([11; 16]).writer(owner),
    ];
    for stranger in strangers {
        assert_eq!(iod.may(stranger), NONE, "{stranger:?}");
    }
    // After the object has received another owner, numbers that derive from the earlier owner are
    // void.
    iod.give(CLIENTS.owner([1; 16], READ));
    assert_eq!(iod.may(CLIENTS.writer(owner)), NONE);
    assert_eq!(iod.may(CLIENTS.reader(owner)), NONE);
    let owner = iod.owner;
    assert_eq!(iod.may(CLIENTS.reader(owner)), READS);
    assert_eq!(iod.may(CLIENTS.writer(owner)), NONE, "an object for readers has no writer");
    // Only metaservers may access an object that no metaserver has assigned to clients.
    let own = Owner { user: 0, group: 0 };
    iod.give(own);
    assert_eq!([CLIENTS.reader(own), CLIENTS.writer(own)].map(|it| iod.may(it)), [NONE; 2]);
}

/// Shows that the test above can fail: without the check of callers the same attack reads and
/// writes.
#[test]
fn attack_succeeds_without_the_check_of_callers() {
    let mut iod = Iod::new(Some(CLIENTS), WRITTEN);
    let server = &iod.server;
    iod.server.service = Arc::new(service(server).with_epochs(KEY, &[]));
    let owner = iod.owner;
    assert_eq!(iod.may(Owner { user: owner.user, group: owner.user }), ALL);
}

#[test]
fn client_may_only_read_and_write_data() {
    let mut iod = Iod::new(Some(CLIENTS), WRITTEN);
    let writer = CLIENTS.writer(iod.owner);
    iod.calls_as(writer);
    let (object, root) = (iod.object, iod.root);
    let place = |name| DirectoryArgs { directory: root, name: Name(name) };
    let attributes = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let set = setattr::Args { object, attributes, guard: None };
    assert_eq!(iod.status(getattr::NUMBER, &getattr::Args { object }), STRANGER);
    assert_eq!(iod.status(setattr::NUMBER, &set), STRANGER);
    assert_eq!(iod.status(lookup::NUMBER, &place(b"object")), STRANGER);
    assert_eq!(iod.status(remove::NUMBER, &place(b"object")), STRANGER);
    // A metaserver of another version recognises the refusal, as a metaserver with another key
    // does.
    let refused = iod.server.call((mount::PROGRAM, 3, mnt::NUMBER), &Path(b"/"));
    assert_eq!(refused.bytes(), [0, 0, 0, 13], "MNT3ERR_ACCES");
    let old = nfs2::Handle(object.as_bytes().try_into().expect("it is as long as those of old"));
    assert_eq!(iod.server.status((nfs2::PROGRAM, 2, 1), &old), STRANGER);
    // The iod answers procedure 0 for every caller.
    assert_eq!(iod.status(0, &()), ReplyStatus::Success);
}

/// The attributes contain the owner, from which the numbers of the next layout derive.
#[test]
fn client_receives_its_access_and_no_attributes() {
    let mut iod = Iod::new(Some(CLIENTS), WRITTEN);
    let owner = iod.owner;
    let wanted = access::Access { read: true, modify: true, extend: true, ..Default::default() };
    let mut told = |caller| {
        iod.calls_as(caller);
        let args = access::Args { object: iod.object, access: wanted };
        let told = iod.server.call((PROGRAM, VERSION, access::NUMBER), &args);
        let access::Reply::Done(told) = told.read() else { panic!("it is no failure") };
        assert_eq!(told.attributes, None);
        told.access
    };
    assert_eq!(told(CLIENTS.writer(owner)), wanted);
    let reads = access::Access { read: true, ..Default::default() };
    assert_eq!(told(CLIENTS.reader(owner)), reads);
    assert_eq!(told(owner), access::Access::default());
    let read = read::Args { file: iod.object, offset: 0, count: 4 };
    let told = iod.server.call((PROGRAM, VERSION, read::NUMBER), &read);
    let read::Reply::Failed(status, attributes) = told.read() else {
        panic!("the call was accepted")
    };
    assert_eq!((status, attributes), (Status::Access, None));
}

/// The iod must bound the number of guesses, each of which is correct with a probability of about
/// 2^-27.
#[test]
fn address_with_many_wrong_numbers_must_retry_later() {
    let mut iod = Iod::new(Some(CLIENTS), WRITTEN);
    let writer = CLIENTS.writer(iod.owner);
    for guess in 0..400 {
        let guessed = Owner { group: Layout::OWNERS.start + guess, ..writer };
        assert_eq!(iod.may(guessed), NONE);
    }
    // The iod makes correct numbers retry as well, because any other answer would distinguish
    // correct from wrong numbers.
    iod.calls_as(writer);
    let read = read::Args { file: iod.object, offset: 0, count: 4 };
    let told = iod.server.call((PROGRAM, VERSION, read::NUMBER), &read);
    let read::Reply::Failed(status, attributes) = told.read() else {
        panic!("the call was accepted")
    };
    assert_eq!((status, attributes), (Status::Jukebox, None));
    // The limit does not apply to calls of metaservers from the same address.
    iod.give(iod.owner);
}

/// An iod that cannot change the owners of objects cannot fence clients, so it accepts no client.
#[test]
fn iod_without_a_client_key_accepts_no_client() {
    let mut iod = Iod::new(None, WRITTEN);
    let owner = iod.owner;
    assert_eq!(iod.may(CLIENTS.writer(owner)), NONE);
    assert_eq!(iod.may(CLIENTS.reader(owner)), NONE);
}

/// The objects of an iod that has just started may be an older copy from a backup.
#[test]
fn no_client_is_accepted_before_the_stored_counter_arrives() {
    let mut iod = Iod::new(Some(CLIENTS), WRITTEN);
    let (reader, stranger) = (CLIENTS.reader(iod.owner), iod.owner);
    let service = |iod: &mut Iod| {
        iod.server.service = Arc::new(service(&iod.server).as_iod(KEY, &[], Some(CLIENTS)));
    };
    service(&mut iod);
    assert_eq!(iod.may(reader), NONE);
    assert_eq!(iod.read_status(reader), Some(Status::Jukebox));
    // While the iod makes all clients retry, wrong numbers do not count as misses.
    for _ in 0..400 {
        assert_eq!(iod.read_status(stranger), Some(Status::Jukebox));
    }
    for turn in 1..=4 {
        iod.notes(turn);
    }
    assert_eq!(
        iod.read_status(reader),
        Some(Status::Jukebox),
        "the stored counter alone accepts no client"
    );
    for word in [KEY.turn_word(3), KEY.turn_word(5), EpochKey([8; 16]).turn_word(4)] {
        iod.hears(&word);
        assert_eq!(iod.read_status(reader), Some(Status::Jukebox), "{word}");
    }
    iod.hears(&KEY.turn_word(4));
    assert_eq!(iod.may(reader), READS);
    assert_eq!(iod.read_status(stranger), Some(Status::Access));
    iod.hears("leasehold-turn of no key");
    assert_eq!(iod.may(reader), READS);
    // The metaserver detects that the iod was rolled back.
    iod.hears(&KEY.turn_word(u64::MAX));
    assert_eq!(iod.read_status(reader), Some(Status::Jukebox));
    // A token whose counter differs from the stored counter makes the iod accept no client.
    iod.notes(7);
    iod.hears(&KEY.turn_word(7));
    assert_eq!(iod.read_status(reader), Some(Status::Jukebox));
    // The token has no effect after a restart.
    service(&mut iod);
    assert_eq!(iod.read_status(reader), Some(Status::Jukebox));
}

/// The access rules of the exports exclude the sender of the token, so the iod finds no stored
/// counter to compare.
#[test]
fn counter_without_comparison_accepts_no_client() {
    let mut iod = Iod::new(Some(CLIENTS), WRITTEN);
    let reader = CLIENTS.reader(iod.owner);
    let offered = |iod: &Iod, network: &str| {
        let clients = Clients {
            text: network.to_owned(),
            networks: vec![network.parse().expect("a network")],
        };
        let anonymous = User { uid: 0, gid: 0 };
        let rule = Rule {
            clients: vec![clients],
            read_only: false,
            insecure: true,
            identity: Identity { squash: Squash::All, anonymous, ..Identity::default() },
        };
        let offer = Offer::to_everybody(export(&iod.server.store));
        iod.server.service.offer(vec![Offer { access: Access::new(vec![rule]), ..offer }]);
    };
    iod.notes(1);
    iod.notes(2);
    for (network, status) in [("198.51.100.0/24", Some(Status::Jukebox)), ("192.0.2.0/24", None)] {
        iod.server.service = Arc::new(service(&iod.server).as_iod(KEY, &[], Some(CLIENTS)));
        offered(&iod, network);
        iod.hears(&KEY.turn_word(2));
        offered(&iod, "192.0.2.0/24");
        assert_eq!(iod.read_status(reader), status, "{network}");
    }
}
