//! GETSTAT, procedure 12: returns the number of calls of each procedure.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::Text;
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 12;

/// Nothing.
pub type Args = ();

xdr_struct! {
    /// The statistics of each version.
    #[doc(alias = "rpcb_stat_byvers")]
    pub struct Reply<'a> {
        /// Version 2.
        pub version_2: Statistics<'a>,
        /// Version 3.
        pub version_3: Statistics<'a>,
        /// Version 4.
        pub version_4: Statistics<'a>,
    }

    /// The statistics of one version.
    #[doc(alias = "rpcb_stat")]
    pub struct Statistics<'a> {
        /// Calls of each procedure.
        pub calls: Counts,
        /// Successful calls of SET.
        pub set: u32,
        /// Successful calls of UNSET.
        pub unset: u32,
        /// Lookups by program.
        pub addressed: List<Addressed<'a>>,
        /// Forwarded calls by procedure.
        pub called: List<Called<'a>>,
    }

    /// The lookups of a program.
    #[doc(alias = "rpcbs_addrlist")]
    #[derive(Copy)]
    pub struct Addressed<'a> {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// Successful lookups.
        pub success: u32,
        /// Failed lookups.
        pub failure: u32,
        /// The network.
        pub network: Text<'a>,
    }

    /// The forwarded calls of a procedure.
    #[doc(alias = "rpcbs_rmtcalllist")]
    #[derive(Copy)]
    pub struct Called<'a> {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// Its procedure.
        pub procedure: u32,
        /// Successful calls.
        pub success: u32,
        /// Failed calls.
        pub failure: u32,
        /// Calls by INDIRECT.
        pub indirect: u32,
        /// The network.
        pub network: Text<'a>,
    }
}

/// The number of procedures of version 4 (RFC 1833 2.1, RPCBSTAT_HIGHPROC).
const PROCEDURES: usize = 13;

/// The number of calls of each procedure, by its number.
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
