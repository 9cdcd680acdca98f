//! Operations on the data of files.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Stability, Stateid, WriteVerifier};

/// READ, operation 25: returns data of the current file (RFC 8881 18.22).
pub mod read {
    use bytes::Bytes;
    use leasehold_base::limits::TRANSFER_BYTES_MAX;

    use super::{Decode, Encode, Error, Reader, Stateid, Writer, xdr_struct};

    xdr_struct! {
        /// The range of the file.
        #[doc(alias = "READ4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The open, lock or delegation that permits the access.
            pub stateid: Stateid,
            /// The offset in the file, in bytes.
            pub offset: u64,
            /// The maximum number of bytes to read.
            pub count: u32,
        }
    }

    /// The results.
    #[doc(alias = "READ4res")]
    pub type Reply = super::super::Reply<Done>;

    /// The data.
    #[doc(alias = "READ4resok")]
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Done {
        /// True if the data reaches the end of the file.
        pub end: bool,
        /// The bytes.
        pub data: Bytes,
    }

    impl<'a> Decode<'a> for Done {
        fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
            Ok(Self { end: Decode::decode(reader)?, data: reader.shared(TRANSFER_BYTES_MAX)? })
        }
    }

    impl Encode for Done {
        fn encode(&self, writer: &mut Writer) {
            self.end.encode(writer);
            writer.payload(self.data.clone());
        }
    }
}

/// WRITE, operation 38: writes data to the current file (RFC 8881 18.32).
pub mod write {
    use bytes::Bytes;
    use leasehold_base::limits::TRANSFER_BYTES_MAX;

    use super::{
        Decode, Encode, Error, Reader, Stability, Stateid, WriteVerifier, Writer, xdr_struct,
    };

    /// The data, its offset in the file, and the required stability.
    #[doc(alias = "WRITE4args")]
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Args {
        /// The open, lock or delegation that permits the access.
        pub stateid: Stateid,
        /// The offset in the file, in bytes.
        pub offset: u64,
        /// The stability that the data must have before the server replies.
        pub stability: Stability,
        /// The bytes.
        pub data: Bytes,
    }

    impl<'a> Decode<'a> for Args {
        fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
            Ok(Self {
                stateid: Decode::decode(reader)?,
                offset: reader.u64()?,
                stability: Decode::decode(reader)?,
                data: reader.shared(TRANSFER_BYTES_MAX)?,
            })
        }
    }

    impl Encode for Args {
        fn encode(&self, writer: &mut Writer) {
            self.stateid.encode(writer);
            writer.u64(self.offset);
            self.stability.encode(writer);
            writer.payload(self.data.clone());
        }
    }

    /// The results.
    #[doc(alias = "WRITE4res")]
    pub type Reply = super::super::Reply<Done>;

    xdr_struct! {
        /// The result of the write.
        #[doc(alias = "WRITE4resok")]
        #[derive(Copy)]
        pub struct Done {
            /// The number of bytes written.
            pub count: u32,
            /// The stability of the data, which is at least the requested stability.
            pub stability: Stability,
            /// The write verifier.
            pub verifier: WriteVerifier,
        }
    }
}

/// COMMIT, operation 5: makes data of the current file stable (RFC 8881 18.3).
pub mod commit {
    use super::{WriteVerifier, xdr_struct};

    xdr_struct! {
        /// The range of the file.
        #[doc(alias = "COMMIT4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The offset in the file, in bytes.
            pub offset: u64,
            /// The number of bytes; zero stands for all bytes to the end of the file.
            pub count: u32,
        }
    }

    /// The write verifier.
    #[doc(alias("COMMIT4res", "COMMIT4resok"))]
    pub type Reply = super::super::Reply<WriteVerifier>;
}
