//! The rules of exports at the clients' interface.

use std::sync::{Arc, Mutex};

use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_fs::{Export, ExportId};
use leasehold_serve::access::{Access, Clients, Identity, Network, Rule, Squash, User};
use leasehold_serve::{Event, HandleKey, Observer, Offer, Service, Trust};
use leasehold_store_mem::MemStore;
use leasehold_wire::list::List;
use leasehold_wire::mount::{self, Path, dump, export, mnt};
use leasehold_wire::nfs3::{self, DirectoryArgs, Name, getattr, mkdir};
use leasehold_wire::rpc::{AuthStatus, ReplyStatus};

use crate::support::Server;

const NFS: u32 = nfs3::PROGRAM;

fn rule(clients: &[&str], identity: Identity) -> Rule {
    let clients = clients.iter().map(|text| Clients {
        text: (*text).to_owned(),
        networks: match *text {
            "*" => Network::EVERYWHERE.to_vec(),
            text => vec![text.parse().expect("a network")],
        },
    });
    Rule { clients: clients.collect(), read_only: false, insecure: false, identity }
}

fn offer(id: u16, name: &str, store: &Arc<MemStore>, rules: Vec<Rule>) -> Offer {
    let store = Arc::<MemStore>::clone(store);
    let path = format!("/srv/{name}");
    let export = Export { id: ExportId(id), name: name.into(), path, read_only: false, store };
    Offer {
        export,
        access: Access::new(rules),
        transfer_bytes_max: TRANSFER_BYTES_MAX,
        secret: None,
    }
}

/// Counts the events of refusals.
#[derive(Clone, Default)]
struct Refusals(Arc<Mutex<Vec<String>>>);

impl Observer for Refusals {
    fn event(&self, event: &Event<'_>) {
        let line = match event {
            Event::Mounted { .. } => return,
            Event::MountRefused { hidden, .. } => format!("hidden {hidden:?}"),
            Event::HandleRefused { export, .. } => format!("handle of {export}"),
            Event::NotBelieved { refused, .. } => format!("not believed, refused {refused}"),
            Event::EpochOver { last, .. } => format!("over since {last}"),
            Event::Stranger { from } => format!("a stranger at {from}"),
            Event::GraceBegan { clients } => format!("grace for {clients}"),
            Event::GraceEnded { missing } => format!("grace without {missing}"),
        };
        self.0.lock().expect("no one panicked").push(line);
    }
}

/// Creates a server with these exports; its client is 192.0.2.1.
fn server(offers: Vec<Offer>, refusals: &Refusals) -> Server {
    let mut server = Server::new();
    let observer = Box::new(refusals.clone());
    server.service = Arc::new(Service::offering(offers, HandleKey([1; 16]), observer));
    server
}

fn mount(server: &mut Server, path: &str) -> Result<nfs3::Handle, mnt::Status> {
    match server.call((mount::PROGRAM, 3, mnt::NUMBER), &Path(path.as_bytes())).read() {
        mnt::Reply::Done(done) => Ok(done.directory),
        mnt::Reply::Failed(status) => Err(status),
    }
}

fn owner(server: &mut Server, handle: nfs3::Handle) -> Result<(u32, u32), nfs3::Status> {
    match server.call((NFS, 3, getattr::NUMBER), &getattr::Args { object: handle }).read() {
        getattr::Reply::Done(done) => Ok((done.attributes.uid, done.attributes.gid)),
        getattr::Reply::Failed(status, ()) => Err(status),
    }
}

/// Creates a directory, and returns its owner.
fn make(server: &mut Server, root: nfs3::Handle, name: &str) -> Result<(u32, u32), nfs3::Status> {
    let args = mkdir::Args {
        place: DirectoryArgs { directory: root, name: Name(name.as_bytes()) },
        attributes: nfs3::SetAttributes::default(),
    };
    match server.call((NFS, 3, mkdir::NUMBER), &args).read() {
        mkdir::Reply::Done(done) => {
            let attributes = done.attributes.expect("the reply has attributes");
            Ok((attributes.uid, attributes.gid))
        }
        mkdir::Reply::Failed(status, _) => Err(status),
    }
}

