//! Portmap and rpcbind: the addresses of programs.

use leasehold_base::xdr::{Decode, Encode};
use leasehold_wire::portmap::rpcbind::{
    self, Binding, Text, getaddr, getaddrlist, gettime, getversaddr, uaddr2taddr,
};
use leasehold_wire::portmap::{
    self, Forwarded, ForwardedCall, Mapping, PROGRAM, callit, dump, getport, protocol, set, unset,
};
use leasehold_wire::rpc::{ReplyStatus, null};
use leasehold_wire::{mount, nfs3};

use super::prelude::*;
use crate::client::{Client, Route};
use crate::mount::{port_of, portmap_procedure};
use crate::talk::Carrier;
use crate::v3::readable;

pub(crate) const GROUP: Group = Group {
    name: "portmap",
    about: "portmap and rpcbind: the addresses of programs",
    needs: Needs::Nothing,
    company: Company::Alone,
    cases: cases! {
        null_is_answered_in_every_version: "RFC 1833 3.2",
        null_is_answered_over_udp: "RFC 1833 3.2",
        an_unknown_version_is_a_mismatch: "RFC 5531 9, PROG_MISMATCH",
        an_unknown_procedure_is_unavailable: "RFC 5531 9, PROC_UNAVAIL",
        nfs_is_found: "RFC 1833 3.2, PMAPPROC_GETPORT",
        mount_is_found: "RFC 1833 3.2, PMAPPROC_GETPORT",
        portmap_finds_itself: "RFC 1833 3.2, PMAPPROC_GETPORT",
        an_unknown_program_has_no_port: "RFC 1833 3.2, PMAPPROC_GETPORT",
        another_version_gets_the_port_of_one_that_is_there: "RFC 1833 3.2, PMAPPROC_GETPORT",
        dump_lists_nfs: "RFC 1833 3.2, PMAPPROC_DUMP",
        dump_and_getport_agree: "RFC 1833 3.2, PMAPPROC_DUMP",
        a_program_can_be_set_and_unset: "RFC 1833 3.2, PMAPPROC_SET",
        setting_twice_is_refused: "RFC 1833 3.2, PMAPPROC_SET",
        null_is_called_on_behalf: "RFC 1833 3.2, PMAPPROC_CALLIT",
        half_a_mapping_is_garbage: "RFC 5531 9, GARBAGE_ARGS",
        rpcbind_finds_nfs: "RFC 1833 2.2.1, RPCBPROC_GETADDR",
        rpcbind_has_no_address_of_an_unknown_program: "RFC 1833 2.2.1, RPCBPROC_GETADDR",
        rpcbind_lists_nfs: "RFC 1833 2.2.1, RPCBPROC_DUMP",
        rpcbind_tells_the_time: "RFC 1833 2.2.1, RPCBPROC_GETTIME",
        rpcbind_reads_addresses: "RFC 1833 2.2.1, RPCBPROC_UADDR2TADDR",
        version_4_finds_just_the_version: "RFC 1833 2.2.2, RPCBPROC_GETVERSADDR",
        version_4_lists_all_addresses: "RFC 1833 2.2.2, RPCBPROC_GETADDRLIST",
    },
};

/// An unused program number from the range for local use.
const NOBODYS_PROGRAM: u32 = 0x3fff_fffd;

fn procedure(version: u32, number: u32) -> crate::talk::Procedure {
    portmap_procedure(version, number)
}

/// Returns results that outlive the message.
fn ask<T: for<'a> Decode<'a>>(
    client: &mut Client,
    version: u32,
    number: u32,
    args: &impl Encode,
) -> Result<T, Stop> {
    let results = client.call(procedure(version, number), args)?;
    readable(&crate::talk::procedure_name(procedure(version, number)), &results)
}

/// Returns a client of rpcbind, if portmap is one.
fn rpcbind(b: &Bench<'_>, version: u32) -> Result<Client, Stop> {
    let mut client = b.portmap()?;
    if client.received(procedure(version, null::NUMBER), &())? != ReplyStatus::Success {
        return Err(Stop::skip(format!("version {version} of rpcbind is not served")));
    }
    Ok(client)
}

fn binding<'a>(program: u32, version: u32, network: &'a [u8]) -> Binding<'a> {
    let (network, nothing) = (Text(network), Text(b""));
    Binding { program, version, network, address: nothing, owner: nothing }
}

