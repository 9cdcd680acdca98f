//! Dialogues, one for each rule, and the effect of noise.

use leasehold_base::random::Random;

use super::*;
use crate::dialogue::{lines, play};
use crate::replica::search::{self, Order, Search};

/// The peers that a search asks, one after the other, if no object has the name.
fn asked(distances: &Distances) -> Vec<Peer> {
    let mut effects = Vec::new();
    let mut search = Search::start(Order::Nearest, Peer(1), &distances.all(), &mut effects);
    while search.step(search::Answer::Nowhere, &mut effects) {}
    let asked = effects.into_iter().filter_map(|effect| match effect {
        search::Effect::Search(peer, _) => Some(peer),
        search::Effect::Named(_)
        | search::Effect::Fetch(_)
        | search::Effect::Found(_)
        | search::Effect::Nowhere
        | search::Effect::Unknown => None,
    });
    asked.collect()
}

#[test]
fn dialogues() {
    play("replica/distances", || {
        let mut distances = Distances::new([1, 2, 3].map(Peer));
        move |now, words| {
            let peer = || Peer(words[1].parse().expect("a peer"));
            let event = match words[0] {
                "answered" => {
                    let ms = words[2].strip_suffix("ms").and_then(|ms| ms.parse::<f64>().ok());
                    let took = ms.expect("a time such as 0.5ms") / 1e3;
                    Event::Answered(peer(), Duration::from_secs_f64(took))
                }
                "silent" => Event::Silent(peer()),
                "search" => Event::Search,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            distances.step(now, event, &mut effects);
            let order = match event {
                Event::Search => vec![format!("{:?}", asked(&distances))],
                Event::Answered(..) | Event::Silent(_) => Vec::new(),
            };
            order.into_iter().chain(lines(&effects)).collect()
        }
    });
}

/// Reply times that vary by less than a factor of two change no order.
#[test]
fn noise_changes_no_order() {
    let mut random = Random::from_seed(7);
    let ways = [1700, 400, 420].map(Duration::from_micros);
    let mut distances = Distances::new([0, 1, 2].map(Peer));
    let mut now = Time::ZERO;
    for round in 0..10_000 {
        for (number, way) in (0..).zip(ways) {
            let noise = u32::try_from(random.below(1000)).expect("the number is small");
            let took = way * (1000 + noise) / 1000;
            distances.step(now, Event::Answered(Peer(number), took), &mut Vec::new());
        }
        assert_eq!(asked(&distances), [1, 2, 0].map(Peer), "in round {round}");
        now = now + Duration::from_millis(random.below(4000));
    }
}
