//! Operations on extended attributes (RFC 8276): GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{Allowance, SetXattr, XattrPage, ops};
use leasehold_wire::nfs4::{
    ChangeInfo, Name, Status, listxattrs as wire_list, setxattr as wire_set,
};

use super::compound::Compound;
use super::convert;

/// The encoded size of the result of LISTXATTRS without names, in bytes: the cookie, the number of
/// names, and the flag of the end.
const LIST_BYTES: u32 = 8 + 4 + 4;

/// The value of an attribute.
pub(super) struct Value(Bytes);

impl Encode for Value {
    fn encode(&self, writer: &mut Writer) {
        writer.opaque(&self.0);
    }
}

pub(super) async fn get(compound: &mut Compound, name: Name<'_>) -> Result<Value, Status> {
    let target = compound.target(Status::WrongType).await?;
    let value = ops::xattr(&target.request, &target.object, name.0).await;
    let value = value.map_err(|failed| convert::status(failed.error))?;
    if value.len() > compound.reply_bytes_left() {
        return Err(Status::ReplyTooBig);
    }
    Ok(Value(value))
}

pub(super) async fn set(
    compound: &mut Compound,
    args: wire_set::Args<'_>,
) -> Result<ChangeInfo, Status> {
    let target = compound.target(Status::WrongType).await?;
    let how = match args.how {
        wire_set::How::Either => SetXattr::Either,
        wire_set::How::Create => SetXattr::Create,
        wire_set::How::Replace => SetXattr::Replace,
    };
    let (object, value) = (&target.object, Bytes::copy_from_slice(args.value.0));
    let changed = ops::set_xattr(&target.request, object, args.name.0, value, how).await;
    compound.settled(changed).map(|((), info)| info)
}

pub(super) async fn remove(compound: &mut Compound, name: Name<'_>) -> Result<ChangeInfo, Status> {
    let target = compound.target(Status::WrongType).await?;
    let changed = ops::remove_xattr(&target.request, &target.object, name.0).await;
    compound.settled(changed).map(|((), info)| info)
}

/// The result of LISTXATTRS.
pub(super) struct Listed(XattrPage);

impl Encode for Listed {
    fn encode(&self, writer: &mut Writer) {
        self.0.next.encode(writer);
        writer.u32(u32::try_from(self.0.names.len()).expect("the reply is bounded"));
        self.0.names.iter().for_each(|name| writer.opaque(name));
        self.0.end.encode(writer);
    }
}

pub(super) async fn list(compound: &mut Compound, args: wire_list::Args) -> Result<Listed, Status> {
    let target = compound.target(Status::WrongType).await?;
    let left = u32::try_from(compound.reply_bytes_left()).unwrap_or(u32::MAX);
    let bytes = args.count.min(left).checked_sub(LIST_BYTES).ok_or(Status::TooSmall)?;
    let allowance = Allowance { bytes, entry_bytes: 4 };
    let page =
        ops::list_xattrs(&target.request, &target.object, Cookie(args.cookie.0), allowance).await;
    page.map(Listed).map_err(|failed| convert::status(failed.error))
}
