use std::fs::{self, OpenOptions};
use std::time::Duration;

use leasehold_serve::ReplyJournal as _;
use tempfile::TempDir;

use super::*;

const NOW: Time = Time::from_nanoseconds(1_000_000_000_000);

fn ago(seconds: u64) -> Time {
    Time::from_nanoseconds(NOW.as_nanoseconds() - seconds * 1_000_000_000)
}

fn noted(slot: u32, given: Time, note: &[u8]) -> Noted {
    Noted { slot, given, note: Bytes::copy_from_slice(note) }
}

/// A state directory.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory for the test"))
    }

    fn open(&self) -> (ReplyJournal, Vec<Noted>) {
        self.open_with(Changes::Stable)
    }

    fn open_with(&self, changes: Changes) -> (ReplyJournal, Vec<Noted>) {
        ReplyJournal::open(self.0.path(), changes, NOW, || true).expect("the journal opens")
    }

    fn found(&self) -> Vec<Noted> {
        self.open().1
    }

    fn damaged(&self) -> usize {
        self.open().0.pages().expect("it can be read").1
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.0.path().join(NAME)).expect("the file is there")
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.0.path().join(NAME), bytes).expect("the file can be written");
    }
}

/// The number of a slot that the first read of the file does not cover.
const THIRD: u32 = 130;

const _: () = assert!(THIRD as usize > READ_SLOTS);

/// Entries of the minimum, a usual and the maximum length, with free slots in between.
fn three() -> [Noted; 3] {
    [noted(0, ago(3), b""), noted(1, ago(1), b"a note"), noted(THIRD, ago(2), &[7; NOTE_BYTES_MAX])]
}

fn write(reply_journal: &ReplyJournal, notes: &[Noted]) {
    notes.iter().for_each(|noted| reply_journal.write(noted.slot, noted.given, &noted.note));
}

#[test]
fn written_entries_are_found() {
    let home = Home::new();
    let (reply_journal, found) = home.open();
    assert_eq!(found, []);
    reply_journal.write(1, ago(9), &[8; NOTE_BYTES_MAX]);
    write(&reply_journal, &three());
    // The drop without a close leaves the file as a killed process leaves it.
    drop(reply_journal);
    assert_eq!(home.found(), three());
    home.open().0.close().expect("the disk takes it");
    assert_eq!(home.found(), three());
}

#[test]
fn last_slot_holds_an_entry() {
    let home = Home::new();
    let last = u32::try_from(REPLIES_MAX - 1).expect("they are few");
    let notes = [noted(last, NOW, b"last")];
    write(&home.open().0, &notes);
    assert_eq!(home.found(), notes);
    // The slot behind the last one does not exist.
    write(&home.open().0, &[noted(last + 1, NOW, b"behind")]);
    assert_eq!(home.found(), notes);
}

#[test]
fn truncated_file_loses_only_the_cut_entries() {
    let home = Home::new();
    write(&home.open().0, &three());
    let whole = home.bytes();
    let ends = [NOTE_AT, SLOT_BYTES + NOTE_AT + 6, whole.len()];
    for length in (0..whole.len()).step_by(997).chain(ends.map(|end| end - 1)).chain(ends) {
        home.put(&whole[..length]);
        let left = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(home.found(), three()[..left], "{length} bytes");
        assert!(home.damaged() <= 1, "no more than one is cut");
    }
    home.put(&whole[..whole.len() - 1]);
    assert_eq!(home.damaged(), 1);
    home.put(&whole[..100]);
    write(&home.open().0, &three());
    assert_eq!(home.found(), three());
}

#[test]
fn flipped_bit_loses_one_entry() {
    let home = Home::new();
    write(&home.open().0, &three());
    let whole = home.bytes();
    let note = SLOT_BYTES..SLOT_BYTES + NOTE_AT + 6;
    for bit in 0..note.len() * 8 {
        let mut slot = whole[note.clone()].to_vec();
        slot[bit / 8] ^= 1 << (bit % 8);
        assert!(Page::read(1, &slot).is_none(), "bit {bit}");
    }
    let mut bytes = whole;
    bytes[note.end - 1] ^= 1;
    home.put(&bytes);
    let [first, _, third] = three();
    assert_eq!(home.found(), [first, third]);
    assert_eq!(home.damaged(), 1);
}

