use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Encode as _, Writer};
use leasehold_wire::rpc::{self, AuthStatus, OpaqueAuth, ReplyStatus};
use leasehold_wire::{mount, nfs2, nfs3};

use super::*;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Returns a call with a credential of 21 bytes, and with a handle of an export if `export` is set.
fn call((program, version, procedure): (u32, u32, u32), export: Option<u8>) -> Bytes {
    let mut writer = Writer::new();
    let credential = OpaqueAuth { flavor: 1, body: &[7; 21] };
    let verifier = OpaqueAuth::NONE;
    let xid = Xid(1);
    rpc::Call { xid, program, version, procedure, credential, verifier }.encode(&mut writer);
    if let Some(export) = export {
        let mut handle = [0xee; HANDLE_V2_BYTES];
        (handle[2], handle[3]) = (0, export);
        match version {
            2 => writer.fixed(&handle),
            _ => writer.opaque(&handle),
        }
    }
    writer.finish().into_bytes()
}

fn reply(status: ReplyStatus, words: &[u32]) -> Message {
    let mut writer = Writer::new();
    rpc::Reply { xid: Xid(1), status }.encode(&mut writer);
    words.iter().for_each(|word| writer.u32(*word));
    writer.finish()
}

fn count(account: &mut Account, call: &Bytes, reply: Option<&Message>) {
    count_of(account, CLIENT, call, reply);
}

fn count_of(account: &mut Account, client: IpAddr, call: &Bytes, reply: Option<&Message>) {
    let client = account.client(client, Time::ZERO);
    let begun = account.begin(call, client);
    let span = Duration::from_millis(1);
    let timing = Timing { waited: span, busy: span, latency: 3 * span };
    account.end(begun, reply, begun.timed.then_some(&timing));
}

/// Returns the numbers of calls of a procedure with an outcome, and of all its calls.
fn ends(account: &Account, procedure: (&str, u32, &str), outcome: &str) -> (u64, u64) {
    let row = account
        .procedures()
        .find(|(program, version, name, _)| (*program, *version, *name) == procedure);
    let (.., counted) = row.expect("there is one");
    let place = OUTCOMES.iter().position(|(name, _)| *name == outcome).expect("there is one");
    (counted.failed[place], counted.tally.calls)
}

const GETATTR_3: (u32, u32, u32) = (nfs3::PROGRAM, nfs3::VERSION, nfs3::getattr::NUMBER);

#[test]
fn every_outcome_has_its_name() {
    let mut account = Account::new();
    let ends_of_getattr = [
        (reply(ReplyStatus::Success, &[0]), "ok"),
        (reply(ReplyStatus::Success, &[70]), "stale"),
        (reply(ReplyStatus::Success, &[10008]), "jukebox"),
        (reply(ReplyStatus::Success, &[4711]), "other"),
        (reply(ReplyStatus::GarbageArguments, &[]), "garbage-arguments"),
        (reply(ReplyStatus::AuthError(AuthStatus::TooWeak), &[]), "rpc-refused"),
        (reply(ReplyStatus::Success, &[13]).into_bytes().into(), "acces"),
    ];
    for (reply, _) in &ends_of_getattr {
        count(&mut account, &call(GETATTR_3, Some(1)), Some(reply));
    }
    count(&mut account, &call(GETATTR_3, Some(1)), None);
    let getattr = ("NFS", 3, "GETATTR");
    for (_, outcome) in &ends_of_getattr[1..] {
        assert_eq!(ends(&account, getattr, outcome), (1, 8), "{outcome}");
    }
    assert_eq!(ends(&account, getattr, "unanswered"), (1, 8));
    assert_eq!((account.total().calls, account.total().failed), (8, 7));
}

#[test]
fn results_without_status_are_successes() {
    let mut account = Account::new();
    let dump = (mount::PROGRAM, 3, 2);
    // The result of DUMP has no status: its first word means only that the list is not empty. The
    // account must not read this word as a failure.
    count(&mut account, &call(dump, None), Some(&reply(ReplyStatus::Success, &[1])));
    assert_eq!(account.total().failed, 0);
    assert_eq!(ends(&account, ("MOUNT", 3, "DUMP"), "ok").1, 1);
}

#[test]
fn unserved_procedures_count_as_unknown() {
    let mut account = Account::new();
    let refused = reply(ReplyStatus::ProcedureUnavailable, &[]);
    let calls = [call((nfs3::PROGRAM, 3, 22), None), call((1, 1, 1), None), Bytes::from("short")];
    for call in &calls {
        count(&mut account, call, Some(&refused));
    }
    assert_eq!(ends(&account, ("", 0, "unknown"), "procedure-unavailable"), (3, 3));
}

