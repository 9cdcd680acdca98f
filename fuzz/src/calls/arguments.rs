//! The arguments of each procedure, as choices of a script.

use bytes::Bytes;
use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_base::xdr::Writer;
use leasehold_wire::every::Procedure;
use leasehold_wire::{lease, mount, nfs3, nqnfs};

use super::script::Script;

/// A procedure and the types of its arguments.
pub(super) struct Shape {
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) procedure: u32,
    /// One letter for each argument, see [`Shape::write`].
    letters: &'static str,
    /// Choices with which it succeeds after [`PRELUDE`].
    pub(super) choices: &'static [u8],
}

const fn nfs(version: u32, procedure: u32, letters: &'static str, choices: &'static [u8]) -> Shape {
    Shape { program: nfs3::PROGRAM, version, procedure, letters, choices }
}

const fn mnt(version: u32, procedure: u32, letters: &'static str, choices: &'static [u8]) -> Shape {
    Shape { program: mount::PROGRAM, version, procedure, letters, choices }
}

/// A procedure of the lease program.
const fn own(procedure: u32, letters: &'static str, choices: &'static [u8]) -> Shape {
    Shape { program: lease::PROGRAM, version: lease::VERSION, procedure, letters, choices }
}

/// A procedure of NQNFS.
const fn nq(procedure: u32, letters: &'static str, choices: &'static [u8]) -> Shape {
    Shape { program: nqnfs::PROGRAM, version: nqnfs::VERSION, procedure, letters, choices }
}

/// Creates a file `a`, a directory `b` and a link `c` in the root; their handles are then the
/// second to fourth.
pub(super) const PRELUDE: &[u8] = &[8, 0, 0, 0, 0, 9, 0, 1, 0, 10, 0, 2, 0, 0];