#[test]
fn entry_in_the_wrong_slot_is_invalid() {
    let home = Home::new();
    write(&home.open().0, &three());
    let mut bytes = home.bytes();
    bytes.copy_within(SLOT_BYTES..2 * SLOT_BYTES, 0);
    home.put(&bytes);
    assert_eq!(home.found(), three()[1..]);
}

#[test]
fn foreign_file_is_overwritten() {
    let home = Home::new();
    for bytes in [vec![0; 5000], vec![0xff; 5000], b"LHN2 of another version".repeat(99)] {
        home.put(&bytes);
        let (reply_journal, found) = home.open();
        assert_eq!(found, []);
        write(&reply_journal, &three());
        drop(reply_journal);
        assert_eq!(home.found(), three());
    }
}

#[test]
fn entry_age_after_a_reboot_is_its_age_at_the_last_entry() {
    let home = Home::new();
    let (mut reply_journal, _) = home.open();
    for (boot, slot) in [(1, 10_u64), (2, 20)] {
        reply_journal.boot = boot;
        // The clock of each boot begins at another time.
        let given = |seconds: u64| Time::from_nanoseconds((5000 * slot + seconds) * 1_000_000_000);
        for (slot, seconds) in [(slot, 300), (slot + 1, 100)] {
            reply_journal.write(u32::try_from(slot).expect("it is small"), given(seconds), b"old");
        }
    }
    drop(reply_journal);
    let old = [(10, 0), (11, 200), (20, 0), (21, 200)];
    let old = old.map(|(slot, age)| noted(slot, ago(age), b"old"));
    assert_eq!(home.found(), old);
    // The start has converted the entries, so they now belong to this boot, and their age grows
    // with its clock.
    let later = NOW + Duration::from_secs(60);
    let found =
        ReplyJournal::open(home.0.path(), Changes::Stable, later, || true).expect("it opens").1;
    assert_eq!(found, old);
}

/// Entries of a run in memory must not be valid after a power failure, even if the next run uses
/// the disk.
#[test]
fn memory_entries_are_void_after_a_reboot_and_for_disk_runs() {
    let home = Home::new();
    let memory = || home.open_with(Changes::InMemory);
    let (mut reply_journal, _) = memory();
    reply_journal.write(0, ago(1), b"of this boot");
    reply_journal.boot = 1;
    reply_journal.write(1, ago(1), b"of another");
    drop(reply_journal);
    assert_eq!(home.found(), [], "the disk may lack both");
    let this = [noted(0, ago(1), b"of this boot")];
    assert_eq!(memory().1, this, "memory lacks what was in that of another boot");
    // Entries of changes on the disk are valid for every server. A server writes them back with its
    // own durability.
    let (mut reply_journal, _) = home.open();
    reply_journal.boot = 1;
    reply_journal.write(2, NOW, b"on the disk");
    drop(reply_journal);
    let both = [this[0].clone(), noted(2, NOW, b"on the disk")];
    assert_eq!(memory().1, both);
    assert_eq!(memory().1, both);
    assert_eq!(home.found(), []);
}

#[test]
fn entry_times_are_clamped_to_the_clock() {
    let home = Home::new();
    let (mut reply_journal, _) = home.open();
    reply_journal.write(0, NOW + Duration::from_secs(1), b"future");
    reply_journal.boot = 1;
    reply_journal.write(1, Time::ZERO, b"old");
    reply_journal.write(2, NOW + Duration::from_secs(1), b"new");
    drop(reply_journal);
    let found: Vec<Time> = home.found().iter().map(|noted| noted.given).collect();
    assert_eq!(found, [NOW, Time::ZERO, NOW]);
}

#[test]
fn second_server_cannot_open_the_journal() {
    let home = Home::new();
    let (reply_journal, _) = home.open();
    let error =
        ReplyJournal::open(home.0.path(), Changes::Stable, NOW, || true).expect_err("it is taken");
    assert!(error.to_string().contains("another server has them:"), "{error}");
    drop(reply_journal);
    home.open();
}

