//! GETSTAT, procedure 12: returns the number of calls of each procedure.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::Text;
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 12;

/// The procedure has no arguments.
pub type Args = ();

xdr_struct! {
    /// The statistics of each version.
    #[doc(alias = "rpcb_stat_byvers")]
    pub struct Reply<'a> {
        /// The statistics of version 2.
        pub version_2: Statistics<'a>,
        /// The statistics of version 3.
        pub version_3: Statistics<'a>,
        /// The statistics of version 4.
        pub version_4: Statistics<'a>,
    }

    /// The statistics of one version.
    #[doc(alias = "rpcb_stat")]
    pub struct Statistics<'a> {
        /// The number of calls of each procedure.
        pub calls: Counts,
        /// The number of successful calls of SET.
        pub set: u32,
        /// The number of successful calls of UNSET.
        pub unset: u32,
        /// The lookups, by program.
        pub addressed: List<Addressed<'a>>,
        /// The forwarded calls, by procedure.
        pub called: List<Called<'a>>,
    }

    /// The lookups of a program.
    #[doc(alias = "rpcbs_addrlist")]
    #[derive(Copy)]
    pub struct Addressed<'a> {
        /// The program.
        pub program: u32,
        /// The version of the program.
        pub version: u32,
        /// The number of successful lookups.
        pub success: u32,
        /// The number of failed lookups.
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
        /// The version of the program.
        pub version: u32,
        /// The number of the procedure.
        pub procedure: u32,
        /// The number of successful calls.
        pub success: u32,
        /// The number of failed calls.
        pub failure: u32,
        /// The number of calls that INDIRECT forwarded.
        pub indirect: u32,
        /// The network.
        pub network: Text<'a>,
    }
}

/// The number of procedures of version 4 (RFC 1833 2.1, RPCBSTAT_HIGHPROC).
const PROCEDURES: usize = 13;

/// The number of calls of each procedure, indexed by the procedure number.
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
