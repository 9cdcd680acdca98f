//! Options of nfs(5) and mount(8) that a mount accepts although they have no effect, each with the
//! reason. The mount rejects an option if the user would miss its effect: an option that requests a
//! protection, or another location of data.

/// The reason why an option has no effect.
type Reason = &'static str;

const CALLS: Reason = "this client has other options for calls and timeouts";
const FINDS: Reason = "mountport= or the portmapper locates MOUNT";
const BACKGROUND: Reason = "a mount fails at once; x-systemd.automount retries";
const LISTS: Reason = "the server evaluates access lists, and listings are requested as needed";
const LEASES: Reason = "leases, or cache=, control the lifetime of cached data";
const LOCKS: Reason = "locks are local to this machine";
const VERSION_4: Reason = "it belongs to version 4";
const READING: Reason = "the server updates access times, or never";
const NO_DISK: Reason = "data is cached in memory only";
const MOUNTS: Reason = "each mount has its own cache";
const KERNEL: Reason = "the kernel reports it for an existing mount";
const SAYS: Reason = "it concerns the messages of mount(8)";

/// The accepted options without an effect, each with the reason. An option may have a value.
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

/// Returns the reason why an accepted option has no effect; `None` for an option with an effect, or
/// for an unknown option.
pub(super) fn reason(name: &str, value: Option<&str>) -> Option<Reason> {
    match (name, value) {
        ("lookupcache", Some("all" | "pos" | "positive")) => return Some(LEASES),
        ("write", Some("lazy" | "eager")) => return Some(CALLS),
        _ => {}
    }
    OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

/// Returns the reason why an option of nfs(5) or mount(8) is rejected.
pub(super) fn refusal(name: &str, value: Option<&str>) -> Option<String> {
    let why = match (name, value) {
        ("xprtsec", _) => "only xprtsec=none is supported: connections are not encrypted",
        ("rdma" | "nocto" | "mand" | "minorversion" | "mounthost", _) => "not supported",
        ("context" | "fscontext" | "defcontext" | "rootcontext", _) => {
            "labels of a security module are not supported"
        }
        ("lookupcache", _) => "lookupcache is all or positive; cache=none caches no names",
        ("write", _) => "write is lazy, eager or wait",
        ("bind" | "rbind" | "move", _) => "it belongs to mount(8) itself",
        _ => return None,
    };
    Some(format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_unique_and_sorted() {
        assert!(OPTIONS.is_sorted_by(|(one, _), (next, _)| one < next));
    }
}
