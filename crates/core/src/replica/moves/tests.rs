//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play, value};
use crate::replica::tests::object;

#[test]
fn dialogues() {
    play("replica/moves", || {
        let mut moves = Moves::new(Time::ZERO, FileId(1), None);
        let mut stored = None;
        move |now, words| {
            let number = |at: usize| words[at].parse().expect("a number");
            let event = match words[0] {
                "restart" => {
                    moves = Moves::new(now, FileId(1), stored);
                    Event::Tick
                }
                "ask" => {
                    let home = Peer(value(words, "home").expect("a home"));
                    let number = value(words, "number").expect("a number");
                    let (directory, parent) = (object(words[2]), object(words[4]));
                    let ticket = Ticket(words[1].parse().expect("a ticket"));
                    Event::Ask(ticket, Move { home, number, directory, parent })
                }
                "above" => Event::Above(Call(number(1)), value(words, "is").map(FileId)),
                "noted" => Event::Noted,
                "ended" => Event::Ended(Peer(words[1].parse().expect("a peer")), number(2)),
                "tick" => Event::Tick,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            moves.step(now, event, &mut effects);
            for effect in &effects {
                if let Effect::Note(noted) = effect {
                    stored = *noted;
                }
            }
            lines(&effects)
        }
    });
}

#[test]
fn an_endless_chain_of_parents_is_given_up() {
    let mut moves = Moves::new(Time::ZERO, FileId(1), None);
    let mut effects = Vec::new();
    let asked = Move { home: Peer(1), number: 1, directory: FileId(9), parent: FileId(2) };
    moves.step(Time::ZERO, Event::Ask(Ticket(5), asked), &mut effects);
    let mut looked = 0;
    while let Some(Effect::LookAbove(call, at)) = effects.pop() {
        looked += 1;
        let next = FileId(5 - at.0);
        moves.step(Time::ZERO, Event::Above(call, Some(next)), &mut effects);
        if effects == [Effect::Later(Ticket(5))] {
            assert_eq!(looked, DEPTH_MAX + 1);
            return;
        }
    }
    panic!("it ended differently after {looked}: {effects:?}");
}
