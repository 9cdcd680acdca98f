//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play, value};

#[test]
fn dialogues() {
    play("replica/epochs", || {
        let mut epochs = Epochs::default();
        move |_, words| {
            let number = value(words, "of").expect("a metaserver");
            let seat = Seat { volume: value(words, "volume").unwrap_or(7), number };
            let epoch = value(words, "epoch").expect("an epoch");
            let ticket = || Ticket(words[1].parse().expect("a call"));
            let event = match words[0] {
                "noted" => Event::Noted(seat, epoch),
                "call" => Event::Call(ticket(), seat, epoch),
                "ended" => Event::Ended(ticket(), seat, epoch),
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            epochs.step(event, &mut effects);
            lines(&effects)
        }
    });
}
