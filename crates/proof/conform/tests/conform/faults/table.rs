//! Faults of procedures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use leasehold_base::groups::Groups;
use leasehold_wire::nfs3::create::How;

use super::*;

/// Every fault that needs only the correct server's reply.
pub(super) const FAULTS: &[Fault] = &[
    fault("failures say something else", |e| another_failure(e, 71)),
    fault("everybody is the superuser", as_superuser),
    fault("calls that come again are run again", forgetful),
    fault("attributes from before are others", other_before),
    fault("attributes from after are others", other_after),
    fault("slashes in names become other letters", slashes),
    // GETATTR.
    fault("files have another size", |e| getattr3(e, at3::SIZE + 4, |size| size ^ 1)),
    fault("files have one permission more", |e| getattr3(e, at3::MODE, |mode| mode ^ 0o20)),
    fault("files have one name more", |e| getattr3(e, at3::LINKS, |links| links ^ 4)),
    fault("files belong to somebody else", |e| getattr3(e, at3::UID, |uid| uid ^ 1)),
    fault("every object is a file", |e| getattr3(e, at3::TYPE, |_| 1)),
    fault("every object is a directory", |e| getattr3(e, at3::TYPE, |_| 2)),
    fault("devices have other numbers", |e| getattr3(e, at3::DEVICE, |device| device ^ 1)),
    fault("every object has a file system", |e| getattr3(e, at3::FILE_SYSTEM, |_| count())),
    fault("objects change their numbers", |e| getattr3(e, at3::FILE_ID, |_| count())),
    fault("all objects have one number", |e| getattr3(e, at3::FILE_ID, |_| 7)),
    fault("the modification time stands still", |e| getattr3(e, at3::MODIFIED, |_| 1000)),
    fault("the change time stands still", |e| getattr3(e, at3::CHANGED, |_| 1000)),
    fault("the access time stands still", |e| getattr3(e, at3::ACCESSED, |_| 1000)),
    fault("a second has more nanoseconds", |e| {
        getattr3(e, at3::CHANGED + 4, |ns| ns.max(1_000_000_000))
    }),
    fault("times go back", |e| getattr3(e, at3::CHANGED + 4, |_| 1_000_000 - count() % 1_000_000)),
    fault("files take no room", |e| getattr3(e, at3::USED + 4, |_| 0)),
    // Data.
    fault("a bit of what is read is another", |e| {
        if !e.is3(nfs3::read::NUMBER) {
            return e.right();
        }
        e.with_reply(|reply: &mut nfs3::read::Reply| {
            if let nfs3::Reply::Done(done) = reply
                && !done.data.is_empty()
            {
                let mut data = done.data.to_vec();
                let last = data.len() - 1;
                data[last] ^= 1;
                done.data = data.into();
            }
        })
    }),
    fault("the end is never said", |e| read_end(e, false)),
    fault("the end is always said", |e| read_end(e, true)),
    fault("a read gives one byte at most", |e| {
        if !e.is3(nfs3::read::NUMBER) {
            return e.right();
        }
        let (_, mut args) = e.parts()?;
        let end = args.len();
        // The count is the last word.
        if end >= 4 && args[end - 4..] != [0; 4] {
            args[end - 4..].copy_from_slice(&1_u32.to_be_bytes());
        }
        e.with_args(&args)
    }),
    fault("a read says more than it gives", |e| read_count(e, 1)),
    fault("writes are not done", |e| {
        if !e.is3(nfs3::write::NUMBER) {
            return e.right();
        }
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let Ok(args) = decode_all::<nfs3::write::Args>(&mut Reader::new(&shared)) else {
            return e.right();
        };
        let nothing = nfs3::write::Args { count: 0, data: Bytes::new(), ..args.clone() };
        let mut reply = e.with_args(&bytes(&nothing))?;
        // The count is before the stability and the verifier.
        let at = reply.len() - 16;
        reply[at..at + 4].copy_from_slice(&args.count.to_be_bytes());
        Some(reply)
    }),
    fault("every write is unstable", |e| write_word(e, 12, |_| 0)),
    fault("a write says more than it wrote", |e| write_word(e, 16, |count| count ^ 1)),
    fault("every write has another verifier", |e| write_word(e, 8, |_| count())),
    fault("COMMIT has another verifier", |e| {
        if !e.is3(nfs3::commit::NUMBER) {
            return e.right();
        }
        e.with_reply(|reply: &mut nfs3::commit::Reply| {
            if let nfs3::Reply::Done(done) = reply {
                done.verifier = *b"another!";
            }
        })
    }),
    fault("COMMIT fails", |e| {
        if e.is3(nfs3::commit::NUMBER) { e.success(&[5, 0, 0]) } else { e.right() }
    }),
    // Procedures that do nothing.
    fault("SETATTR does nothing", |e| idle3(e, nfs3::setattr::NUMBER, &[0, 0, 0])),
    fault("REMOVE does nothing", |e| idle3(e, nfs3::remove::NUMBER, &[0, 0, 0])),
    fault("RMDIR does nothing", |e| idle3(e, nfs3::rmdir::NUMBER, &[0, 0, 0])),
    fault("RENAME does nothing", |e| idle3(e, nfs3::rename::NUMBER, &[0; 5])),
    fault("LINK does nothing", |e| idle3(e, nfs3::link::NUMBER, &[0; 4])),
    fault("SYMLINK does nothing", |e| idle3(e, nfs3::symlink::NUMBER, &[0; 5])),
    fault("MKNOD does nothing", |e| idle3(e, nfs3::mknod::NUMBER, &[0; 5])),
    fault("ACCESS grants nothing", |e| idle3(e, nfs3::access::NUMBER, &[0, 0, 0])),
    fault("ACCESS grants everything", |e| idle3(e, nfs3::access::NUMBER, &[0, 0, 0xffff])),
    fault("RENAME also when the target is not compatible", |e| {
        if !e.is3(nfs3::rename::NUMBER) {
            return e.right();
        }
        let reply = e.right()?;
        if reply[RESULTS_AT..].starts_with(&[0; 4]) { Some(reply) } else { e.success(&[0; 5]) }
    }),
    // CREATE.
    fault("CREATE ignores attributes and what is there", |e| {
        create(e, |_| How::Unchecked(nfs3::SetAttributes::default()))
    }),
    fault("CREATE cuts what is there", |e| {
        create(e, |how| match how {
            How::Unchecked(mut attributes) => {
                attributes.size = Some(0);
                How::Unchecked(attributes)
            }
            How::Guarded(_) | How::Exclusive(_) => how,
        })
    }),
    fault("all verifiers of exclusive CREATE are one", |e| {
        create(e, |how| match how {
            How::Exclusive(_) => How::Exclusive([1; 8]),
            How::Guarded(_) | How::Unchecked(_) => how,
        })
    }),
    fault("no two verifiers of exclusive CREATE are one", |e| {
        create(e, |how| match how {
            How::Exclusive(_) => How::Exclusive(u64::from(count()).to_be_bytes()),
            How::Guarded(_) | How::Unchecked(_) => how,
        })
    }),
    fault("LOOKUP finds the directory itself", |e| {
        if !e.is3(nfs3::lookup::NUMBER) {
            return e.right();
        }
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let args = decode_all::<nfs3::lookup::Args<'_>>(&mut Reader::new(&shared)).ok()?;
        e.with_args(&bytes(&nfs3::lookup::Args { name: nfs3::Name(b"."), ..args }))
    }),
    fault("the text of links is another", |e| {
        if !e.is3(nfs3::readlink::NUMBER) {
            return e.right();
        }
        e.with_results(|results| {
            if results.starts_with(&[0; 4]) {
                let last_word = results.len() - 4;
                results[last_word] ^= 1;
            }
        })
    }),
    // Listings.
    fault("the last name of a page is not listed", |e| {
        listing3(
            e,
            |entries| {
                entries.pop();
            },
            |entries| {
                entries.pop();
            },
        )
    }),
    fault("a name is listed twice", |e| {
        listing3(
            e,
            |entries| entries.extend(entries.first().copied()),
            |entries| entries.extend(entries.first().copied()),
        )
    }),
    fault("numbers in listings are others", |e| {
        listing3(
            e,
            |entries| entries.iter_mut().for_each(|entry| entry.file_id.0 ^= 1),
            |entries| entries.iter_mut().for_each(|entry| entry.file_id.0 ^= 1),
        )
    }),
    fault("cookies lead to the start", |e| {
        listing3(
            e,
            |entries| entries.iter_mut().for_each(|entry| entry.cookie.0 = 0),
            |entries| entries.iter_mut().for_each(|entry| entry.cookie.0 = 0),
        )
    }),
    fault("handles in listings are of others", |e| {
        listing3(
            e,
            |_| {},
            |entries| {
                let first = entries.first().and_then(|entry| entry.object);
                entries.iter_mut().for_each(|entry| entry.object = first);
            },
        )
    }),
    fault("attributes in listings are of others", |e| {
        listing3(
            e,
            |_| {},
            |entries| {
                let first = entries.first().and_then(|entry| entry.attributes);
                entries.iter_mut().for_each(|entry| entry.attributes = first);
            },
        )
    }),
    fault("pages are larger than asked", |e| {
        let (_, mut args) = e.parts()?;
        if !e.is3(nfs3::readdir::NUMBER) && !e.is3(nfs3::readdirplus::NUMBER) {
            return e.right();
        }
        let end = args.len();
        if end >= 4 {
            args[end - 4..].copy_from_slice(&60_000_u32.to_be_bytes());
        }
        e.with_args(&args)
    }),
    // Limits.
    fault("FSINFO contradicts itself", |e| {
        if !e.is3(nfs3::fsinfo::NUMBER) {
            return e.right();
        }
        e.with_reply(|reply: &mut nfs3::fsinfo::Reply| {
            if let nfs3::Reply::Done(done) = reply {
                done.read_bytes_best = done.read_bytes_max + 1;
                done.time_step = nfs3::Time::default();
                done.directory_bytes_best = 1;
                done.properties.can_set_time = false;
                done.properties.symlinks = false;
            }
        })
    }),
    fault("FSINFO promises what there is not", |e| {
        if !e.is3(nfs3::fsinfo::NUMBER) {
            return e.right();
        }
        e.with_reply(|reply: &mut nfs3::fsinfo::Reply| {
            if let nfs3::Reply::Done(done) = reply {
                done.properties.links = false;
                done.read_bytes_max = 100;
                done.write_bytes_max = 100;
            }
        })
    }),
    fault("FSSTAT does not add up", |e| {
        if !e.is3(nfs3::fsstat::NUMBER) {
            return e.right();
        }
        e.with_reply(|reply: &mut nfs3::fsstat::Reply| {
            if let nfs3::Reply::Done(done) = reply {
                done.bytes = u64::from(count());
                done.files = 0;
            }
        })
    }),
    fault("PATHCONF differs from what is done", |e| {
        if !e.is3(nfs3::pathconf::NUMBER) {
            return e.right();
        }
        e.with_reply(|reply: &mut nfs3::pathconf::Reply| {
            if let nfs3::Reply::Done(done) = reply {
                done.name_bytes_max += 10 + count() % 2;
                done.link_max = 5;
                done.case_insensitive = true;
            }
        })
    }),
    // Calls.
    fault("every call is a success", |e| {
        let reply = e.right()?;
        if succeeded_call(&reply) { Some(reply) } else { success_of_any(e, &[5, 0, 0]) }
    }),
    fault("handles are not checked", |e| {
        let reply = e.right()?;
        let bad = 10_001_u32.to_be_bytes();
        let (_, version, number) = e.called();
        if !succeeded_call(&reply) || version != nfs3::VERSION || reply.get(24..28) != Some(&bad) {
            return Some(reply);
        }
        if number == nfs3::getattr::NUMBER {
            let root = e.service.root_handle("/export")?;
            return e.with_args(&bytes(&nfs3::Handle::from(root)));
        }
        e.success(&[0, 0, 0])
    }),
    fault("no call of NULL is taken", |e| {
        if e.called().2 != 0 {
            return e.right();
        }
        let (call, _) = e.parts()?;
        let status = rpc::ReplyStatus::SystemError;
        Some(bytes(&rpc::Reply { xid: call.xid, status }))
    }),
    fault("bytes follow every result", |e| {
        e.with_results(|results| results.extend_from_slice(&[0; 4]))
    }),
    fault("further groups are forgotten", |e| {
        let (call, args) = e.parts()?;
        let sys = decode_all::<AuthSys<'_>>(&mut Reader::of_part(call.credential.body));
        let Ok(sys) = sys else {
            return e.right();
        };
        let body = bytes(&AuthSys { groups: Groups::default(), ..sys });
        let credential = OpaqueAuth { body: &body, ..call.credential };
        e.serve([bytes(&Call { credential, ..call }), args].concat())
    }),
    fault("long names of machines are not answered", |e| {
        let (call, _) = e.parts()?;
        if call.credential.body.len() > 200 { None } else { e.right() }
    }),
    fault("one number is one call, whatever it asks", |e| {
        static KEPT: Mutex<BTreeMap<u32, Vec<u8>>> = Mutex::new(BTreeMap::new());
        let xid = e.parts()?.0.xid.0;
        let mut kept = KEPT.lock().expect("nobody panics");
        if let Some(reply) = kept.get(&xid) {
            return Some(reply.clone());
        }
        let reply = e.right()?;
        kept.insert(xid, reply.clone());
        Some(reply)
    }),
    fault("a call that comes again is not answered", |e| {
        static SEEN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
        let is_new = SEEN.lock().expect("nobody panics").insert(e.parts()?.0.xid.0);
        if is_new { e.right() } else { None }
    }),
    fault("MKDIR of what is there is a success", |e| {
        let reply = e.right()?;
        let taken = e.is3(nfs3::mkdir::NUMBER) && reply.get(24..28) == Some(&[0, 0, 0, 17]);
        if taken { e.success(&[0; 5]) } else { Some(reply) }
    }),
    // MOUNT.
    fault("paths below an export lead to its root", |e| {
        let (program, _, number) = e.called();
        let (_, args) = e.parts()?;
        let below = args.windows(8).any(|window| window == b"/export/");
        if program == mount::PROGRAM && number == mount::mnt::NUMBER && below {
            return e.with_args(&bytes(&mount::Path(b"/export")));
        }
        e.right()
    }),
    fault("UMNTALL does nothing", |e| {
        let (program, _, number) = e.called();
        if program == mount::PROGRAM && number == 4 { e.success(&[]) } else { e.right() }
    }),
    fault("every path is the root", |e| {
        let (program, version, number) = e.called();
        if program != mount::PROGRAM || number != mount::mnt::NUMBER {
            return e.right();
        }
        let reply = e.right()?;
        if reply.get(24..28) == Some(&[0; 4]) || !succeeded_call(&reply) || version == 0 {
            return Some(reply);
        }
        e.with_args(&bytes(&mount::Path(b"/export")))
    }),
    fault("MNT offers no authentication that works", |e| {
        let (program, version, number) = e.called();
        if (program, version, number) != (mount::PROGRAM, 3, mount::mnt::NUMBER) {
            return e.right();
        }
        e.with_reply(|reply: &mut mount::mnt::Reply| {
            if let leasehold_wire::outcome::Outcome::Done(done) = reply {
                done.flavors.0 = vec![6];
            }
        })
    }),
    fault("nothing is taken off the list of mounts", |e| {
        let (program, _, number) = e.called();
        if program == mount::PROGRAM && (number == 3 || number == 4) {
            return e.success(&[]);
        }
        e.right()
    }),
    fault("no export is listed", |e| {
        let (program, _, number) = e.called();
        if program == mount::PROGRAM && number == mount::export::NUMBER {
            return e.success(&[0]);
        }
        e.right()
    }),
    fault("the first mount is not listed", |e| {
        let (program, version, number) = e.called();
        let dump = (program, number) == (mount::PROGRAM, mount::dump::NUMBER);
        if dump && version == 3 { e.success(&[0]) } else { e.right() }
    }),
    fault("MOUNT says other limits", |e| {
        let (program, version, number) = e.called();
        if (program, version, number) == (mount::PROGRAM, 2, mount::pathconf::NUMBER) {
            return e.success(&[9; 10]);
        }
        e.right()
    }),
    // Version 2.
    fault("version 2 has other sizes", |e| getattr2(e, 5, |size| size ^ 1)),
    fault("version 2 leaves types out of modes", |e| getattr2(e, 1, |mode| mode & 0o7777)),
    fault("version 2 has other types", |e| getattr2(e, 0, |kind| kind ^ 1)),
    fault("version 2 counts names otherwise", |e| getattr2(e, 2, |links| links ^ 4)),
    fault("version 2 has other owners", |e| getattr2(e, 3, |uid| uid ^ 1)),
    fault("version 2 changes file systems", |e| getattr2(e, 9, |_| count())),
    fault("version 2 changes numbers", |e| getattr2(e, 10, |_| count())),
    fault("version 2 has other times", |e| getattr2(e, 13, |_| 5)),
    fault("version 2 has more microseconds", |e| getattr2(e, 14, |_| 1_000_000)),
    fault("version 2 reads other bytes", |e| {
        if !e.is2(nfs2::read::NUMBER) {
            return e.right();
        }
        e.with_reply(|reply: &mut nfs2::read::Reply| {
            if let leasehold_wire::outcome::Outcome::Done(done) = reply {
                let mut data = done.data.to_vec();
                data.push(b'!');
                done.data = data.into();
            }
        })
    }),
    fault("WRITE of version 2 does nothing", |e| {
        if !e.is2(nfs2::write::NUMBER) {
            return e.right();
        }
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let Ok(args) = decode_all::<nfs2::write::Args>(&mut Reader::new(&shared)) else {
            return e.right();
        };
        e.with_args(&bytes(&nfs2::write::Args { data: Bytes::new(), ..args }))
    }),
    fault("SETATTR of version 2 does nothing", |e| {
        if !e.is2(nfs2::setattr::NUMBER) {
            return e.right();
        }
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let Ok(args) = decode_all::<nfs2::setattr::Args>(&mut Reader::new(&shared)) else {
            return e.right();
        };
        let attributes = nfs2::SetAttributes::default();
        e.with_args(&bytes(&nfs2::setattr::Args { attributes, ..args }))
    }),
    fault("REMOVE of version 2 does nothing", |e| idle2(e, nfs2::remove::NUMBER)),
    fault("RENAME of version 2 does nothing", |e| idle2(e, nfs2::rename::NUMBER)),
    fault("LINK of version 2 does nothing", |e| idle2(e, nfs2::link::NUMBER)),
    fault("SYMLINK of version 2 does nothing", |e| idle2(e, nfs2::symlink::NUMBER)),
    fault("RMDIR of version 2 does nothing", |e| idle2(e, nfs2::rmdir::NUMBER)),
    fault("CREATE of version 2 ignores attributes", |e| {
        if !e.is2(nfs2::create::NUMBER) && !e.is2(nfs2::mkdir::NUMBER) {
            return e.right();
        }
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let Ok(args) = decode_all::<nfs2::create::Args<'_>>(&mut Reader::new(&shared)) else {
            return e.right();
        };
        let attributes = nfs2::SetAttributes { mode: Some(0o751), ..Default::default() };
        e.with_args(&bytes(&nfs2::create::Args { attributes, ..args }))
    }),
    fault("LOOKUP of version 2 finds the directory itself", |e| {
        if !e.is2(nfs2::lookup::NUMBER) {
            return e.right();
        }
        let (_, args) = e.parts()?;
        let shared = Bytes::from(args);
        let Ok(args) = decode_all::<nfs2::lookup::Args<'_>>(&mut Reader::new(&shared)) else {
            return e.right();
        };
        e.with_args(&bytes(&nfs2::lookup::Args { name: nfs2::Name(b"."), ..args }))
    }),
    fault("the text of links of version 2 is another", |e| {
        if e.is2(nfs2::readlink::NUMBER) { e.success(&[0, 1, 0x7800_0000]) } else { e.right() }
    }),
    fault("version 2 lists one name less", |e| {
        listing2(e, |entries| {
            entries.0.pop();
        })
    }),
    fault("version 2 lists other numbers", |e| {
        listing2(e, |entries| entries.0.iter_mut().for_each(|entry| entry.file_id.0 ^= 1))
    }),
    fault("version 2 lists one name twice", |e| {
        listing2(e, |entries| entries.0.extend(entries.0.last().copied()))
    }),
    fault("version 2 lists larger pages than asked", |e| {
        if !e.is2(nfs2::readdir::NUMBER) {
            return e.right();
        }
        let (_, mut args) = e.parts()?;
        let end = args.len();
        if end >= 4 {
            args[end - 4..].copy_from_slice(&8192_u32.to_be_bytes());
        }
        e.with_args(&args)
    }),
    fault("STATFS does not add up", |e| {
        if e.is2(nfs2::statfs::NUMBER) { e.success(&[0, 1, 0, 1, 2, 3]) } else { e.right() }
    }),
    fault("version 2 fails at everything", |e| {
        let (program, version, number) = e.called();
        if (program, version) == (nfs2::PROGRAM, 2) && number != 0 && number != 14 && number != 4 {
            return e.success(&[5]);
        }
        e.right()
    }),
    // Restarts.
    Fault { forgets: Forgets::Handles, ..fault("handles die in a restart", right) },
    Fault { forgets: Forgets::Everything, ..fault("everything is lost in a restart", right) },
    // The remaining cases: every call fails.
    fault("version 3 fails at everything", |e| {
        let (program, version, number) = e.called();
        let made = [0, 1, 2, 9, 13, 16].contains(&number);
        if (program, version) == (nfs3::PROGRAM, 3) && !made {
            return e.success(&[5, 0, 0]);
        }
        e.right()
    }),
];

