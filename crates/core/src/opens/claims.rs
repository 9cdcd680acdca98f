//! OPEN, OPEN_DOWNGRADE and CLOSE.

use super::shares::Share;
use super::stateids::StateId;
use super::states::Kind;
use super::{Effect, Object, Opens, Refusal};
use crate::owners::{Client, Grace, Name};

/// The kind of claim of an OPEN. The claims of delegations that an earlier instance of the client
/// had (CLAIM_DELEGATE_PREV, CLAIM_DELEG_PREV_FH) do not reach this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A new open: CLAIM_NULL and CLAIM_FH.
    New,
    /// An open from before a restart of the server: CLAIM_PREVIOUS.
    Previous,
    /// An open under a delegation that the client has, and that the owner of the machine has
    /// checked: CLAIM_DELEGATE_CUR and CLAIM_DELEG_CUR_FH.
    Delegation,
}

impl Claim {
    /// Decides if the grace period permits an OPEN with this claim (rule 11). A server calls this
    /// function before it creates the file of an OPEN.
    ///
    /// # Errors
    /// [`Refusal::Grace`], [`Refusal::NoGrace`] and [`Refusal::ReclaimBad`].
    pub fn admit(self, grace: Grace) -> Result<(), Refusal> {
        match self {
            Self::Delegation => Ok(()),
            Self::New | Self::Previous => Ok(grace.admit(self == Self::Previous)?),
        }
    }
}

/// An OPEN of a file that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The file.
    pub object: Object,
    /// The client of the session.
    pub client: Client,
    /// The open-owner.
    pub owner: Name,
    /// The share reservation.
    pub share: Share,
    /// The kind of claim.
    pub claim: Claim,
    /// The state of the grace period for the client.
    pub grace: Grace,
}

/// The result of an OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The stateid of the open.
    pub id: StateId,
    /// The share reservation of the open: the union of all OPENs.
    pub share: Share,
    /// True if the open-owner did not have the file open before.
    pub is_new: bool,
}

impl Opens {
    /// Opens a file (OPEN).
    ///
    /// # Errors
    /// Returns a refusal if the request must have no effect.
    pub fn open(&mut self, request: &Open, effects: &mut Vec<Effect>) -> Result<Opened, Refusal> {
        let Open { object, client, share, claim, grace, .. } = *request;
        self.heard(client);
        if share.access.is_empty() {
            return Err(Refusal::Invalid);
        }
        let reclaims = claim == Claim::Previous;
        claim.admit(grace)?;
        // Rule 3
        let conflicts = |other: Share| share.conflicts(other);
        if conflicts(self.states.share(object))
            && !self.expire_conflicts(object, conflicts, effects)
        {
            return Err(if reclaims { Refusal::ReclaimConflict } else { Refusal::ShareDenied });
        }
        let owner = (client, request.owner.clone());
        let (number, is_new) = match self.states.open_of(object, &owner) {
            // Rule 1
            Some(number) => {
                if let Kind::Open { mut opened, .. } = self.states.state(number).kind {
                    opened.add(share);
                    self.states.set_opened(number, opened);
                }
                self.states.bump(number);
                (number, false)
            }
            None => {
                let number = self.states.add_open(object, &owner, share, effects);
                (number.ok_or(Refusal::Full)?, true)
            }
        };
        self.audit();
        let share = self.share_of(number);
        Ok(Opened { id: self.states.id(number), share, is_new })
    }

    /// Reduces the share reservation of an open (OPEN_DOWNGRADE), and returns its stateid.
    ///
    /// # Errors
    /// Returns a refusal if the stateid is not valid or no OPENs requested this share reservation.
    pub fn downgrade(
        &mut self,
        client: Client,
        object: Object,
        id: StateId,
        share: Share,
    ) -> Result<StateId, Refusal> {
        self.heard(client);
        let (number, state) = self.states.valid(client, object, id, Kind::is_open)?;
        let Kind::Open { opened, .. } = state.kind else { return Err(Refusal::BadStateId) };
        // Rule 4
        let left = opened.downgraded(share).filter(|_| !share.access.is_empty());
        self.states.set_opened(number, left.ok_or(Refusal::Invalid)?);
        let id = self.states.bump(number);
        self.audit();
        Ok(id)
    }

    /// Ends an open with all locks under it (CLOSE), and returns the stateid of the reply.
    ///
    /// # Errors
    /// Returns a refusal if the stateid is not valid.
    // Rule 5
    pub fn close(
        &mut self,
        client: Client,
        object: Object,
        id: StateId,
        effects: &mut Vec<Effect>,
    ) -> Result<StateId, Refusal> {
        self.heard(client);
        let (number, _) = self.states.valid(client, object, id, Kind::is_open)?;
        self.states.end(number, None, effects);
        self.audit();
        Ok(StateId::INVALID)
    }
}