#[test]
fn export_is_hidden_from_clients_without_a_rule() {
    let refusals = Refusals::default();
    let (open, closed) = (Arc::new(MemStore::default()), Arc::new(MemStore::default()));
    let theirs = || vec![rule(&["198.51.100.0/24"], Identity::default())];
    let ours = || vec![rule(&["192.0.2.0/24"], Identity::default())];
    let offers =
        |closed_for| vec![offer(1, "open", &open, ours()), offer(2, "closed", &closed, closed_for)];
    let mut server = server(offers(theirs()), &refusals);

    // A hidden export gets the same reply as a missing export, also by its absolute path on the
    // server.
    for path in ["/closed", "/srv/closed", "/none"] {
        assert_eq!(mount(&mut server, path), Err(mnt::Status::NotFound), "{path}");
    }
    let root = mount(&mut server, "/").expect("the only one that this client finds");
    assert_eq!(mount(&mut server, "/open"), Ok(root));
    let listed = |server: &mut Server| -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
        let results = server.call((mount::PROGRAM, 3, export::NUMBER), &());
        let List(entries) = results.read::<export::Reply<'_>>();
        let names =
            |entry: &export::Entry<'_>| entry.groups.0.iter().map(|name| name.0.to_vec()).collect();
        entries.iter().map(|entry| (entry.directory.0.to_vec(), names(entry))).collect()
    };
    assert_eq!(listed(&mut server), [(b"/open".to_vec(), vec![b"192.0.2.0/24".to_vec()])]);

    // The handle of a hidden export is stale for this client, and valid for the client that may
    // access the export.
    server.arrival.from = "198.51.100.7:700".parse().expect("an address");
    let theirs_root = mount(&mut server, "/closed").expect("that one may");
    server.arrival.from = "192.0.2.1:700".parse().expect("an address");
    assert_eq!(owner(&mut server, theirs_root), Err(nfs3::Status::Stale));
    assert_eq!(make(&mut server, theirs_root, "x"), Err(nfs3::Status::Stale));

    // No client learns of a mount of an export that is hidden from it.
    let mounts = |server: &mut Server| {
        let results = server.call((mount::PROGRAM, 3, dump::NUMBER), &());
        results.read::<dump::Reply<'_>>().0.len()
    };
    assert_eq!(mounts(&mut server), 1);

    // After a change of the rules between two calls, handles stay valid.
    server.service.offer(offers(ours()));
    assert!(owner(&mut server, theirs_root).is_ok());
    assert_eq!(mounts(&mut server), 1, "the other client may no longer have it mounted");
    server.arrival.from = "198.51.100.7:700".parse().expect("an address");
    assert_eq!(owner(&mut server, theirs_root), Err(nfs3::Status::Stale));
    assert_eq!(listed(&mut server), []);

    let refusals = refusals.0.lock().expect("no one panicked");
    let closed = r#"hidden Some("closed")"#;
    let told = [closed, closed, "hidden None", "handle of closed", "handle of closed"];
    assert_eq!(refusals[..5], told);
}

