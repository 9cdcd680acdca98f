//! Values of every message, drawn from a sequence of words: a shorter sequence, or one of smaller
//! words, gives a simpler value, so that a failing case shrinks.

use core::num::NonZeroU32;

use bytes::Bytes;
use leasehold_base::groups::Groups;
use leasehold_base::limits::{AUTH_BYTES_MAX, HANDLE_BYTES_MAX, TRANSFER_V2_BYTES_MAX};
use leasehold_base::units::{Cookie, FileId, FileSystemId, Xid};

use crate::list::{List, UpTo};
use crate::outcome::Outcome;
use crate::portmap::rpcbind;
use crate::{binding, mount, nfs2, nfs3, portmap, rpc};

/// The source of words; zeros after the last word.
pub(super) struct Source<'a>(pub(super) core::slice::Iter<'a, u32>);

impl Source<'_> {
    fn word(&mut self) -> u32 {
        self.0.next().copied().unwrap_or_default()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.word() as usize % bound
    }

    /// Returns up to `limit` bytes: usually few, sometimes exactly `limit`.
    fn slice(&mut self, limit: u32) -> &'static [u8] {
        static BYTES: [u8; 8192] = {
            let (mut bytes, mut at) = ([0; 8192], 0);
            while at < bytes.len() {
                bytes[at] = at.to_le_bytes()[0];
                at += 1;
            }
            bytes
        };
        let limit = usize::try_from(limit).expect("small").min(BYTES.len());
        let length = self.word() as usize;
        if length == u32::MAX as usize { &BYTES[..limit] } else { &BYTES[..length % 40] }
    }
}