/// Every procedure of the server.
pub(super) const CALLS: [Shape; 114] = [
    nfs(3, 0, "", &[]),
    nfs(3, 1, "h", &[1]),
    nfs(3, 2, "hsg", &[1, 1, 3, 0]),
    nfs(3, 3, "hn", &[0, 0]),
    nfs(3, 4, "hw", &[1, 63]),
    nfs(3, 5, "h", &[3]),
    nfs(3, 6, "hqw", &[1, 0, 4]),
    nfs(3, 7, "hqW", &[1, 0, 0, 4]),
    nfs(3, 8, "hnC", &[0, 3, 2, 7]),
    nfs(3, 9, "hns", &[0, 3, 0]),
    nfs(3, 10, "hnsn", &[0, 3, 0, 0]),
    nfs(3, 11, "hnM", &[0, 3, 7, 0]),
    nfs(3, 12, "hn", &[0, 0]),
    nfs(3, 13, "hn", &[0, 1]),
    nfs(3, 14, "hnhn", &[0, 0, 2, 0]),
    nfs(3, 15, "hhn", &[1, 2, 0]),
    nfs(3, 16, "hqqw", &[0, 0, 0, 5]),
    nfs(3, 17, "hqqww", &[0, 0, 0, 5, 5]),
    nfs(3, 18, "h", &[0]),
    nfs(3, 19, "h", &[0]),
    nfs(3, 20, "h", &[0]),
    nfs(3, 21, "hqw", &[1, 0, 0]),
    nfs(2, 0, "", &[]),
    nfs(2, 1, "H", &[1]),
    nfs(2, 2, "HS", &[1, 1, 3]),
    nfs(2, 3, "", &[]),
    nfs(2, 4, "Hn", &[0, 0]),
    nfs(2, 5, "H", &[3]),
    nfs(2, 6, "Hwww", &[1, 0, 4, 0]),
    nfs(2, 7, "", &[]),
    nfs(2, 8, "Hwwwd", &[1, 0, 0, 0, 4]),
    nfs(2, 9, "HnS", &[0, 3, 1, 3]),
    nfs(2, 10, "Hn", &[0, 0]),
    nfs(2, 11, "HnHn", &[0, 0, 2, 0]),
    nfs(2, 12, "HHn", &[1, 2, 0]),
    nfs(2, 13, "HnnS", &[0, 3, 0, 0]),
    nfs(2, 14, "HnS", &[0, 3, 1, 3]),
    nfs(2, 15, "Hn", &[0, 1]),
    nfs(2, 16, "Hww", &[0, 0, 5]),
    nfs(2, 17, "H", &[0]),
    mnt(1, 0, "", &[]),
    mnt(1, 1, "p", &[1]),
    mnt(1, 2, "", &[]),
    mnt(1, 3, "p", &[1]),
    mnt(1, 4, "", &[]),
    mnt(1, 5, "", &[]),
    mnt(1, 6, "", &[]),
    mnt(2, 0, "", &[]),
    mnt(2, 1, "p", &[1]),
    mnt(2, 2, "", &[]),
    mnt(2, 3, "p", &[1]),
    mnt(2, 4, "", &[]),
    mnt(2, 5, "", &[]),
    mnt(2, 6, "", &[]),
    mnt(2, 7, "p", &[1]),
    mnt(3, 0, "", &[]),
    mnt(3, 1, "p", &[1]),
    mnt(3, 2, "", &[]),
    mnt(3, 3, "p", &[1]),
    mnt(3, 4, "", &[]),
    mnt(3, 5, "", &[]),
    own(0, "", &[]),
    own(1, "Lh", &[0, 0, 0, 0, 0, 1]),
    own(2, "Lhsg", &[0, 0, 0, 0, 0, 1, 1, 3, 0]),
    own(3, "Lhn", &[0, 0, 0, 0, 0, 0, 0]),
    own(4, "Lhw", &[0, 0, 0, 0, 0, 1, 63]),
    own(5, "Lh", &[0, 0, 0, 0, 0, 3]),
    own(6, "Lhqw", &[0, 0, 0, 0, 0, 1, 0, 4]),
    own(7, "LshqW", &[0, 0, 0, 0, 0, 0, 1, 0, 0, 4]),
    own(8, "LhnC", &[0, 0, 0, 0, 0, 0, 3, 2, 7]),
    own(9, "Lhns", &[0, 0, 0, 0, 0, 0, 3, 0]),
    own(10, "Lhnsn", &[0, 0, 0, 0, 0, 0, 3, 0, 0]),
    own(11, "LhnM", &[0, 0, 0, 0, 0, 0, 3, 7, 0]),
    own(12, "Lhn", &[0, 0, 0, 0, 0, 0, 0]),
    own(13, "Lhn", &[0, 0, 0, 0, 0, 0, 1]),
    own(14, "Lhnhn", &[0, 0, 0, 0, 0, 0, 0, 2, 0]),
    own(15, "Lhhn", &[0, 0, 0, 0, 0, 1, 2, 0]),
    own(16, "Lhqqw", &[0, 0, 0, 0, 0, 0, 0, 0, 5]),
    own(17, "Lhqqww", &[0, 0, 0, 0, 0, 0, 0, 0, 5, 5]),
    own(18, "Lh", &[0, 0, 0, 0, 0, 0]),
    own(19, "Lh", &[0, 0, 0, 0, 0, 0]),
    own(20, "Lh", &[0, 0, 0, 0, 0, 0]),
    own(21, "Lhqw", &[0, 0, 0, 0, 0, 1, 0, 0]),
    own(22, "LhA", &[0, 0, 0, 0, 0, 1, 0, 4]),
    own(23, "Iqn", &[0, 0, 0]),
    own(24, "KO", &[0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1]),
    own(25, "K", &[0, 0, 0]),
    own(26, "LhP", &[0, 0, 0, 0, 0, 1, 1, 1]),
    own(27, "Lhk", &[0, 0, 0, 0, 0, 1, 0]),
    nq(0, "", &[]),
    nq(1, "Nh", &[0, 1]),
    nq(2, "Nhsg", &[0, 1, 1, 3, 0]),
    nq(3, "Nhn", &[0, 0, 0]),
    nq(4, "Nhw", &[0, 1, 63]),
    nq(5, "Nh", &[0, 3]),
    nq(6, "Nhqw", &[0, 1, 0, 4]),
    nq(7, "NhqW", &[0, 1, 0, 0, 4]),
    nq(8, "NhnC", &[0, 0, 3, 2, 7]),
    nq(9, "Nhns", &[0, 0, 3, 0]),
    nq(10, "Nhnsn", &[0, 0, 3, 0, 0]),
    nq(11, "NhnM", &[0, 0, 3, 7, 0]),
    nq(12, "Nhn", &[0, 0, 0]),
    nq(13, "Nhn", &[0, 0, 1]),
    nq(14, "Nhnhn", &[0, 0, 0, 2, 0]),
    nq(15, "Nhhn", &[0, 1, 2, 0]),
    nq(16, "Nhqqw", &[0, 0, 0, 0, 5]),
    nq(17, "Nhqqww", &[0, 0, 0, 0, 5, 5]),
    nq(18, "Nh", &[0, 0]),
    nq(19, "Nh", &[0, 0]),
    nq(20, "Nh", &[0, 0]),
    nq(21, "Nhqw", &[0, 1, 0, 0]),
    nq(22, "Nhkw", &[0, 1, 0, 5]),
    nq(23, "Nh", &[0, 1]),
    nq(24, "h", &[1]),
];

