mod model;
mod names;

use leasehold_base::attributes::{Mode, SetTime};

use core::time::Duration;

use super::*;
use crate::dialogue::{lines, play, value};

const FILE: ObjectKey = ObjectKey(7);
const DIRECTORY: ObjectKey = ObjectKey(8);
/// The time of day of writes.
const NOW: FileTime = FileTime { seconds: 900, nanoseconds: 0 };

/// Small limits, so that the tests reach each of them.
fn options() -> Options {
    Options {
        bytes_max: 64,
        unsaved_bytes_max: 32,
        names_max: 8,
        names_of_new: true,
        writes_gaps: false,
        file_trust: (Duration::from_secs(3), Duration::from_secs(60)),
        directory_trust: (Duration::from_secs(30), Duration::from_secs(60)),
        other_trust: (Duration::from_secs(3), Duration::from_secs(60)),
        read_bytes: 8,
        ahead_bytes: 16,
        write_bytes: 8,
        write_delay: Duration::from_secs(5),
        always_stable: false,
        calls_of_file_max: 3,
        calls_max: 4,
    }
}

/// A striped file is read ahead far enough to use all its servers, if the reader is sequential and
/// reads whole READs; other readers get the usual read-ahead.
#[test]
fn a_sequential_reader_of_a_striped_file_gets_a_longer_read_ahead() {
    let options = Options { ahead_bytes: 8, ..options() };
    let mut ahead = super::file::Ahead::default();
    ahead.read(&(0..8), &options);
    assert_eq!(ahead.goal, 16);
    ahead.spread(40, &options);
    assert_eq!(ahead.goal, 48, "also while the file is being read");
    ahead.read(&(8..16), &options);
    assert_eq!(ahead.goal, 56);
    ahead.read(&(16..20), &options);
    assert_eq!(ahead.goal, 24, "a small read");
    ahead.read(&(40..48), &options);
    assert_eq!(ahead.goal, 0, "out of order");
    ahead.spread(40, &options);
    assert_eq!(ahead.goal, 0);
}

fn attributes(file_type: FileType, size: u64, modified: i64) -> Attributes {
    let time = FileTime { seconds: modified, nanoseconds: 0 };
    Attributes {
        file_type,
        mode: Mode::from_bits(0o644),
        link_count: 1,
        uid: 0,
        gid: 0,
        size,
        used: size,
        device: leasehold_base::attributes::Device::default(),
        file_system: leasehold_base::units::FileSystemId(1),
        file_id: leasehold_base::units::FileId(1),
        accessed: time,
        modified: time,
        changed: time,
    }
}

/// Of two threads that deliver replies, the second may have read the clock first. A request between
/// both clock values still counts as older than the reply of the first thread.
#[test]
fn a_reply_is_as_old_as_its_request() {
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    let mut cache: Cache<()> = Cache::new(options());
    let mut effects = Vec::new();
    let mut step = |cache: &mut Cache<()>, now, event| cache.step(now, event, &mut effects);
    let changed = |size, modified| Wcc {
        before: None,
        after: Some(attributes(FileType::Regular, size, modified)),
    };
    for _ in 0..2 {
        step(&mut cache, at(1), Event::BeginChange { object: FILE });
    }
    let asked = cache.ask(at(5));
    step(&mut cache, at(6), Event::EndChange { object: FILE, wcc: changed(20, 2) });
    step(&mut cache, at(4), Event::EndChange { object: FILE, wcc: changed(10, 1) });
    let old = attributes(FileType::Regular, 10, 1);
    step(&mut cache, at(7), Event::Observed { object: FILE, asked, attributes: old });
    assert_eq!(cache.attributes(at(7), FILE).map(|(known, _)| known.size), Some(20));
}

#[test]
fn dialogues() {
    play("cache", || {
        let mut cache = Cache::new(options());
        // A request has a label, which the event of its reply repeats.
        let mut asked = BTreeMap::new();
        move |now, words| {
            if words[0] == "options" {
                cache = Cache::new(opening(words));
                return vec![];
            }
            if let Some(said) = question(&mut cache, &mut asked, now, words) {
                return said;
            }
            let asked = match value::<String>(words, "asked") {
                Some(name) => asked[&name],
                None => cache.ask(now),
            };
            let mut effects = Vec::new();
            cache.step(now, event(words, asked), &mut effects);
            cache.check();
            lines(&effects)
        }
    });
}

/// `options`, with any of `stable`, `gaps`, `ahead`, `delay` and `calls`.
fn opening(words: &[&str]) -> Options {
    Options {
        always_stable: words.contains(&"stable"),
        writes_gaps: words.contains(&"gaps"),
        ahead_bytes: value(words, "ahead").unwrap_or(0),
        write_delay: Duration::from_secs(value(words, "delay").unwrap_or(5)),
        calls_max: value(words, "calls").unwrap_or(4),
        ..options()
    }
}

