//! FSSTAT, FSINFO and PATHCONF of version 3: the server's report of its file system.

use super::prelude::*;
use crate::v3::size;

pub(crate) const GROUP: Group = Group {
    name: "v3_system",
    about: "FSSTAT, FSINFO and PATHCONF of version 3: the report of the file system",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        free_room_is_part_of_all_room: "RFC 1813 3.3.18",
        free_numbers_are_part_of_all_numbers: "RFC 1813 3.3.18",
        fsstat_takes_any_object: "RFC 1813 3.3.18, fsroot",
        fsstat_sees_what_is_written: "RFC 1813 3.3.18, fbytes",
        fsinfo_takes_any_object: "RFC 1813 3.3.19, implementation",
        preferred_sizes_are_within_the_largest: "RFC 1813 3.3.19, rtpref and wtpref",
        sizes_are_multiples_of_what_is_suggested: "RFC 1813 3.3.19, rtmult and wtmult",
        sizes_are_of_use: "RFC 1813 3.3.19, rtmax and wtmax",
        the_time_step_is_one: "RFC 1813 3.3.19, time_delta",
        links_and_symbolic_links_are_as_said: "RFC 1813 3.3.19, properties",
        times_can_be_set_if_said: "RFC 1813 3.3.19, FSF3_CANSETTIME",
        files_can_be_as_large_as_said: "RFC 1813 3.3.19, maxfilesize",
        pathconf_is_the_same_everywhere_if_said: "RFC 1813 3.3.19, FSF3_HOMOGENEOUS",
        long_names_are_refused_if_said: "RFC 1813 3.3.20, no_trunc",
        case_is_kept_if_said: "RFC 1813 3.3.20, case_preserving",
        as_many_names_as_said: "RFC 1813 3.3.20, linkmax",
        attributes_come_along: "RFC 1813 2.6, post_op_attr",
        the_mounted_root_answers_all_three: "RFC 1813 5.2.1",
    },
};

fn free_room_is_part_of_all_room(b: &mut Bench<'_>) -> Verdict {
    let root = b.root()?;
    let stat = b.v3.fsstat(root)?.done()?;
    ensure!(
        stat.available_bytes <= stat.free_bytes && stat.free_bytes <= stat.bytes,
        "{} of {} free of {} bytes are available",
        stat.available_bytes,
        stat.free_bytes,
        stat.bytes
    );
    Ok(())
}

fn free_numbers_are_part_of_all_numbers(b: &mut Bench<'_>) -> Verdict {
    let root = b.root()?;
    let stat = b.v3.fsstat(root)?.done()?;
    ensure!(
        stat.available_files <= stat.free_files && stat.free_files <= stat.files,
        "{} of {} free of {} files are available",
        stat.available_files,
        stat.free_files,
        stat.files
    );
    Ok(())
}

fn fsstat_takes_any_object(b: &mut Bench<'_>) -> Verdict {
    let (root, dir) = (b.root()?, b.dir()?);
    let file = b.v3.file(dir, "file", b"")?;
    let expected = b.v3.fsstat(root)?.done()?.bytes;
    equal("size by a directory", b.v3.fsstat(dir)?.done()?.bytes, expected)?;
    equal("size by a file", b.v3.fsstat(file)?.done()?.bytes, expected)
}

fn fsstat_sees_what_is_written(b: &mut Bench<'_>) -> Verdict {
    const SIZE: u64 = 8 << 20;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let before = b.v3.fsstat(dir)?.done()?;
    if before.available_bytes < 4 * SIZE {
        return Err(Stop::skip("there is hardly any space"));
    }
    let data = b.bytes(1 << 20);
    for number in 0..8 {
        b.v3.put(file, number << 20, &data)?;
    }
    let after = b.v3.fsstat(dir)?.done()?;
    // Other programs may have freed space meanwhile, so this is no proof.
    let used = before.free_bytes.saturating_sub(after.free_bytes);
    b.advise(used >= SIZE / 2, format!("after 8 MiB were written, {used} bytes are in use"));
    Ok(())
}

fn fsinfo_takes_any_object(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.fsinfo(dir)?.done()?;
    b.v3.fsinfo(file)?.done()?;
    Ok(())
}

fn preferred_sizes_are_within_the_largest(b: &mut Bench<'_>) -> Verdict {
    let info = b.info()?;
    ensure!(
        info.read_bytes_best <= info.read_bytes_max,
        "rtpref is {}, rtmax {}",
        info.read_bytes_best,
        info.read_bytes_max
    );
    ensure!(
        info.write_bytes_best <= info.write_bytes_max,
        "wtpref is {}, wtmax {}",
        info.write_bytes_best,
        info.write_bytes_max
    );
    Ok(())
}

fn sizes_are_multiples_of_what_is_suggested(b: &mut Bench<'_>) -> Verdict {
    let info = b.info()?;
    for (what, size, multiple) in [
        ("rtpref", info.read_bytes_best, info.read_bytes_multiple),
        ("wtpref", info.write_bytes_best, info.write_bytes_multiple),
    ] {
        let right = multiple > 0 && size % multiple == 0;
        b.advise(right, format!("{what} {size} is not a multiple of {multiple}"));
    }
    Ok(())
}

fn sizes_are_of_use(b: &mut Bench<'_>) -> Verdict {
    let info = b.info()?;
    for (what, size) in [
        ("rtmax", info.read_bytes_max),
        ("wtmax", info.write_bytes_max),
        ("dtpref", info.directory_bytes_best),
    ] {
        ensure!(size >= 512, "{what} is {size}");
        b.advise(size >= 8192, format!("{what} is {size}, less than version 2 has"));
    }
    Ok(())
}

