//! Operations that return security flavours.

use leasehold_base::limits::{ALTERNATIVES_MAX, AUTH_BYTES_MAX};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use super::{Name, Reply as ReplyOf};
use crate::list::Array;

opaques! {
    /// An object identifier of a mechanism or algorithm, in DER.
    #[doc(alias = "sec_oid4")]
    Oid <= AUTH_BYTES_MAX;
}

xdr_enum! {
    /// The protection of messages by RPCSEC_GSS (RFC 2203 5.3.1).
    #[doc(alias = "rpc_gss_svc_t")]
    pub enum GssService {
        /// The server authenticates the header.
        None = 1,
        /// The server detects changes of the message.
        Integrity = 2,
        /// The message is encrypted.
        Privacy = 3,
    }
}

xdr_struct! {
    /// A mechanism with its parameters.
    #[doc(alias = "rpcsec_gss_info")]
    #[derive(Copy)]
    pub struct GssInfo<'a> {
        /// The mechanism.
        pub mechanism: Oid<'a>,
        /// The quality of protection.
        pub quality: u32,
        /// The protection.
        pub service: GssService,
    }
}

/// A security flavour (RFC 8881 18.29.2).
#[doc(alias = "secinfo4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor<'a> {
    /// RPCSEC_GSS.
    Gss(GssInfo<'a>),
    /// A flavour without parameters, such as AUTH_SYS; the number is not [`Flavor::GSS`].
    Plain(u32),
}

impl Flavor<'_> {
    /// The number of RPCSEC_GSS (RFC 2203 5).
    pub const GSS: u32 = 6;
}

impl<'a> Decode<'a> for Flavor<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match reader.u32()? {
            Self::GSS => Self::Gss(Decode::decode(reader)?),
            plain => Self::Plain(plain),
        })
    }
}

impl Encode for Flavor<'_> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Gss(info) => {
                writer.u32(Self::GSS);
                info.encode(writer);
            }
            Self::Plain(plain) => writer.u32(*plain),
        }
    }
}

/// The flavours, in order of preference.
#[doc(alias = "SECINFO4resok")]
pub type Flavors<'a> = Array<Flavor<'a>, ALTERNATIVES_MAX>;

/// SECINFO, operation 33: returns the flavours for a name in the current directory (RFC 8881
/// 18.29).
pub mod secinfo {
    use super::{Flavors, Name, ReplyOf};

    /// The name.
    #[doc(alias = "SECINFO4args")]
    pub type Args<'a> = Name<'a>;

    /// The flavours.
    #[doc(alias = "SECINFO4res")]
    pub type Reply<'a> = ReplyOf<Flavors<'a>>;
}

/// SECINFO_NO_NAME, operation 52: returns the flavours for the current object or its parent (RFC
/// 8881 18.45).
pub mod secinfo_no_name {
    use super::{Flavors, ReplyOf, xdr_enum};

    xdr_enum! {
        /// The object.
        #[doc(alias("SECINFO_NO_NAME4args", "secinfo_style4"))]
        pub enum Args {
            /// The current object.
            #[doc(alias = "SECINFO_STYLE4_CURRENT_FH")]
            Current = 0,
            /// The parent of the current directory.
            #[doc(alias = "SECINFO_STYLE4_PARENT")]
            Parent = 1,
        }
    }

    /// The flavours.
    #[doc(alias = "SECINFO_NO_NAME4res")]
    pub type Reply<'a> = ReplyOf<Flavors<'a>>;
}
