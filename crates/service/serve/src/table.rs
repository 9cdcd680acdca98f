//! The procedure table, with one row for every program, version and procedure.

use leasehold_base::units::Xid;
use leasehold_base::xdr::{Message, Writer};
use leasehold_core::drc::Harm;
use leasehold_fs::FsError;
use leasehold_wire::rpc::{ReplyStatus, Versions};

use crate::errors::Errors;
use crate::procedure::{Dialect as _, Handler, Procedure, ask_again, handler, unsettled};
use crate::{lease, mount, nfs2, nfs3, nqnfs};

/// A function that encodes the reply to a change that did not reach stable storage.
type Unsettled = fn(Errors, Xid, FsError, Writer) -> Message;

/// The number of NULL, the procedure of every program that does nothing (RFC 5531 12.1).
pub(crate) const NULL: u32 = 0;

/// A program with its versions, lowest first.
pub struct Program {
    /// The number.
    pub number: u32,
    /// The name in the RFCs.
    pub name: &'static str,
    /// The versions that the server supports.
    pub versions: &'static [Version],
}

/// One version of a program.
pub struct Version {
    /// The number.
    pub number: u32,
    /// The procedures; the index of each procedure is its procedure number.
    pub rows: &'static [Row],
}

/// A row of the procedure table: a procedure with its function and all its other properties.
pub struct Row {
    /// The name in the RFCs.
    pub name: &'static str,
    /// The caching of the reply in the duplicate request cache.
    pub keep: Keep,
    /// The lease that the procedure needs, or that it holds implicitly while it runs.
    pub lease: Lease,
    /// The errors that the procedure may return.
    pub errors: Errors,
    /// The attributes before and after the operation that the reply contains.
    pub around: Around,
    /// The number of the equivalent procedure of version 2.
    pub counterpart: Option<u32>,
    /// The use of the procedure by a client of an iod.
    pub by_client: Use,
    /// True if the version of the procedure has a status for [`FsError::Delay`].
    says_later: bool,
    /// True if the procedure has a reply.
    pub is_answered: bool,
    /// True if the results of the procedure begin with a status.
    pub(crate) has_status: bool,
    pub(crate) handler: Handler,
    /// The functions that run the procedure for a client of the lease program, and for a client of
    /// NQNFS.
    leased: Handler,
    nqnfs: Handler,
    /// Encodes the reply that requests a retry, for [`Later::Said`].
    pub(crate) ask_again: fn(Xid, Writer) -> Message,
    /// Encodes the reply of a change that did not reach stable storage. None for replies with
    /// further results, as in the programs with leases: the store then waits for the sync itself.
    unsettled: Option<Unsettled>,
}

/// The purpose for which a client with a layout calls a procedure at an iod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The client queries its access to an object.
    Asks,
    /// Clients have no use for the procedure, because only metaservers call it. The iod refuses
    /// such a call at the RPC layer.
    Never,
    /// The client reads an object.
    Reads,
    /// Clients have no use for the procedure. The procedure itself refuses the call with one of its
    /// statuses, so that the caller recognises the reason.
    Refused,
    /// The client writes an object, or commits it.
    Writes,
}

/// The rule by which the duplicate request cache stores the reply of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The cache does not store the reply: the procedure is idempotent.
    Never,
    /// The cache stores the reply: the procedure is idempotent, but a late repetition would undo
    /// later changes.
    Late,
    /// The cache stores the reply: the procedure is not idempotent.
    Always,
}

impl Keep {
    /// Returns the harm of a repetition; None if the reply is not cached.
    pub(crate) const fn harm(self) -> Option<Harm> {
        match self {
            Self::Never => None,
            Self::Late => Some(Harm::Late),
            Self::Always => Some(Harm::Always),
        }
    }
}

/// The lease that a procedure needs, and the object of the lease (implicit leases of NQNFS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// None.
    Without,
    /// A read lease on the object, or for LOOKUP on the directory.
    Read,
    /// A write lease on the object, or for changes of names on the directory and on the named
    /// object.
    Write,
}

/// The outcome of a call whose procedure would have to wait for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// The procedure never waits, or fails in another way.
    Never,
    /// The server sends no reply, because the version has no retry status. The caller retransmits.
    Unanswered,
    /// The server replies with a status that requests a retry.
    Said,
}

/// The attributes before and after an operation that its reply contains (RFC 1813 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// None.
    Without,
    /// Attributes after the operation (`post_op_attr`).
    After,
    /// Attributes before and after the operation (`wcc_data`).
    Both,
}

/// Defines the row of a procedure from its dialect, its name, its function, and the types of its
/// arguments, its result and its failure.
macro_rules! row {
    ($dialect:ty, $name:literal, $run:path, $args:ty => $done:ty, $failed:ty) => {{
        struct Row;

        impl $crate::procedure::Procedure for Row {
            type Dialect = $dialect;
            type Args<'a> = $args;
            type Done = $done;
            type Failed = $failed;

            fn run(
                context: &$crate::context::Context,
                args: Self::Args<'_>,
            ) -> impl Future<Output = Result<$done, $crate::procedure::Refusal<$failed>>> + Send
            {
                $run(context, args)
            }
        }

        $crate::table::Row::new::<Row>($name)
    }};
}
pub(crate) use row;

impl Row {
    /// Returns the row of a procedure with the default properties: no cached reply, no lease and no
    /// errors.
    pub(crate) const fn new<P: Procedure>(name: &'static str) -> Self {
        Self {
            name,
            keep: Keep::Never,
            lease: Lease::Without,
            errors: Errors::NONE,
            around: Around::Without,
            counterpart: None,
            by_client: Use::Never,
            says_later: P::Dialect::SAYS_LATER,
            is_answered: P::Dialect::IS_ANSWERED,
            has_status: P::Dialect::HAS_STATUS,
            handler: handler::<P>,
            leased: lease::handler::<P>,
            nqnfs: nqnfs::handler::<P>,
            ask_again: ask_again::<P>,
            unsettled: Some(unsettled::<P>),
        }
    }

