//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play};
use crate::replica::tests::{SMALL, object};

#[test]
fn dialogues() {
    play("replica/changes", || {
        let mut changes = Changes::new(SMALL);
        move |now, words| {
            let number = || words[1].parse().expect("a number");
            let event = match words[0] {
                "wrote" => Event::Wrote(object(words[1])),
                "commit" => Event::Commit(Ticket(number()), object(words[2])),
                "released" => Event::Released(Call(number())),
                "failed" => Event::Failed(Call(number())),
                "gone" => Event::Gone(object(words[1])),
                "tick" => Event::Tick,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            changes.step(now, event, &mut effects);
            lines(&effects)
        }
    });
}
