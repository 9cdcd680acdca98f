//! What an administrator says about where the data of a file is to lie, or of all files that are
//! made in a directory: beside what is so for the whole volume.
//!
//! It stands at the file or directory in the store of names, as lines of text. What is made in a
//! directory gets what that has, so it is inherited, and stays with what was moved elsewhere.

use core::str::FromStr;
use std::collections::BTreeSet;

use bytes::Bytes;
use leasehold_core::stripes::Layout;

use crate::Options;
use crate::metafile::Head;

/// What was said of a file or directory. What was not is as for the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a stripe.
    pub unit: Option<u32>,
    /// Over how many iods a file is spread; over fewer where there are not so many.
    pub width: Option<u16>,
    /// The iod that has the first stripe, where it is one of those. Else it is another for each file.
    pub first: Option<u16>,
    /// The iods to use; those that the volume uses where none of them is.
    pub iods: Vec<u16>,
    /// How many iods have each stripe.
    pub copies: Option<u16>,
}

impl Shape {
    /// The lines that say so.
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

    /// What such lines say; none where they are no such lines.
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

    /// What stands at a file or directory. What cannot be read says nothing.
    pub(crate) fn of(noted: Option<Bytes>) -> Self {
        noted.and_then(|noted| Self::parse(&noted)).unwrap_or_default()
    }

    /// The iods that a file may use, each once.
    pub(crate) fn candidates(&self, options: &Options) -> Vec<u16> {
        let mut named = Vec::new();
        for iod in self.iods.iter().filter(|iod| options.used.contains(iod)) {
            if !named.contains(iod) {
                named.push(*iod);
            }
        }
        // Two copies lie on two iods, whatever was named.
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

    /// The iods that a new file may use: without the full iods, as long as the other iods can have
    /// all copies.
    fn with_room(&self, options: &Options, full: &BTreeSet<u16>) -> Vec<u16> {
        let all = self.candidates(options);
        match self.needs_full(options, full) {
            true => all,
            false => all.into_iter().filter(|iod| !full.contains(iod)).collect(),
        }
    }

    /// True if a file needs an iod that is full.
    pub(crate) fn needs_full(&self, options: &Options, full: &BTreeSet<u16>) -> bool {
        let rest = self.candidates(options).iter().filter(|iod| !full.contains(iod)).count();
        rest < usize::from(self.copies_of(options))
    }

    /// The iods of a file with that number, in the order of its stripes.
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

    /// Whether a file lies as it is to. Where nothing was said of it, how wide it is spread and how
    /// large its stripes are is as it was when it was made.
    pub(crate) fn fits(&self, options: &Options, head: &Head, full: &BTreeSet<u16>) -> bool {
        let candidates = self.candidates(options);
        let with_room = self.with_room(options, full);
        let width_of = |iods: &[u16]| self.width_of(options, iods);
        // A file that was placed around an iod moves when the iod has room again.
        let is_wide = || {
            let width = head.iods.len();
            width == width_of(&candidates) || width == width_of(&with_room)
        };
        // A new file would not begin at an iod that is full either.
        let begins = |first: u16| head.iods.first() == Some(&first) || !with_room.contains(&first);
        head.iods.iter().all(|iod| candidates.contains(iod))
            && head.copies == self.copies_of(options)
            && self.unit.is_none_or(|unit| unit == head.layout.unit())
            && (is_wide() || self.width.is_none() && !options.rebalance)
            && self.first.is_none_or(begins)
    }
}
