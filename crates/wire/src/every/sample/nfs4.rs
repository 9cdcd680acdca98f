//! Sample values for NFS version 4.

use leasehold_base::limits::HANDLE_V4_BYTES_MAX;

use crate::list::{Array, List};
use crate::nfs4;

use super::{Sample, Source};

/// Declares samples of unions, by the names of their variants.
macro_rules! unions {
    ($($name:ty { $($variant:ident $(($body:tt))?,)* })*) => {$(
        impl Sample for $name {
            fn sample(source: &mut Source<'_>) -> Self {
                let variants: &[fn(&mut Source<'_>) -> Self] = &[$(variant!($variant $($body)?),)*];
                variants[source.below(variants.len())](source)
            }
        }
    )*};
}

macro_rules! variant {
    ($variant:ident) => {
        |_| Self::$variant
    };
    ($variant:ident $body:tt) => {
        |source| Self::$variant(Sample::sample(source))
    };
}

borrowed! {
    nfs4::Identifier<'static>: 1024,
    nfs4::Text<'static>: 1024,
    nfs4::Tag<'static>: 1024,
    nfs4::OwnerName<'static>: 511,
    nfs4::NetworkText<'static>: 256,
    nfs4::AttributeValues<'static>: 81_920,
    nfs4::GssHandle<'static>: 400,
    nfs4::LayoutBody<'static>: 16 << 10,
    nfs4::Oid<'static>: 400,
    nfs4::XattrValue<'static>: 64 << 10,
    nfs4::write_same::Pattern<'static>: 1 << 20,
    nfs4::callback::notify_deviceid::Values<'static>: 1024,
}

wrapped! {
    nfs4::AceFlags, nfs4::AceMask, nfs4::AceType, nfs4::ChangeId, nfs4::ClientId,
    nfs4::ClientVerifier, nfs4::Content, nfs4::CookieVerifier, nfs4::CreateVerifier,
    nfs4::DeviceId, nfs4::LayoutType, nfs4::Number, nfs4::OwnerSequence, nfs4::SequenceId,
    nfs4::SessionId, nfs4::SlotId, nfs4::StateOther, nfs4::StateSequence, nfs4::WriteVerifier,
    nfs4::create_session::Flags, nfs4::exchange_id::Flags, nfs4::open::ResultFlags,
    nfs4::open::ShareAccess, nfs4::open::ShareDeny, nfs4::sequence::StatusFlags,
}

listed! {
    nfs4::Status,
    nfs4::ChangeKind,
    nfs4::DelegationKind,
    nfs4::FileType,
    nfs4::GssService,
    nfs4::IoMode,
    nfs4::LockKind,
    nfs4::bind_conn_to_session::Bound,
    nfs4::bind_conn_to_session::Requested,
    nfs4::secinfo_no_name::Args,
    nfs4::setxattr::How,
}

unions! {
    nfs4::SetTime { Now, To(_), }
    nfs4::CallbackSecurity<'static> { None, Sys(_), Gss(_), }
    nfs4::NetworkLocation<'static> { Name(_), Url(_), Address(_), }
    nfs4::Delegation<'static> {
        None, Read(_), Write(_), NoneBecause(_), ReadTimes(_), WriteTimes(_),
    }
    nfs4::SpaceLimit { Size(_), Blocks(_), }
    nfs4::WhyNone {
        NotWanted, Contention(_), Resource(_), TypeNotSupported, WriteNotSupported,
        UpgradeNotSupported, DowngradeNotSupported, Cancelled, IsDirectory,
    }
    nfs4::exchange_id::Protection<'static> { None, MachineCredential(_), Secret(_), }
    nfs4::exchange_id::GrantedProtection<'static> { None, MachineCredential(_), Secret(_), }
    nfs4::get_dir_delegation::Done { Granted(_), Unavailable(_), }
    nfs4::layoutreturn::Returned<'static> { File(_), FileSystem, All, }
    nfs4::lock::Locker<'static> { Known(_), New(_), }
    nfs4::open::How<'static> { Existing, Create(_), }
    nfs4::open::CreateHow<'static> {
        Unchecked(_), Guarded(_), Exclusive(_), ExclusiveAttributes(_),
    }
    nfs4::open::Claim<'static> {
        Name(_), Previous(_), DelegatedName(_), PreviouslyDelegatedName(_), Current,
        DelegatedCurrent(_), PreviouslyDelegatedCurrent,
    }
    nfs4::read_plus::Segment { Data(_), Hole(_), }
    nfs4::want_delegation::Claim { Previous(_), Current, PreviouslyDelegated, }
    nfs4::callback::layoutrecall::Recalled { File(_), FileSystem(_), All, }
}

