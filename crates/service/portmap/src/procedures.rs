//! The procedures.

use std::collections::BTreeSet;

use leasehold_wire::list::List;
use leasehold_wire::portmap::rpcbind::{self, Address, NetworkAddress, Text, getaddrlist};
use leasehold_wire::portmap::{Forwarded, ForwardedCall, Mapping, PROGRAM, VERSION, callit};
use leasehold_wire::rpc::{Call, ReplyStatus, Versions, null};

use crate::Wanted;
use crate::address::{native, parse, parse_native, universal};
use crate::binding::Binding;
use crate::request::{Done, Refusal, Request};

/// Decodes the arguments of a procedure, runs it, and encodes its results.
pub(crate) type Procedure = fn(&mut Request<'_>) -> Done;

/// The procedures of each version, from version 2 on, in the order of their numbers.
const VERSIONS: [&[Procedure]; 3] = [
    &[null, old_set, old_set, getport, old_dump, old_callit],
    &[null, set, set, getaddr, dump, callit, gettime, uaddr2taddr, taddr2uaddr],
    &[
        null,
        set,
        set,
        getaddr,
        dump,
        callit,
        gettime,
        uaddr2taddr,
        taddr2uaddr,
        getversaddr,
        indirect,
        getaddrlist,
        getstat,
    ],
];

/// Returns the procedure of a call.
pub(crate) fn find(call: &Call<'_>) -> Result<Procedure, ReplyStatus> {
    if call.program != PROGRAM {
        return Err(ReplyStatus::ProgramUnavailable);
    }
    let place = |number: u32| usize::try_from(number).ok();
    let procedures = call
        .version
        .checked_sub(VERSION)
        .and_then(place)
        .and_then(|version| VERSIONS.get(version))
        .ok_or(ReplyStatus::ProgramMismatch(Versions { low: VERSION, high: rpcbind::VERSION_4 }))?;
    let procedure = place(call.procedure).and_then(|number| procedures.get(number));
    procedure.copied().ok_or(ReplyStatus::ProcedureUnavailable)
}

fn null(request: &mut Request<'_>) -> Done {
    request.args()
}

/// SET and UNSET of version 2 always fail, because the list is fixed.
fn old_set(request: &mut Request<'_>) -> Done {
    let _: Mapping = request.args()?;
    request.write(&false);
    Ok(())
}

/// SET and UNSET of versions 3 and 4.
fn set(request: &mut Request<'_>) -> Done {
    let _: rpcbind::Binding<'_> = request.args()?;
    request.write(&false);
    Ok(())
}

fn getport(request: &mut Request<'_>) -> Done {
    let wanted: Mapping = request.args()?;
    let versions = Wanted::Any { rather: wanted.version };
    let network = request.asked.network().with_number(wanted.protocol);
    let found = network.and_then(|network| {
        request.portmapper.find(request.asked, network, wanted.program, versions)
    });
    let port = found.map_or(0, |binding| u32::from(binding.address.port()));
    request.portmapper.statistics.search(request, wanted.program, wanted.version, port != 0);
    request.write(&port);
    Ok(())
}

fn old_dump(request: &mut Request<'_>) -> Done {
    let () = request.args()?;
    request.may_list()?;
    // Entries of version 2 contain only ports, so several addresses with one port are one entry.
    let mappings: BTreeSet<_> = request
        .portmapper
        .of_family(request.asked)
        .map(|one| (one.program, one.version, one.network().number(), one.address.port()))
        .collect();
    let mapping = |(program, version, protocol, port)| Mapping {
        program,
        version,
        protocol,
        port: u32::from(port),
    };
    request.write(&List(mappings.into_iter().map(mapping).collect()));
    Ok(())
}

fn getaddr(request: &mut Request<'_>) -> Done {
    let wanted: rpcbind::Binding<'_> = request.args()?;
    tell(request, &wanted, Wanted::Any { rather: wanted.version });
    Ok(())
}

fn getversaddr(request: &mut Request<'_>) -> Done {
    let wanted: rpcbind::Binding<'_> = request.args()?;
    tell(request, &wanted, Wanted::Just(wanted.version));
    Ok(())
}

/// Returns the address of a program on the network of the call, regardless of the network in the
/// arguments (RFC 1833 2.2.1).
fn tell(request: &mut Request<'_>, wanted: &rpcbind::Binding<'_>, versions: Wanted) {
    let network = request.asked.network();
    let found = request.portmapper.find(request.asked, network, wanted.program, versions);
    let address = found.map(|binding| universal(binding.address_by(request.asked.to)));
    let statistics = &request.portmapper.statistics;
    statistics.search(request, wanted.program, wanted.version, address.is_some());
    request.write(&Text(address.unwrap_or_default().as_bytes()));
}

/// The owner of all entries in the list.
const OWNER: &[u8] = b"leasehold";

fn dump(request: &mut Request<'_>) -> Done {
    let () = request.args()?;
    request.may_list()?;
    for binding in request.portmapper.reached_by(request.asked.to) {
        request.write(&true);
        request.write(&rpcbind::Binding {
            program: binding.program,
            version: binding.version,
            network: Text(binding.network().name().as_bytes()),
            address: Text(universal(binding.address).as_bytes()),
            owner: Text(OWNER),
        });
    }
    request.write(&false);
    Ok(())
}

fn old_callit(request: &mut Request<'_>) -> Done {
    let call: ForwardedCall<'_> = request.args()?;
    let binding = call_null(request, &call, false).map_err(|_| Refusal::Silence)?;
    let port = u32::from(binding.address.port());
    request.write(&callit::Reply { port, results: Forwarded(&[]) });
    Ok(())
}

fn callit(request: &mut Request<'_>) -> Done {
    let call: ForwardedCall<'_> = request.args()?;
    let binding = call_null(request, &call, false).map_err(|_| Refusal::Silence)?;
    write_called(request, binding);
    Ok(())
}

/// Like CALLIT, but reports failures.
fn indirect(request: &mut Request<'_>) -> Done {
    let call: ForwardedCall<'_> = request.args()?;
    let binding = call_null(request, &call, true).map_err(Refusal::Status)?;
    write_called(request, binding);
    Ok(())
}

fn write_called(request: &mut Request<'_>, binding: &Binding) {
    let address = universal(binding.address_by(request.asked.to));
    let address = Text(address.as_bytes());
    request.write(&rpcbind::ForwardedReply { address, results: Forwarded(&[]) });
}

/// Forwards a call if it is NULL of one of this server's programs. NULL does nothing and shows that
/// the program runs, which is the usual purpose of such calls. Any other call would run with the
/// authority of this machine.
fn call_null<'a>(
    request: &Request<'a>,
    call: &ForwardedCall<'_>,
    indirect: bool,
) -> Result<&'a Binding, ReplyStatus> {
    let network = request.asked.network();
    let called = request
        .portmapper
        .find(request.asked, network, call.program, Wanted::Just(call.version))
        .ok_or(ReplyStatus::ProgramUnavailable)
        .and_then(|binding| match (call.procedure, call.args.0) {
            (null::NUMBER, []) => Ok(binding),
            (null::NUMBER, _) => Err(ReplyStatus::GarbageArguments),
            _ => Err(ReplyStatus::ProcedureUnavailable),
        });
    request.portmapper.statistics.forward(request, call, indirect, called.is_ok());
    called
}

