//! Operations on clients, sessions and connections.

use bytes::Bytes;
use leasehold_base::xdr::{Encode, Writer};
use leasehold_core::sessions::{
    Bound, CallbackProgram, Channel, ClientId, CreateSession, Created, Direction, ExchangeFlags,
    ExchangeId, Exchanged, Owner, SequenceId, Sequenced, SessionId, Verifier,
};
use leasehold_wire::nfs4::{
    self as wire, ChannelAttributes, Identifier, Status, backchannel_ctl as wire_control,
    bind_conn_to_session as bind, create_session as create, exchange_id as exchange,
    reclaim_complete as reclaim, sequence,
};

use super::compound::Compound;

/// The results of EXCHANGE_ID.
pub(super) struct Server {
    exchanged: Exchanged,
    minor: u64,
    major: Bytes,
    scope: Bytes,
}

impl Encode for Server {
    fn encode(&self, writer: &mut Writer) {
        exchange::Done {
            client: wire::ClientId(self.exchanged.client.0),
            sequence: wire::SequenceId(self.exchanged.sequence.0),
            flags: exchange::Flags(self.exchanged.flags.0),
            protection: exchange::GrantedProtection::None,
            owner: wire::ServerOwner { minor: self.minor, major: Identifier(&self.major) },
            scope: Identifier(&self.scope),
            implementation: None,
        }
        .encode(writer);
    }
}

pub(super) async fn exchange_id(
    compound: &mut Compound,
    args: exchange::Args<'_>,
) -> Result<Server, Status> {
    // A host without any export has no use for a client record.
    if !compound.context.exports.have(compound.context.arrival.from.ip()) {
        return Err(Status::Access);
    }
    // State protection needs RPCSEC_GSS, which the server does not support.
    match args.protection {
        exchange::Protection::None => {}
        exchange::Protection::MachineCredential(_) | exchange::Protection::Secret(_) => {
            return Err(Status::Invalid);
        }
    }
    // RFC 7862 14.1 defines the flag for minor version 2.
    if compound.minor < 2 && args.flags.has(exchange::Flags::FENCE_OPERATIONS) {
        return Err(Status::Invalid);
    }
    let call = ExchangeId {
        owner: Owner::new(args.owner.id.0).ok_or(Status::BadXdr)?,
        verifier: Verifier(args.owner.verifier.0),
        principal: compound.principal(),
        flags: ExchangeFlags(args.flags.0),
        address: compound.context.arrival.from.ip(),
        minor: compound.minor,
    };
    let clients = &compound.nfs4;
    let exchanged = clients
        .run(compound.now(), |sessions, now, effects| sessions.exchange_id(now, &call, effects))?;
    let server = clients.server();
    Ok(Server {
        exchanged,
        minor: server.minor,
        major: server.major.clone(),
        scope: server.scope.clone(),
    })
}

pub(super) async fn create_session(
    compound: &mut Compound,
    args: create::Args<'_>,
) -> Result<create::Done, Status> {
    if args.flags.unnamed() != 0 {
        return Err(Status::Invalid);
    }
    let call = CreateSession {
        client: ClientId(args.client.0),
        sequence: SequenceId(args.sequence.0),
        principal: compound.principal(),
        connection: compound.connection(),
        back_channel: args.flags.has(create::Flags::BACK_CHANNEL),
        fore: channel(&args.fore),
        back: channel(&args.back),
        callback: callback(compound.minor, args.callback_program, &args.callback_security.0),
    };
    let clients = &compound.nfs4;
    let created: Created = clients.run(compound.now(), |sessions, now, effects| {
        sessions.create_session(now, &call, effects)
    })?;
    let flags = match created.back_channel {
        true => create::Flags::BACK_CHANNEL,
        false => create::Flags(0),
    };
    Ok(create::Done {
        session: wire::SessionId(created.session.0),
        sequence: wire::SequenceId(created.sequence.0),
        flags,
        fore: attributes(&created.fore),
        back: attributes(&created.back),
    })
}

