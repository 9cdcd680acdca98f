use core::net::Ipv4Addr;

use super::*;

const PART: u64 = 128 << 10;

fn server(number: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, number).into()
}

fn wait(state: &mut State, number: u64, at: u16) {
    let (server, waker) = (server(at), Waker::noop().clone());
    let rank = state.rank(server);
    state.waiting.push_back(Waiting { number, server, rank, bytes: PART, waker });
}

/// Twice as many parts as may be on their way, first all for one server, then for three others.
#[test]
fn what_is_on_its_way_is_bounded_and_spread_over_servers() {
    let mut state = State::new(Time::ZERO, 0);
    let fits = LEAST_BYTES / PART;
    (0..fits).for_each(|number| wait(&mut state, number, 1));
    for number in 0..fits {
        wait(&mut state, fits + number, 2 + u16::try_from(number % 3).expect("it is small"));
    }
    assert_eq!(state.go_on().len() as u64, fits);
    assert_eq!(state.flow.out(), LEAST_BYTES);
    let each: Vec<u64> = state.servers.values().map(|out| out / PART).collect();
    assert_eq!(each, [4, 4, 4, 4], "the servers that come last have as many as the first");
    assert!(state.go_on().is_empty());
    // Whoever has the fewest goes next, though others have waited for longer.
    state.give_back(server(3), PART);
    assert_eq!(state.go_on().len(), 1);
    assert_eq!(state.servers[&server(3)], 4 * PART);
    assert_eq!(state.flow.out(), LEAST_BYTES);
}

/// Two clients that want the same of the same servers begin at different ones.
#[test]
fn clients_do_not_all_begin_at_the_same_servers() {
    let firsts = [1, 2].map(|order| {
        let mut state = State::new(Time::ZERO, order);
        let servers = 64;
        for at in 0..servers {
            wait(&mut state, at, u16::try_from(at).expect("it is small"));
        }
        let fits = usize::try_from(LEAST_BYTES / PART).expect("few");
        assert_eq!(state.go_on().len(), fits);
        assert_eq!(state.servers.len(), fits, "each has one");
        state.servers.into_keys().collect::<Vec<_>>()
    });
    assert_ne!(firsts[0], firsts[1]);
}

#[test]
fn one_alone_goes_however_large_it_is() {
    let mut state = State::new(Time::ZERO, 0);
    let waker = Waker::noop().clone();
    let bytes = 2 * LEAST_BYTES;
    let rank = state.rank(server(1));
    state.waiting.push_back(Waiting { number: 0, server: server(1), rank, bytes, waker });
    assert_eq!(state.go_on().len(), 1);
    wait(&mut state, 1, 2);
    assert!(state.go_on().is_empty());
    state.give_back(server(1), bytes);
    assert_eq!(state.go_on().len(), 1);
}
