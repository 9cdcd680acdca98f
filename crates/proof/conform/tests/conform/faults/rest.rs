//! Faults of single calls, and of their transport.

use leasehold_wire::nfs3::create::How;
use leasehold_wire::rpc::{AuthStatus, ReplyStatus, flavor};

use super::*;
use crate::wire::Wire;

/// Faults with few effects each.
pub(super) const FAULTS: &[Fault] = &[
    fault("NULL answers with results", |e| if e.is3(0) { e.success(&[1]) } else { e.right() }),
    fault("calls of number 0 are not answered", |e| {
        if e.message.starts_with(&[0; 4]) { None } else { e.right() }
    }),
    fault("NULL with arguments is not answered", |e| {
        let (_, args) = e.parts()?;
        if e.is3(0) && !args.is_empty() { None } else { e.right() }
    }),
    fault("NULL needs a credential", |e| {
        let (call, _) = e.parts()?;
        let none = call.credential.flavor == flavor::NONE;
        // The tester checks for version 2 and for datagrams without a credential.
        let asked = e.is3(0) && e.arrival.connection.is_some();
        if none && asked { e.denied(AuthStatus::TooWeak) } else { e.right() }
    }),
    fault("NULL is answered over UDP once", |e| {
        let counted = e.is3(0) && e.arrival.connection.is_none();
        if counted && e.times() > 1 { None } else { e.right() }
    }),
    fault("NULL of version 2 is answered once", |e| {
        if e.is2(0) && e.times() > 1 { None } else { e.right() }
    }),
    fault("NULL of MOUNT is answered once", |e| {
        let counted = e.called() == (mount::PROGRAM, 3, 0);
        if counted && e.times() > 1 { None } else { e.right() }
    }),
    fault("what does nothing in version 2 is not answered", |e| {
        if e.is2(3) || e.is2(7) { None } else { e.right() }
    }),
    fault("MNT works once", |e| {
        let counted = e.called() == (mount::PROGRAM, 3, mount::mnt::NUMBER);
        if counted && e.times() > 1 { e.success(&[13]) } else { e.right() }
    }),
    fault("MNT cuts long paths", |e| {
        let (_, args) = e.parts()?;
        let long = e.called() == (mount::PROGRAM, 3, mount::mnt::NUMBER) && args.len() > 1028;
        if long { e.with_args(&bytes(&mount::Path(b"/export"))) } else { e.right() }
    }),
    fault("sixteen groups are refused", |e| {
        let (call, _) = e.parts()?;
        // A stamp, a name of four bytes, a user, a group, a count and sixteen numbers.
        let full = call.credential.flavor == flavor::SYS && call.credential.body.len() == 88;
        if full { e.denied(AuthStatus::BadCredential) } else { e.right() }
    }),
    fault("replies are answered", |e| {
        let is_reply = e.message.get(4..8) == Some(&[0, 0, 0, 1]);
        if is_reply { success_of_any(e, &[]) } else { e.right() }
    }),
    fault("bytes behind arguments are not answered", |e| {
        let (_, args) = e.parts()?;
        let length = args.get(3).map_or(0, |length| usize::from(*length).next_multiple_of(4));
        let more = e.is3(nfs3::getattr::NUMBER) && args.len() > 4 + length;
        if more { None } else { e.right() }
    }),
    fault("padding has to be zero", |e| {
        let padded = e.is3(nfs3::lookup::NUMBER) && e.message.ends_with(&[0xff]);
        if padded { None } else { e.right() }
    }),
    fault("every unknown stable_how is FILE_SYNC", |e| {
        if !e.is3(nfs3::write::NUMBER) {
            return e.right();
        }
        let (_, mut args) = e.parts()?;
        // Behind the handle, the offset and the count.
        let at = 4 + args.get(3).map_or(0, |length| usize::from(*length)) + 12;
        if let Some(stable) = args.get_mut(at..at + 4)
            && stable[3] > 2
        {
            stable[3] = 2;
        }
        e.with_args(&args)
    }),
    fault("an exclusive CREATE makes a file named after its verifier", |e| {
        if !e.is3(nfs3::create::NUMBER) {
            return e.right();
        }
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let Ok(mut args) = decode_all::<nfs3::create::Args<'_>>(&mut Reader::new(&shared)) else {
            return e.right();
        };
        let How::Exclusive(verifier) = args.how else {
            return e.right();
        };
        let name = format!("{:x}", u64::from_be_bytes(verifier));
        args.place.name = nfs3::Name(name.as_bytes());
        e.with_args(&bytes(&args))
    }),
    fault("CREATE of a dot is a success", |e| {
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let args = decode_all::<nfs3::create::Args<'_>>(&mut Reader::new(&shared));
        let dot = e.is3(nfs3::create::NUMBER) && args.is_ok_and(|args| args.place.name.0 == b".");
        if dot { e.success(&[0; 5]) } else { e.right() }
    }),
    fault("UNCHECKED makes nothing", |e| {
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let args = decode_all::<nfs3::create::Args<'_>>(&mut Reader::new(&shared));
        let unchecked = args.is_ok_and(|args| matches!(args.how, How::Unchecked(_)));
        if e.is3(nfs3::create::NUMBER) && unchecked { e.success(&[2, 0, 0]) } else { e.right() }
    }),
    fault("directories keep their times", |e| {
        if !e.is3(nfs3::getattr::NUMBER) {
            return e.right();
        }
        e.with_results(|results| {
            if results.get(at3::TYPE..at3::TYPE + 4) == Some(&[0, 0, 0, 2]) {
                change_word(results, at3::MODIFIED, |_| 1000);
                change_word(results, at3::MODIFIED + 4, |_| 0);
            }
        })
    }),
    fault("files belong to another group", |e| of_files3(e, at3::UID + 4, |gid| gid ^ 1)),
    fault("all files have one number", |e| of_files3(e, at3::FILE_ID, |_| 7)),
    fault("LOOKUP of a dot finds nothing", |e| {
        if looked_up(e).as_deref() == Some(b".") { e.success(&[2, 0]) } else { e.right() }
    }),
    fault("two dots at the root lead elsewhere", |e| {
        let reply = e.right()?;
        if looked_up(e).as_deref() != Some(b"..") {
            return Some(reply);
        }
        let (call, args) = e.parts()?;
        let shared = Bytes::from(args);
        let place = decode_all::<nfs3::lookup::Args<'_>>(&mut Reader::new(&shared)).ok()?;
        // At the root they lead back to the root.
        let here = [vec![0; 4], bytes(&place.directory)].concat();
        if !reply[RESULTS_AT..].starts_with(&here) {
            return Some(reply);
        }
        let name = nfs3::Name(b"above");
        let how = How::Unchecked(nfs3::SetAttributes::default());
        let args = nfs3::create::Args { place: nfs3::DirectoryArgs { name, ..place }, how };
        let call = Call { procedure: nfs3::create::NUMBER, ..call };
        let made = e.serve([bytes(&call), bytes(&args)].concat())?;
        let shared = Bytes::copy_from_slice(&made[RESULTS_AT..]);
        let Ok(nfs3::Reply::Done(made)) = decode_all::<Created>(&mut Reader::new(&shared)) else {
            return Some(reply);
        };
        let mut found = e.success(&[0])?;
        found.extend(bytes(&made.object?));
        found.extend([0; 8]);
        Some(found)
    }),
    fault("LOOKUP is for the superuser", |e| {
        let other = e.is3(nfs3::lookup::NUMBER) && !e.is_superuser();
        if other { e.success(&[13, 0]) } else { e.right() }
    }),
    fault("REMOVE is for the superuser", |e| {
        let other = e.is3(nfs3::remove::NUMBER) && !e.is_superuser();
        if other { e.success(&[13, 0, 0]) } else { e.right() }
    }),
    fault("a name that is not there is listed", |e| {
        listing3(
            e,
            |entries| {
                let last = entries.last().cloned();
                let name = nfs3::Name(b"nothing");
                entries.extend(last.map(|last| nfs3::readdir::Entry { name, ..last }));
            },
            |_| (),
        )
    }),
    fault("numbers in listings are zero", |e| {
        listing3(e, |entries| entries.iter_mut().for_each(|entry| entry.file_id.0 = 0), |_| ())
    }),
    fault("FSINFO answers once", |e| {
        let counted = e.is3(nfs3::fsinfo::NUMBER);
        if counted && e.times() > 1 { e.success(&[20, 0]) } else { e.right() }
    }),
    fault("every WRITE tells of the same change", |e| {
        let spoil = |wcc: &mut Wcc| {
            if let (Some(before), Some(after)) = (&mut wcc.before, &mut wcc.after) {
                (before.size, after.size) = (0, 9);
            }
        };
        if e.is3(nfs3::write::NUMBER) { each_wcc(e, spoil) } else { e.right() }
    }),
    fault("a READ is answered late", |e| {
        if e.is3(nfs3::read::NUMBER) {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        e.right()
    }),
    fault("a handle dies of a thousand names", |e| {
        if e.is3(nfs3::lookup::NUMBER) {
            e.times();
        }
        let gone = e.is3(nfs3::getattr::NUMBER) && e.seen.load(Ordering::Relaxed) > 1000;
        if gone { e.success(&[70]) } else { e.right() }
    }),
    // Faults of the transport.
    carried("a fragment is taken for a record", Wire::FragmentsAreRecords),
    carried("a record has to come in one piece", Wire::OnePiece),
    carried("what comes behind a record in one piece is lost", Wire::OneRecordAPiece),
    carried("half a record holds everybody up", Wire::HalfHoldsAll),
    carried("a reply that nobody takes holds everybody up", Wire::UnreadHoldsAll),
    carried("a connection is for fifty calls", Wire::Calls(50)),
    carried("ten connections are served at a time", Wire::Connections(10)),
    carried("connections that are gone are not forgotten", Wire::ConnectionsEver(100)),
    carried("the end of the calls ends a connection", Wire::EndOfCallsEnds),
    carried("a connection that is reset ends the server", Wire::DiesOfReset),
    carried("a client that does not wait ends the server", Wire::DiesOfAbsence),
    carried("a record that is no call ends the server", Wire::DiesOfNonsense),
    carried("a fragment of gigabytes ends the server", Wire::DiesOfMark(64 << 20)),
    carried("a record of many fragments ends the server", Wire::DiesOfFragments(1000)),
    carried("a datagram that is no call ends the server", Wire::DiesOfDatagrams),
    carried("a large datagram ends the server", Wire::DiesOfDatagram(32 << 10)),
    // Each case waits for its timeout here, so this fault comes last.
    fault("the reply to NULL has another number", |e| {
        let mut reply = e.right()?;
        if e.is3(0) && e.arrival.connection.is_some() {
            reply[0] ^= 1;
        }
        Some(reply)
    }),
];

