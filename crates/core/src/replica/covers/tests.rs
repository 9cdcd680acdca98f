//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play, value};
use crate::replica::tests::{SMALL, object};

#[test]
fn dialogues() {
    play("replica/covers", || {
        let bounds = Bounds { most: 4, ..SMALL };
        let mut covers = Covers::new(bounds, Duration::from_secs(100));
        move |now, words| {
            let ticket = || Ticket(words[1].parse().expect("a ticket"));
            let call = || Call(words[1].parse().expect("a call"));
            let serial = || Serial(value(words, "serial").expect("a number"));
            let kind = |word: &str| match word {
                "read" => Kind::Read,
                "write" => Kind::Write,
                other => panic!("no such kind: {other}"),
            };
            let need = |purpose| {
                let (ticket, object, kind) = (ticket(), object(words[2]), kind(words[3]));
                Event::Need(Need { ticket, object, kind, purpose })
            };
            let event = match words[0] {
                "use" => need(Purpose::Use),
                "lend" => need(Purpose::Lend),
                "done" => Event::Done(object(words[2]), ticket()),
                "granted" => {
                    let term = Duration::from_secs(value(words, "term").expect("seconds"));
                    Event::Granted(call(), kind(words[2]), serial(), term)
                }
                "refused" => Event::Refused(call()),
                "evicted" => Event::Evicted(ticket(), object(words[2]), serial()),
                "vacated" => Event::Vacated(object(words[1])),
                "restarted" => Event::Restarted,
                "tick" => Event::Tick,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            covers.step(now, event, &mut effects);
            lines(&effects)
        }
    });
}
