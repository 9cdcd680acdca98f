//! Clients without a lease, and revoked state.

use std::collections::BTreeSet;

use super::shares::Share;
use super::stateids::StateNumber;
use super::states::{Cause, Kind, Tally};
use super::{Effect, Object, Opens};
use crate::owners::Client;

impl Opens {
    /// Records that the lease of a client has expired: its opens conflict softly from now on (rule
    /// 12).
    pub fn silence(&mut self, client: Client) {
        if self.tally(client) != Tally::default() {
            self.silent.insert(client);
        }
    }

    /// Records that a client has renewed its lease.
    pub fn heard(&mut self, client: Client) {
        self.silent.remove(&client);
    }

    /// Revokes all state of a client whose lease has expired (rule 13).
    pub fn expire(&mut self, client: Client, effects: &mut Vec<Effect>) {
        self.revoke_all(client, Cause::Expired, effects);
    }

    /// Revokes all state of a client for the administrator (rule 13).
    pub fn revoke_client(&mut self, client: Client, effects: &mut Vec<Effect>) {
        self.revoke_all(client, Cause::Administrator, effects);
    }

    /// Revokes one state, and the locks under an open, for the administrator (rule 13). Returns
    /// false if the state does not exist or is already revoked.
    pub fn revoke(&mut self, number: StateNumber, effects: &mut Vec<Effect>) -> bool {
        let is_live = self.states.is_live(number);
        if is_live {
            self.states.end(number, Some(Cause::Administrator), effects);
            self.audit();
        }
        is_live
    }

    /// Removes all state of a client that has ended or restarted (rule 13). Its stateids become
    /// unknown.
    pub fn forget(&mut self, client: Client, effects: &mut Vec<Effect>) {
        self.silent.remove(&client);
        for number in self.states.of_client(client).collect::<Vec<_>>() {
            // The end of an open has removed the locks under it.
            if self.states.exists(number) {
                self.states.end(number, None, effects);
            }
        }
        self.audit();
    }

    fn revoke_all(&mut self, client: Client, cause: Cause, effects: &mut Vec<Effect>) {
        self.silent.remove(&client);
        for number in self.states.of_client(client).collect::<Vec<_>>() {
            if self.states.is_live(number) {
                self.states.end(number, Some(cause), effects);
            }
        }
        self.audit();
    }

    /// Rule 12: revokes the state of the silent clients that have a conflicting open of a file,
    /// and returns true if no conflict is left. An open of another client prevents this.
    pub(super) fn expire_conflicts(
        &mut self,
        object: Object,
        conflicts: impl Fn(Share) -> bool,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let opens = self.states.opens_on(object).filter(|(_, share)| conflicts(*share));
        let clients: BTreeSet<Client> = opens.map(|(client, _)| client).collect();
        if !clients.is_subset(&self.silent) {
            return false;
        }
        for client in clients {
            effects.push(Effect::Expire(client));
            self.expire(client, effects);
        }
        true
    }
}

impl super::States {
    /// Returns true if a state exists and is not revoked.
    fn is_live(&self, number: StateNumber) -> bool {
        self.exists(number) && !matches!(self.state(number).kind, Kind::Revoked(_))
    }
}
