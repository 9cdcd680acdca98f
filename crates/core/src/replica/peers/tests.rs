//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{lines, play, value};

#[test]
fn dialogues() {
    play("replica/peers", || {
        let mut peers = None;
        let mut noted = BTreeMap::from([2, 3].map(|one| (Peer(one), Noted::default())));
        move |now, words| {
            let number = |name: &str| value::<u64>(words, name);
            let peer = || Peer(words[1].parse().expect("a peer"));
            let stamp = Stamp(number("stamp").unwrap_or(0));
            let known = Known { epoch: number("knows").unwrap_or(0), stamp };
            let event = match words[0] {
                "start" => {
                    let stored = Known { epoch: number("stored").unwrap_or(0), stamp };
                    let epoch = number("epoch").expect("an epoch");
                    peers = Some(Peers::new(now, epoch, stored, noted.clone()));
                    Event::Tick
                }
                "admit" => {
                    let (epoch, here) = (number("epoch"), number("here"));
                    let peers: &Peers = peers.as_ref().expect("the peers were started");
                    let admitted = peers.admit(peer(), epoch.unwrap_or(0), here.unwrap_or(0));
                    return vec![format!("{admitted:?}")];
                }
                "hello" => Event::Hello(peer(), number("epoch").expect("an epoch")),
                "answered" => Event::Answered(peer(), number("epoch").expect("an epoch"), known),
                "heard" => {
                    let epoch = number("epoch").expect("an epoch");
                    Event::Heard(peer(), Known { epoch, stamp })
                }
                "away" => Event::Away(peer()),
                "unlike" => Event::Unlike(peer()),
                "tick" => Event::Tick,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            peers.as_mut().expect("the peers were started").step(now, event, &mut effects);
            for effect in &effects {
                if let Effect::Note(peer, known) = effect {
                    noted.insert(*peer, *known);
                }
            }
            lines(&effects)
        }
    });
}
