//! The client records of version 4 on stable storage, from which a restarted server knows the
//! clients that may reclaim their opens and locks (RFC 8881 8.4.3).
//!
//! The stored form has eight bytes of magic number, which includes the version of the form, and then
//! in XDR (RFC 4506): the epoch of the run that wrote it (`unsigned hyper`), the number of records
//! (`unsigned`), and for each record the client owner (`opaque`), the flags (`unsigned`: 1 for
//! revoked state that the client has not acknowledged, 2 for reclaims that a grace period ended),
//! and the principal (`unsigned`: 0 without credential; 1 followed by the user id of AUTH_SYS as
//! `unsigned`; 2 followed by the name of RPCSEC_GSS as `opaque`). The last eight bytes are the
//! SipHash-1-3 with a zero key of all bytes before, in network byte order.
//!
//! A server of an earlier version does not read these records. It begins an epoch of its own, so a
//! later server finds records of another run than the last one: their clients may have lost state
//! meanwhile, and may not reclaim.

use core::hash::Hasher as _;
use std::collections::BTreeMap;

use bytes::Bytes;
use leasehold_base::limits::sessions::{CLIENTS_MAX, OWNER_BYTES_MAX, PRINCIPAL_BYTES_MAX};
use leasehold_base::xdr::{Error, Reader, Writer};
use leasehold_core::sessions::{Owner, Principal, Record};
use siphasher::sip::SipHasher13;

const MAGIC: [u8; 8] = *b"clients1";

const CHECKSUM_BYTES: usize = 8;

const EXPIRED: u32 = 1;
const INCOMPLETE: u32 = 1 << 1;

const ANONYMOUS: u32 = 0;
const SYSTEM: u32 = 1;
const NAMED: u32 = 2;

/// The largest number of stored records: the clients of a run, the clients that lose their state,
/// and the clients of the previous run that have not returned.
const RECORDS_MAX: usize = 3 * CLIENTS_MAX;

/// The stable storage of the client records of version 4.
pub trait ClientLedger: Send + Sync {
    /// Writes the records in their stored form, which replaces every form with a lower `number`.
    /// The implementation always calls `done`: with true once the records are on stable storage, or
    /// with false if the write failed.
    fn write(&self, number: u64, stored: Vec<u8>, done: Box<dyn FnOnce(bool) + Send>);
}

/// The client records that an earlier run of the server has stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRecords {
    epoch: u64,
    records: BTreeMap<Owner, Record>,
}

/// An error: the bytes are not client records, are damaged, or have a form of another version of
/// the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoClientRecords;

impl ClientRecords {
    /// Parses the stored form.
    ///
    /// # Errors
    /// [`NoClientRecords`].
    pub fn parse(stored: &[u8]) -> Result<Self, NoClientRecords> {
        let (body, checksum) =
            stored.split_last_chunk::<CHECKSUM_BYTES>().ok_or(NoClientRecords)?;
        if checksum_of(body) != *checksum {
            return Err(NoClientRecords);
        }
        let body = body.strip_prefix(&MAGIC).ok_or(NoClientRecords)?;
        parse(body).map_err(|_| NoClientRecords)
    }

    /// Returns the records with which a run of the server starts. `last` is the epoch of the last
    /// run. If another run than the last one wrote the records, their clients may have lost state to
    /// others, so the result has no records. `epoch` is the epoch of the new run; the epoch of the
    /// result is greater if the stored epoch requires this.
    #[must_use]
    pub fn begin_run(self, last: u64, epoch: u64) -> Self {
        // A run on a full disk may have stored its epoch here and not in the list of leases.
        let records = if self.epoch >= last { self.records } else { BTreeMap::new() };
        Self { epoch: epoch.max(self.epoch.saturating_add(1)), records }
    }

    /// Returns the stored form.
    #[must_use]
    pub fn to_stored(&self) -> Vec<u8> {
        stored(self.epoch, &self.records)
    }

    /// Returns the epoch of the run of these records; zero without stored records.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn into_records(self) -> BTreeMap<Owner, Record> {
        self.records
    }
}

/// Returns the stored form of the records of a run.
pub(super) fn stored(epoch: u64, records: &BTreeMap<Owner, Record>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.fixed(&MAGIC);
    writer.u64(epoch);
    writer.u32(u32::try_from(records.len()).expect("clients are bounded"));
    for (owner, record) in records {
        writer.opaque(owner.as_bytes());
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        writer.u32(flag(record.is_expired, EXPIRED) | flag(record.is_incomplete, INCOMPLETE));
        match &record.principal {
            Principal::Anonymous => writer.u32(ANONYMOUS),
            Principal::System(uid) => {
                writer.u32(SYSTEM);
                writer.u32(*uid);
            }
            Principal::Named(name) => {
                writer.u32(NAMED);
                writer.opaque(name);
            }
        }
    }
    let mut stored = writer.finish().into_bytes().to_vec();
    let checksum = checksum_of(&stored);
    stored.extend_from_slice(&checksum);
    stored
}