fn the_time_step_is_one(b: &mut Bench<'_>) -> Verdict {
    let step = b.info()?.time_step;
    ensure!(
        (step.seconds, step.nanoseconds) != (0, 0) && step.nanoseconds < 1_000_000_000,
        "time_delta is {step:?}"
    );
    Ok(())
}

fn links_and_symbolic_links_are_as_said(b: &mut Bench<'_>) -> Verdict {
    let (dir, properties) = (b.dir()?, b.info()?.properties);
    let file = b.v3.file(dir, "file", b"")?;
    let links = b.v3.link(file, dir, "link")?.is_done();
    equal("hard links", links, properties.links)?;
    let symlinks = b.v3.symlink(dir, "symlink", "file")?.is_done();
    equal("symbolic links", symlinks, properties.symlinks)
}

fn times_can_be_set_if_said(b: &mut Bench<'_>) -> Verdict {
    let (dir, said) = (b.dir()?, b.info()?.properties.can_set_time);
    let file = b.v3.file(dir, "file", b"")?;
    let time = leasehold_wire::nfs3::Time { seconds: 1_000_000_000, nanoseconds: 0 };
    let set = SetAttributes { modified: SetTime::To(time), ..SetAttributes::default() };
    let answered = b.v3.setattr(file, set)?;
    if said {
        answered.done()?;
        return equal("modification time", b.v3.attributes(file)?.modified, time);
    }
    ensure!(!answered.is_done(), "times can be set although FSINFO reports that they cannot");
    Ok(())
}

fn files_can_be_as_large_as_said(b: &mut Bench<'_>) -> Verdict {
    let (dir, most) = (b.dir()?, b.info()?.file_bytes_max);
    let file = b.v3.file(dir, "file", b"")?;
    let answered = b.v3.setattr(file, size(most))?;
    match answered.status() {
        None => equal("size", b.v3.attributes(file)?.size, most)?,
        Some(Status::NoSpace | Status::QuotaExceeded) => {}
        status => b.advise(false, format!("a file of maxfilesize {most} is answered {status:?}")),
    }
    b.v3.setattr(file, size(0))?.done()?;
    Ok(())
}

fn pathconf_is_the_same_everywhere_if_said(b: &mut Bench<'_>) -> Verdict {
    if !b.info()?.properties.homogeneous {
        return Err(Stop::skip("FSINFO says that PATHCONF differs"));
    }
    let (root, dir) = (b.root()?, b.dir()?);
    let file = b.v3.file(dir, "file", b"")?;
    let mut answers = Vec::new();
    for object in [root, dir, file] {
        let done = b.v3.pathconf(object)?.done()?;
        answers.push(leasehold_wire::nfs3::pathconf::Done { attributes: None, ..done });
    }
    equal("PATHCONF of a directory", answers[1], answers[0])?;
    equal("PATHCONF of a file", answers[2], answers[0])
}

fn long_names_are_refused_if_said(b: &mut Bench<'_>) -> Verdict {
    let (dir, name) = (b.dir()?, super::too_long(b)?);
    b.v3.create(dir, name, super::plain_file())?.refused(&[Status::NameTooLong])?;
    Ok(())
}

fn case_is_kept_if_said(b: &mut Bench<'_>) -> Verdict {
    if !b.limits()?.case_preserving {
        return Err(Stop::skip("PATHCONF reports that case is not preserved"));
    }
    let dir = b.dir()?;
    b.v3.file(dir, "MixedCase", b"")?;
    let listed = b.v3.list(dir, 4096)?;
    ensure!(listed.iter().any(|entry| entry.name == b"MixedCase"), "a name lost its case");
    Ok(())
}

fn as_many_names_as_said(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let (dir, most) = (b.dir()?, b.limits()?.link_max);
    if most > 200 {
        let file = b.v3.file(dir, "0", b"")?;
        for number in 1..100 {
            b.v3.link(file, dir, number.to_string())?.done()?;
        }
        return equal("number of names", b.v3.attributes(file)?.link_count, 100);
    }
    let file = b.v3.file(dir, "0", b"")?;
    for number in 1..most {
        b.v3.link(file, dir, number.to_string())?.done()?;
    }
    let more = b.v3.link(file, dir, "more")?;
    b.advise(!more.is_done(), format!("a file can have more names than linkmax {most}"));
    if !more.is_done() {
        more.refused(&[Status::TooManyLinks])?;
    }
    Ok(())
}

fn attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let given = [
        ("FSSTAT", b.v3.fsstat(dir)?.done()?.attributes),
        ("FSINFO", b.v3.fsinfo(dir)?.done()?.attributes),
        ("PATHCONF", b.v3.pathconf(dir)?.done()?.attributes),
    ];
    let expected = b.v3.attributes(dir)?;
    for (name, attributes) in given {
        match attributes {
            Some(attributes) => super::same(name, attributes, expected)?,
            None => b.advise(false, format!("{name} should give attributes")),
        }
    }
    Ok(())
}

fn the_mounted_root_answers_all_three(b: &mut Bench<'_>) -> Verdict {
    let root = b.root()?;
    b.v3.fsstat(root)?.done()?;
    b.v3.fsinfo(root)?.done()?;
    b.v3.pathconf(root)?.done()?;
    Ok(())
}
