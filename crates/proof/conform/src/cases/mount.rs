//! MOUNT: a client's way to its first handle.

use leasehold_wire::mount::mnt::Status as MountStatus;
use leasehold_wire::nfs3::FileType;
use leasehold_wire::rpc::{ReplyStatus, flavor, null};
use leasehold_wire::{mount, nfs2};

use super::prelude::*;
use crate::client::Credential;
use crate::mount::{Mount, procedure};

pub(crate) const GROUP: Group = Group {
    name: "mount",
    about: "MOUNT: a client's way to its first handle",
    needs: Needs::Nothing,
    company: Company::Alone,
    cases: cases! {
        null_is_answered: "RFC 1813 5.2.0",
        the_export_is_mounted: "RFC 1813 5.2.1",
        the_handle_is_of_a_directory: "RFC 1813 5.2.1",
        each_time_the_same_directory: "RFC 1813 5.2.1",
        flavours_name_auth_sys: "RFC 1813 5.2.1, auth_flavors",
        flavours_are_truthful: "RFC 1813 5.2.1, auth_flavors",
        a_path_that_is_not_there_is_refused: "RFC 1813 5.2.1, MNT3ERR_NOENT",
        a_path_above_is_refused: "RFC 1813 5.2.1, MNT3ERR_ACCES",
        an_empty_path_does_no_harm: "RFC 1813 5.2.1",
        a_path_of_1024_bytes_is_answered: "RFC 1813 5.1.4, MNTPATHLEN",
        a_path_of_1025_bytes_is_no_path: "RFC 1813 5.1.4, MNTPATHLEN",
        a_directory_below_is_that_directory: "RFC 1813 5.2.1",
        a_file_is_no_directory: "RFC 1813 5.2.1, MNT3ERR_NOTDIR",
        the_export_is_listed: "RFC 1813 5.2.5",
        what_is_mounted_is_listed: "RFC 1813 5.2.2",
        what_is_unmounted_is_not_listed: "RFC 1813 5.2.3",
        unmounting_twice_does_no_harm: "RFC 1813 5.2.3",
        unmounting_everything_empties_the_list: "RFC 1813 5.2.4",
        an_unmounted_handle_stays_good: "RFC 1813 5.2.3",
        an_unknown_version_is_a_mismatch: "RFC 5531 9, PROG_MISMATCH",
        an_unknown_procedure_is_unavailable: "RFC 5531 9, PROC_UNAVAIL",
        half_a_path_is_garbage: "RFC 5531 9, GARBAGE_ARGS",
        version_1_mounts: "RFC 1094 A.5.2",
        version_1_says_an_error_number: "RFC 1094 A.4.2",
        version_1_lists_the_export: "RFC 1094 A.5.6",
        version_1_and_3_keep_one_list: "RFC 1094 A.5.3",
        version_2_has_pathconf: "NFS Version 3, 4.4",
        exportall_is_export (advice): "RFC 1094 A.5.6",
    },
};

fn mounter(b: &Bench<'_>) -> Mount {
    b.mounter()
}

/// Skips the case if a version of MOUNT is not served.
fn needs(b: &Bench<'_>, version: u32) -> Result<Mount, Stop> {
    let mut mounter = b.mounter();
    let status = mounter.client.received(procedure(version, null::NUMBER), &())?;
    if status != ReplyStatus::Success {
        return Err(Stop::skip(format!("version {version} of MOUNT is not served")));
    }
    Ok(mounter)
}

fn null_is_answered(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = mounter(b);
    mounter.client.credential = Credential::None;
    let status = mounter.client.received(procedure(mount::VERSION_3, null::NUMBER), &())?;
    let right = matches!(status, ReplyStatus::Success | ReplyStatus::ProgramMismatch(_));
    ensure!(right, "NULL of MOUNT is answered {status:?}");
    Ok(())
}

fn mounted(b: &Bench<'_>) -> Result<mount::mnt::Done, Stop> {
    needs(b, mount::VERSION_3)?.mnt(&b.server.export)?.done()
}

fn the_export_is_mounted(b: &mut Bench<'_>) -> Verdict {
    mounted(b).map(|_| ())
}

fn the_handle_is_of_a_directory(b: &mut Bench<'_>) -> Verdict {
    let root = mounted(b)?.directory;
    b.root()?;
    ensure!(b.v3.is(root, FileType::Directory)?, "MNT returns a handle that names no directory");
    Ok(())
}

fn each_time_the_same_directory(b: &mut Bench<'_>) -> Verdict {
    b.root()?;
    let (one, two) = (mounted(b)?.directory, mounted(b)?.directory);
    equal("number", b.v3.attributes(two)?.file_id, b.v3.attributes(one)?.file_id)
}

fn flavours_name_auth_sys(b: &mut Bench<'_>) -> Verdict {
    let flavors = mounted(b)?.flavors.0;
    // The run itself uses this flavour, and is served.
    ensure!(flavors.contains(&flavor::SYS), "AUTH_SYS works and is not among {flavors:?}");
    Ok(())
}

