//! A client's session with a server: calls as futures, over whatever carries them.
//!
//! # Guide
//!
//! A [`Session`] is one client at one server. [`Session::call`] is an RPC call as a future: `Send`,
//! of no runtime, sent when it is first polled, by the thread that polls it; the reply wakes it.
//! A thread may poll it once in place and hand the rest to an executor, or block on it. Dropping
//! it forgets the call: that is how a waiting program is interrupted (the server may run the call
//! all the same). Everything about loss is done below it: xids, copies with an estimated time over
//! datagrams, a new connection with all that is unanswered over streams, several connections, a
//! bound of what is on its way. A hard call ends only with its reply, a soft one also when
//! [`Options::soft`] is over; the rules are those of `leasehold_core::calls`.
//!
//! [`nfs::Nfs`] is NFS over a session, in the messages of version 3 whichever version the server
//! speaks. An operation answers in two layers: `Err` when the call came to nothing, and a reply
//! that is `Done` or `Failed` with what attributes the server gave (caches want both).
//! `nfs.getattr(..).await?.done()?` makes both into one [`Error`].
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
//! Where sessions come from: `leasehold_shell::client` has the sockets, `Runtime::session` for an
//! address and `mount` for a server's name and path, which gives an [`nfs::Nfs`], the root's
//! handle and the server's [`nfs::Bounds`]. Another owner of bytes implements [`Transport`]: a
//! simulator, or a server in the same process.
//!
//! What a client builds on besides: [`Session::sleep`] waits on the session's own clock;
//! [`Session::take_calls`] takes the calls that the server makes on the client's connection, and
//! [`Session::reply`] answers them; [`spawn`] runs work that nobody
//! waits for; [`Session::counters`], [`Session::open_calls`] and
//! [`Session::open_connections`] say how it goes, [`Session::traffic`] whether a server that does
//! not answer takes what it is sent; [`Session::close`] ends everything, for an
//! unmount that does not wait. A server that asks for patience (JUKEBOX) is asked again within
//! [`nfs::Nfs`].
//!
//! [`leases::Leases`] is the lease program over a session: [`nfs::Nfs::with_leases`] has all operations go
//! by it, and [`leases::Listener`] hears what the server wants back.
//!
//! What it does not do: it caches nothing, splits nothing into pieces (READ and WRITE carry at most
//! what [`nfs::Bounds`] say, and the server may do less), and writes nothing again when a COMMIT
//! shows another verifier: that is for whoever has the data.
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
