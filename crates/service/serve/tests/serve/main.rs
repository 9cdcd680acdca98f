//! The server as its callers see it: bytes in, bytes out.

mod rpc;
mod support;
mod version3;
