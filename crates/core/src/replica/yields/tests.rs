//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play, value};
use crate::replica::tests::{SMALL, object, place};

#[test]
fn dialogues() {
    play("replica/yields", || {
        let mut yields = Yields::new(SMALL);
        move |now, words| {
            let number = || words.last().expect("a number").parse().expect("a number");
            let event = match words[0] {
                "yield" | "may" => {
                    let to = FileId(value(words, "to").expect("an object"));
                    let (over, place) = (object(words[1]), place(words[2]));
                    let it = Yield { over, place, to, number: number() };
                    if words[0] == "may" {
                        return vec![yields.may(&it).to_string()];
                    }
                    Event::Yielded(it)
                }
                "kept" => Event::Kept(object(words[1]), number()),
                "lost" => Event::Lost(object(words[1]), place(words[2])),
                "stands" => Event::Stands(Call(number()), Stands::Yes),
                "not" => Event::Stands(Call(number()), Stands::No),
                "unknown" => Event::Stands(Call(number()), Stands::Unknown),
                "hides" => return lines(&[yields.hides(object(words[1]))]),
                "was-lost" => return vec![yields.was_lost(now, &place(words[1])).to_string()],
                "tick" => Event::Tick,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            yields.step(now, event, &mut effects);
            lines(&effects)
        }
    });
}
