//! Options of nfs(5) and mount(8) that a mount takes and that change nothing here, each with the
//! reason. An option is refused where a mount without the option would not be the same to its user:
//! where the option asks for a protection, or for data to be elsewhere.

/// The reason that an option changes nothing.
type Reason = &'static str;

const CALLS: Reason = "calls and waits have options of their own here";
const FINDS: Reason = "MOUNT is found by mountport=, or by what the portmapper says";
const BACKGROUND: Reason = "a mount fails at once; x-systemd.automount tries again";
const LISTS: Reason = "access lists are judged by the server, and listings bring what is asked for";
const LEASES: Reason = "leases, or cache=, say how long what is known is good";
const LOCKS: Reason = "locks are this machine's own";
const VERSION_4: Reason = "it is of version 4";
const READING: Reason = "reading moves times at the server, or never";
const NO_DISK: Reason = "data is cached in memory alone";
const MOUNTS: Reason = "each mount has a cache of its own";
const KERNEL: Reason = "the kernel says so of a mount that stands";
const SAYS: Reason = "it is about what is said at mounting";

/// Options that stand for themselves, or with a value.
const OPTIONS: &[(&str, Reason)] = &[
    ("acl", LISTS),
    ("addr", FINDS),
    ("bg", BACKGROUND),
    ("blksize", KERNEL),
    ("clientaddr", VERSION_4),
    ("cto", LEASES),
    ("diratime", READING),
    ("fg", BACKGROUND),
    ("fsc", NO_DISK),
    ("fsname", KERNEL),
    ("group_id", KERNEL),
    ("intr", CALLS),
    ("iversion", LEASES),
    ("lazytime", READING),
    ("local_lock", LOCKS),
    ("lock", LOCKS),
    ("loud", SAYS),
    ("max_connect", VERSION_4),
    ("max_read", KERNEL),
    ("migration", VERSION_4),
    ("mountaddr", FINDS),
    ("mountproto", FINDS),
    ("mountvers", FINDS),
    ("namlen", LISTS),
    ("nfsd_fs", FINDS),
    ("noacl", LISTS),
    ("nodiratime", READING),
    ("nofsc", NO_DISK),
    ("nointr", CALLS),
    ("noiversion", LEASES),
    ("nolazytime", READING),
    ("nomand", LOCKS),
    ("nomigration", VERSION_4),
    ("noposix", LISTS),
    ("nordirplus", LISTS),
    ("norelatime", READING),
    ("nosharecache", MOUNTS),
    ("nosoftreval", LEASES),
    ("nostrictatime", READING),
    ("notrunkdiscovery", VERSION_4),
    ("posix", LISTS),
    ("rdirplus", LISTS),
    ("retry", BACKGROUND),
    ("rootmode", KERNEL),
    ("sharecache", MOUNTS),
    ("silent", SAYS),
    ("softreval", LEASES),
    ("strictatime", READING),
    ("subtype", KERNEL),
    ("trunkdiscovery", VERSION_4),
    ("user_id", KERNEL),
];

/// The reason that an option changes nothing here; none for an option with an effect, or an unknown
/// option.
pub(super) fn reason(name: &str, value: Option<&str>) -> Option<Reason> {
    match (name, value) {
        ("lookupcache", Some("all" | "pos" | "positive")) => return Some(LEASES),
        ("write", Some("lazy" | "eager")) => return Some(CALLS),
        _ => {}
    }
    OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

/// The reason that an option of nfs(5) or mount(8) cannot be had.
pub(super) fn refusal(name: &str, value: Option<&str>) -> Option<String> {
    let why = match (name, value) {
        ("xprtsec", _) => "xprtsec is none: the connection is not encrypted",
        ("rdma" | "nocto" | "mand" | "minorversion" | "mounthost", _) => "it is not to be had",
        ("context" | "fscontext" | "defcontext" | "rootcontext", _) => {
            "labels of a security module are not to be had"
        }
        ("lookupcache", _) => "lookupcache is all or positive; cache=none keeps no names",
        ("write", _) => "write is lazy, eager or wait",
        ("bind" | "rbind" | "move", _) => "it is for mount(8) itself",
        _ => return None,
    };
    Some(format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_stands_once_and_in_order() {
        assert!(OPTIONS.is_sorted_by(|(one, _), (next, _)| one < next));
    }
}
