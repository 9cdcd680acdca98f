//! The checks that every call passes before it reaches a procedure (RFC 5531).

use crate::support::Server;
use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode as _, Encode as _, Reader, Writer};
use leasehold_serve::Trust;
use leasehold_serve::table::{Keep, Later, PROGRAMS};
use leasehold_wire::rpc::{AuthStatus, Call, OpaqueAuth, Reply, ReplyStatus, Versions, flavor};
use leasehold_wire::{mount, nfs3};

const NULL: (u32, u32, u32) = (nfs3::PROGRAM, nfs3::VERSION, 0);
const DUMP: (u32, u32, u32) = (mount::PROGRAM, mount::VERSION_3, mount::dump::NUMBER);

#[test]
fn null_of_every_program_and_version_answers() {
    let mut server = Server::new();
    for program in PROGRAMS {
        for version in program.versions {
            let () = server.call((program.number, version.number, 0), &()).read();
        }
    }
}

#[test]
fn unserved_calls_get_distinct_statuses() {
    let mut server = Server::new();
    assert_eq!(server.status((99, 1, 0), &()), ReplyStatus::ProgramUnavailable);
    let versions = Versions { low: 2, high: 3 };
    for version in [0, 1, 4, u32::MAX] {
        let procedure = (nfs3::PROGRAM, version, 0);
        assert_eq!(server.status(procedure, &()), ReplyStatus::ProgramMismatch(versions.clone()));
    }
    for number in [22, 23, u32::MAX] {
        let procedure = (nfs3::PROGRAM, nfs3::VERSION, number);
        assert_eq!(server.status(procedure, &()), ReplyStatus::ProcedureUnavailable);
    }
}

#[test]
fn arguments_that_cannot_be_read_are_garbage() {
    let mut server = Server::new();
    let getattr = (nfs3::PROGRAM, nfs3::VERSION, nfs3::getattr::NUMBER);
    assert_eq!(server.status(getattr, &()), ReplyStatus::GarbageArguments);
    assert_eq!(server.status(getattr, &65_u32), ReplyStatus::GarbageArguments);
    assert_eq!(server.status(NULL, &0_u32), ReplyStatus::GarbageArguments);
}

#[test]
fn message_that_is_not_a_call_gets_no_reply() {
    let mut server = Server::new();
    let call = server.message(NULL, &());
    for length in 0..24 {
        assert_eq!(server.answer(&call.slice(..length)), None, "{length} bytes");
    }
    let mut reply = call.to_vec();
    reply[7] = 1;
    assert_eq!(server.answer(&Bytes::from(reply)), None);
}

#[test]
fn other_versions_of_rpc_are_denied() {
    let mut server = Server::new();
    let mut call = server.message(NULL, &()).to_vec();
    call[11] = 3;
    let reply = server.answer(&Bytes::from(call)).expect("it is answered");
    // The reply denies the call (1) because of its RPC version (0), and contains the lowest and the
    // highest supported version, which are both 2.
    assert_eq!(reply[8..], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2]);
}

fn call_with((program, version, procedure): (u32, u32, u32), credential: OpaqueAuth<'_>) -> Bytes {
    let mut writer = Writer::new();
    Call { xid: Xid(9), program, version, procedure, credential, verifier: OpaqueAuth::NONE }
        .encode(&mut writer);
    writer.finish().into_bytes()
}

fn auth_status(
    server: &Server,
    procedure: (u32, u32, u32),
    credential: OpaqueAuth<'_>,
) -> Option<AuthStatus> {
    let reply = server.answer(&call_with(procedure, credential)).expect("it is answered");
    let reply = Reply::decode(&mut Reader::new(&reply)).expect("a reply");
    if let ReplyStatus::AuthError(status) = reply.status {
        return Some(status);
    }
    assert_eq!(reply.status, ReplyStatus::Success);
    None
}

