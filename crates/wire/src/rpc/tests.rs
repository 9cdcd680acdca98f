//! The heads of calls and replies are compared byte for byte with RFC 5531.

use super::*;
use crate::testing::{bytes, encoded};

const CALL_HEAD: &str = "12345678 00000000 00000002 000186a3 00000003 00000001";

fn call<'a>(credential: OpaqueAuth<'a>, verifier: OpaqueAuth<'a>) -> Call<'a> {
    let (program, version, procedure) = (100_003, 3, 1);
    Call { xid: Xid(0x1234_5678), program, version, procedure, credential, verifier }
}

/// Decodes the head of a call, and returns the number of remaining bytes.
fn read(description: &str) -> Result<usize, CallError> {
    let message = bytes(description);
    let mut reader = Reader::new(&message);
    Call::decode(&mut reader).map(|_| reader.rest().len())
}

#[test]
fn a_call_and_its_credential() {
    let credential = OpaqueAuth { flavor: flavor::SYS, body: b"body!" };
    let message = bytes(&format!(
        "{CALL_HEAD} 00000001 00000005 'body!' 000000 00000000 00000000 'arguments'"
    ));
    let call = call(credential, OpaqueAuth::NONE);
    let mut reader = Reader::new(&message);
    assert_eq!(Call::decode(&mut reader), Ok(call.clone()));
    assert_eq!(reader.rest(), b"arguments");
    assert_eq!(encoded(&call), message[..message.len() - b"arguments".len()]);
}

#[test]
fn an_unreadable_call_has_no_reply() {
    assert_eq!(read(""), Err(CallError::NotACall));
    assert_eq!(read("12345678 00000001 00000002"), Err(CallError::NotACall), "a reply");
    assert_eq!(read("12345678 00000000"), Err(CallError::NotACall), "no version");
    assert_eq!(read("12345678 00000000 00000002 000186a3"), Err(CallError::NotACall));
}

#[test]
fn a_call_that_is_denied() {
    let xid = Xid(0x1234_5678);
    for version in ["00000001", "00000003", "ffffffff"] {
        let message = format!("12345678 00000000 {version}");
        assert_eq!(read(&message), Err(CallError::RpcMismatch(xid)), "{version}");
    }
    let bad = |status| Err(CallError::BadAuth(xid, status));
    assert_eq!(read(CALL_HEAD), bad(AuthStatus::BadCredential));
    let body = |bytes: usize| format!("00000001 {bytes:08x} {}", "00".repeat(bytes));
    let none = "00000000 00000000";
    assert_eq!(read(&format!("{CALL_HEAD} {} {none}", body(400))), Ok(0));
    assert_eq!(read(&format!("{CALL_HEAD} {} {none}", body(404))), bad(AuthStatus::BadCredential));
    assert_eq!(read(&format!("{CALL_HEAD} {none} {}", body(400))), Ok(0));
    assert_eq!(read(&format!("{CALL_HEAD} {none} {}", body(404))), bad(AuthStatus::BadVerifier));
    assert_eq!(read(&format!("{CALL_HEAD} {none}")), bad(AuthStatus::BadVerifier));
}

/// Returns an AUTH_SYS body with `count` groups, numbered from 1.
fn auth_sys(count: u32) -> String {
    let groups: String = (1..=count).map(|group| format!("{group:08x}")).collect();
    format!("000000aa 00000004 'host' 000003e8 00000064 {count:08x} {groups}")
}

#[test]
fn auth_sys_takes_as_many_groups_as_the_standard_allows() {
    let body = |groups: &[u32]| AuthSys {
        stamp: 0xaa,
        machine_name: b"host",
        uid: 1000,
        gid: 100,
        groups: Groups::new(groups).expect("no more than 16"),
    };
    let groups: Vec<u32> = (1..=16).collect();
    for count in [0, 1, 15, 16] {
        let message = auth_sys(count);
        vector!(body(&groups[..count as usize]), "{message}");
    }
    for count in [17, 18, 32] {
        let message = bytes(&auth_sys(count));
        assert_eq!(AuthSys::decode(&mut Reader::new(&message)), Err(Error::TooLong), "{count}");
    }
    let promised = bytes("000000aa 00000004 'host' 000003e8 00000064 ffffffff");
    assert_eq!(AuthSys::decode(&mut Reader::new(&promised)), Err(Error::TooLong));
}

#[test]
fn auth_sys_takes_names_as_long_as_the_standard_allows() {
    let message = |length: usize| {
        let name = "61".repeat(length.next_multiple_of(4));
        bytes(&format!("00000000 {length:08x} {name} 00000000 00000000 00000000"))
    };
    let read = |length| {
        AuthSys::decode(&mut Reader::new(&message(length))).map(|body| body.machine_name.len())
    };
    assert_eq!(read(0), Ok(0));
    assert_eq!(read(255), Ok(255));
    assert_eq!(read(256), Err(Error::TooLong));
}

#[test]
fn replies() {
    let reply = |status| Reply { xid: Xid(0x1234_5678), status };
    let accepted = "12345678 00000001 00000000 00000000 00000000";
    let denied = "12345678 00000001 00000001";
    vector!(reply(ReplyStatus::Success), "{accepted} 00000000");
    vector!(reply(ReplyStatus::ProgramUnavailable), "{accepted} 00000001");
    vector!(
        reply(ReplyStatus::ProgramMismatch(Versions { low: 2, high: 3 })),
        "{accepted} 00000002 00000002 00000003"
    );
    vector!(reply(ReplyStatus::ProcedureUnavailable), "{accepted} 00000003");
    vector!(reply(ReplyStatus::GarbageArguments), "{accepted} 00000004");
    vector!(reply(ReplyStatus::SystemError), "{accepted} 00000005");
    vector!(reply(ReplyStatus::RpcMismatch), "{denied} 00000000 00000002 00000002");
    let numbers = [1, 2, 3, 4, 5, 6, 7, 13, 14];
    assert_eq!(AuthStatus::ALL.len(), numbers.len());
    for (status, number) in AuthStatus::ALL.iter().zip(numbers) {
        let word = format!("{number:08x}");
        vector!(reply(ReplyStatus::AuthError(*status)), "{denied} 00000001 {word}");
    }
}

#[test]
fn malformed_replies_are_rejected() {
    for message in [
        "12345678",
        "12345678 00000000 00000002",
        "12345678 00000001 00000002",
        "12345678 00000001 00000000 00000000 00000000 00000006",
        "12345678 00000001 00000001 00000002",
        "12345678 00000001 00000001 00000001 00000000",
    ] {
        let bytes = bytes(message);
        assert!(Reply::decode(&mut Reader::new(&bytes)).is_err(), "{message}");
    }
}

#[test]
fn a_reply_may_carry_a_verifier() {
    let message =
        bytes("12345678 00000001 00000000 00000006 00000003 'abc' 00 00000000 'results.'");
    let mut reader = Reader::new(&message);
    let reply = Reply::decode(&mut reader).expect("a reply");
    assert_eq!(reply.status, ReplyStatus::Success);
    assert_eq!(reader.rest(), b"results.");
}