fn null_is_answered_in_every_version(b: &mut Bench<'_>) -> Verdict {
    let mut client = b.portmap()?;
    let status = client.received(procedure(portmap::VERSION, null::NUMBER), &())?;
    equal("NULL of version 2", status, ReplyStatus::Success)?;
    for version in [rpcbind::VERSION_3, rpcbind::VERSION_4] {
        let status = client.received(procedure(version, null::NUMBER), &())?;
        let right = matches!(status, ReplyStatus::Success | ReplyStatus::ProgramMismatch(_));
        ensure!(right, "NULL of version {version} is answered {status:?}");
    }
    Ok(())
}

fn null_is_answered_over_udp(b: &mut Bench<'_>) -> Verdict {
    let tcp = b.portmap()?;
    let route = Route { carrier: Carrier::Udp, ..tcp.route.clone() };
    let mut udp = Client::new(route, tcp.credential, &b.talk);
    let status = udp.received(procedure(portmap::VERSION, null::NUMBER), &())?;
    equal("NULL", status, ReplyStatus::Success)
}

fn an_unknown_version_is_a_mismatch(b: &mut Bench<'_>) -> Verdict {
    let status = b.portmap()?.received(procedure(9, null::NUMBER), &())?;
    let right = matches!(&status, ReplyStatus::ProgramMismatch(versions) if versions.high < 9);
    ensure!(right, "version 9 of portmap is answered {status:?}");
    Ok(())
}

fn an_unknown_procedure_is_unavailable(b: &mut Bench<'_>) -> Verdict {
    let status = b.portmap()?.received(procedure(portmap::VERSION, 77), &())?;
    equal("procedure 77 of version 2", status, ReplyStatus::ProcedureUnavailable)
}

fn nfs_is_found(b: &mut Bench<'_>) -> Verdict {
    let mut client = b.portmap()?;
    for (root, version) in
        [(b.server.root3.is_some(), nfs3::VERSION), (b.server.root2.is_some(), 2)]
    {
        if root {
            let port = port_of(&mut client, nfs3::PROGRAM, version, protocol::TCP)?;
            equal("port of NFS", port, b.server.nfs.port().into())?;
        }
    }
    Ok(())
}

fn mount_is_found(b: &mut Bench<'_>) -> Verdict {
    let mut client = b.portmap()?;
    let port = port_of(&mut client, mount::PROGRAM, mount::VERSION_3, protocol::TCP)?;
    equal("port of MOUNT", port, b.server.mount.port().into())
}

fn portmap_finds_itself(b: &mut Bench<'_>) -> Verdict {
    let mut client = b.portmap()?;
    let expected = client.route.address.port();
    for carrier in [protocol::TCP, protocol::UDP] {
        let port = port_of(&mut client, PROGRAM, portmap::VERSION, carrier)?;
        equal("port of portmap", port, expected.into())?;
    }
    Ok(())
}

fn an_unknown_program_has_no_port(b: &mut Bench<'_>) -> Verdict {
    let mut client = b.portmap()?;
    equal("port", port_of(&mut client, NOBODYS_PROGRAM, 1, protocol::TCP)?, 0)?;
    equal("port", port_of(&mut client, nfs3::PROGRAM, nfs3::VERSION, 99)?, 0)
}

fn another_version_gets_the_port_of_one_that_is_there(b: &mut Bench<'_>) -> Verdict {
    let mut client = b.portmap()?;
    // The program lists its versions in the reply to a call.
    let port = port_of(&mut client, nfs3::PROGRAM, 99, protocol::TCP)?;
    b.advise(port != 0, "GETPORT of another version of a served program returns no port");
    Ok(())
}

fn dumped(client: &mut Client) -> Result<Vec<Mapping>, Stop> {
    Ok(ask::<dump::Reply>(client, portmap::VERSION, dump::NUMBER, &())?.0)
}

fn dump_lists_nfs(b: &mut Bench<'_>) -> Verdict {
    let list = dumped(&mut b.portmap()?)?;
    let port = u32::from(b.server.nfs.port());
    let listed = list.iter().any(|mapping| {
        (mapping.program, mapping.protocol, mapping.port) == (nfs3::PROGRAM, protocol::TCP, port)
    });
    ensure!(listed, "DUMP does not list NFS on port {port}");
    Ok(())
}

