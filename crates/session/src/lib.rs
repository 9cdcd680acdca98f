//! A client's session with a server: calls as futures, over any transport.
//!
//! # Guide
//!
//! A [`Session`] connects one client with one server. [`Session::call`] returns an RPC call as a
//! future: it is `Send`, needs no particular runtime, and the thread that first polls it sends the
//! call, and the reply wakes the task that polls it. A thread may poll the future once in place and
//! then pass it to an executor, or block on it. Dropping the future forgets the call, which is how
//! a waiting program is interrupted (the server may run the call anyway). The session handles all
//! losses: xids, retransmissions with an estimated timeout over datagrams, a new connection with
//! all unanswered calls over streams, several connections, and a limit of outstanding calls. A hard
//! call ends only with its reply, a soft call also after [`Options::soft`]; `leasehold_core::calls`
//! has the rules.
//!
//! [`nfs::Nfs`] is NFS over a session, with the messages of version 3 for both versions of the
//! server. An operation has two layers of results: `Err` if the call failed, and otherwise a reply
//! that is `Done` or `Failed` with the attributes from the server (caches need both).
//! `nfs.getattr(..).await?.done()?` combines both into one [`Error`].
//!
//! ```
//! use leasehold_session::nfs::{Nfs, Place};
//! use leasehold_session::{Credential, Error};
//! use leasehold_wire::nfs3::Handle;
//!
//! /// The names of a directory and the sizes of its files.
//! async fn list(nfs: &Nfs, directory: &Handle) -> Result<(), Error> {
//!     let who = Credential::system("here", 1000, 1000, &[]);
//!     let bytes = nfs.bounds(&who, directory).await?.directory_bytes;
//!     let mut place = Some(Place::default());
//!     while let Some(from) = place {
//!         let listed = nfs.list(&who, directory, from, bytes, true).await?.done()?;
//!         for entry in &listed.entries {
//!             let found = nfs.lookup(&who, directory, &entry.name).await?.done()?;
//!             let attributes = nfs.getattr(&who, &found.object).await?.done()?.attributes;
//!             println!("{} {}", entry.name.escape_ascii(), attributes.size);
//!         }
//!         place = listed.next();
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Creating sessions: `leasehold_shell::client` has the sockets, `Runtime::session` for an address,
//! and `mount` for a server's name and path, which returns an [`nfs::Nfs`], the root's handle and
//! the server's [`nfs::Bounds`]. Other transports implement [`Transport`]: a simulator, or a server
//! in the same process.
//!
//! Further services for clients: [`Session::sleep`] waits on the session's own clock;
//! [`Session::take_calls`] receives the calls of the server on the client's connection, and
//! [`Session::reply`] answers them; [`spawn`] runs background work; [`Session::counters`],
//! [`Session::open_calls`] and [`Session::open_connections`] report the state, and
//! [`Session::traffic`] reports if a silent server still receives data; [`Session::close`] ends
//! everything, for an unmount that does not wait. [`nfs::Nfs`] retries a call when the server
//! returns JUKEBOX.
//!
//! [`leases::Leases`] is the lease program over a session: with [`nfs::Nfs::with_leases`] all
//! operations use it, and [`leases::Listener`] receives the recalls of the server.
//!
//! Limits: a session has no cache and does not split requests (READ and WRITE carry at most the
//! sizes in [`nfs::Bounds`], and the server may do less). It does not repeat WRITEs when a COMMIT
//! returns another verifier, because only the caller has the data.
mod call;
mod credential;
mod error;
pub mod leases;
pub mod mount;
pub mod nfs;
mod options;
pub mod portmap;
mod session;
mod sleep;
mod state;
mod task;
mod transport;

pub use call::{Call, Results};
pub use credential::Credential;
pub use error::Error;
pub use leasehold_core::calls::{Carrier, Weight};
pub use options::Options;
pub use session::{Callee, Driver, Inbound, Procedure, Session};
pub use sleep::Sleep;
pub use state::Counters;
pub use task::spawn;
pub use transport::{Connection, Traffic, Transport};

#[cfg(test)]
mod tests;