const fn carried(name: &'static str, wire: Wire) -> Fault {
    Fault { wire: Some(wire), ..fault(name, right) }
}

/// Changes a word of GETATTR of a file.
fn of_files3(
    exchange: &Exchange<'_>,
    at: usize,
    change: impl FnOnce(u32) -> u32,
) -> Option<Vec<u8>> {
    if !exchange.is3(nfs3::getattr::NUMBER) {
        return exchange.right();
    }
    exchange.with_results(|results| {
        if results.get(at3::TYPE..at3::TYPE + 4) == Some(&[0, 0, 0, 1]) {
            change_word(results, at, change);
        }
    })
}

/// Returns the name in a LOOKUP.
fn looked_up(exchange: &Exchange<'_>) -> Option<Vec<u8>> {
    let (_, args) = exchange.parts()?;
    let shared = Bytes::from(args);
    let args = decode_all::<nfs3::lookup::Args<'_>>(&mut Reader::new(&shared)).ok()?;
    exchange.is3(nfs3::lookup::NUMBER).then(|| args.name.0.to_vec())
}

impl Exchange<'_> {
    /// Returns an authentication error.
    fn denied(&self, why: AuthStatus) -> Option<Vec<u8>> {
        let (call, _) = self.parts()?;
        Some(bytes(&rpc::Reply { xid: call.xid, status: ReplyStatus::AuthError(why) }))
    }

    /// Returns true if the superuser calls.
    fn is_superuser(&self) -> bool {
        self.parts().is_some_and(|(call, _)| {
            let shared = Bytes::copy_from_slice(call.credential.body);
            let decoded = decode_all::<AuthSys<'_>>(&mut Reader::new(&shared));
            call.credential.flavor == flavor::SYS && decoded.is_ok_and(|sys| sys.uid == 0)
        })
    }

    /// Returns the number of times that this server got the call, including this one.
    fn times(&self) -> u32 {
        self.seen.fetch_add(1, Ordering::Relaxed) + 1
    }
}