fn read_end(exchange: &Exchange<'_>, end: bool) -> Option<Vec<u8>> {
    if !exchange.is3(nfs3::read::NUMBER) {
        return exchange.right();
    }
    exchange.with_reply(|reply: &mut nfs3::read::Reply| {
        if let nfs3::Reply::Done(done) = reply {
            done.end = end;
        }
    })
}

fn read_count(exchange: &Exchange<'_>, more: u32) -> Option<Vec<u8>> {
    if !exchange.is3(nfs3::read::NUMBER) {
        return exchange.right();
    }
    exchange.with_reply(|reply: &mut nfs3::read::Reply| {
        if let nfs3::Reply::Done(done) = reply {
            done.count += more;
        }
    })
}

/// Changes a word of WRITE of version 3, counted from the end of a success.
fn write_word(
    exchange: &Exchange<'_>,
    from_end: usize,
    change: impl FnOnce(u32) -> u32,
) -> Option<Vec<u8>> {
    if !exchange.is3(nfs3::write::NUMBER) {
        return exchange.right();
    }
    exchange.with_results(|results| {
        let Some(at) = results.len().checked_sub(from_end) else {
            return;
        };
        change_word(results, at, change);
    })
}

fn create(exchange: &Exchange<'_>, change: impl FnOnce(How) -> How) -> Option<Vec<u8>> {
    if !exchange.is3(nfs3::create::NUMBER) {
        return exchange.right();
    }
    let (_, args) = exchange.parts()?;
    let shared = Bytes::from(args);
    let Ok(args) = decode_all::<nfs3::create::Args<'_>>(&mut Reader::new(&shared)) else {
        return exchange.right();
    };
    exchange.with_args(&bytes(&nfs3::create::Args { how: change(args.how), ..args }))
}

/// Changes a word of GETATTR of version 2, and of all replies with attributes at the start.
fn getattr2(
    exchange: &Exchange<'_>,
    word: usize,
    change: impl FnOnce(u32) -> u32,
) -> Option<Vec<u8>> {
    let (program, version, number) = exchange.called();
    if (program, version) != (nfs2::PROGRAM, 2) || ![1, 2, 8].contains(&number) {
        return exchange.right();
    }
    exchange.with_results(|results| change_word(results, 4 + word * 4, change))
}