fn flavours_are_truthful(b: &mut Bench<'_>) -> Verdict {
    let done = mounted(b)?;
    b.root()?;
    if !done.flavors.0.contains(&flavor::NONE) {
        return Ok(());
    }
    let mut nobody = b.as_user(&Credential::None);
    let getattr = crate::v3::procedure(leasehold_wire::nfs3::getattr::NUMBER);
    let status = nobody.client.received(getattr, &done.directory)?;
    equal("GETATTR without authentication, which MNT offers", status, ReplyStatus::Success)
}

fn a_path_that_is_not_there_is_refused(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    let answered = mounter.mnt("/there/is/no/such/directory")?;
    let expected = [MountStatus::NotFound, MountStatus::Access];
    answered.refused(&expected)
}

fn a_path_above_is_refused(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    b.root()?;
    let root = mounted(b)?.directory;
    let expected = b.v3.attributes(root)?;
    for path in ["/..", "/../..", "..", "/etc"] {
        let path = format!("{}{path}", b.server.export.trim_end_matches('/'));
        let Ok(done) = mounter.mnt(&path)?.either() else {
            continue;
        };
        let got = b.v3.attributes(done.directory)?;
        let same = (got.file_system, got.file_id) == (expected.file_system, expected.file_id);
        mounter.umnt(mount::VERSION_3, &path)?;
        ensure!(same, "{path} is mounted, and is not the export");
    }
    Ok(())
}

fn an_empty_path_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    if mounter.mnt("")?.is_done() {
        mounter.umnt(mount::VERSION_3, "")?;
    }
    mounted(b).map(|_| ())
}

fn a_path_of_1024_bytes_is_answered(b: &mut Bench<'_>) -> Verdict {
    let answered = needs(b, mount::VERSION_3)?.mnt("/x".repeat(512))?;
    ensure!(!answered.is_done(), "a missing path of 1024 bytes is mounted");
    Ok(())
}

fn a_path_of_1025_bytes_is_no_path(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    let path = leasehold_wire::nfs3::Path(&[b'x'; 1025]);
    let mnt = procedure(mount::VERSION_3, mount::mnt::NUMBER);
    let xid = crate::client::fresh_xid();
    let message = mounter.client.message(xid, mnt, &path);
    let got = mounter.client.exchange(xid, &message)?;
    let (status, results) = crate::client::head(mnt, got)?;
    let mounted = status == ReplyStatus::Success && results.starts_with(&[0; 4]);
    ensure!(!mounted, "a path of 1025 bytes is mounted");
    Ok(())
}

/// Returns a path in the case's own directory, if the server mounts such paths.
fn path_below(b: &mut Bench<'_>, name: &str) -> Result<String, Stop> {
    b.dir()?;
    let export = b.server.export.trim_end_matches('/');
    Ok(format!("{export}/{}/{}/{name}", b.server.place.name, b.dir_name()))
}

fn a_directory_below_is_that_directory(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let path = path_below(b, "dir")?;
    let answered = mounter.mnt(&path)?;
    // A server may permit mounts of exports' roots only.
    let Ok(done) = answered.either() else {
        return Err(Stop::skip("only roots can be mounted"));
    };
    let expected = b.v3.attributes(inner)?.file_id;
    equal("number", b.v3.attributes(done.directory)?.file_id, expected)?;
    mounter.umnt(mount::VERSION_3, &path)
}

fn a_file_is_no_directory(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    let path = path_below(b, "file")?;
    let answered = mounter.mnt(&path)?;
    let right = answered.status() == Some(MountStatus::NotDirectory);
    b.advise(right, "MNT of a file should be answered MNT3ERR_NOTDIR");
    ensure!(!answered.is_done(), "a file is mounted");
    Ok(())
}

/// Checks that a list of exports contains the tested one.
fn is_listed(b: &mut Bench<'_>, exports: &[crate::mount::Export]) -> Verdict {
    ensure!(!exports.is_empty(), "EXPORT lists nothing, and {} is mounted", b.server.export);
    let wanted = b.server.export.trim_end_matches('/');
    let listed = exports.iter().any(|export| {
        let path = String::from_utf8_lossy(&export.directory);
        let path = path.trim_end_matches('/');
        wanted == path || wanted.starts_with(&format!("{path}/"))
    });
    // An export may have several paths.
    b.advise(listed || wanted.is_empty(), format!("EXPORT does not list {wanted}"));
    Ok(())
}

fn the_export_is_listed(b: &mut Bench<'_>) -> Verdict {
    let exports = needs(b, mount::VERSION_3)?.exports(mount::VERSION_3)?;
    is_listed(b, &exports)
}

/// Returns the number of entries of the list. A server may list the export under another path, so
/// all entries count.
fn entries(mounter: &mut Mount, version: u32) -> Result<usize, Stop> {
    Ok(mounter.dump(version)?.len())
}

