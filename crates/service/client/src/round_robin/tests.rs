use core::net::Ipv4Addr;
use core::pin::{Pin, pin};
use core::task::Context;
use std::sync::Arc;

use leasehold_base::random::Random;
use leasehold_base::xdr::Message;
use leasehold_session::{Connection, Options, Transport};

use super::*;

const PART: u64 = 128 << 10;

/// The number of parts of minimum size that may be in transit at the minimum bound.
const FITS: u16 = 10;
const _: () = assert!(FITS as u64 * PART == LEAST_BYTES, "the parts fill the bound");

fn server(number: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, number).into()
}

fn part(at: u16, file: u64, offset: u64) -> Part {
    Part { server: server(at), file: NodeId(file), offset, bytes: PART }
}

fn wait(state: &mut State, part: Part) {
    state.wait(part, Waker::noop().clone());
}

fn out(state: &State, at: u16) -> u64 {
    state.out[&server(at)] / PART
}

/// Starts the next part and returns it.
fn next(state: &mut State) -> Option<Part> {
    state.go().map(|waiting| waiting.part)
}

/// Queues twice as many parts as the bound permits, first parts for one iod only, then parts for
/// three other iods.
#[test]
fn transit_is_bounded_and_spread_over_iods() {
    let mut state = State::new(Time::ZERO, 0);
    (0..FITS).for_each(|number| wait(&mut state, part(1, 1, number.into())));
    (0..FITS).for_each(|number| wait(&mut state, part(2 + number % 3, 1, number.into())));
    assert_eq!(state.go_on().len(), usize::from(FITS));
    assert_eq!(state.flow.out(), LEAST_BYTES);
    let each = [1, 2, 3, 4].map(|at| out(&state, at));
    let (least, most) = (u64::from(FITS) / 4, u64::from(FITS).div_ceil(4));
    assert!(each.iter().all(|out| (least..=most).contains(out)), "all have as many: {each:?}");
    assert!(state.go_on().is_empty());
    // The iod with the fewest parts in transit goes next, although parts for other iods have waited
    // longer.
    (0..least).for_each(|_| state.give_back(part(3, 1, 0)));
    assert_eq!(next(&mut state).map(|part| part.server), Some(server(3)));
}

/// Two clients that read the same data from the same iods begin at different iods and visit them in
/// the same order, also for a file that is not their first and that both opened at the same iod.
#[test]
fn clients_visit_iods_in_the_same_order_from_different_starts() {
    let rounds = [1, 2].map(|order| {
        let mut state = State::new(Time::ZERO, order);
        wait(&mut state, part(7, 1, 0));
        next(&mut state).into_iter().for_each(|part| state.give_back(part));
        for offset in 0..3 {
            (0..FITS).for_each(|at| wait(&mut state, part(at, 1, offset)));
        }
        let mut round = Vec::new();
        while let Some(part) = next(&mut state) {
            state.give_back(part);
            round.push(part.server);
        }
        let (first, rest) = round.split_at(usize::from(FITS));
        assert_eq!([first, first].concat(), rest, "each round is as the first");
        first.to_vec()
    });
    assert_ne!(rounds[0][0], rounds[1][0]);
    let begin = rounds[1].iter().position(|server| *server == rounds[0][0]).expect("it is there");
    let turned = [&rounds[1][begin..], &rounds[1][..begin]].concat();
    assert_eq!(rounds[0], turned);
}

/// A program waits for the lowest offset of a file, even if the program requested that offset last.
/// Parts of other files do not wait longer because of this rule.
#[test]
fn lowest_offset_of_a_file_goes_first() {
    let mut state = State::new(Time::ZERO, 0);
    for (file, offset) in [(1, 2), (2, 9), (1, 3), (2, 8), (1, 1)] {
        wait(&mut state, part(1, file, offset));
    }
    let order: Vec<(u64, u64)> = core::iter::from_fn(|| next(&mut state))
        .map(|Part { file, offset, .. }| (file.0, offset))
        .collect();
    assert_eq!(order, [(1, 1), (2, 8), (1, 2), (2, 9), (1, 3)]);
}

/// A part at a high offset is not delayed without limit by parts at lower offsets.
#[test]
fn overtaking_is_bounded() {
    let mut state = State::new(Time::ZERO, 0);
    wait(&mut state, part(1, 1, u64::MAX));
    let overtakers = core::iter::repeat_with(|| {
        wait(&mut state, part(1, 1, 0));
        let part = next(&mut state).expect("there is room");
        state.give_back(part);
        part.offset
    });
    assert_eq!(overtakers.take_while(|offset| *offset == 0).count() as u64, OVERTAKERS - 1);
}

#[test]
fn single_part_starts_regardless_of_its_size() {
    let mut state = State::new(Time::ZERO, 0);
    let large = Part { bytes: 2 * LEAST_BYTES, ..part(1, 1, 0) };
    wait(&mut state, large);
    assert_eq!(state.go_on().len(), 1);
    wait(&mut state, part(2, 1, 0));
    assert!(state.go_on().is_empty());
    state.give_back(large);
    assert_eq!(state.go_on().len(), 1);
}

/// A clock that does not advance.
struct Still;

impl Transport for Still {
    fn now(&self) -> Time {
        Time::ZERO
    }

    fn connect(&self, _connection: Connection) {}

    fn send(&self, _connection: Connection, _message: &Arc<Message>) {}

    fn wake_at(&self, _time: Time) {}
}

/// Returns flow control that permits one more part, and that part.
fn nearly_full() -> (Turns, Part) {
    let clock = Session::new(Options::stream(), Random::from_seed(0), |_| Still);
    let most = Part { bytes: LEAST_BYTES - PART, ..part(1, 1, 0) };
    let turns = Turns::new(clock, 0);
    assert!(turns.state().take(most));
    (turns, most)
}

/// Polls a future once.
fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn dropping_a_turn_starts_the_next() {
    let (turns, _most) = nearly_full();
    let (one, mut other) = (pin!(turns.turn(part(2, 1, 0))), pin!(turns.turn(part(2, 1, 1))));
    let Poll::Ready(turn) = poll(one) else { panic!("there is room") };
    assert!(poll(other.as_mut()).is_pending());
    drop(turn);
    assert_eq!(turns.state().flow.out(), LEAST_BYTES);
    assert!(poll(other).is_ready());
}

#[test]
fn cancelled_waiter_leaves_no_entry() {
    let (turns, most) = nearly_full();
    turns.state().take(part(2, 1, 0));
    let mut one = Box::pin(turns.turn(part(2, 1, 1)));
    assert!(poll(one.as_mut()).is_pending());
    drop(one);
    assert!(turns.state().waiting.is_empty());
    [part(2, 1, 0), most].into_iter().for_each(|part| turns.end(part));
    assert_eq!(turns.state().flow.out(), 0);
}

/// A part is started, but its task is dropped before it continues.
#[test]
fn cancelled_waiter_passes_its_turn_on() {
    let (turns, most) = nearly_full();
    turns.state().take(part(2, 1, 0));
    let mut one = Box::pin(turns.turn(part(2, 1, 1)));
    let mut other = pin!(turns.turn(part(2, 1, 2)));
    assert!(poll(one.as_mut()).is_pending() && poll(other.as_mut()).is_pending());
    turns.end(part(2, 1, 0));
    assert!(poll(other.as_mut()).is_pending());
    drop(one);
    let Poll::Ready(turn) = poll(other) else { panic!("there is room again") };
    drop(turn);
    turns.end(most);
    assert_eq!(turns.state().flow.out(), 0);
}