fn parse(body: &[u8]) -> Result<ClientRecords, Error> {
    let mut reader = Reader::of_part(body);
    let (epoch, count) = (reader.u64()?, reader.u32()?);
    if count as usize > RECORDS_MAX {
        return Err(Error::TooLong);
    }
    let mut records = BTreeMap::new();
    for _ in 0..count {
        let owner = reader.opaque(u32::try_from(OWNER_BYTES_MAX).unwrap_or(u32::MAX))?;
        let owner = Owner::new(owner).ok_or(Error::TooLong)?;
        let flags = reader.u32()?;
        let principal = match reader.u32()? {
            ANONYMOUS => Principal::Anonymous,
            SYSTEM => Principal::System(reader.u32()?),
            NAMED => Principal::Named(Bytes::copy_from_slice(reader.opaque(PRINCIPAL_BYTES_MAX)?)),
            _ => return Err(Error::BadValue),
        };
        // A flag of a later version may forbid reclaims, so that this version must not ignore it.
        if flags & !(EXPIRED | INCOMPLETE) != 0 {
            return Err(Error::BadValue);
        }
        let (is_expired, is_incomplete) = (flags & EXPIRED != 0, flags & INCOMPLETE != 0);
        records.insert(owner, Record { principal, is_expired, is_incomplete });
    }
    reader.finish()?;
    Ok(ClientRecords { epoch, records })
}

fn checksum_of(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> BTreeMap<Owner, Record> {
        let one = |name: &[u8], principal, is_expired, is_incomplete| {
            let owner = Owner::new(name).expect("a short name");
            (owner, Record { principal, is_expired, is_incomplete })
        };
        let named = Principal::Named(Bytes::from_static(b"host@REALM"));
        BTreeMap::from([
            one(b"", Principal::Anonymous, false, false),
            one(b"laptop", Principal::System(7), true, false),
            one(&[9; OWNER_BYTES_MAX], named, false, true),
        ])
    }

    #[test]
    fn stored_records_are_parsed() {
        let parsed = ClientRecords::parse(&stored(5, &records())).expect("the form is valid");
        assert_eq!(parsed, ClientRecords { epoch: 5, records: records() });
        assert_eq!(parsed.len(), 3);
    }

    #[test]
    fn stored_form_is_stable() {
        let owner = Owner::new(b"host").expect("a short name");
        let principal = Principal::System(0);
        let record = Record { principal, is_expired: false, is_incomplete: true };
        let form = stored(5, &BTreeMap::from([(owner, record)]));
        let body = b"clients1\0\0\0\0\0\0\0\x05\0\0\0\x01\
                     \0\0\0\x04host\0\0\0\x02\0\0\0\x01\0\0\0\0";
        assert_eq!(form.strip_prefix(body).map(<[u8]>::len), Some(CHECKSUM_BYTES));
    }

    #[test]
    fn damaged_records_are_refused() {
        let whole = stored(5, &records());
        for length in 0..whole.len() {
            assert_eq!(ClientRecords::parse(&whole[..length]), Err(NoClientRecords));
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert_eq!(ClientRecords::parse(&damaged), Err(NoClientRecords), "byte {at}");
        }
    }

    #[test]
    fn forms_of_later_versions_are_refused() {
        let with_checksum = |mut body: Vec<u8>| {
            let checksum = checksum_of(&body);
            body.extend_from_slice(&checksum);
            body
        };
        let whole = stored(5, &records());
        let body = &whole[..whole.len() - CHECKSUM_BYTES];
        assert!(ClientRecords::parse(&with_checksum(body.to_vec())).is_ok());
        let mut later = body.to_vec();
        later[7] = b'2';
        assert_eq!(ClientRecords::parse(&with_checksum(later)), Err(NoClientRecords));
        let longer = [body, &[0; 4]].concat();
        assert_eq!(ClientRecords::parse(&with_checksum(longer)), Err(NoClientRecords));
        // The flags of the first record, whose owner has no bytes.
        let mut flagged = body.to_vec();
        flagged[MAGIC.len() + 8 + 4 + 4 + 3] = 4;
        assert_eq!(ClientRecords::parse(&with_checksum(flagged)), Err(NoClientRecords));
        let mut many = body.to_vec();
        many[MAGIC.len() + 8] = 0xff;
        assert_eq!(ClientRecords::parse(&with_checksum(many)), Err(NoClientRecords));
    }

    #[test]
    fn only_clients_of_the_last_run_may_reclaim() {
        let before = ClientRecords { epoch: 5, records: records() };
        let after = ClientRecords { epoch: 6, ..before.clone() };
        assert_eq!(before.clone().begin_run(5, 6), after);
        assert_eq!(before.clone().begin_run(4, 5), after, "epochs grow");
        assert_eq!(ClientRecords::default().begin_run(0, 1).epoch(), 1);
        let after_another = before.begin_run(6, 7);
        assert!(after_another.is_empty() && after_another.epoch() == 7);
    }
}
