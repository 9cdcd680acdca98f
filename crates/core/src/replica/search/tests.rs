//! Dialogues, one for each rule, and the cost of each order.

use super::*;
use crate::dialogue::{lines, play};

/// The other peers, with their distances: peer 3 is this metaserver, and a greater peer number is
/// nearer.
const OTHERS: [(Peer, u64); 4] = [(Peer(1), 40), (Peer(2), 30), (Peer(4), 20), (Peer(5), 10)];

#[test]
fn dialogues() {
    play("replica/search", || {
        let mut search = None;
        move |_, words| {
            let mut effects = Vec::new();
            let object = || FileId(words[1].parse().expect("an object"));
            let answer = match words[0] {
                "among" => {
                    let peers = words[1..].iter().map(|word| Peer(word.parse().expect("a peer")));
                    let peers: Vec<Peer> = peers.collect();
                    search = Some(Search::among(&peers, &mut effects));
                    return lines(&effects);
                }
                "start" => {
                    let order = match words[1] {
                        "sequential" => Order::Sequential,
                        "nearest" => Order::Nearest,
                        "tree" => Order::Tree,
                        "constant" => Order::Constant,
                        other => panic!("no such order: {other}"),
                    };
                    search = Some(Search::start(order, Peer(2), &OTHERS, &mut effects));
                    return lines(&effects);
                }
                "found" => Answer::Found(object()),
                "claimed" => Answer::Claimed(object()),
                "nowhere" => Answer::Nowhere,
                "unknown" => Answer::Unknown,
                other => panic!("no such event: {other}"),
            };
            let goes_on =
                search.as_mut().expect("the search was started").step(answer, &mut effects);
            let end = (!goes_on).then(|| "over".to_owned());
            lines(&effects).into_iter().chain(end).collect()
        }
    });
}

/// Searches among this many peers for a name that only the last peer has, or no peer. Returns the
/// number of calls, and the number of calls in series.
fn cost(order: Order, peers: u32, is_there: bool) -> (usize, usize) {
    let others: Vec<(Peer, u64)> = (1..peers).map(|peer| (Peer(peer), 1)).collect();
    let mut effects = Vec::new();
    let mut search = Search::start(order, Peer(1), &others, &mut effects);
    let object = FileId(7);
    let (mut calls, mut last, mut goes_on) = (0, 0, true);
    while goes_on {
        let mut answers = Vec::new();
        let mut longest = 0;
        for effect in core::mem::take(&mut effects) {
            let (below, depth, answer) = match effect {
                Effect::Search(peer, behind) => {
                    let (below, depth) = tree(&behind);
                    let has = peer == Peer(peers - 1) || behind.contains(&Peer(peers - 1));
                    let answer =
                        if has && is_there { Answer::Found(object) } else { Answer::Nowhere };
                    (below, depth, answer)
                }
                Effect::Named(_) if is_there => (0, 0, Answer::Claimed(object)),
                Effect::Named(_) => (0, 0, Answer::Nowhere),
                Effect::Fetch(object) => (0, 0, Answer::Found(object)),
                Effect::Found(_) | Effect::Nowhere | Effect::Unknown => panic!("it ended"),
            };
            calls += 1 + below;
            longest = longest.max(1 + depth);
            answers.push(answer);
        }
        last += longest;
        for answer in answers {
            goes_on &= search.step(answer, &mut effects);
        }
    }
    let end = if is_there { Effect::Found(object) } else { Effect::Nowhere };
    assert!(effects.contains(&end));
    (calls, last)
}

/// The cost of asking these peers as a part of a tree.
fn tree(peers: &[Peer]) -> (usize, usize) {
    let mut effects = Vec::new();
    let _ = Search::among(peers, &mut effects);
    let halves = effects.iter().filter_map(|effect| match effect {
        Effect::Search(_, behind) => Some(tree(behind)),
        Effect::Named(_) | Effect::Fetch(_) => panic!("a tree sends no such call"),
        Effect::Found(_) | Effect::Nowhere | Effect::Unknown => None,
    });
    halves.fold((0, 0), |(calls, depth), (below, deep)| (calls + 1 + below, depth.max(1 + deep)))
}

#[test]
fn each_order_has_its_cost() {
    for peers in [2, 3, 7, 16] {
        let all = peers as usize - 1;
        for is_there in [false, true] {
            assert_eq!(cost(Order::Sequential, peers, is_there), (all, all));
            assert_eq!(cost(Order::Nearest, peers, is_there), (all, all));
            let (calls, last) = cost(Order::Tree, peers, is_there);
            assert!(calls == all && last <= 4, "{peers} peers: {calls} calls, {last} in turn");
        }
        assert_eq!(cost(Order::Constant, peers, true), (2, 2));
        assert_eq!(cost(Order::Constant, peers, false), (1, 1));
    }
}