fn what_is_mounted_is_listed(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    mounter.mnt(&b.server.export)?.done()?;
    let listed = entries(&mut mounter, mount::VERSION_3)? > 0;
    b.advise(listed, "DUMP does not list the mount");
    Ok(())
}

fn what_is_unmounted_is_not_listed(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    mounter.mnt(&b.server.export)?.done()?;
    let before = entries(&mut mounter, mount::VERSION_3)?;
    mounter.umnt(mount::VERSION_3, &b.server.export)?;
    let left = entries(&mut mounter, mount::VERSION_3)?;
    ensure!(before == 0 || left < before, "UMNT removes no entry from the list of {before}");
    mounter.mnt(&b.server.export)?.done()?;
    Ok(())
}

fn unmounting_twice_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    mounter.umnt(mount::VERSION_3, &b.server.export)?;
    mounter.umnt(mount::VERSION_3, &b.server.export)?;
    mounter.umnt(mount::VERSION_3, "/never/mounted")?;
    mounted(b).map(|_| ())
}

fn unmounting_everything_empties_the_list(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    mounter.umnt(mount::VERSION_3, &b.server.export)?;
    if entries(&mut mounter, mount::VERSION_3)? > 0 {
        return Err(Stop::skip("the list has other mounts, which the case would remove too"));
    }
    mounter.mnt(&b.server.export)?.done()?;
    mounter.umntall(mount::VERSION_3)?;
    equal("entries of this client", entries(&mut mounter, mount::VERSION_3)?, 0)?;
    mounter.mnt(&b.server.export)?.done()?;
    Ok(())
}

fn an_unmounted_handle_stays_good(b: &mut Bench<'_>) -> Verdict {
    let root = mounted(b)?.directory;
    b.root()?;
    mounter(b).umnt(mount::VERSION_3, &b.server.export)?;
    // The list is for people; a server keeps no state about its clients.
    b.v3.attributes(root)?;
    Ok(())
}

fn an_unknown_version_is_a_mismatch(b: &mut Bench<'_>) -> Verdict {
    let status = mounter(b).client.received(procedure(9, null::NUMBER), &())?;
    let right = matches!(&status, ReplyStatus::ProgramMismatch(versions) if versions.high < 9);
    ensure!(right, "version 9 of MOUNT is answered {status:?}");
    Ok(())
}

fn an_unknown_procedure_is_unavailable(b: &mut Bench<'_>) -> Verdict {
    let status =
        needs(b, mount::VERSION_3)?.client.received(procedure(mount::VERSION_3, 6), &())?;
    equal("procedure 6 of version 3", status, ReplyStatus::ProcedureUnavailable)
}

fn half_a_path_is_garbage(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_3)?;
    let words = crate::client::Words(&[100, 0x2f78_7878]);
    let mnt = procedure(mount::VERSION_3, mount::mnt::NUMBER);
    equal("MNT", mounter.client.received(mnt, &words)?, ReplyStatus::GarbageArguments)
}

fn version_1_mounts(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_1)?;
    b.root2()?;
    let root = mounter.old_mnt(mount::VERSION_1, &b.server.export)?.done()?;
    equal("type", b.v2.attributes(root)?.file_type, nfs2::FileType::Directory)
}

fn version_1_says_an_error_number(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_1)?;
    b.root2()?;
    let answered = mounter.old_mnt(mount::VERSION_1, "/there/is/no/such/directory")?;
    ensure!(!answered.is_done(), "a missing path is mounted");
    Ok(())
}

fn version_1_lists_the_export(b: &mut Bench<'_>) -> Verdict {
    let exports = needs(b, mount::VERSION_1)?.exports(mount::VERSION_1)?;
    is_listed(b, &exports)
}

fn version_1_and_3_keep_one_list(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_1)?;
    needs(b, mount::VERSION_3)?;
    mounter.mnt(&b.server.export)?.done()?;
    let by_3 = entries(&mut mounter, mount::VERSION_3)?;
    let by_1 = entries(&mut mounter, mount::VERSION_1)?;
    equal("entries by version 1", by_1, by_3)
}

fn version_2_has_pathconf(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_2)?;
    let limits = mounter.pathconf(&b.server.export)?;
    if let Ok(expected) = b.limits() {
        equal("longest name", limits.name_bytes_max & 0xffff, expected.name_bytes_max & 0xffff)?;
    }
    Ok(())
}

fn exportall_is_export(b: &mut Bench<'_>) -> Verdict {
    let mut mounter = needs(b, mount::VERSION_1)?;
    let exportall = procedure(mount::VERSION_1, mount::exportall::NUMBER);
    // Old servers had it, and no standard has it.
    if mounter.client.received(exportall, &())? == ReplyStatus::ProcedureUnavailable {
        return Err(Stop::skip("EXPORTALL is not supported"));
    }
    let all = mounter.exports_all(mount::VERSION_1)?;
    equal("EXPORTALL", all, mounter.exports(mount::VERSION_1)?)
}
