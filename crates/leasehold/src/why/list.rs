//! Describes the entries of an access control list that apply to a caller (POSIX 1003.1e draft 17,
//! 23.1.5).

use std::path::Path;

use leasehold_fs::Caller;

/// The version number of the list's format in the kernel.
const VERSION: u32 = 2;

/// The kinds of entries, as numbered by the kernel.
const USER: u16 = 0x02;
const GROUP_OF_FILE: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;

/// One entry of an access control list.
#[derive(Clone, Copy)]
struct Entry {
    about: u16,
    permissions: u16,
    id: u32,
}

/// Reads the access control list of an object in the kernel's format; `None` if the object has no
/// list.
pub(super) fn of(path: &Path) -> Option<Vec<u8>> {
    // 64 KiB is the size of the largest list that the kernel accepts, so the buffer is always large
    // enough.
    let mut room = vec![0; 64 << 10];
    let length = rustix::fs::getxattr(path, "system.posix_acl_access", &mut room).ok()?;
    room.truncate(length);
    Some(room)
}

/// Describes the entries that apply to a caller that does not own the object; `group` is the
/// object's group. Returns `None` if no entry applies, or if the list has another format.
pub(super) fn says(list: &[u8], group: u32, caller: &Caller) -> Option<String> {
    let entries = entries(list)?;
    let of = |about: u16| entries.iter().filter(move |entry| entry.about == about);
    let mask = of(MASK).next().map(|entry| entry.permissions);
    let under = match mask {
        Some(mask) => format!(", under its mask {}", letters(mask)),
        None => String::new(),
    };
    if let Some(entry) = of(USER).find(|entry| entry.id == caller.uid) {
        let (uid, may) = (entry.id, letters(entry.permissions));
        return Some(format!("its access list gives user {uid} {may}{under}"));
    }
    let main = of(GROUP_OF_FILE).map(|entry| Entry { id: group, ..*entry });
    let groups = main.chain(of(GROUP).copied()).filter(|entry| caller.in_group(entry.id));
    let groups: Vec<_> =
        groups.map(|entry| format!("group {} {}", entry.id, letters(entry.permissions))).collect();
    let says = format!("its access list gives {}{under}", groups.join(", "));
    (!groups.is_empty()).then_some(says)
}

fn entries(list: &[u8]) -> Option<Vec<Entry>> {
    let (version, rest) = list.split_first_chunk::<4>()?;
    let (entries, []) = rest.as_chunks::<8>() else { return None };
    let entry = |&[a, b, c, d, e, f, g, h]: &[u8; 8]| Entry {
        about: u16::from_le_bytes([a, b]),
        permissions: u16::from_le_bytes([c, d]),
        id: u32::from_le_bytes([e, f, g, h]),
    };
    (u32::from_le_bytes(*version) == VERSION).then(|| entries.iter().map(entry).collect())
}

/// Formats permissions as `ls -l` does.
fn letters(permissions: u16) -> String {
    let letter = |bit, letter| if permissions & bit == 0 { '-' } else { letter };
    [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')].iter().collect()
}

#[cfg(test)]
mod tests {
    use leasehold_base::groups::Groups;

    use super::*;

    #[test]
    fn matching_entry_is_named() {
        let entry = |about: u16, permissions: u16, id: u32| {
            [&about.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let list = [
            2_u32.to_le_bytes().to_vec(),
            entry(0x01, 7, u32::MAX),
            entry(USER, 6, 1000),
            entry(GROUP_OF_FILE, 5, u32::MAX),
            entry(GROUP, 4, 200),
            entry(MASK, 4, u32::MAX),
            entry(0x20, 0, u32::MAX),
        ]
        .concat();
        let says = |uid, gid, groups: &[u32]| {
            let groups = Groups::of_server(groups);
            says(&list, 100, &Caller { uid, gid, groups })
        };
        let named = "its access list gives user 1000 rw-, under its mask r--";
        assert_eq!(says(1000, 200, &[]).as_deref(), Some(named));
        let both = "its access list gives group 100 r-x, group 200 r--, under its mask r--";
        assert_eq!(says(7, 100, &[200]).as_deref(), Some(both));
        assert_eq!(says(7, 7, &[]), None);
        for strange in [&list[..3], &list[..9], &[1; 12], &[]] {
            let caller = Caller { uid: 1000, gid: 1, groups: Groups::default() };
            assert_eq!(super::says(strange, 100, &caller), None);
        }
    }
}
