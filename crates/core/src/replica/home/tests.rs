//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play, value};
use crate::replica::tests::{SMALL, object, place};

#[test]
fn dialogues() {
    play("replica/home", || {
        let mut home = Home::new(SMALL);
        move |now, words| {
            let ticket = || Ticket(words[1].parse().expect("a ticket"));
            let event = match words[0] {
                "change" | "found" => {
                    let at = |name: &str| value::<String>(words, name).map(|word| place(&word));
                    let lacks = words.contains(&"lacks");
                    let from = at("from").or_else(|| at("lacks")).map(|from| (from, !lacks));
                    let is_directory = words.contains(&"directory");
                    let object = object(words[2]);
                    let over = value(words, "over").map(FileId).map(|over| {
                        let here = Over::Here(over, words.contains(&"full"));
                        value(words, "at").map_or(here, |at| Over::There(over, Peer(at)))
                    });
                    let change = Change { object, is_directory, from, to: at("to"), over };
                    match value(words, "version") {
                        Some(version) => Event::Found(ticket(), change, Stamp(version)),
                        None => Event::Change(ticket(), change),
                    }
                }
                "had" => Event::Had(ticket(), Ok(())),
                "refused" => Event::Had(
                    ticket(),
                    Err(match words[2] {
                        "later" => Refusal::Later,
                        "exists" => Refusal::Exists,
                        "full" => Refusal::Full,
                        "loop" => Refusal::Loop,
                        other => panic!("no such refusal: {other}"),
                    }),
                ),
                "stored" => {
                    let version = Stamp(value(words, "version").expect("a version"));
                    Event::Stored(ticket(), version)
                }
                "undone" => Event::Undone(ticket()),
                "restarted" => Event::Restarted(Peer(words[1].parse().expect("a peer"))),
                "wanted" => {
                    let to = value(words, "to").expect("an object to yield to");
                    Event::Wanted(object(words[1]), FileId(to))
                }
                "storing" => {
                    let peer = Peer(words[1].parse().expect("a peer"));
                    return vec![home.is_storing_over(peer).to_string()];
                }
                "lately" => {
                    let peer = Peer(words[1].parse().expect("a peer"));
                    return lines(&home.replaced_lately(peer).collect::<Vec<_>>());
                }
                "about" => {
                    let about = home.is_about_to_stand(object(words[1]), &place(words[2]));
                    return vec![about.to_string()];
                }
                "moving" => return vec![home.is_moving(ticket()).to_string()],
                "tick" => Event::Tick,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            home.step(now, event, &mut effects);
            lines(&effects)
        }
    });
}