/// A message or a part of a message that can be drawn from words.
pub(super) trait Sample {
    fn sample(source: &mut Source<'_>) -> Self;
}

impl Sample for () {
    fn sample(_: &mut Source<'_>) {}
}

impl Sample for bool {
    fn sample(source: &mut Source<'_>) -> Self {
        source.below(2) == 1
    }
}

impl Sample for u32 {
    fn sample(source: &mut Source<'_>) -> Self {
        source.word()
    }
}

impl Sample for u64 {
    fn sample(source: &mut Source<'_>) -> Self {
        u64::from(source.word()) << 32 | u64::from(source.word())
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(source: &mut Source<'_>) -> Self {
        bool::sample(source).then(|| T::sample(source))
    }
}

impl<T: Sample> Sample for List<T> {
    fn sample(source: &mut Source<'_>) -> Self {
        Self((0..source.below(5)).map(|_| T::sample(source)).collect())
    }
}

impl<T: Sample, const MAX: usize> Sample for UpTo<T, MAX> {
    fn sample(source: &mut Source<'_>) -> Self {
        Self(List::sample(source).0)
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(source: &mut Source<'_>) -> Self {
        core::array::from_fn(|_| source.word().to_le_bytes()[0])
    }
}

impl Sample for Bytes {
    fn sample(source: &mut Source<'_>) -> Self {
        Self::from_static(source.slice(TRANSFER_V2_BYTES_MAX))
    }
}

impl<Done: Sample, Failed: Sample> Sample for nfs3::Reply<Done, Failed> {
    fn sample(source: &mut Source<'_>) -> Self {
        if bool::sample(source) {
            return Self::Done(Done::sample(source));
        }
        Self::Failed(Sample::sample(source), Failed::sample(source))
    }
}

impl<Done: Sample, Status: Sample> Sample for Outcome<Done, Status> {
    fn sample(source: &mut Source<'_>) -> Self {
        if bool::sample(source) {
            return Self::Done(Done::sample(source));
        }
        Self::Failed(Status::sample(source))
    }
}

/// Declares samples of types that wrap one value.
macro_rules! wrapped {
    ($($name:path,)*) => {$(
        impl Sample for $name {
            fn sample(source: &mut Source<'_>) -> Self {
                Self(Sample::sample(source))
            }
        }
    )*};
}

wrapped!(Cookie, FileId, FileSystemId, Xid, nfs2::Cookie, nfs2::FileId, nfs2::Handle,);

/// Declares samples of types that wrap borrowed bytes, with their length limits.
macro_rules! borrowed {
    ($($name:ty: $limit:expr,)*) => {$(
        impl Sample for $name {
            fn sample(source: &mut Source<'_>) -> Self {
                Self(source.slice($limit))
            }
        }
    )*};
}

borrowed! {
    nfs3::Name<'static>: 4096,
    nfs3::Path<'static>: 4096,
    nfs2::Name<'static>: 255,
    nfs2::Path<'static>: 1024,
    mount::Name<'static>: 255,
    mount::Path<'static>: 1024,
    portmap::Forwarded<'static>: 65_507,
    rpcbind::Text<'static>: 256,
    rpcbind::Address<'static>: 256,
    binding::Name<'static>: 255,
}

/// Declares samples of enums that list all their values.
macro_rules! listed {
    ($($name:path,)*) => {$(
        impl Sample for $name {
            fn sample(source: &mut Source<'_>) -> Self {
                Self::ALL[source.below(Self::ALL.len())]
            }
        }
    )*};
}

listed! {
    nfs3::Status,
    nfs3::FileType,
    nfs3::write::Stability,
    nfs2::Status,
    nfs2::FileType,
    mount::mnt::Status,
    binding::Status,
    rpc::AuthStatus,
}

/// Declares samples of structures, by the names of their fields.
macro_rules! structures {
    ($($name:ty { $($field:ident)* })*) => {$(
        impl Sample for $name {
            fn sample(source: &mut Source<'_>) -> Self {
                Self { $($field: Sample::sample(source),)* }
            }
        }
    )*};
}

// Declared after the macros that it uses.
mod leases;
mod nfs4;
mod replica;

structures! {
    nfs3::Device { major minor }
    nfs3::Time { seconds nanoseconds }
    nfs3::Before { size modified changed }
    nfs3::Wcc { before after }
    nfs3::Attributes {
        file_type mode link_count uid gid size used device file_system file_id accessed modified
        changed
    }
    nfs3::SetAttributes { mode uid gid size accessed modified }
    nfs3::DirectoryArgs<'static> { directory name }
    nfs3::Made { object attributes directory }
    nfs3::access::Access { read lookup modify extend delete execute }
    nfs3::access::Args { object access }
    nfs3::access::Done { attributes access }
    nfs3::commit::Args { file offset count }
    nfs3::commit::Done { file verifier }
    nfs3::create::Args<'static> { place how }
    nfs3::fsinfo::Args { root }
    nfs3::fsinfo::Properties { links symlinks homogeneous can_set_time }
    nfs3::fsinfo::Done {
        attributes read_bytes_max read_bytes_best read_bytes_multiple write_bytes_max
        write_bytes_best write_bytes_multiple directory_bytes_best file_bytes_max time_step
        properties
    }
    nfs3::fsstat::Args { root }
    nfs3::fsstat::Done {
        attributes bytes free_bytes available_bytes files free_files available_files
        steady_seconds
    }
    nfs3::getattr::Args { object }
    nfs3::getattr::Done { attributes }
    nfs3::link::Args<'static> { file link }
    nfs3::link::Done { attributes directory }
    nfs3::lookup::Done { object attributes directory }
    nfs3::mkdir::Args<'static> { place attributes }
    nfs3::mknod::Args<'static> { place node }
    nfs3::mknod::DeviceData { attributes device }
    nfs3::pathconf::Args { object }
    nfs3::pathconf::Done {
        attributes link_max name_bytes_max refuses_long_names chown_restricted case_insensitive
        case_preserving
    }
    nfs3::read::Args { file offset count }
    nfs3::read::Done { attributes count end data }
    nfs3::readdir::Args { directory cookie verifier count }
    nfs3::readdir::Entry<'static> { file_id name cookie }
    nfs3::readdir::Done<List<nfs3::readdir::Entry<'static>>> { attributes verifier entries end }
    nfs3::readdirplus::Args { directory cookie verifier names_count count }
    nfs3::readdirplus::Entry<'static> { file_id name cookie attributes object }
    nfs3::readdirplus::Done<List<nfs3::readdirplus::Entry<'static>>> {
        attributes verifier entries end
    }
    nfs3::readlink::Args { symlink }
    nfs3::readlink::Done<'static> { attributes target }
    nfs3::rename::Args<'static> { from to }
    nfs3::rename::Done { from to }
    nfs3::setattr::Args { object attributes guard }
    nfs3::symlink::Args<'static> { place attributes target }
    nfs3::write::Args { file offset count stability data }
    nfs3::write::Done { file count stability verifier }

    nfs2::Time { seconds microseconds }
    nfs2::Attributes {
        file_type mode link_count uid gid size block_bytes device blocks file_system file_id
        accessed modified changed
    }
    nfs2::DirectoryArgs<'static> { directory name }
    nfs2::Found { object attributes }
    nfs2::create::Args<'static> { place attributes }
    nfs2::link::Args<'static> { file link }
    nfs2::read::Args { file offset count total_count }
    nfs2::read::Done { attributes data }
    nfs2::readdir::Args { directory cookie count }
    nfs2::readdir::Entry<'static> { file_id name cookie }
    nfs2::readdir::Done<List<nfs2::readdir::Entry<'static>>> { entries end }
    nfs2::rename::Args<'static> { from to }
    nfs2::setattr::Args { object attributes }
    nfs2::statfs::Done { transfer_bytes_best block_bytes blocks free_blocks available_blocks }
    nfs2::symlink::Args<'static> { place target attributes }
    nfs2::write::Args { file begin_offset offset total_count data }

    mount::dump::Entry<'static> { host directory }
    mount::export::Entry<'static> { directory groups }
    mount::mnt::Done { directory flavors }
    mount::pathconf::Reply {
        link_max canonical_bytes_max input_bytes_max name_bytes_max path_bytes_max pipe_bytes
        disabling_character unused mask mask_more
    }

