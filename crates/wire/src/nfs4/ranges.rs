//! Operations on ranges of the current file: space, holes, patterns and hints.

use leasehold_base::xdr_struct;

use super::{Bitmap, Completion, Reply as ReplyOf, Stability, Stateid, WriteResponse};

words! {
    /// The kind of content of a range, which need not be a known kind (RFC 7862 11.1.6.1).
    #[doc(alias = "data_content4")]
    Content;
}

impl Content {
    /// Data.
    #[doc(alias = "NFS4_CONTENT_DATA")]
    pub const DATA: Self = Self(0);

    /// A hole, which reads as zeros.
    #[doc(alias = "NFS4_CONTENT_HOLE")]
    pub const HOLE: Self = Self(1);
}

/// ALLOCATE, operation 59: reserves space for a range (RFC 7862 15.1).
pub mod allocate {
    use super::{Completion, Stateid, xdr_struct};

    xdr_struct! {
        /// The range.
        #[doc(alias = "ALLOCATE4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The open, lock or delegation that permits the access.
            pub stateid: Stateid,
            /// The offset, in bytes.
            pub offset: u64,
            /// The length, in bytes.
            pub length: u64,
        }
    }

    /// The status.
    #[doc(alias = "ALLOCATE4res")]
    pub type Reply = Completion;
}

/// DEALLOCATE, operation 62: makes a hole (RFC 7862 15.4).
pub mod deallocate {
    /// The range.
    #[doc(alias = "DEALLOCATE4args")]
    pub type Args = super::allocate::Args;

    /// The status.
    #[doc(alias = "DEALLOCATE4res")]
    pub type Reply = super::Completion;
}

/// SEEK, operation 69: returns the offset of the next data or hole (RFC 7862 15.11).
pub mod seek {
    use super::{Content, ReplyOf, Stateid, xdr_struct};

    xdr_struct! {
        /// The start, and the sought content.
        #[doc(alias = "SEEK4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The open, lock or delegation that permits the access.
            pub stateid: Stateid,
            /// The offset, in bytes.
            pub offset: u64,
            /// The sought content; an unknown kind is UNION_NOTSUPP.
            pub content: Content,
        }

        /// The content.
        #[doc(alias = "seek_res4")]
        #[derive(Copy)]
        pub struct Done {
            /// True if the file has no such content from the offset on.
            pub end: bool,
            /// The offset of the content, in bytes.
            pub offset: u64,
        }
    }

    /// The results.
    #[doc(alias = "SEEK4res")]
    pub type Reply = ReplyOf<Done>;
}

/// READ_PLUS, operation 68: returns data and holes (RFC 7862 15.10).
pub mod read_plus {
    use bytes::Bytes;
    use leasehold_base::limits::{SEGMENTS_MAX, TRANSFER_BYTES_MAX};
    use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

    use super::{ReplyOf, xdr_struct};
    use crate::list::Array;

    /// The range.
    #[doc(alias = "READ_PLUS4args")]
    pub type Args = super::super::read::Args;

    xdr_struct! {
        /// The content of the range.
        #[doc(alias = "read_plus_res4")]
        pub struct Done {
            /// True if the content reaches the end of the file.
            pub end: bool,
            /// The segments, in the order of their offsets.
            pub segments: Array<Segment, SEGMENTS_MAX>,
        }

        /// A hole.
        #[doc(alias = "data_info4")]
        #[derive(Copy)]
        pub struct Hole {
            /// The offset, in bytes.
            pub offset: u64,
            /// The length, in bytes.
            pub length: u64,
        }
    }

    /// Data.
    #[doc(alias = "data4")]
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Data {
        /// The offset, in bytes.
        pub offset: u64,
        /// The bytes.
        pub data: Bytes,
    }

    impl<'a> Decode<'a> for Data {
        fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
            Ok(Self { offset: reader.u64()?, data: reader.shared(TRANSFER_BYTES_MAX)? })
        }
    }

    impl Encode for Data {
        fn encode(&self, writer: &mut Writer) {
            writer.u64(self.offset);
            writer.payload(self.data.clone());
        }
    }

    unions! {
        /// A part of the range.
        #[doc(alias = "read_plus_content")]
        Segment {
            /// Data.
            #[doc(alias = "NFS4_CONTENT_DATA")]
            Data(Data) = 0,
            /// A hole.
            #[doc(alias = "NFS4_CONTENT_HOLE")]
            Hole(Hole) = 1,
        }
    }

    /// The results.
    #[doc(alias = "READ_PLUS4res")]
    pub type Reply = ReplyOf<Done>;
}

/// IO_ADVISE, operation 63: announces the pattern of access (RFC 7862 15.5).
pub mod io_advise {
    use super::{Bitmap, ReplyOf, Stateid, xdr_struct};

    xdr_struct! {
        /// The pattern.
        #[doc(alias = "IO_ADVISE4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The open of the file.
            pub stateid: Stateid,
            /// The offset, in bytes.
            pub offset: u64,
            /// The length in bytes; zero stands for all bytes to the end of the file.
            pub length: u64,
            /// The hints, with the numbers of `IO_ADVISE_type4`.
            pub hints: Bitmap,
        }
    }

    /// The hints that the server follows.
    #[doc(alias("IO_ADVISE4res", "IO_ADVISE4resok"))]
    pub type Reply = ReplyOf<Bitmap>;
}

/// WRITE_SAME, operation 70: writes a repeated pattern (RFC 7862 15.12).
pub mod write_same {
    use leasehold_base::limits::TRANSFER_BYTES_MAX;

    use super::{ReplyOf, Stability, Stateid, WriteResponse, xdr_struct};

    opaques! {
        /// The bytes of a pattern.
        Pattern <= TRANSFER_BYTES_MAX;
    }

    xdr_struct! {
        /// The blocks.
        #[doc(alias = "WRITE_SAME4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The open of the file.
            pub stateid: Stateid,
            /// The stability that the data must have before the server replies.
            pub stability: Stability,
            /// The blocks.
            pub blocks: Blocks<'a>,
        }

        /// Blocks of an application, each with its number and a pattern (RFC 7862 8.1).
        #[doc(alias = "app_data_block4")]
        #[derive(Copy)]
        pub struct Blocks<'a> {
            /// The offset of the first block, in bytes.
            pub offset: u64,
            /// The size of a block, in bytes.
            pub block_bytes: u64,
            /// The number of blocks.
            pub count: u64,
            /// The offset of the number in a block, in bytes.
            pub number_offset: u64,
            /// The number of the first block.
            pub first_number: u32,
            /// The offset of the pattern in a block, in bytes.
            pub pattern_offset: u64,
            /// The pattern.
            pub pattern: Pattern<'a>,
        }
    }

    /// The results.
    #[doc(alias = "WRITE_SAME4res")]
    pub type Reply = ReplyOf<WriteResponse>;
}