fn gettime(request: &mut Request<'_>) -> Done {
    let () = request.args()?;
    request.write(&(request.portmapper.time)());
    Ok(())
}

fn uaddr2taddr(request: &mut Request<'_>) -> Done {
    let text: Text<'_> = request.args()?;
    let native = parse(text.0).map(native).unwrap_or_default();
    let bytes_max = u32::try_from(native.len()).expect("an address has a few bytes");
    request.write(&NetworkAddress { bytes_max, address: Address(&native) });
    Ok(())
}

fn taddr2uaddr(request: &mut Request<'_>) -> Done {
    let native: NetworkAddress<'_> = request.args()?;
    let text = parse_native(native.address.0).map(universal).unwrap_or_default();
    request.write(&Text(text.as_bytes()));
    Ok(())
}

fn getaddrlist(request: &mut Request<'_>) -> Done {
    let wanted: rpcbind::Binding<'_> = request.args()?;
    request.may_list()?;
    for binding in request.portmapper.of_family(request.asked) {
        if (binding.program, binding.version) != (wanted.program, wanted.version) {
            continue;
        }
        let network = binding.network();
        request.write(&true);
        request.write(&getaddrlist::Entry {
            address: Text(universal(binding.address_by(request.asked.to)).as_bytes()),
            network: Text(network.name().as_bytes()),
            semantics: network.semantics(),
            family: Text(network.family().as_bytes()),
            protocol: Text(network.protocol().as_bytes()),
        });
    }
    request.write(&false);
    Ok(())
}

fn getstat(request: &mut Request<'_>) -> Done {
    let () = request.args()?;
    request.may_list()?;
    request.portmapper.statistics.encode(&mut request.writer);
    Ok(())
}