    portmap::Mapping { program version protocol port }
    portmap::ForwardedCall<'static> { program version procedure args }
    portmap::callit::Reply<'static> { port results }
    rpcbind::Binding<'static> { program version network address owner }
    rpcbind::ForwardedReply<'static> { address results }
    rpcbind::NetworkAddress<'static> { bytes_max address }
    rpcbind::getaddrlist::Entry<'static> { address network semantics family protocol }
    rpcbind::getstat::Addressed<'static> { program version success failure network }
    rpcbind::getstat::Called<'static> {
        program version procedure success failure indirect network
    }
    rpcbind::getstat::Statistics<'static> { calls set unset addressed called }
    rpcbind::getstat::Reply<'static> { version_2 version_3 version_4 }

    binding::Claim<'static> { name identifier port }
    binding::Bound<'static> { name identifier host port }

    rpc::Call<'static> { xid program version procedure credential verifier }
    rpc::Reply { xid status }
    rpc::Versions { low high }
}

impl Sample for nfs3::Handle {
    fn sample(source: &mut Source<'_>) -> Self {
        Self::new(source.slice(HANDLE_BYTES_MAX)).expect("no longer than allowed")
    }
}

impl Sample for binding::Host {
    fn sample(source: &mut Source<'_>) -> Self {
        if bool::sample(source) {
            return Self(<[u8; 4]>::sample(source).into());
        }
        Self(<[u8; 16]>::sample(source).into())
    }
}

impl Sample for nfs3::SetTime {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(3) {
            0 => Self::Keep,
            1 => Self::Now,
            _ => Self::To(Sample::sample(source)),
        }
    }
}

impl Sample for nfs3::create::How {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(3) {
            0 => Self::Unchecked(Sample::sample(source)),
            1 => Self::Guarded(Sample::sample(source)),
            _ => Self::Exclusive(Sample::sample(source)),
        }
    }
}

impl Sample for nfs3::mknod::Node {
    fn sample(source: &mut Source<'_>) -> Self {
        match nfs3::FileType::sample(source) {
            nfs3::FileType::Regular => Self::Regular,
            nfs3::FileType::Directory => Self::Directory,
            nfs3::FileType::BlockDevice => Self::BlockDevice(Sample::sample(source)),
            nfs3::FileType::CharacterDevice => Self::CharacterDevice(Sample::sample(source)),
            nfs3::FileType::Symlink => Self::Symlink,
            nfs3::FileType::Socket => Self::Socket(Sample::sample(source)),
            nfs3::FileType::Fifo => Self::Fifo(Sample::sample(source)),
        }
    }
}

/// Avoids the value that stands for an unchanged time.
impl Sample for nfs2::SetTime {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(3) {
            0 => Self::Keep,
            1 => Self::Now,
            _ => Self::To(nfs2::Time {
                seconds: source.word() & !1,
                microseconds: source.word() % 1_000_000,
            }),
        }
    }
}

/// Avoids the values that stand for unchanged attributes.
impl Sample for nfs2::SetAttributes {
    fn sample(source: &mut Source<'_>) -> Self {
        let mut word = || Option::sample(source).map(|word: u32| word & !1);
        let [mode, uid, gid, size] = [word(), word(), word(), word()];
        let (accessed, modified) = (Sample::sample(source), Sample::sample(source));
        Self { mode, uid, gid, size, accessed, modified }
    }
}

impl Sample for mount::mnt::ErrorNumber {
    fn sample(source: &mut Source<'_>) -> Self {
        Self(NonZeroU32::new(source.word()).unwrap_or(NonZeroU32::MIN))
    }
}

impl Sample for mount::mnt::Flavors {
    fn sample(source: &mut Source<'_>) -> Self {
        Self((0..source.below(65)).map(|_| source.word()).collect())
    }
}

impl Sample for rpcbind::getstat::Counts {
    fn sample(source: &mut Source<'_>) -> Self {
        Self(core::array::from_fn(|_| source.word()))
    }
}

impl Sample for rpc::OpaqueAuth<'static> {
    fn sample(source: &mut Source<'_>) -> Self {
        Self { flavor: source.word(), body: source.slice(AUTH_BYTES_MAX) }
    }
}

impl Sample for rpc::AuthSys<'static> {
    fn sample(source: &mut Source<'_>) -> Self {
        let groups: Vec<u32> = (0..source.below(17)).map(|_| source.word()).collect();
        Self {
            stamp: source.word(),
            machine_name: source.slice(255),
            uid: source.word(),
            gid: source.word(),
            groups: Groups::new(&groups).expect("at most 16"),
        }
    }
}

impl Sample for rpc::ReplyStatus {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(8) {
            0 => Self::Success,
            1 => Self::ProgramUnavailable,
            2 => Self::ProgramMismatch(Sample::sample(source)),
            3 => Self::ProcedureUnavailable,
            4 => Self::GarbageArguments,
            5 => Self::SystemError,
            6 => Self::RpcMismatch,
            _ => Self::AuthError(Sample::sample(source)),
        }
    }
}