/// A query of the cache: `ask NAME`, `attributes`, `times`, `find NAME`, `failure`, `wake`,
/// `bytes`.
fn question(
    cache: &mut Cache<&'static str>,
    asked: &mut BTreeMap<String, Asked>,
    now: Time,
    words: &[&str],
) -> Option<Vec<String>> {
    let object = if words.contains(&"dir") { DIRECTORY } else { FILE };
    let said = match words[0] {
        "ask" => {
            asked.insert(words[1].to_owned(), cache.ask(now));
            return Some(vec![]);
        }
        "attributes" => {
            cache.attributes(now, object).map_or("unknown".to_owned(), |(known, span)| {
                let Attributes { size, mode, .. } = known;
                let mode = mode.bits();
                let mode = if mode == 0o644 { String::new() } else { format!(" mode {mode:o}") };
                format!("size {size} modified {}{mode} for {span:?}", known.modified.seconds)
            })
        }
        "times" => {
            let at = value(words, "at").map_or(NOW, |seconds| FileTime { seconds, ..NOW });
            let (known, _) = cache.attributes(now, object).expect("the object is known");
            let times = cache.times(object, at);
            let (modified, changed) = (known.modified.seconds, known.changed.seconds);
            format!("{times:?} modified {modified} changed {changed} used {}", known.used)
        }
        "find" => format!("{:?}", cache.find(now, DIRECTORY, words[1].as_bytes())),
        "names" => format!("{}", cache.names()),
        "failure" => format!("{:?}", cache.failure(FILE)),
        "wake" => format!("{:?}", cache.next_wake().map(|wake| wake.since(Time::ZERO))),
        "bytes" => format!("{:?} {:?}", cache.bytes(), cache.counters()),
        _ => return None,
    };
    Some(vec![said])
}

/// `[mode MODE] [to SECONDS] [size SIZE]`.
fn setting(words: &[&str]) -> SetAttributes {
    let mode = value::<String>(words, "mode").map(|mode| {
        let bits = u32::from_str_radix(&mode, 8).expect("a mode");
        Mode::from_bits(bits)
    });
    let modified = value(words, "to")
        .map_or(SetTime::Keep, |seconds| SetTime::To(FileTime { seconds, nanoseconds: 0 }));
    let size = value(words, "size");
    SetAttributes { mode, modified, size, ..SetAttributes::default() }
}

/// The attributes of a reply with a size under a label: `[modified SECONDS] [changed SECONDS]`.
fn told(words: &[&str], object: ObjectKey, name: &str) -> Option<Attributes> {
    let size = value(words, name)?;
    let file_type = if object == DIRECTORY { FileType::Directory } else { FileType::Regular };
    let told = attributes(file_type, size, value(words, "modified").unwrap_or(100));
    let changed = value(words, "changed").map(|seconds| FileTime { seconds, nanoseconds: 0 });
    Some(Attributes { changed: changed.unwrap_or(told.changed), ..told })
}

fn event(words: &[&str], asked: Asked) -> Event<&'static str> {
    let number = |name: &str| value::<u64>(words, name);
    let ticket = Ticket(number("ticket").unwrap_or(0));
    let file = number("file").map_or(FILE, ObjectKey);
    let object = if words.contains(&"dir") { DIRECTORY } else { file };
    let job = JobId(number("job").unwrap_or(0));
    let offset = number("at").unwrap_or(0);
    let data = || Bytes::from(value::<String>(words, "data").unwrap_or_default());
    let verifier = |name: &str| number(name).map(u64::to_be_bytes);
    let told = |name: &str| told(words, object, name);
    let wcc = Wcc {
        before: value(words, "before").map(|modified| {
            attributes(FileType::Regular, number("was").expect("its size"), modified).before()
        }),
        after: told("size"),
    };
    let fine = if words.contains(&"refused") { Err("refused") } else { Ok(()) };
    match words[0] {
        "read" => {
            Event::Read { ticket, file, offset, count: value(words, "count").expect("a count") }
        }
        "write" => Event::Write { ticket, file, offset, data: data(), at: NOW },
        "alter" => Event::Alter { file, set: setting(words), at: NOW },
        "show" => Event::Show { file },
        "sync" => Event::Sync { ticket, file },
        "hold" => Event::Hold { ticket, file },
        "release" => Event::Release { file },
        "resized" => Event::Resized { file, size: number("to").expect("a size") },
        "overwritten" => Event::Overwritten { file, range: offset..number("to").expect("where") },
        "discard" => Event::Discard { file },
        "observed" => Event::Observed { object, asked, attributes: told("size").expect("size") },
        "begin" => Event::BeginChange { object },
        "end" => Event::EndChange { object, wcc },
        "named" => Event::Named {
            directory: DIRECTORY,
            name: words[1].as_bytes().into(),
            target: number("object").map(ObjectKey),
            source: if words.contains(&"listed") { Source::Listed } else { Source::Asked },
            asked,
        },
        "fetched" => {
            let end = words.contains(&"end");
            let told = Fetched { data: data(), end, attributes: told("size") };
            Event::Fetched { job, result: fine.map(|()| told) }
        }
        "stored" => {
            let count = value(words, "count").unwrap_or(8);
            let set = words.contains(&"set");
            let told = Stored { count, unstable: verifier("unstable"), wcc, set };
            Event::Stored { job, result: fine.map(|()| told) }
        }
        "committed" => {
            let verifier = verifier("verifier").unwrap_or_default();
            Event::Committed { job, result: fine.map(|()| Committed { verifier, wcc }) }
        }
        "altered" => Event::Altered { job, result: fine.map(|()| wcc) },
        "empty" => Event::Empty { directory: DIRECTORY },
        "unnamed" => Event::Unnamed { directory: DIRECTORY, name: words[1].as_bytes().into() },
        "distrust" => Event::Distrust { object },
        "replaced" => Event::Replaced { object },
        "invalidate" => Event::Invalidate { object },
        "forget" => Event::Forget { object },
        "tick" => Event::Tick,
        other => panic!("no such event: {other}"),
    }
}
