//! GETSTAT, procedure 12: how often each procedure was called.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::Text;
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 12;

/// Nothing.
pub type Args = ();

xdr_struct! {
    /// What was counted, for each version.
    #[doc(alias = "rpcb_stat_byvers")]
    pub struct Reply<'a> {
        /// Version 2.
        pub version_2: Statistics<'a>,
        /// Version 3.
        pub version_3: Statistics<'a>,
        /// Version 4.
        pub version_4: Statistics<'a>,
    }

    /// What was counted.
    #[doc(alias = "rpcb_stat")]
    pub struct Statistics<'a> {
        /// Calls of each procedure.
        pub calls: Counts,
        /// Times that SET succeeded.
        pub set: u32,
        /// Times that UNSET succeeded.
        pub unset: u32,
        /// Programs that were asked for.
        pub addressed: List<Addressed<'a>>,
        /// Procedures that were called on others' behalf.
        pub called: List<Called<'a>>,
    }

    /// How often a program was asked for.
    #[doc(alias = "rpcbs_addrlist")]
    #[derive(Copy)]
    pub struct Addressed<'a> {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// Times that it was found.
        pub success: u32,
        /// Times that it was not.
        pub failure: u32,
        /// The network.
        pub network: Text<'a>,
    }

    /// How often a procedure was called on others' behalf.
    #[doc(alias = "rpcbs_rmtcalllist")]
    #[derive(Copy)]
    pub struct Called<'a> {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// Its procedure.
        pub procedure: u32,
        /// Times that it succeeded.
        pub success: u32,
        /// Times that it failed.
        pub failure: u32,
        /// Times that the call was INDIRECT.
        pub indirect: u32,
        /// The network.
        pub network: Text<'a>,
    }
}

/// The number of procedures of version 4 (RFC 1833 2.1, RPCBSTAT_HIGHPROC).
const PROCEDURES: usize = 13;

/// How often each procedure was called, by its number.
#[doc(alias = "rpcbs_proc")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [u32; PROCEDURES]);

impl<'a> Decode<'a> for Counts {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let mut counts = Self::default();
        for count in &mut counts.0 {
            *count = reader.u32()?;
        }
        Ok(counts)
    }
}

impl Encode for Counts {
    fn encode(&self, writer: &mut Writer) {
        for count in self.0 {
            writer.u32(count);
        }
    }
}