fn dump_and_getport_agree(b: &mut Bench<'_>) -> Verdict {
    let mut client = b.portmap()?;
    for mapping in dumped(&mut client)? {
        let Mapping { program, version, protocol, port } = mapping;
        if protocol != protocol::TCP {
            continue;
        }
        let found = port_of(&mut client, program, version, protocol)?;
        b.advise(found == port, format!("program {program} is listed on {port}, found on {found}"));
    }
    Ok(())
}

/// Registers a program of the run; skips the case if the portmapper refuses programs of other
/// machines.
fn registered(b: &Bench<'_>) -> Result<(Client, Mapping), Stop> {
    let mut client = b.portmap()?;
    if !client.route.address.ip().is_loopback() {
        return Err(Stop::skip("only programs of the server's own machine can be registered"));
    }
    let mapping =
        Mapping { program: NOBODYS_PROGRAM, version: 7, protocol: protocol::TCP, port: 9 };
    match ask::<set::Reply>(&mut client, portmap::VERSION, set::NUMBER, &mapping)? {
        true => Ok((client, mapping)),
        false => Err(Stop::skip("portmap registers no programs")),
    }
}

fn a_program_can_be_set_and_unset(b: &mut Bench<'_>) -> Verdict {
    let (mut client, mapping) = registered(b)?;
    let found = port_of(&mut client, NOBODYS_PROGRAM, 7, protocol::TCP)?;
    let gone = ask::<unset::Reply>(&mut client, portmap::VERSION, unset::NUMBER, &mapping)?;
    equal("port while it is set", found, 9)?;
    ensure!(gone, "the registered program cannot be unset");
    equal("port afterwards", port_of(&mut client, NOBODYS_PROGRAM, 7, protocol::TCP)?, 0)
}

fn setting_twice_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (mut client, mapping) = registered(b)?;
    let other = Mapping { port: 10, ..mapping };
    let again = ask::<set::Reply>(&mut client, portmap::VERSION, set::NUMBER, &other)?;
    let found = port_of(&mut client, NOBODYS_PROGRAM, 7, protocol::TCP)?;
    ask::<unset::Reply>(&mut client, portmap::VERSION, unset::NUMBER, &mapping)?;
    // "The procedure refuses to establish a mapping if one already exists."
    ensure!(!again && found == 9, "an existing mapping was replaced");
    Ok(())
}

fn null_is_called_on_behalf(b: &mut Bench<'_>) -> Verdict {
    let tcp = b.portmap()?;
    let route = Route {
        carrier: Carrier::Udp,
        patience: std::time::Duration::from_secs(1),
        ..tcp.route.clone()
    };
    let mut udp = Client::new(route, tcp.credential, &b.talk);
    let call = ForwardedCall {
        program: PROGRAM,
        version: portmap::VERSION,
        procedure: null::NUMBER,
        args: Forwarded(b""),
    };
    let at = procedure(portmap::VERSION, callit::NUMBER);
    let xid = crate::client::fresh_xid();
    let message = udp.message(xid, at, &call);
    // Most servers refuse: CALLIT lets strangers hide behind the server, and can flood third
    // parties.
    let answered = udp.exchange(xid, &message)?;
    let port = b.portmap()?.route.address.port();
    if let crate::net::Got::Message(_) = answered {
        let (status, results) = crate::client::head(at, answered)?;
        if status == ReplyStatus::Success {
            let reply = readable::<callit::Reply<'_>>("PORTMAP2 CALLIT", &results)?;
            equal("port of the called program", reply.port, port.into())?;
        }
    }
    Ok(())
}

fn half_a_mapping_is_garbage(b: &mut Bench<'_>) -> Verdict {
    let mut client = b.portmap()?;
    let at = procedure(portmap::VERSION, getport::NUMBER);
    let status = client.received(at, &crate::client::Words(&[1, 2]))?;
    equal("GETPORT", status, ReplyStatus::GarbageArguments)
}

/// The port in a universal address, such as `127.0.0.1.8.1`.
fn port_in(address: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(address).ok()?;
    let mut parts = text.rsplit('.');
    let low: u8 = parts.next()?.parse().ok()?;
    let high: u8 = parts.next()?.parse().ok()?;
    Some(u16::from_be_bytes([high, low]))
}