#[test]
fn full_disk_only_counts_lost_entries() {
    let file = OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let reply_journal =
        ReplyJournal { file, boot: 1, changes: Changes::Stable, lost: AtomicU64::new(0) };
    write(&reply_journal, &three());
    assert_eq!(reply_journal.lost.load(Ordering::Relaxed), 3);
    // An entry that is too long for a slot also counts as lost.
    reply_journal.write(0, NOW, &[0; NOTE_BYTES_MAX + 1]);
    assert_eq!(reply_journal.lost.load(Ordering::Relaxed), 4);
}

#[test]
fn file_is_readable_by_the_server_user_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    home.open();
    let mode = fs::metadata(home.0.path().join(NAME)).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn marked_entries_need_a_successful_sync_in_the_same_boot() {
    let home = Home::new();
    let open = |changes, sync: bool| {
        let mut asked = false;
        let sync = || {
            asked = true;
            sync
        };
        let opened = ReplyJournal::open(home.0.path(), changes, NOW, sync).expect("it opens");
        (opened.0, opened.1, asked)
    };
    let (reply_journal, ..) = open(Changes::Stable, true);
    write(&reply_journal, &three()[..2]);
    let made = &three()[2];
    reply_journal.write_made(made.slot, made.given, &made.note);
    drop(reply_journal);
    // After a failed sync the change may be lost, and the kernel does not report that failure to a
    // later sync. The next start must therefore not find the marked entry.
    let (reply_journal, found, asked) = open(Changes::Stable, false);
    assert_eq!((&found[..], asked), (&three()[..2], true));
    drop(reply_journal);
    let (reply_journal, found, asked) = open(Changes::Stable, true);
    assert_eq!((&found[..], asked), (&three()[..2], false));
    reply_journal.write_made(made.slot, made.given, &made.note);
    drop(reply_journal);
    let (reply_journal, found, asked) = open(Changes::Stable, true);
    assert_eq!((&found[..], asked), (&three()[..], true));
    drop(reply_journal);
    // After a successful sync the entry has no mark, so the next start does not sync.
    let (reply_journal, found, asked) = open(Changes::Stable, false);
    assert_eq!((&found[..], asked), (&three()[..], false));
    // The entry of the completed call replaces the marked entry.
    reply_journal.write_made(0, ago(1), b"made");
    reply_journal.write(0, ago(1), b"done");
    drop(reply_journal);
    let (reply_journal, found, asked) = open(Changes::Stable, false);
    assert_eq!((found.len(), &found[0].note[..], asked), (3, &b"done"[..], false));
    // In another boot the change of a marked entry may be lost, so the entry is ignored.
    reply_journal.write_made(1, ago(1), b"made");
    drop(reply_journal);
    let mut bytes = home.bytes();
    bytes[SLOT_BYTES + BOOT_AT] ^= 1;
    let (head, note) = bytes[SLOT_BYTES..].split_at(NOTE_AT);
    let sum = checksum(1, &head[..CHECKSUM_AT], &note[..4]).to_be_bytes();
    bytes[SLOT_BYTES + CHECKSUM_AT..SLOT_BYTES + NOTE_AT].copy_from_slice(&sum);
    home.put(&bytes);
    let (_, found, asked) = open(Changes::Stable, true);
    assert_eq!((found.len(), asked), (2, false));
}

/// A start removes the marked entries before its sync: if it is killed during the sync, it cannot
/// report to the next start that the sync failed.
#[test]
fn start_removes_marked_entries_before_it_syncs() {
    let home = Home::new();
    let (reply_journal, _) = home.open();
    reply_journal.write_made(0, ago(1), b"made");
    drop(reply_journal);
    let mut during = Vec::new();
    let sync = || {
        during = home.bytes();
        true
    };
    let opened = ReplyJournal::open(home.0.path(), Changes::Stable, NOW, sync).expect("it opens");
    assert_eq!(opened.1.len(), 1);
    drop(opened);
    assert!(during.iter().all(|byte| *byte == 0), "the kill leaves no note");
    assert_eq!(home.found().len(), 1, "the note is back after the sync");
}
