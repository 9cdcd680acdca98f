//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play, value};
use crate::replica::tests::{SMALL, object, place};

#[test]
fn dialogues() {
    play("replica/copies", || {
        let mut copies = Copies::new(SMALL);
        move |now, words| {
            let ticket = || Ticket(words[1].parse().expect("a ticket"));
            let call = || Call(words[1].parse().expect("a call"));
            let version = || Stamp(value(words, "version").expect("a version"));
            let event = match words[0] {
                "use" => Event::Use(ticket(), object(words[2])),
                "miss" => Event::Miss(ticket(), object(words[2])),
                "search" => Event::Search(ticket(), place(words[2])),
                "same" => Event::Fetched(call(), Answer::Same),
                "newer" => Event::Fetched(call(), Answer::Newer(version())),
                "gone" => Event::Fetched(call(), Answer::Gone),
                "found" => Event::Found(call(), object(words[2]), version()),
                "nowhere" => Event::Nowhere(call()),
                "vacant" => Event::Vacant(call()),
                "evicted" => Event::Evicted(object(words[1])),
                "restarted" => Event::Restarted,
                "failed" => Event::Failed(call()),
                "announced" => {
                    let places = words[4..].iter().map(|word| place(word)).collect();
                    Event::Announced(object(words[1]), version(), places)
                }
                "tick" => Event::Tick,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            copies.step(now, event, &mut effects);
            lines(&effects)
        }
    });
}