/// Returns the program of callbacks with the first credential that the server can send.
fn callback(minor: u32, program: u32, security: &[wire::CallbackSecurity<'_>]) -> CallbackProgram {
    let mut writer = Writer::new();
    let sys = security.iter().find_map(|one| match one {
        wire::CallbackSecurity::Sys(sys) => Some(sys),
        wire::CallbackSecurity::None | wire::CallbackSecurity::Gss(_) => None,
    });
    if let Some(sys) = sys {
        sys.encode(&mut writer);
    }
    CallbackProgram { program, minor, credential: writer.finish().into_bytes() }
}

const fn channel(attributes: &ChannelAttributes) -> Channel {
    Channel {
        request_bytes: attributes.request_bytes_max,
        reply_bytes: attributes.reply_bytes_max,
        cached_bytes: attributes.cached_reply_bytes_max,
        operations: attributes.operations_max,
        slots: attributes.slots,
    }
}

const fn attributes(channel: &Channel) -> ChannelAttributes {
    ChannelAttributes {
        header_padding_bytes: 0,
        request_bytes_max: channel.request_bytes,
        reply_bytes_max: channel.reply_bytes,
        cached_reply_bytes_max: channel.cached_bytes,
        operations_max: channel.operations,
        slots: channel.slots,
        rdma_reads: None,
    }
}

pub(super) async fn bind_conn_to_session(
    compound: &mut Compound,
    args: bind::Args,
) -> Result<bind::Done, Status> {
    let direction = match args.direction {
        bind::Requested::Fore => Direction::Fore,
        bind::Requested::Back => Direction::Back,
        bind::Requested::ForeOrBoth => Direction::ForeOrBoth,
        bind::Requested::BackOrBoth => Direction::BackOrBoth,
    };
    let (session, connection) = (SessionId(args.session.0), compound.connection());
    let clients = &compound.nfs4;
    let bound = clients.run(compound.now(), |sessions, now, effects| {
        sessions.bind_connection(now, session, connection, direction, effects)
    })?;
    let direction = match bound {
        Bound::Fore => bind::Bound::Fore,
        Bound::Back => bind::Bound::Back,
        Bound::Both => bind::Bound::Both,
    };
    Ok(bind::Done { session: args.session, direction, rdma: false })
}

pub(super) async fn backchannel_ctl(
    compound: &mut Compound,
    args: wire_control::Args<'_>,
) -> Result<(), Status> {
    let program = callback(compound.minor, args.program, &args.security.0);
    let session = compound.session.ok_or(Status::OperationNotInSession)?.request.session;
    let clients = &compound.nfs4;
    clients.run(compound.now(), |sessions, now, effects| {
        let _ = (now, effects);
        sessions.control_backchannel(session, &program)
    })
}

pub(super) async fn destroy_session(
    compound: &mut Compound,
    session: wire::SessionId,
) -> Result<(), Status> {
    let (session, connection) = (SessionId(session.0), compound.connection());
    let clients = &compound.nfs4;
    clients.run(compound.now(), |sessions, now, effects| {
        sessions.destroy_session(now, session, connection, effects)
    })
}

pub(super) async fn destroy_clientid(
    compound: &mut Compound,
    client: wire::ClientId,
) -> Result<(), Status> {
    let (client, principal) = (ClientId(client.0), compound.principal());
    let of_request = compound.client().ok();
    let clients = &compound.nfs4;
    clients.run(compound.now(), |sessions, now, effects| {
        sessions.destroy_client_id(now, client, of_request, &principal, effects)
    })
}

pub(super) async fn reclaim_complete(
    compound: &mut Compound,
    args: reclaim::Args,
) -> Result<(), Status> {
    if args.one_file_system {
        compound.place()?;
    }
    let client = compound.client()?;
    let clients = &compound.nfs4;
    clients.run(compound.now(), |sessions, now, effects| {
        sessions.reclaim_complete(now, client, args.one_file_system, effects)
    })?;
    if !args.one_file_system {
        clients.until_recorded().await;
    }
    Ok(())
}

/// Converts the results of SEQUENCE.
pub(super) const fn sequenced(results: &Sequenced) -> sequence::Done {
    sequence::Done {
        session: wire::SessionId(results.session.0),
        sequence: wire::SequenceId(results.sequence.0),
        slot: wire::SlotId(results.slot.0),
        highest_slot: wire::SlotId(results.highest.0),
        target_highest_slot: wire::SlotId(results.target.0),
        status: sequence::StatusFlags(results.flags.0),
    }
}
