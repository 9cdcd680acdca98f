//! The delivery of callbacks: sending, answers, and the failures of connections.

use leasehold_base::limits::sessions::{
    CALLBACK_RETRY_FIRST, CALLBACK_RETRY_MAX, REFERRING_CALLS_MAX,
};
use leasehold_base::units::{ConnectionId, Time};

use super::super::session::Session;
use super::super::{Effect, Sessions};
use super::{
    Answer, Back, BackSlot, Callback, Callbacks, Payload, PayloadId, Place, Reason, State,
};
use crate::sessions::{ClientId, Request, SessionId, SlotId};

impl Sessions {
    /// Returns true if the client has a backchannel that has answered a callback, so that
    /// delegations and layouts can be granted.
    #[must_use]
    pub fn has_callback_path(&self, id: ClientId) -> bool {
        // Rule 21.
        let proven = |session: &Session| {
            let is_proven = session.back.as_ref().is_some_and(|back| back.is_proven);
            is_proven && session.back_connection().is_some()
        };
        self.sessions_of(id).any(proven)
    }

    fn sessions_of(&self, id: ClientId) -> impl Iterator<Item = &Session> {
        let ids = self.clients.get(id).into_iter().flat_map(|client| &client.sessions);
        ids.filter_map(|session| self.sessions.get(session))
    }

    /// Returns true if no session of the client, and if this session, lacks a working backchannel,
    /// and true if this session's backchannel has failed for good.
    pub(in crate::sessions) fn paths(
        &self,
        id: ClientId,
        session: SessionId,
    ) -> (bool, bool, bool) {
        let Some(this) = self.sessions.get(&session) else { return (false, false, false) };
        let is_down = |session: &Session| {
            let was = session.back.as_ref().is_some_and(|back| back.was_connected);
            was && !session.is_connected()
        };
        let works = |session: &Session| {
            session.is_connected() && session.back.as_ref().is_some_and(|back| !back.is_faulty)
        };
        let waits = self.clients.get(id).is_some_and(|client| client.callbacks.counted > 0);
        let needs = |session: &Session| {
            waits || session.back.as_ref().is_some_and(|back| back.was_connected)
        };
        let down = self.sessions_of(id).any(needs) && !self.sessions_of(id).any(works);
        (down, is_down(this), this.back.as_ref().is_some_and(|back| back.is_faulty))
    }

    /// Rule 18: queues a callback, and sends it if a slot is free.
    pub(in crate::sessions) fn call_back(
        &mut self,
        now: Time,
        (id, payload): (ClientId, PayloadId),
        mut referring: Vec<Request>,
        effects: &mut Vec<Effect>,
    ) {
        let undelivered = |reason| Effect::Undelivered { client: id, payload, reason };
        let most = self.limits.callbacks_of_client;
        match self.clients.get(id) {
            None => return effects.push(undelivered(Reason::ClientGone)),
            Some(client) if client.callbacks.counted >= most => {
                return effects.push(undelivered(Reason::Full));
            }
            Some(_) if self.callbacks >= self.limits.callbacks => {
                return effects.push(undelivered(Reason::Full));
            }
            Some(_) => {}
        }
        referring.truncate(REFERRING_CALLS_MAX);
        let mut callback = Callback::new(Payload::Operation(payload), None, now);
        callback.referring = referring;
        callback.deadline = Some(now + self.limits.lease);
        self.add_callback(id, callback);
        self.dispatch(now, id, effects);
    }

    /// Rule 9: reduces the slots of a session, and reports this to the client by a callback.
    pub(in crate::sessions) fn recall_slots(
        &mut self,
        now: Time,
        (id, highest): (SessionId, SlotId),
        effects: &mut Vec<Effect>,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let client = session.client;
        session.slots.limit(highest);
        let counted = self.clients.get(client).map_or(0, |client| client.callbacks.counted);
        if session.is_connected()
            && counted < self.limits.callbacks_of_client
            && self.callbacks < self.limits.callbacks
        {
            let mut callback = Callback::new(Payload::RecallSlots(highest), Some(id), now);
            callback.deadline = Some(now + self.limits.lease);
            self.add_callback(client, callback);
            self.dispatch(now, client, effects);
        }
    }