structures! {
    nfs4::Ace<'static> { kind flags mask principal }
    nfs4::FlaggedAcl<'static> { flags entries }
    nfs4::ChangePolicy { major minor }
    nfs4::Device { major minor }
    nfs4::ModeMasked { value mask }
    nfs4::ModeUmask { mode umask }
    nfs4::OpenArguments { share_access share_deny share_access_want claims create_modes }
    nfs4::Attributes<'static> {
        supported file_type handle_expiry change size link_support symlink_support
        named_attributes file_system unique_handles lease_seconds read_error acl acl_support
        archive can_set_time case_insensitive case_preserving chown_restricted handle file_id
        files_available files_free files_total locations hidden homogeneous file_bytes_max link_max
        name_bytes_max read_bytes_max write_bytes_max mode refuses_long_names link_count owner
        owner_group quota_available_hard quota_available_soft quota_used device space_available
        space_free space_total space_used system accessed set_accessed backed_up created time_step
        changed modified set_modified mounted_on_file_id directory_notice_delay entry_notice_delay
        dacl change_policy fs_layout_types layout_types layout_block_bytes layout_alignment_bytes
        set_mode_masked supported_exclusive character_sets clone_block_bytes space_freed
        change_kind mode_umask xattr_support offline delegated_accessed delegated_modified
        open_arguments
    }
    nfs4::EncodedAttributes<'static> { mask values }
    nfs4::FsLocation<'static> { servers root }
    nfs4::FsLocations<'static> { root locations }
    nfs4::ChangeInfo { atomic before after }
    nfs4::NetworkAddress<'static> { network address }
    nfs4::Stateid { sequence other }
    nfs4::FileSystemId { major minor }
    nfs4::ClientOwner<'static> { verifier id }
    nfs4::ServerOwner<'static> { minor major }
    nfs4::StateOwner<'static> { client owner }
    nfs4::Denied<'static> { offset length kind owner }
    nfs4::ReadDelegation<'static> { stateid recalled permissions }
    nfs4::WriteDelegation<'static> { stateid recalled limit permissions }
    nfs4::WrittenBlocks { count bytes }
    nfs4::ChannelAttributes {
        header_padding_bytes request_bytes_max reply_bytes_max cached_reply_bytes_max
        operations_max slots rdma_reads
    }
    nfs4::GssHandles<'static> { service of_server of_client }
    nfs4::GssInfo<'static> { mechanism quality service }
    nfs4::Layout<'static> { offset length mode kind body }
    nfs4::LayoutUpdate<'static> { kind body }
    nfs4::DeviceAddress<'static> { kind body }
    nfs4::DeviceError { device status operation }
    nfs4::IoStatistics { count bytes }
    nfs4::WriteResponse { stateid count stability verifier }
    nfs4::Requirements { consecutive synchronous }

    nfs4::access::Access {
        read lookup modify extend delete execute read_xattrs write_xattrs list_xattrs
    }
    nfs4::access::Args { access }
    nfs4::access::Done { supported access }
    nfs4::allocate::Args { stateid offset length }
    nfs4::backchannel_ctl::Args<'static> { program security }
    nfs4::bind_conn_to_session::Args { session direction rdma }
    nfs4::bind_conn_to_session::Done { session direction rdma }
    nfs4::clone::Args { from to from_offset to_offset count }
    nfs4::close::Args { sequence stateid }
    nfs4::commit::Args { offset count }
    nfs4::copy::Args<'static> { from to from_offset to_offset count requirements sources }
    nfs4::copy::Done { response requirements }
    nfs4::copy_notify::Args<'static> { stateid destination }
    nfs4::copy_notify::Done<'static> { term stateid sources }
    nfs4::create::Args<'static> { kind name attributes }
    nfs4::create::Done { directory set }
    nfs4::create_session::Args<'static> {
        client sequence flags fore back callback_program callback_security
    }
    nfs4::create_session::Done { session sequence flags fore back }
    nfs4::exchange_id::Args<'static> { owner flags protection implementation }
    nfs4::exchange_id::Done<'static> {
        client sequence flags protection owner scope implementation
    }
    nfs4::exchange_id::Implementation<'static> { domain name built }
    nfs4::exchange_id::ProtectedOperations { enforced allowed }
    nfs4::exchange_id::SecretParameters<'static> { operations hashes ciphers window handles }
    nfs4::exchange_id::SecretInfo<'static> { operations hash cipher secret_bytes window handles }
    nfs4::get_dir_delegation::Args {
        signal notifications child_delay directory_delay child_attributes directory_attributes
    }
    nfs4::get_dir_delegation::Granted {
        verifier stateid notifications child_attributes directory_attributes
    }
    nfs4::getdeviceinfo::Args { device kind count notifications }
    nfs4::getdeviceinfo::Done<'static> { address notifications }
    nfs4::getdeviceinfo::TooSmall { count_min }
    nfs4::getdevicelist::Args { kind count cookie verifier }
    nfs4::getdevicelist::Done { cookie verifier devices end }
    nfs4::io_advise::Args { stateid offset length hints }
    nfs4::layoutcommit::Args<'static> {
        offset length reclaim stateid last_offset modified update
    }
    nfs4::layouterror::Args { offset length stateid errors }
    nfs4::layoutget::Args { signal kind mode offset length length_min stateid count }
    nfs4::layoutget::Done<'static> { return_on_close stateid layouts }
    nfs4::layoutget::TryLater { will_signal }
    nfs4::layoutreturn::Args<'static> { reclaim kind mode returned }
    nfs4::layoutreturn::Range<'static> { offset length stateid body }
    nfs4::layoutstats::Args<'static> { offset length stateid reads writes device update }
    nfs4::listxattrs::Args { cookie count }
    nfs4::listxattrs::Done<'static> { cookie names end }
    nfs4::lock::Args<'static> { kind reclaim offset length locker }
    nfs4::lock::KnownOwner { stateid sequence }
    nfs4::lock::NewOwner<'static> { open_sequence open lock_sequence owner }
    nfs4::lockt::Args<'static> { kind offset length owner }
    nfs4::locku::Args { kind sequence stateid offset length }
    nfs4::offload_status::Done { count completion }
    nfs4::open::Args<'static> { sequence access deny owner how claim }
    nfs4::open::DelegatedName<'static> { stateid name }
    nfs4::open::Done<'static> { stateid directory flags set delegation }
    nfs4::open::ExclusiveAttributes<'static> { verifier attributes }
    nfs4::open_downgrade::Args { stateid sequence access deny }
    nfs4::openattr::Args { create }
    nfs4::read::Args { stateid offset count }
    nfs4::read::Done { end data }
    nfs4::read_plus::Data { offset data }
    nfs4::read_plus::Done { end segments }
    nfs4::read_plus::Hole { offset length }
    nfs4::readdir::Args { cookie verifier names_count count requested }
    nfs4::readdir::Done<List<nfs4::readdir::Entry<'static>>> { verifier entries end }
    nfs4::readdir::Entry<'static> { cookie name attributes }
    nfs4::reclaim_complete::Args { one_file_system }
    nfs4::rename::Args<'static> { from to }
    nfs4::rename::Done { from to }
    nfs4::seek::Args { stateid offset content }
    nfs4::seek::Done { end offset }
    nfs4::sequence::Args { session sequence slot highest_slot cache }
    nfs4::sequence::Done { session sequence slot highest_slot target_highest_slot status }
    nfs4::set_ssv::Args<'static> { ssv digest }
    nfs4::setattr::Args<'static> { stateid attributes }
    nfs4::setattr::Reply { status set }
    nfs4::setxattr::Args<'static> { how name value }
    nfs4::want_delegation::Args { want claim }
    nfs4::write::Args { stateid offset stability data }
    nfs4::write::Done { count stability verifier }
    nfs4::write_same::Args<'static> { stateid stability blocks }
    nfs4::write_same::Blocks<'static> {
        offset block_bytes count number_offset first_number pattern_offset pattern
    }

    nfs4::callback::Header<'static> { tag minor_version identifier count }
    nfs4::callback::getattr::Args { file requested }
    nfs4::callback::layoutrecall::Args { kind mode changed recalled }
    nfs4::callback::layoutrecall::Range { file offset length stateid }
    nfs4::callback::notify_deviceid::Notification<'static> { mask values }
    nfs4::callback::notify_lock::Args<'static> { file owner }
    nfs4::callback::offload::Args { file stateid result }
    nfs4::callback::push_deleg::Args<'static> { object delegation }
    nfs4::callback::recall::Args { stateid truncate object }
    nfs4::callback::recall_any::Args { keep kinds }
    nfs4::callback::sequence::Args { session sequence slot highest_slot cache referring }
    nfs4::callback::sequence::ReferringCall { sequence slot }
    nfs4::callback::sequence::ReferringCalls { session calls }
    nfs4::callback::sequence::Done { session sequence slot highest_slot target_highest_slot }
    nfs4::callback::wants_cancelled::Args { contended resourced }
}