impl Shape {
    /// The action of a script that calls it.
    pub(super) fn index(&self) -> u8 {
        let own = (self.program, self.version, self.procedure);
        let is_own = |one: &Self| (one.program, one.version, one.procedure) == own;
        let index = CALLS.iter().position(is_own).expect("the procedure is in the table");
        u8::try_from(index).expect("procedures are few")
    }

    /// The calls that it needs in addition to [`PRELUDE`]: a client with leases sends HELLO.
    pub(super) fn greeting(&self) -> Vec<u8> {
        let is_hello =
            |one: &&Self| (one.program, one.procedure) == (lease::PROGRAM, lease::hello::NUMBER);
        let hello = CALLS.iter().find(is_hello).filter(|_| self.program == lease::PROGRAM);
        hello.map(|hello| [&[hello.index()], hello.choices].concat()).unwrap_or_default()
    }

    /// Writes arguments according to the script.
    pub(super) fn write(&self, script: &mut Script<'_>, handles: &[Bytes], to: &mut Writer) {
        for letter in self.letters.chars() {
            match letter {
                'w' => to.u32(script.word()),
                'q' => to.u64(script.number()),
                'h' => to.opaque(&handle(script, handles)),
                'H' => to.fixed(&version_2(&handle(script, handles))),
                'n' => to.opaque(&name(script)),
                'p' => to.opaque(&path(script)),
                'd' => to.opaque(&data(script)),
                's' => attributes(script, to),
                'S' => attributes_2(script, to),
                'g' => guard(script, to),
                'C' => creation(script, to),
                'M' => node(script, to),
                'W' => writing(script, to),
                'A' => appending(script, to),
                'I' => client(script, to),
                'K' => caller(script, to),
                'L' => head(script, to),
                'N' => riding(script, to),
                'k' => to.u32(1 + u32::from(script.byte() % 3)),
                'O' => leases(script, to, handles),
                'P' => purpose(script, to),
                _ => unreachable!("the shapes have these letters only"),
            }
        }
    }
}

/// A handle that the server returned, or an invalid one.
fn handle(script: &mut Script<'_>, handles: &[Bytes]) -> Vec<u8> {
    match script.byte() {
        255 => {
            let length = usize::from(script.byte() % 65);
            script.bytes(length).to_vec()
        }
        choice => handles[usize::from(choice) % handles.len()].to_vec(),
    }
}

fn version_2(handle: &[u8]) -> [u8; HANDLE_V2_BYTES] {
    let mut bytes = [0; HANDLE_V2_BYTES];
    let length = handle.len().min(bytes.len());
    bytes[..length].copy_from_slice(&handle[..length]);
    bytes
}

fn name(script: &mut Script<'_>) -> Vec<u8> {
    match script.byte() % 16 {
        letter @ 0..=7 => vec![b'a' + letter],
        8 => b".".to_vec(),
        9 => b"..".to_vec(),
        10 => Vec::new(),
        11 => b"a/b".to_vec(),
        12 => vec![b'x'; 255],
        13 => vec![b'x'; 256],
        14 => b"\0".to_vec(),
        _ => {
            let length = usize::from(script.byte());
            script.bytes(length).to_vec()
        }
    }
}

fn path(script: &mut Script<'_>) -> Vec<u8> {
    match script.byte() % 5 {
        0 => b"/".to_vec(),
        1 => b"/data".to_vec(),
        2 => b"/srv/data/b".to_vec(),
        3 => b"/data/../b/./c".to_vec(),
        _ => name(script),
    }
}

fn data(script: &mut Script<'_>) -> Vec<u8> {
    let length = script.number() % 9000;
    (0u8..=250).cycle().take(usize::try_from(length).expect("the length is small")).collect()
}

/// `sattr3`.
fn attributes(script: &mut Script<'_>, to: &mut Writer) {
    let which = script.byte();
    for bit in [1, 2, 4] {
        optional(which & bit != 0, to, |to| to.u32(script.word()));
    }
    optional(which & 8 != 0, to, |to| to.u64(script.number()));
    for shift in [4, 6] {
        let how = u32::from(which >> shift & 3);
        to.u32(how);
        if how == 2 {
            to.u32(script.word());
            to.u32(script.word());
        }
    }
}

/// Version 2's `sattr`: mode, user, group, size, and two times; a field with all bits set is not
/// changed.
fn attributes_2(script: &mut Script<'_>, to: &mut Writer) {
    let which = script.byte();
    for bit in 0..8 {
        to.u32(if which >> bit & 1 == 1 { script.word() } else { u32::MAX });
    }
}

fn guard(script: &mut Script<'_>, to: &mut Writer) {
    optional(script.byte() == 1, to, |to| to.u64(script.number()));
}

/// `createhow3`.
fn creation(script: &mut Script<'_>, to: &mut Writer) {
    let how = u32::from(script.byte() % 4);
    to.u32(how);
    if how == 2 {
        to.u64(script.number());
    } else {
        attributes(script, to);
    }
}