    /// Returns a function that encodes the reply of a call whose change did not reach stable
    /// storage. Returns None if the duplicate request cache does not record the reply before the
    /// sync.
    pub(crate) fn when_unsettled(
        &self,
        harm: Harm,
        xid: Xid,
    ) -> Option<impl FnOnce(FsError, Writer) -> Message + Send + use<>> {
        let (write, errors) = (self.unsettled.filter(|_| harm == Harm::Always)?, self.errors);
        Some(move |error, writer| write(errors, xid, error, writer))
    }

    /// Returns the outcome of a call that would have to wait for too long.
    #[must_use]
    pub const fn later(&self) -> Later {
        match (self.errors.contains(FsError::Delay), self.says_later) {
            (false, _) => Later::Never,
            (true, false) => Later::Unanswered,
            (true, true) => Later::Said,
        }
    }

    /// Marks a procedure that reads an object and returns its attributes.
    pub(crate) const fn reads(self) -> Self {
        Self { lease: Lease::Read, around: Around::After, ..self }
    }

    /// Marks a procedure that changes an object or the names in a directory.
    pub(crate) const fn writes(self) -> Self {
        Self { keep: Keep::Always, lease: Lease::Write, around: Around::Both, ..self }
    }

    /// Returns the same procedure for clients with leases.
    pub(crate) const fn with_leases(&self) -> Self {
        self.under_leases(self.leased, lease::ask_again)
    }

    /// Returns the same procedure in NQNFS, with the errors of version 3.
    pub(crate) const fn in_nqnfs(&self) -> Self {
        self.under_leases(self.nqnfs, self.ask_again)
    }

    /// Returns the same procedure in a program with leases.
    const fn under_leases(&self, handler: Handler, ask_again: fn(Xid, Writer) -> Message) -> Self {
        Self {
            name: self.name,
            keep: self.keep,
            lease: self.lease,
            errors: self.errors,
            around: self.around,
            counterpart: None,
            // An iod grants no leases, so its clients never call a program with leases.
            by_client: Use::Never,
            says_later: true,
            is_answered: true,
            has_status: true,
            handler,
            leased: self.leased,
            nqnfs: self.nqnfs,
            ask_again,
            unsettled: None,
        }
    }

    /// Returns a similar procedure with another name and handler.
    pub(crate) const fn named(self, name: &'static str, handler: Handler) -> Self {
        Self { name, handler, ..self }
    }

    pub(crate) const fn fails(self, errors: Errors) -> Self {
        Self { errors, ..self }
    }

    pub(crate) const fn keep(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }

    pub(crate) const fn lease(self, lease: Lease) -> Self {
        Self { lease, ..self }
    }

    pub(crate) const fn around(self, around: Around) -> Self {
        Self { around, ..self }
    }

    pub(crate) const fn counterpart(self, number: u32) -> Self {
        Self { counterpart: Some(number), ..self }
    }

    pub(crate) const fn by_client(self, by_client: Use) -> Self {
        Self { by_client, ..self }
    }
}

/// Every program that the server supports.
pub const PROGRAMS: &[Program] = &[
    Program {
        number: leasehold_wire::nfs3::PROGRAM,
        name: "NFS",
        versions: &[
            Version { number: 2, rows: nfs2::ROWS },
            Version { number: 3, rows: nfs3::ROWS },
        ],
    },
    Program {
        number: leasehold_wire::mount::PROGRAM,
        name: "MOUNT",
        versions: &[
            Version { number: 1, rows: mount::ROWS_1 },
            Version { number: 2, rows: mount::ROWS_2 },
            Version { number: 3, rows: mount::ROWS_3 },
        ],
    },
    Program {
        number: leasehold_wire::lease::PROGRAM,
        name: "LEASE",
        versions: &[Version { number: leasehold_wire::lease::VERSION, rows: lease::ROWS }],
    },
    Program {
        number: leasehold_wire::nqnfs::PROGRAM,
        name: "NQNFS",
        versions: &[Version { number: leasehold_wire::nqnfs::VERSION, rows: nqnfs::ROWS }],
    },
];

/// Returns the versions of a program in the table; none if the table does not have the program.
pub(crate) fn versions(program: u32) -> impl Iterator<Item = u32> + Clone {
    let served = PROGRAMS.iter().find(|served| served.number == program);
    served.map_or(&[][..], |served| served.versions).iter().map(|version| version.number)
}

/// Returns the row of a procedure.
///
/// # Errors
/// The RPC status of the reply if there is no such program, version or procedure.
pub(crate) fn find(
    program: u32,
    version: u32,
    procedure: u32,
) -> Result<&'static Row, ReplyStatus> {
    let program = PROGRAMS.iter().find(|served| served.number == program);
    let versions = program.ok_or(ReplyStatus::ProgramUnavailable)?.versions;
    let version = versions.iter().find(|served| served.number == version).ok_or_else(|| {
        let numbers = versions.iter().map(|served| served.number);
        ReplyStatus::ProgramMismatch(Versions {
            low: numbers.clone().min().unwrap_or(0),
            high: numbers.max().unwrap_or(0),
        })
    })?;
    let row = usize::try_from(procedure).ok().and_then(|number| version.rows.get(number));
    row.ok_or(ReplyStatus::ProcedureUnavailable)
}
