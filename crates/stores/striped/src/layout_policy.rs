//! The layout policy that an administrator sets for a file, or for all new files of a directory, in
//! place of the volume's options.
//!
//! The store of names stores the policy with the file or directory, as lines of text. New entries
//! of a directory inherit its policy. A file or directory that is renamed into another directory
//! keeps its own policy.

use core::str::FromStr;
use std::collections::BTreeSet;

use bytes::Bytes;
use leasehold_core::stripes::Layout;

use crate::Options;
use crate::metafile::Head;

/// The layout policy of a file or directory. An absent value means the value of the volume's
/// options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutPolicy {
    /// The stripe unit in bytes.
    pub unit: Option<u32>,
    /// The number of iods for a file. If fewer iods are available, the file uses all of them.
    pub width: Option<u16>,
    /// The iod of the first stripe, if this iod is among the file's iods. Otherwise new files start
    /// at the iods in round-robin order.
    pub first: Option<u16>,
    /// The iods to use. If the volume uses none of them for new data, the file uses the iods of the
    /// volume.
    pub iods: Vec<u16>,
    /// The number of copies of each stripe.
    pub copies: Option<u16>,
}

impl LayoutPolicy {
    /// Returns the policy as lines of text.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { unit, width, first, iods, copies } = self;
        let mut text = String::new();
        let mut line = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{key} {value}\n"));
            }
        };
        let named: Vec<String> = iods.iter().map(u16::to_string).collect();
        line("unit", unit.map(|unit| unit.to_string()));
        line("width", width.map(|width| width.to_string()));
        line("first", first.map(|first| first.to_string()));
        line("iods", (!named.is_empty()).then(|| named.join(" ")));
        line("copies", copies.map(|copies| copies.to_string()));
        text
    }

    /// Parses lines of text; returns `None` if they are not a valid policy.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut shape = Self::default();
        for line in core::str::from_utf8(text).ok()?.lines() {
            let (key, value) = line.split_once(' ')?;
            match key {
                "unit" => shape.unit = Some(value.parse().ok().filter(|unit| *unit > 0)?),
                "width" => shape.width = Some(value.parse().ok().filter(|width| *width > 0)?),
                "first" => shape.first = Some(value.parse().ok()?),
                "iods" => {
                    let iods: Result<_, _> = value.split(' ').map(u16::from_str).collect();
                    shape.iods = iods.ok()?;
                }
                "copies" => {
                    let few = |copies: &u16| (1..=2).contains(copies);
                    shape.copies = Some(value.parse().ok().filter(few)?);
                }
                _ => return None,
            }
        }
        Some(shape)
    }

    /// Parses the stored policy of a file or directory. A malformed policy counts as absent.
    pub(crate) fn of(noted: Option<Bytes>) -> Self {
        noted.and_then(|noted| Self::parse(&noted)).unwrap_or_default()
    }

    /// Returns the iods that a file may use, each once.
    pub(crate) fn candidates(&self, options: &Options) -> Vec<u16> {
        let mut named = Vec::new();
        for iod in self.iods.iter().filter(|iod| options.used.contains(iod)) {
            if !named.contains(iod) {
                named.push(*iod);
            }
        }
        // Two copies need two iods. If the policy names fewer iods, use all iods of the volume.
        let least = usize::from(self.copies_of(options));
        if named.len() < least { options.used.clone() } else { named }
    }

    fn copies_of(&self, options: &Options) -> u16 {
        let most = u16::try_from(options.used.len()).unwrap_or(u16::MAX);
        self.copies.unwrap_or(options.copies).min(most)
    }

    fn width_of(&self, options: &Options, candidates: &[u16]) -> usize {
        let wanted = self.width.map_or(candidates.len(), usize::from);
        wanted.max(self.copies_of(options).into()).min(candidates.len())
    }

    /// Returns the iods that a new file may use. Omits full iods, unless the rest is too few for
    /// all copies.
    fn with_room(&self, options: &Options, full: &BTreeSet<u16>) -> Vec<u16> {
        let all = self.candidates(options);
        match self.needs_full(options, full) {
            true => all,
            false => all.into_iter().filter(|iod| !full.contains(iod)).collect(),
        }
    }

    /// Returns true if a file must use a full iod, because there are not enough other iods for all
    /// copies.
    pub(crate) fn needs_full(&self, options: &Options, full: &BTreeSet<u16>) -> bool {
        let rest = self.candidates(options).iter().filter(|iod| !full.contains(iod)).count();
        rest < usize::from(self.copies_of(options))
    }

    /// Returns the iods of a new file, in the order of its stripes. `number` is the number in the
    /// file's object name; it selects the first iod in round-robin order.
    pub(crate) fn iods(&self, options: &Options, number: u64, full: &BTreeSet<u16>) -> Vec<u16> {
        let mut iods = self.with_room(options, full);
        let count = iods.len() as u64;
        let first = self.first.and_then(|first| iods.iter().position(|iod| *iod == first));
        let turn = usize::try_from(number % count).expect("it is below the count");
        iods.rotate_left(first.unwrap_or(turn));
        iods.truncate(self.width_of(options, &iods));
        iods
    }

    pub(crate) fn layout(&self, options: &Options, width: usize) -> Layout {
        let width = u16::try_from(width).expect("it was checked");
        Layout::new(self.unit.unwrap_or(options.unit), width).expect("neither is zero")
    }

    pub(crate) fn copies(&self, options: &Options) -> u16 {
        self.copies_of(options)
    }

    /// Returns true if the layout of a file matches the policy. Without a policy, a file keeps the
    /// width and the stripe unit of its creation.
    pub(crate) fn fits(&self, options: &Options, head: &Head, full: &BTreeSet<u16>) -> bool {
        let candidates = self.candidates(options);
        let with_room = self.with_room(options, full);
        let width_of = |iods: &[u16]| self.width_of(options, iods);
        // A file that omits a full iod still matches. Once the iod has free space again, only the
        // full width matches, so the rebalancer migrates the file.
        let is_wide = || {
            let width = head.iods.len();
            width == width_of(&candidates) || width == width_of(&with_room)
        };
        // A file need not start at the preferred iod while this iod is full, since a new file would
        // not start there either.
        let begins = |first: u16| head.iods.first() == Some(&first) || !with_room.contains(&first);
        head.iods.iter().all(|iod| candidates.contains(iod))
            && head.copies == self.copies_of(options)
            && self.unit.is_none_or(|unit| unit == head.layout.unit())
            && (is_wide() || self.width.is_none() && !options.rebalance)
            && self.first.is_none_or(begins)
    }
}