/// `mknoddata3`.
fn node(script: &mut Script<'_>, to: &mut Writer) {
    let kind = u32::from(script.byte() % 9);
    to.u32(kind);
    if [3, 4, 6, 7].contains(&kind) {
        attributes(script, to);
    }
    if [3, 4].contains(&kind) {
        to.u64(script.number());
    }
}

/// The end of version 3's WRITE: count, stability and as much data.
fn writing(script: &mut Script<'_>, to: &mut Writer) {
    let stable = u32::from(script.byte() % 4);
    let data = data(script);
    to.u32(u32::try_from(data.len()).expect("the data is short"));
    to.u32(stable);
    to.opaque(&data);
}

/// The end of the lease program's APPEND.
fn appending(script: &mut Script<'_>, to: &mut Writer) {
    to.u32(u32::from(script.byte() % 4));
    to.opaque(&data(script));
}

/// One of two clients.
fn client(script: &mut Script<'_>, to: &mut Writer) {
    to.fixed(&[script.byte() % 2; 16]);
}

/// `lease_caller`, mostly of the current epoch.
fn caller(script: &mut Script<'_>, to: &mut Writer) {
    client(script, to);
    to.u64(script.number());
    to.u64(if script.byte() % 8 == 7 { script.number() } else { 1 });
}

/// `lease_terms`.
fn terms(script: &mut Script<'_>, to: &mut Writer) {
    to.u32(1 + u32::from(script.byte() % 3));
    to.u32(script.word());
    to.u32(u32::from(script.byte() % 2));
    to.u64(script.number());
}

/// `lease_call`: the caller, up to three lease requests, and the base of a change.
fn head(script: &mut Script<'_>, to: &mut Writer) {
    caller(script, to);
    list(script, to, |script, to| {
        to.u32(u32::from(script.byte() % 4));
        terms(script, to);
    });
    optional(script.byte() % 4 == 1, to, |to| {
        to.u64(script.number());
        to.u64(script.number());
    });
}

/// The end of LEASE: the wanted leases, the returned leases, and the client's progress.
fn leases(script: &mut Script<'_>, to: &mut Writer, handles: &[Bytes]) {
    list(script, to, |script, to| {
        to.opaque(&handle(script, handles));
        terms(script, to);
        to.u32(u32::from(script.byte() % 2));
    });
    list(script, to, |script, to| {
        to.opaque(&handle(script, handles));
        to.u64(script.number());
        to.u32(u32::from(script.byte() % 3));
    });
    to.u32(u32::from(script.byte() % 3));
}

/// `lease_layout_args` behind the file: the purpose of the layout; none by an even choice.
fn purpose(script: &mut Script<'_>, to: &mut Writer) {
    optional(script.byte() % 2 == 1, to, |to| to.u32(1 + u32::from(script.byte() % 3)));
}

/// The lease that a call of NQNFS requests; none by a choice of zero.
fn riding(script: &mut Script<'_>, to: &mut Writer) {
    let kind = u32::from(script.byte() % 4);
    to.u32(kind);
    if kind != 0 {
        to.u32(script.word());
    }
}

/// A linked list of up to three entries.
fn list(
    script: &mut Script<'_>,
    to: &mut Writer,
    mut one: impl FnMut(&mut Script<'_>, &mut Writer),
) {
    for _ in 0..script.byte() % 4 {
        to.u32(1);
        one(script, to);
    }
    to.u32(0);
}

fn optional(there: bool, to: &mut Writer, write: impl FnOnce(&mut Writer)) {
    to.u32(u32::from(there));
    if there {
        write(to);
    }
}

/// The number of handles that are kept.
const HANDLES_MAX: usize = 64;

/// Keeps the handles in the results of a procedure: in version 3 they follow their length, in
/// version 2, where all have the same length, a status of success.
pub(super) fn keep_handles(procedure: &Procedure, results: &Bytes, handles: &mut Vec<Bytes>) {
    const LENGTH: [u8; 4] = [0, 0, 0, HANDLE_V2_BYTES.to_le_bytes()[0]];
    let gives_one = ["LOOKUP", "CREATE", "MKDIR", "MNT"].contains(&procedure.name);
    let is_version_2 = gives_one && procedure.version < 3 && results.starts_with(&[0; 4]);
    for at in (0..results.len()).step_by(4) {
        let place = at + 4..at + 4 + HANDLE_V2_BYTES;
        let Some(found) = results.get(place.clone()) else { break };
        let is_one = if is_version_2 { at == 0 } else { results[at..at + 4] == LENGTH };
        let is_new = !handles.iter().any(|handle| handle == found);
        if is_one && is_new && handles.len() < HANDLES_MAX {
            handles.push(results.slice(place));
        }
    }
}
