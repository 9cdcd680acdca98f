//! The final state of names, attributes and bytes that the records of a log describe.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_fs::ObjectId;

use crate::record::{Change, Made, Record, Spot, State};

/// The final state according to all records. It does not depend on the order in which the disk has
/// stored the changes.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The final object of each name; `None` if the name was removed.
    pub(crate) names: BTreeMap<Spot, Option<ObjectId>>,
    pub(crate) objects: BTreeMap<ObjectId, Object>,
    pub(crate) record_count: u64,
}

/// The final state of an object.
#[derive(Debug, Default)]
pub(crate) struct Object {
    /// The parameters of its creation, if the log contains the creation.
    pub(crate) made: Option<Made>,
    /// The attributes of the object after the last change that the log has of them. For a directory
    /// this includes changes of names. `is_set` is true if a SETATTR is among the changes.
    pub(crate) state: Option<State>,
    pub(crate) is_set: bool,
    /// The changes of the file's bytes in order, each with its record number.
    pub(crate) data: Vec<(u64, Data)>,
    /// The number of the last record that contains attributes of the object.
    pub(crate) state_at: u64,
    /// The disk has the data and attributes of all records about the object with lower numbers.
    pub(crate) synced: u64,
    /// All names that the object had at any time.
    pub(crate) spots: BTreeSet<Spot>,
}

/// A change of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// A write; the bytes are on the log's device at `position`.
    Written { offset: u64, length: u32, position: u64 },
    /// A change of the size.
    Size(u64),
}

impl Outcome {
    /// Adds the records of a frame's payload. `position` is the offset of the payload on the
    /// device, and `first` is the number of the first record. Returns false if a record is
    /// malformed.
    pub(crate) fn take(&mut self, payload: &[u8], position: u64, first: u64) -> bool {
        let (mut rest, mut number) = (payload, first);
        while !rest.is_empty() {
            let Some((record, behind)) = Record::decode(rest) else { return false };
            rest = behind;
            if let Record::Written { length, .. } = record {
                let Some((_, behind)) = rest.split_at_checked(length as usize) else {
                    return false;
                };
                let at = position + (payload.len() - rest.len()) as u64;
                rest = behind;
                self.apply(record, number, at);
            } else {
                self.apply(record, number, 0);
            }
            number += 1;
            self.record_count += 1;
        }
        true
    }

    fn apply(&mut self, record: Record, number: u64, position: u64) {
        match record {
            Record::Made(made) => {
                self.bind(made.place.clone(), made.object);
                let object = self.object(made.object);
                object.state = Some(made.state);
                object.state_at = number;
                if made.size > 0 {
                    object.data.push((number, Data::Size(made.size)));
                }
                object.made = Some(made);
            }
            Record::Linked { place, object } => self.bind(place, object),
            Record::Removed { place, object } => self.unbind(place, object),
            Record::Renamed { from, to, object, over } => {
                self.unbind(from, object);
                if let Some(over) = over {
                    self.unbind(to.clone(), over);
                }
                self.bind(to, object);
            }
            Record::Set { object, size, state } => {
                let object = self.object(object);
                object.state = Some(state);
                object.state_at = number;
                object.is_set = true;
                object.data.extend(size.map(|size| (number, Data::Size(size))));
            }
            Record::Written { object, offset, length, state } => {
                let object = self.object(object);
                if state.is_some() {
                    object.state = state;
                    object.state_at = number;
                }
                object.data.push((number, Data::Written { offset, length, position }));
            }
            Record::Synced { object, upto } => {
                let object = self.object(object);
                object.synced = object.synced.max(upto);
            }
        }
    }

    fn bind(&mut self, place: Change, object: ObjectId) {
        self.name(place, object, true);
    }

    fn unbind(&mut self, place: Change, object: ObjectId) {
        self.name(place, object, false);
    }

    fn name(&mut self, place: Change, object: ObjectId, is_given: bool) {
        let Change { spot, state } = place;
        let directory = self.object(spot.directory);
        directory.state = state.or(directory.state);
        self.object(object).spots.insert(spot.clone());
        self.names.insert(spot, is_given.then_some(object));
    }

    fn object(&mut self, id: ObjectId) -> &mut Object {
        self.objects.entry(id).or_default()
    }
}