/// Returns the name of the network that the run uses.
fn network(b: &Bench<'_>) -> &'static [u8] {
    if b.server.nfs.is_ipv4() { b"tcp" } else { b"tcp6" }
}

/// Returns the address of NFS by a procedure.
fn address_of(b: &Bench<'_>, version: u32, number: u32, wanted: u32) -> Result<Vec<u8>, Stop> {
    let mut client = rpcbind(b, version)?;
    let args = binding(nfs3::PROGRAM, wanted, network(b));
    let results = client.call(procedure(version, number), &args)?;
    Ok(readable::<Text<'_>>("GETADDR", &results)?.0.to_vec())
}

fn rpcbind_finds_nfs(b: &mut Bench<'_>) -> Verdict {
    for version in [rpcbind::VERSION_3, rpcbind::VERSION_4] {
        let address = address_of(b, version, getaddr::NUMBER, nfs3::VERSION)?;
        let text = address.escape_ascii().to_string();
        equal(&text, port_in(&address), Some(b.server.nfs.port()))?;
    }
    Ok(())
}

fn rpcbind_has_no_address_of_an_unknown_program(b: &mut Bench<'_>) -> Verdict {
    let mut client = rpcbind(b, rpcbind::VERSION_4)?;
    let args = binding(NOBODYS_PROGRAM, 1, network(b));
    let results = client.call(procedure(rpcbind::VERSION_4, getaddr::NUMBER), &args)?;
    let address = readable::<Text<'_>>("GETADDR", &results)?;
    equal("address", address.0, b"")
}

fn rpcbind_lists_nfs(b: &mut Bench<'_>) -> Verdict {
    let mut client = rpcbind(b, rpcbind::VERSION_4)?;
    let at = procedure(rpcbind::VERSION_4, rpcbind::dump::NUMBER);
    let results = client.call(at, &())?;
    let list = readable::<rpcbind::dump::Reply<'_>>("DUMP", &results)?;
    let port = b.server.nfs.port();
    let listed = list
        .0
        .iter()
        .any(|one| one.program == nfs3::PROGRAM && port_in(one.address.0) == Some(port));
    ensure!(listed, "DUMP does not list NFS on port {port}");
    Ok(())
}

fn rpcbind_tells_the_time(b: &mut Bench<'_>) -> Verdict {
    let mut client = rpcbind(b, rpcbind::VERSION_4)?;
    let time = ask::<u32>(&mut client, rpcbind::VERSION_4, gettime::NUMBER, &())?;
    ensure!(time > 1_500_000_000, "the time is {time} seconds after 1970");
    Ok(())
}

fn rpcbind_reads_addresses(b: &mut Bench<'_>) -> Verdict {
    let mut client = rpcbind(b, rpcbind::VERSION_4)?;
    let at = procedure(rpcbind::VERSION_4, uaddr2taddr::NUMBER);
    let results = client.call(at, &Text(b"127.0.0.1.8.1"))?;
    let address = readable::<uaddr2taddr::Reply<'_>>("UADDR2TADDR", &results)?.address;
    // Port 2049 and the address occur somewhere in it, in network byte order.
    let has = |bytes: &[u8]| address.0.windows(bytes.len()).any(|window| window == bytes);
    ensure!(has(&[8, 1]) && has(&[127, 0, 0, 1]), "127.0.0.1.8.1 becomes {:02x?}", address.0);
    Ok(())
}

fn version_4_finds_just_the_version(b: &mut Bench<'_>) -> Verdict {
    let version = rpcbind::VERSION_4;
    let address = address_of(b, version, getversaddr::NUMBER, nfs3::VERSION)?;
    equal("port of version 3", port_in(&address), Some(b.server.nfs.port()))?;
    let none = address_of(b, version, getversaddr::NUMBER, 99)?;
    equal("address of version 99", none, Vec::new())
}

fn version_4_lists_all_addresses(b: &mut Bench<'_>) -> Verdict {
    let mut client = rpcbind(b, rpcbind::VERSION_4)?;
    let at = procedure(rpcbind::VERSION_4, getaddrlist::NUMBER);
    let results = client.call(at, &binding(nfs3::PROGRAM, nfs3::VERSION, network(b)))?;
    let list = readable::<getaddrlist::Reply<'_>>("GETADDRLIST", &results)?;
    let port = b.server.nfs.port();
    let listed = list.0.iter().any(|one| port_in(one.address.0) == Some(port));
    ensure!(listed, "GETADDRLIST does not list NFS on port {port}");
    Ok(())
}