impl<T: Sample, const MAX: usize> Sample for Array<T, MAX> {
    fn sample(source: &mut Source<'_>) -> Self {
        Self(List::sample(source).0)
    }
}

impl Sample for nfs4::Handle {
    fn sample(source: &mut Source<'_>) -> Self {
        Self::new(source.slice(HANDLE_V4_BYTES_MAX)).expect("no longer than allowed")
    }
}

impl Sample for nfs4::Bitmap {
    fn sample(source: &mut Source<'_>) -> Self {
        let numbers: Vec<u32> = (0..source.below(5)).map(|_| source.word() % Self::BITS).collect();
        Self::of(&numbers)
    }
}

impl Sample for nfs4::Time {
    fn sample(source: &mut Source<'_>) -> Self {
        Self { seconds: u64::sample(source).cast_signed(), nanoseconds: source.word() }
    }
}

/// Avoids the numbers of the kinds with a name.
impl Sample for nfs4::create::Kind<'static> {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(7) {
            0 => Self::Directory,
            1 => Self::BlockDevice(Sample::sample(source)),
            2 => Self::CharacterDevice(Sample::sample(source)),
            3 => Self::Symlink(Sample::sample(source)),
            4 => Self::Socket,
            5 => Self::Fifo,
            _ => Self::Other(source.word() | 8),
        }
    }
}

/// Avoids the number of the flavour with parameters.
impl Sample for nfs4::Flavor<'static> {
    fn sample(source: &mut Source<'_>) -> Self {
        if bool::sample(source) {
            return Self::Gss(Sample::sample(source));
        }
        Self::Plain(source.word() & !Self::GSS)
    }
}

impl Sample for nfs4::callback::offload::Copied {
    fn sample(source: &mut Source<'_>) -> Self {
        if bool::sample(source) {
            return Self::Done(Sample::sample(source));
        }
        Self::Failed(Sample::sample(source), Sample::sample(source))
    }
}

/// Avoids the status of the detailed failure among the other failures.
impl<Done: Sample, Body: nfs4::Detail + Sample> Sample for nfs4::DetailedReply<Done, Body> {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(3) {
            0 => Self::Done(Done::sample(source)),
            1 => Self::Detailed(Body::sample(source)),
            _ => match nfs4::Status::sample(source) {
                status if status == Body::STATUS => Self::Failed(nfs4::Status::Io),
                status => Self::Failed(status),
            },
        }
    }
}