#[test]
fn forged_handles_add_no_export() {
    let mut account = Account::new();
    let done = reply(ReplyStatus::Success, &[0]);
    let getattr_2 = (nfs2::PROGRAM, nfs2::VERSION, nfs2::getattr::NUMBER);
    count(&mut account, &call(GETATTR_3, Some(3)), Some(&done));
    count(&mut account, &call(getattr_2, Some(3)), Some(&done));
    count(&mut account, &call(GETATTR_3, Some(4)), Some(&reply(ReplyStatus::Success, &[10001])));
    count(&mut account, &call(getattr_2, Some(5)), Some(&reply(ReplyStatus::Success, &[70])));
    count(&mut account, &call(GETATTR_3, Some(3)), Some(&reply(ReplyStatus::Success, &[70])));
    let exports: Vec<_> = account.told().exports().map(|(id, tally)| (id, tally.calls)).collect();
    assert_eq!(exports, [(3, 3)]);
}

#[test]
fn one_call_in_sixteen_is_timed() {
    let mut account = Account::new();
    let done = reply(ReplyStatus::Success, &[0]);
    for _ in 0..100_000 {
        count(&mut account, &call(GETATTR_3, Some(1)), Some(&done));
    }
    let total = account.total();
    let share = 100_000 / total.timed;
    assert!((15..=17).contains(&share), "{share}");
    assert_eq!(total.latency.count(), total.timed);
    let median = total.latency.quantile(0.5).map(|time| time.as_micros());
    assert!((2_600..3_200).contains(&median.expect("some were timed")), "{median:?}");
    assert_eq!(total.busy.as_millis(), u128::from(total.timed));
}

#[test]
fn accounts_of_several_loops_are_summed() {
    let (mut one, mut other) = (Account::new(), Account::new());
    let done = reply(ReplyStatus::Success, &[0]);
    count(&mut one, &call(GETATTR_3, Some(1)), Some(&done));
    count(&mut other, &call(GETATTR_3, Some(2)), None);
    let mut one = one.told();
    one.fold(&other.told());
    assert_eq!(ends(&one, ("NFS", 3, "GETATTR"), "unanswered"), (1, 2));
    assert_eq!(one.clients().iter().map(|client| client.tally.calls).sum::<u64>(), 2);
    assert_eq!(
        one.exports().map(|(id, _)| id).collect::<Vec<_>>(),
        [1],
        "the unanswered call opened no handle"
    );
}

#[test]
fn calls_that_alternate_count_with_their_client_and_export() {
    let mut account = Account::new();
    let (done, stale) = (reply(ReplyStatus::Success, &[0]), reply(ReplyStatus::Success, &[70]));
    let null = (nfs3::PROGRAM, nfs3::VERSION, 0);
    let address = |last| IpAddr::from([10, 0, 0, last]);
    let mut size = 0;
    for round in 0..30_u8 {
        let call = call(GETATTR_3, Some(1 + round % 3));
        size += call.len() as u64;
        let reply = if round % 5 == 4 { &stale } else { &done };
        count_of(&mut account, address(round % 2), &call, Some(reply));
        if round == 10 {
            // A copy of the account for a reader must not change the counts, although it ends the
            // streaks in the copy.
            drop(account.told());
        }
    }
    count_of(&mut account, address(1), &call(null, None), Some(&done));
    let told = account.told();
    let exports = told.exports().map(|(id, tally)| (id, tally.calls, tally.failed));
    assert_eq!(exports.collect::<Vec<_>>(), [(1, 10, 2), (2, 10, 2), (3, 10, 2)]);
    assert_eq!(told.exports().map(|(_, tally)| tally.bytes_in).sum::<u64>(), size);
    let clients = told.clients().iter();
    let clients = clients.map(|one| (one.address, one.tally.calls, one.tally.failed));
    assert_eq!(clients.collect::<Vec<_>>(), [(address(0), 15, 3), (address(1), 16, 3)]);
    let timed = told.clients().iter().map(|client| client.tally.timed).sum::<u64>();
    assert_eq!((timed, told.clients().others()), (told.total().timed, &Tally::default()));
}

#[test]
fn evicted_client_counts_with_others() {
    let mut account = Account::new();
    let done = reply(ReplyStatus::Success, &[0]);
    count(&mut account, &call(GETATTR_3, None), Some(&done));
    for number in 0..1000_u32 {
        account.client(Ipv4Addr::from_bits(0x0a00_0000 + number).into(), Time::ZERO);
    }
    assert_eq!(account.told().clients().others().calls, 1);
}
