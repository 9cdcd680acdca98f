//! Dialogues, one for each rule at least.

mod random;

use super::*;
use crate::dialogue::{play, value};
use leasehold_base::units::{FileId, FileSystemId};

#[test]
fn dialogues() {
    play("leases/holder", || {
        let mut holder = Holder::new();
        move |now, words| {
            let mut effects = Vec::new();
            holder.step(now, event(words), &mut effects);
            effects.iter().map(told).collect()
        }
    });
}

/// `use TICKET read|write [space BYTES]`, `granted REQUEST read|write SERIAL for SECONDS modrev M
/// [shared] [space BYTES]`, `nothing REQUEST`, `evicted SERIAL`, `inquired SERIAL ROUND`,
/// `withdrawn`, `dirtied [BYTES]`, `sync`, `wrote BEFORE AFTER`, `pushed`, `refused`, `changing`,
/// `changed [BEFORE AFTER]`, `opened no|read|write`, `released`, `restarted` and `tick`; each may
/// end with `of OBJECT`.
fn event(words: &[&str]) -> Event {
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let file = FileId(value(words, "of").unwrap_or(1));
    let object = Object { file_system: FileSystemId(0), file };
    let kind = |at: usize| if words[at] == "write" { Kind::Write } else { Kind::Read };
    let space = value(words, "space").unwrap_or(0);
    match words[0] {
        "use" => Event::Use(Ticket(number(1)), object, kind(2), space),
        "granted" => {
            let grant = Grant {
                kind: kind(2),
                cachable: !words.contains(&"shared"),
                term: Duration::from_secs(value(words, "for").expect("a term")),
                serial: Serial(number(3)),
                space,
            };
            let modrev = Modrev(value(words, "modrev").expect("a modrev"));
            Event::Answered(Request(number(1)), Some((grant, modrev)))
        }
        "nothing" => Event::Answered(Request(number(1)), None),
        "evicted" => Event::Evicted(object, Serial(number(1))),
        "inquired" => Event::Inquired(object, Serial(number(1)), number(2)),
        "withdrawn" => Event::Withdrawn(object),
        "dirtied" => Event::Dirtied(object, words.get(1).and_then(|w| w.parse().ok()).unwrap_or(0)),
        "sync" => Event::Sync(object),
        "wrote" => Event::Wrote(object, Modrev(number(1)), Modrev(number(2))),
        "pushed" => Event::Pushed(object),
        "refused" => Event::Refused(object),
        "changing" => Event::Changing(object),
        "changed" => {
            let known = words.len() > 2;
            Event::Changed(object, known.then(|| (Modrev(number(1)), Modrev(number(2)))))
        }
        "opened" => {
            let open = match words[1] {
                "no" => Open::No,
                "read" => Open::Read,
                _ => Open::Write,
            };
            Event::Opened(object, open)
        }
        "released" => Event::Released(object),
        "restarted" => Event::Restarted,
        "tick" => Event::Tick,
        other => panic!("no such event: {other}"),
    }
}

fn told(effect: &Effect) -> String {
    match *effect {
        Effect::Use(ticket) => format!("use {}", ticket.0),
        Effect::Through(ticket) => format!("through {}", ticket.0),
        Effect::Full(ticket) => format!("full {}", ticket.0),
        Effect::Ask { request, object, kind, space, reclaim } => {
            let how = if reclaim { "reclaim" } else { "ask" };
            let space = if space == 0 { String::new() } else { format!(" space {space}") };
            format!("{how} {} {kind:?} of {}{space}", request.0, object.file.0)
        }
        Effect::Withdraw(object) => format!("withdraw {}", object.file.0),
        Effect::Push(object, serial, base) => {
            format!("push {} under {} from {}", object.file.0, serial.0, base.0)
        }
        Effect::Drop(object) => format!("drop {}", object.file.0),
        Effect::Rescue(object, base) => format!("rescue {} from {}", object.file.0, base.0),
        Effect::Report(object, serial, round, held) => {
            let held = if held { "" } else { " not held" };
            format!("report {} of {} round {round}{held}", serial.0, object.file.0)
        }
        Effect::Return(object, serial, open) => {
            format!("return {} of {} open {open:?}", serial.0, object.file.0)
        }
        Effect::Reclaimed => "reclaimed".to_owned(),
        Effect::Recovered => "recovered".to_owned(),
    }
}