    fn add_callback(&mut self, id: ClientId, callback: Callback) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let counted = usize::from(callback.is_counted());
        client.callbacks.counted += counted;
        self.callbacks += counted;
        client.callbacks.list.insert(self.next_callback, callback);
        self.next_callback += 1;
    }

    /// Removes a callback, and frees its slot.
    fn remove_callback(&mut self, id: ClientId, number: u64) -> Option<Callback> {
        let callbacks = &mut self.clients.get_mut(id)?.callbacks;
        let callback = callbacks.list.remove(&number)?;
        callbacks.counted -= usize::from(callback.is_counted());
        self.callbacks -= usize::from(callback.is_counted());
        if let Some(Place { session, slot }) = callback.place()
            && let Some(back) = self.sessions.get_mut(&session).and_then(|s| s.back.as_mut())
            && let Some(slot) = back.slot(slot)
        {
            slot.callback = None;
        }
        Some(callback)
    }

    /// Rule 21: a session that its client uses examines its backchannel until it is proven.
    pub(in crate::sessions) fn revive_backchannel(
        &mut self,
        now: Time,
        id: SessionId,
        effects: &mut Vec<Effect>,
    ) {
        let session = self.sessions.get_mut(&id).expect("the session was found");
        let client = session.client;
        let is_first = !core::mem::replace(&mut session.is_used, true);
        let works = session.back_connection().is_some();
        let is_due = |back: &Back| !back.is_proven && back.is_idle();
        if works && session.back.as_ref().is_some_and(is_due) {
            let waits = |callback: &Callback| callback.session == Some(id);
            let callbacks = self.clients.get(client).map(|client| &client.callbacks.list);
            if !callbacks.is_some_and(|list| list.values().any(waits)) {
                self.add_callback(client, Callback::new(Payload::Nothing, Some(id), now));
            }
            self.dispatch(now, client, effects);
        } else if is_first {
            self.dispatch(now, client, effects);
        }
    }

    /// Sends the callbacks of a client for which a slot and a connection exist.
    pub(in crate::sessions) fn dispatch(
        &mut self,
        now: Time,
        id: ClientId,
        effects: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get(id) else { return };
        let numbers: Vec<u64> = client.callbacks.list.keys().copied().collect();
        for number in numbers {
            self.send_again(now, id, number, effects);
            self.send_first(now, id, number, effects);
        }
        self.reschedule(now, id);
    }

    /// Rule 19: sends a callback again in its slot, or moves its operations to another session.
    fn send_again(&mut self, now: Time, id: ClientId, number: u64, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let Some(callback) = client.callbacks.list.get_mut(&number) else { return };
        let State::Adrift { place, ready } = callback.state else { return };
        let session = self.sessions.get(&place.session);
        if let Some(connection) = session.and_then(Session::back_connection) {
            let back = session.and_then(|session| session.back.as_ref());
            if let Some(back) = back.filter(|_| ready <= now) {
                callback.drop_received(&self.sessions);
                effects.push(Effect::Send(callback.call(place, connection, back)));
                let until = now + self.limits.answer_timeout;
                callback.state = State::Sent { place, connection, until };
            }
            return;
        }
        let mut others = client.sessions.iter().filter_map(|other| self.sessions.get(other));
        if callback.session.is_none() && others.any(|other| other.back_connection().is_some()) {
            let rest = callback.emptied(place.session);
            callback.state = State::Queued(now);
            self.occupy(place, self.next_callback);
            self.add_callback(id, rest);
        }
    }

    /// Records which callback uses a slot.
    fn occupy(&mut self, Place { session, slot }: Place, number: u64) {
        let back = self.sessions.get_mut(&session).and_then(|session| session.back.as_mut());
        if let Some(slot) = back.and_then(|back| back.slot(slot)) {
            slot.callback = Some(number);
        }
    }

    /// Rule 18: sends a queued callback in a free slot of a session with a connection.
    fn send_first(&mut self, now: Time, id: ClientId, number: u64, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let Some(callback) = client.callbacks.list.get_mut(&number) else { return };
        if !matches!(callback.state, State::Queued(ready) if ready <= now) {
            return;
        }
        callback.drop_received(&self.sessions);
        let pinned = callback.session;
        let candidates = client.sessions.iter().copied();
        for id in candidates.filter(|id| pinned.is_none_or(|pinned| pinned == *id)) {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let Some(connection) = session.back_connection() else { continue };
            let Some(back) = &mut session.back else { continue };
            let Some(slot) = back.free() else { continue };
            let place = Place { session: id, slot };
            back.slots[slot.0 as usize].callback = Some(number);
            effects.push(Effect::Send(callback.call(place, connection, back)));
            let until = now + self.limits.answer_timeout;
            callback.state = State::Sent { place, connection, until };
            return;
        }
    }

    /// Rule 19: the callbacks that were sent over a connection of a session get no answer there.
    pub(in crate::sessions) fn set_adrift(
        &mut self,
        now: Time,
        id: ClientId,
        session: SessionId,
        lost: ConnectionId,
    ) {
        let Some(client) = self.clients.get_mut(id) else { return };
        for callback in client.callbacks.list.values_mut() {
            if let State::Sent { place, connection, .. } = callback.state
                && (place.session, connection) == (session, lost)
            {
                callback.state = State::Adrift { place, ready: now };
            }
        }
    }

    /// Moves the callbacks of a session that ends or has failed back to the queue.
    pub(in crate::sessions) fn requeue(&mut self, now: Time, id: ClientId, session: SessionId) {
        let Some(client) = self.clients.get(id) else { return };
        let is_of = |callback: &Callback| {
            callback.session == Some(session)
                || callback.place().is_some_and(|place| place.session == session)
        };
        let of = client.callbacks.list.iter().filter(|(_, callback)| is_of(callback));
        let numbers: Vec<u64> = of.map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(mut callback) = self.remove_callback(id, number) else { continue };
            if callback.session.is_none() {
                callback.state = State::Queued(now);
                self.add_callback(id, callback);
            }
        }
    }

    /// Handles the answer to a callback. Rule 20.
    pub(in crate::sessions) fn answered(
        &mut self,
        now: Time,
        (request, answer): (Request, Answer),
        effects: &mut Vec<Effect>,
    ) {
        let Request { session: id, slot, sequence } = request;
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (client, Some(back)) = (session.client, session.back.as_mut()) else { return };
        let slots_max = back.slots_max;
        let Some(BackSlot { accepted, callback: Some(number) }) = back.slot(slot).copied() else {
            return;
        };
        if accepted.next() != sequence {
            return;
        }
        let is_sequenced =
            matches!(answer, Answer::Done { .. } | Answer::Delay { is_sequenced: true });
        if is_sequenced {
            back.is_proven = session.connections.values().any(|binding| binding.is_back());
            let back = session.back.as_mut().expect("the session has a backchannel");
            back.slots[slot.0 as usize].accepted = sequence;
            self.renew(now, client, effects);
        }
        match answer {
            Answer::Done { target } => {
                if let Some(back) = self.sessions.get_mut(&id).and_then(|s| s.back.as_mut()) {
                    back.permitted = target.0.saturating_add(1).min(slots_max);
                }
                let callback = self.remove_callback(client, number);
                if let Some(Payload::Operation(payload)) = callback.map(|done| done.payload) {
                    effects.push(Effect::Delivered { client, payload });
                }
            }
            Answer::Delay { is_sequenced } => self.delay(now, (client, number), is_sequenced),
            Answer::Misordered => {
                if let Some(back) = self.sessions.get_mut(&id).and_then(|s| s.back.as_mut()) {
                    (back.is_faulty, back.is_proven) = (true, false);
                }
                self.requeue(now, client, id);
            }
            Answer::Garbled => self.lose_path(now, client, number),
        }
        self.dispatch(now, client, effects);
    }

    /// Rule 20: the client answered NFS4ERR_DELAY. A callback without operations has done its work
    /// if CB_SEQUENCE succeeded.
    fn delay(&mut self, now: Time, (id, number): (ClientId, u64), is_sequenced: bool) {
        let callback = self.clients.get_mut(id).and_then(|c| c.callbacks.list.get_mut(&number));
        let Some(callback) = callback else { return };
        callback.pause = (callback.pause * 2).clamp(CALLBACK_RETRY_FIRST, CALLBACK_RETRY_MAX);
        let ready = now + callback.pause;
        match callback.place() {
            // The number is not used up, or an earlier copy of the callback still runs.
            Some(place) if !is_sequenced => callback.state = State::Adrift { place, ready },
            Some(_) | None => {
                let Some(mut callback) = self.remove_callback(id, number) else { return };
                if callback.is_counted() {
                    callback.state = State::Queued(ready);
                    self.add_callback(id, callback);
                }
            }
        }
    }

    /// Rule 19: the connection of a callback has failed, although it is not closed.
    fn lose_path(&mut self, now: Time, id: ClientId, number: u64) {
        let client = self.clients.get(id);
        let callback = client.and_then(|client| client.callbacks.list.get(&number));
        let Some(State::Sent { place, connection, .. }) = callback.map(|sent| sent.state) else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(&place.session) {
            session.unbind_back(connection);
        }
        self.set_adrift(now, id, place.session, connection);
    }

    /// Handles the callbacks whose time has come.
    pub(in crate::sessions) fn time_callbacks(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some((_, id)) = self.callback_wakes.first().copied().filter(|(at, _)| *at <= now)
        {
            let client = self.clients.get(id).expect("each wake is a client");
            let list = &client.callbacks.list;
            let is_over = |callback: &Callback| callback.deadline.is_some_and(|at| at <= now);
            let is_lost = |callback: &Callback| matches!(callback.state, State::Sent { until, .. } if until <= now);
            let (mut over, mut lost) = (Vec::new(), Vec::new());
            for (number, callback) in list {
                over.extend(is_over(callback).then_some(*number));
                lost.extend(is_lost(callback).then_some(*number));
            }
            lost.into_iter().for_each(|number| self.lose_path(now, id, number));
            over.into_iter().for_each(|number| self.give_up(id, number, effects));
            self.dispatch(now, id, effects);
        }
    }

    /// Rule 18: gives up a callback whose deadline has passed. If it uses a slot, a callback without
    /// operations takes its place, because the client may still receive the callback.
    fn give_up(&mut self, id: ClientId, number: u64, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let Some(callback) = client.callbacks.list.get_mut(&number) else { return };
        if let Payload::Operation(payload) = callback.payload {
            let reason = Reason::Timeout;
            effects.push(Effect::Undelivered { client: id, payload, reason });
        }
        if let Some(place) = callback.place() {
            let counted = usize::from(callback.is_counted());
            *callback = callback.emptied(place.session);
            client.callbacks.counted -= counted;
            self.callbacks -= counted;
        } else {
            self.remove_callback(id, number);
        }
    }

    /// Ends all callbacks of a client that is removed.
    pub(in crate::sessions) fn end_callbacks(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let callbacks = core::mem::replace(&mut client.callbacks, Callbacks::new());
        self.callbacks -= callbacks.counted;
        if let Some(wake) = callbacks.wake {
            self.callback_wakes.remove(&(wake, id));
        }
        for callback in callbacks.list.into_values() {
            if let Payload::Operation(payload) = callback.payload {
                let reason = Reason::ClientGone;
                effects.push(Effect::Undelivered { client: id, payload, reason });
            }
        }
    }

    fn reschedule(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let wake = client.callbacks.next_wake(now);
        if wake != client.callbacks.wake {
            if let Some(before) = client.callbacks.wake {
                self.callback_wakes.remove(&(before, id));
            }
            client.callbacks.wake = wake;
            self.callback_wakes.extend(wake.map(|wake| (wake, id)));
        }
    }

    /// Audits the callbacks.
    pub(in crate::sessions) fn check_callbacks(&self) {
        let (mut counted, mut busy, mut wakes) = (0, 0, 0);
        for (id, client) in self.clients.iter() {
            let Callbacks { list, counted: own, wake } = &client.callbacks;
            assert_eq!(list.values().filter(|c| c.is_counted()).count(), *own);
            counted += own;
            wakes += usize::from(wake.is_some());
            assert!(wake.is_none_or(|wake| self.callback_wakes.contains(&(wake, id))));
            for (number, callback) in list {
                let Some(Place { session, slot }) = callback.place() else { continue };
                busy += 1;
                let session = self.sessions.get(&session).expect("a callback has a session");
                assert_eq!(session.client, id, "a callback uses a session of its client");
                let back = session.back.as_ref().expect("a callback uses a backchannel");
                let used = back.slots[slot.0 as usize].callback;
                assert_eq!(used, Some(*number), "a callback has a slot of its own");
            }
        }
        let backs = self.sessions.values().filter_map(|session| session.back.as_ref());
        let used = backs.flat_map(|back| &back.slots).filter(|slot| slot.callback.is_some());
        assert_eq!(busy, used.count(), "each busy slot has a callback");
        assert_eq!(counted, self.callbacks, "callbacks are counted");
        assert_eq!(wakes, self.callback_wakes.len(), "wakes are current");
    }
}
