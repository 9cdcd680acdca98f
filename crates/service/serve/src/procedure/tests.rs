use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use leasehold_base::units::Time;

use super::*;
use crate::iods::Authority;
use crate::table::{Row, Use, row};
use crate::{Arrival, Deaf, HandleKey, Service, Trust};

/// A dialect whose failures have no status for a retry.
struct Silent;

impl Dialect for Silent {
    const SAYS_LATER: bool = false;

    fn done(_: &mut Writer) {}

    fn failed(error: FsError, writer: &mut Writer) {
        writer.u32(error as u32);
    }
}

async fn later(_: &Context, (): ()) -> Result<(), Refusal<()>> {
    Err(FsError::Delay.into())
}

/// Returns the status in the reply of a row whose procedure fails with [`FsError::Delay`].
fn told(row: &Row) -> Option<u32> {
    let service = Arc::new(Service::new(Vec::new(), HandleKey([1; 16]), Box::new(Deaf)));
    let context = Context {
        exports: service.exports(),
        service,
        claimed: None,
        arrival: Arrival {
            from: "192.0.2.1:700".parse().expect("an address"),
            to: "192.0.2.9".parse().expect("an address"),
            connection: None,
            trust: Trust::Claimed,
            now: Time::ZERO,
        },
        leased: None,
        by: (Authority::Rules, Use::Never),
    };
    let run = (row.handler)(row.errors, context, Xid(1), Bytes::new(), Writer::new());
    let Poll::Ready(reply) = pin!(run).poll(&mut std::task::Context::from_waker(Waker::noop()))
    else {
        panic!("it waits for nothing");
    };
    let reply = reply?.into_bytes();
    let (_, status) = reply.split_last_chunk().expect("a status");
    Some(u32::from_be_bytes(*status))
}

/// The table states which procedures send no reply; every other procedure must send a reply.
#[test]
fn only_marked_procedures_send_no_reply() {
    let row = row!(Silent, "ANSWERS", later, () => (), ()).fails(Errors::of(&[FsError::Io]));
    assert_eq!(told(&row), Some(FsError::Io as u32));
    let row = row!(Silent, "MAY NOT", later, () => (), ()).fails(Errors::of(&[FsError::Delay]));
    assert_eq!(told(&row), None);
}