/// The server answers NULL at every trust, so that clients without any rights can detect that the
/// server runs.
#[test]
fn null_replies_at_every_trust() {
    let mut server = Server::new();
    let every = [Trust::Claimed, Trust::Pinned { uid: 1, gid: 1 }, Trust::Nobody, Trust::Refused];
    for trust in every {
        server.arrival.trust = trust;
        for program in PROGRAMS {
            for version in program.versions {
                let null = (program.number, version.number, 0);
                let () = server.call(null, &()).read();
                assert_eq!(auth_status(&server, null, OpaqueAuth::NONE), None);
                check_unreadable(&server, null);
            }
        }
    }
    assert_eq!(auth_status(&server, DUMP, OpaqueAuth::NONE), Some(AuthStatus::TooWeak));
}

/// Malformed credentials are refused.
fn check_unreadable(server: &Server, procedure: (u32, u32, u32)) {
    let short = OpaqueAuth { flavor: flavor::SHORT, body: &[] };
    assert_eq!(auth_status(server, procedure, short), Some(AuthStatus::RejectedCredential));
    for unknown in [3, 6, 7, u32::MAX] {
        let unknown = OpaqueAuth { flavor: unknown, body: &[] };
        assert_eq!(auth_status(server, procedure, unknown), Some(AuthStatus::BadCredential));
    }
    for body in [&[][..], &[0; 19], &[0; 24], &[255; 64]] {
        let broken = OpaqueAuth { flavor: flavor::SYS, body };
        assert_eq!(auth_status(server, procedure, broken), Some(AuthStatus::BadCredential));
    }
}

#[test]
fn credentials_are_checked() {
    let mut server = Server::new();
    for procedure in [NULL, DUMP] {
        assert_eq!(auth_status(&server, procedure, OpaqueAuth::NONE), None);
        check_unreadable(&server, procedure);
    }
    server.arrival.trust = Trust::Refused;
    check_unreadable(&server, DUMP);
    assert_eq!(auth_status(&server, DUMP, OpaqueAuth::NONE), Some(AuthStatus::TooWeak));
}

#[test]
fn table_caches_replies_of_non_idempotent_procedures() {
    let nfs = PROGRAMS.iter().find(|program| program.number == nfs3::PROGRAM).expect("NFS");
    for version in nfs.versions {
        for row in version.rows {
            let once = ["SETATTR", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR"];
            let once = once.contains(&row.name) || ["RENAME", "LINK"].contains(&row.name);
            assert_eq!(row.keep == Keep::Always, once, "{} {}", version.number, row.name);
            let late = row.name == "WRITE";
            assert_eq!(row.keep == Keep::Late, late, "{} {}", version.number, row.name);
        }
    }
}

#[test]
fn table_has_every_procedure_with_messages() {
    for program in PROGRAMS {
        let of_program =
            |procedure: &&leasehold_wire::every::Procedure| procedure.program == program.number;
        let messages: Vec<_> = leasehold_wire::every::PROCEDURES
            .iter()
            .filter(of_program)
            .map(|procedure| (procedure.version, procedure.number, procedure.name))
            .collect();
        let rows: Vec<_> = program
            .versions
            .iter()
            .flat_map(|version| {
                (0..).zip(version.rows).map(|(number, row)| (version.number, number, row.name))
            })
            .collect();
        assert_eq!(rows, messages, "{}", program.name);
    }
}

#[test]
fn counterparts_mean_the_same() {
    let nfs = PROGRAMS.iter().find(|program| program.number == nfs3::PROGRAM).expect("NFS");
    let [two, three] = nfs.versions else { panic!("there are two versions") };
    for row in three.rows {
        let Some(number) = row.counterpart else { continue };
        let other = &two.rows[number as usize];
        let renamed = (other.name, row.name) == ("STATFS", "FSSTAT");
        assert!(other.name == row.name || renamed, "{} {}", other.name, row.name);
        assert_eq!(other.keep, row.keep, "{}", row.name);
        let says_or_not = match row.later() {
            Later::Said => Later::Unanswered,
            Later::Never | Later::Unanswered => Later::Never,
        };
        assert_eq!(other.later(), says_or_not, "{}", row.name);
    }
}
