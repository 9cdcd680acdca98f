//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play, value};
use crate::replica::tests::{object, place};

#[test]
fn dialogues() {
    play("replica/names", || {
        let mut names = Names::default();
        move |_, words| {
            let ticket = || Ticket(words[1].parse().expect("a ticket"));
            let event = match words[0] {
                "claim" => {
                    let (noted, yielded) =
                        (value(words, "of").map(FileId), words.contains(&"yielded"));
                    let (place, object) = (place(words[2]), object(words[3]));
                    Event::Claim { ticket: ticket(), place, object, noted, yielded }
                }
                "retire" => {
                    let claims = words[3..].iter().map(|word| {
                        let (name, claimed) = word.split_once(':').expect("a name and an object");
                        (name.as_bytes().to_vec(), object(claimed))
                    });
                    Event::Retire(ticket(), object(words[2]), claims.collect())
                }
                "left" => Event::Left(place(words[1]), object(words[2])),
                "stands" => {
                    let stands = match words[2] {
                        "yes" => Stands::Yes,
                        "no" => Stands::No,
                        "unknown" => Stands::Unknown,
                        other => panic!("no such answer: {other}"),
                    };
                    Event::Stands(Call(words[1].parse().expect("a call")), stands)
                }
                "noted" => Event::Noted(place(words[1])),
                "reopened" => Event::Reopened(object(words[1])),
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            names.step(event, &mut effects);
            lines(&effects)
        }
    });
}