#[test]
fn export_list_names_the_clients_of_the_rules() {
    let store = Arc::new(MemStore::default());
    let everybody = || vec![rule(&["*"], Identity::default())];
    let ours = vec![rule(&["192.0.2.0/24"], Identity::default())];
    let secret =
        Offer { secret: Some("/5ec2e7".to_owned()), ..offer(2, "iod", &store, everybody()) };
    let offers = vec![offer(1, "files", &store, ours), secret];
    let service = Service::offering(offers, HandleKey([1; 16]), Box::new(Refusals::default()));
    let (ours, other) = ([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
    assert!(service.finds(ours, b"files") && service.finds(ours, b"/files"));
    assert!(!service.finds(other, b"files"));
    for path in [&b"none"[..], b"files/below", b"iod", b"/5ec2e7"] {
        assert!(!service.finds(ours, path), "{path:?}");
    }
}

#[test]
fn export_for_all_clients_is_listed_without_names() {
    let store = Arc::new(MemStore::default());
    let rules = vec![rule(&["192.0.2.1"], Identity::default()), rule(&["*"], Identity::default())];
    let mut server = server(vec![offer(1, "a", &store, rules)], &Refusals::default());
    let results = server.call((mount::PROGRAM, 3, export::NUMBER), &());
    assert_eq!(results.read::<export::Reply<'_>>().0[0].groups.0, []);
}

/// A datagram does not prove its source address, so an attacker could direct a long list at a
/// victim.
#[test]
fn a_list_by_datagram_is_no_longer_than_a_question() {
    let store = Arc::new(MemStore::default());
    let rules = || vec![rule(&["*"], Identity::default())];
    let offers = (1..=300).map(|id| offer(id, &format!("export{id}"), &store, rules())).collect();
    let mut server = server(offers, &Refusals::default());
    let stream = server.call((mount::PROGRAM, 3, export::NUMBER), &());
    assert_eq!(stream.read::<export::Reply<'_>>().0.len(), 300);
    let path = mount::Path(b"/export1");
    for _ in 0..30 {
        server.call((mount::PROGRAM, 3, mount::mnt::NUMBER), &path);
    }
    server.arrival.connection = None;
    for number in [export::NUMBER, mount::dump::NUMBER] {
        let results = server.call((mount::PROGRAM, 3, number), &());
        assert!(results.bytes().len() <= 228, "{number}: {} bytes", results.bytes().len());
    }
    let few = server.call((mount::PROGRAM, 3, export::NUMBER), &());
    let few = few.read::<export::Reply<'_>>();
    assert!((1..20).contains(&few.0.len()), "a few exports are listed");
}

#[test]
fn rules_squash_and_restrict_each_client() {
    let store = Arc::new(MemStore::default());
    let squashed =
        |squash| Identity { squash, anonymous: User { uid: 77, gid: 78 }, ..Identity::default() };
    let rules = vec![
        Rule { read_only: true, ..rule(&["192.0.2.1"], Identity::default()) },
        rule(&["192.0.2.2"], squashed(Squash::Root)),
        rule(&["192.0.2.3"], squashed(Squash::All)),
        rule(&["192.0.2.4"], Identity::default()),
    ];
    let mut server = server(vec![offer(1, "a", &store, rules)], &Refusals::default());
    let root = mount(&mut server, "/a").expect("it may");
    let mut as_client = |last: u8, uid: u32, name: &str| {
        server.arrival.from = ([192, 0, 2, last], 700).into();
        server.uid = uid;
        make(&mut server, root, name)
    };
    assert_eq!(as_client(4, 0, "by root"), Ok((0, 0)));
    assert_eq!(as_client(1, 0, "nowhere"), Err(nfs3::Status::ReadOnly));
    // The root directory belongs to root and has the mode 755, so an anonymous caller cannot create
    // a name.
    assert_eq!(as_client(2, 0, "by nobody"), Err(nfs3::Status::Access));
    assert_eq!(as_client(3, 0, "by nobody"), Err(nfs3::Status::Access));
    assert_eq!(as_client(5, 0, "by a stranger"), Err(nfs3::Status::Stale));
}

#[test]
fn rule_may_trust_an_unverified_credential() {
    let refusals = Refusals::default();
    let store = Arc::new(MemStore::default());
    let rules = |insecure| {
        let identity = Identity { anonymous: User { uid: 77, gid: 78 }, ..Identity::default() };
        vec![Rule { insecure, ..rule(&["*"], identity) }]
    };
    let mut server = server(vec![offer(1, "a", &store, rules(false))], &refusals);
    let root = mount(&mut server, "/a").expect("it may");
    server.arrival.trust = Trust::Unvouched { refuse: false };
    assert_eq!(make(&mut server, root, "x"), Err(nfs3::Status::Access), "user 77 may not");
    server.arrival.trust = Trust::Unvouched { refuse: true };
    let args = getattr::Args { object: root };
    let status = server.status((NFS, 3, getattr::NUMBER), &args);
    assert_eq!(status, ReplyStatus::AuthError(AuthStatus::TooWeak));
    assert_eq!(server.status((NFS, 3, 0), &()), ReplyStatus::Success, "it shows that it is there");
    let told = ["not believed, refused false", "not believed, refused true"];
    assert_eq!(*refusals.0.lock().expect("no one panicked"), told);
    server.service.offer(vec![offer(1, "a", &store, rules(true))]);
    assert_eq!(make(&mut server, root, "x"), Ok((0, 0)));
}

#[test]
fn fsinfo_returns_the_sizes_of_an_export() {
    let store = Arc::new(MemStore::default());
    let small = Offer {
        transfer_bytes_max: 64 << 10,
        ..offer(1, "a", &store, vec![rule(&["*"], Identity::default())])
    };
    let mut server = server(vec![small], &Refusals::default());
    let root = mount(&mut server, "/a").expect("it may");
    let args = nfs3::fsinfo::Args { root };
    let reply: nfs3::fsinfo::Reply = server.call((NFS, 3, nfs3::fsinfo::NUMBER), &args).read();
    let nfs3::Reply::Done(done) = reply else { panic!("{reply:?}") };
    assert_eq!((done.read_bytes_max, done.write_bytes_best), (64 << 10, 64 << 10));
}

/// Only holders of the cluster's key see the directory of an iod.
#[test]
fn secret_export_has_one_path_and_is_not_listed() {
    let store = Arc::new(MemStore::default());
    let everybody = || vec![rule(&["*"], Identity::default())];
    let secret =
        Offer { secret: Some("/5ec2e7".to_owned()), ..offer(1, "iod", &store, everybody()) };
    let mut server = server(vec![secret], &Refusals::default());
    for path in ["/", "/iod", "/srv/iod", "/5ec2e", "/5ec2e70", "/5ec2e8", "/5ec2e7/below", ""] {
        assert_eq!(mount(&mut server, path), Err(mnt::Status::NotFound), "{path}");
    }
    let root = mount(&mut server, "/5ec2e7").expect("it is known");
    assert!(owner(&mut server, root).is_ok());
    let exports = server.call((mount::PROGRAM, 3, export::NUMBER), &());
    assert!(exports.read::<export::Reply<'_>>().0.is_empty());
    let mounts = server.call((mount::PROGRAM, 3, dump::NUMBER), &());
    assert!(mounts.read::<dump::Reply<'_>>().0.is_empty());
}
