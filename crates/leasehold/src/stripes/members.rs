//! Which iod of a volume is which.

use std::collections::BTreeSet;

use leasehold_store_striped::{Mark, Member};

use crate::failure::{Failure, Kind};

/// What was found at a place that was named.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// Nothing answers there now.
    Away,
    /// Nothing is there yet.
    New,
    /// An iod of a volume.
    Known(Mark),
}

/// The iods of a volume.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Members {
    /// The volume; none where it is to be made.
    pub(super) volume: Option<u64>,
    /// All iods that it has or had, by their numbers.
    pub(super) members: Vec<Member>,
    /// The number of each place that was named.
    pub(super) numbers: Vec<u16>,
}

/// Finds out which place is which iod; those in `lost` are gone for good from now on.
pub(super) fn members(labels: &[String], seen: &[Seen], lost: &[u16]) -> Result<Members, Failure> {
    let refused = |text: String| Err(Kind::Directory.because(text));
    let known = || {
        seen.iter().filter_map(|seen| if let Seen::Known(mark) = seen { Some(mark) } else { None })
    };
    let volume = known().map(|mark| mark.volume).next();
    let mut members: Vec<Member> =
        known().map(|mark| &mark.members).max_by_key(|it| rank(it)).cloned().unwrap_or_default();
    let unknown = || Member { label: "?".to_owned(), gone: false };
    for mark in known() {
        let count = members.len().max(usize::from(mark.number) + 1);
        members.resize_with(count, unknown);
    }
    for &number in lost {
        match members.get_mut(usize::from(number)) {
            Some(member) => member.gone = true,
            None => return refused(format!("there is no iod {number} that could be lost")),
        }
    }
    let mut taken = BTreeSet::new();
    let mut numbers = Vec::new();
    for (label, seen) in labels.iter().zip(seen) {
        let number = match seen {
            Seen::Known(mark) => {
                if Some(mark.volume) != volume || !taken.insert(mark.number) {
                    return refused(format!("{label} holds stripes of another volume, or a copy"));
                }
                mark.number
            }
            Seen::New | Seen::Away if volume.is_none() && matches!(seen, Seen::Away) => {
                return refused(format!("{label} does not answer, and nothing else knows it"));
            }
            Seen::New => number(members.len()),
            Seen::Away => {
                let is_it = |(at, member): &(usize, &Member)| {
                    member.label == *label && !member.gone && !taken.contains(&number(*at))
                };
                let Some((at, _)) = members.iter().enumerate().find(is_it) else {
                    return refused(format!(
                        "{label} does not answer, and no other iod knows it: start it first"
                    ));
                };
                number(at)
            }
        };
        taken.insert(number);
        let member = Member { label: label.clone(), gone: false };
        match members.get_mut(usize::from(number)) {
            Some(there) if there.gone => {
                return refused(format!("{label} was given up: name another in its place"));
            }
            Some(there) => *there = member,
            None => members.push(member),
        }
        numbers.push(number);
    }
    let missing = |(at, member): &(usize, &Member)| !member.gone && !taken.contains(&number(*at));
    if let Some((at, Member { label, .. })) = members.iter().enumerate().find(missing) {
        return refused(format!(
            "iod {at} of the volume, {label}, is not named: name all; if it is gone for good, \
             with what only it had, say --lost {at}"
        ));
    }
    Ok(Members { volume, members, numbers })
}

/// Whether there is a volume, and nobody is just making it: iods get their marks one after the other.
pub(super) fn is_made(labels: &[String], seen: &[Seen]) -> bool {
    let marks =
        || seen.iter().filter_map(|seen| if let Seen::Known(it) = seen { Some(it) } else { None });
    let is_told = |label: &String| {
        let mut told = marks().flat_map(|mark| &mark.members);
        told.any(|member| !member.gone && member.label == *label)
    };
    let mut new = labels.iter().zip(seen).filter(|(_, seen)| matches!(seen, Seen::New));
    marks().next().is_some() && !new.any(|(label, _)| is_told(label))
}

/// Of two lists of one volume the one with more is newer.
fn rank(members: &[Member]) -> (usize, usize) {
    (members.len(), members.iter().filter(|member| member.gone).count())
}

fn number(at: usize) -> u16 {
    u16::try_from(at).expect("a volume has few iods")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [&str; 3] = ["a", "b", "c"];

    fn named(labels: &[&str]) -> Vec<Member> {
        let member = |label: &&str| match label.strip_prefix('-') {
            Some(label) => Member { label: label.to_owned(), gone: true },
            None => Member { label: (*label).to_owned(), gone: false },
        };
        labels.iter().map(member).collect()
    }

    fn mark(volume: u64, number: u16, of: &[&str]) -> Seen {
        Seen::Known(Mark { volume, number, members: named(of) })
    }

    type Found = (Option<u64>, Vec<u16>, Vec<Member>);

    fn of(seen: &[Seen], lost: &[u16]) -> Result<Found, String> {
        let labels: Vec<String> = LABELS.iter().take(seen.len()).map(|it| (*it).into()).collect();
        match members(&labels, seen, lost) {
            Ok(Members { volume, members, numbers }) => Ok((volume, numbers, members)),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// A metaserver that came while the first had marked one of two iods was told to give up the other.
    #[test]
    fn a_volume_is_made_when_all_have_their_marks() {
        let is_made = |seen: &[Seen]| super::is_made(&LABELS.map(str::to_owned), seen);
        let both = ["a", "b"];
        assert!(!is_made(&[Seen::New, Seen::New]));
        assert!(!is_made(&[mark(5, 0, &both), Seen::New]));
        assert!(is_made(&[mark(5, 0, &both), mark(5, 1, &both)]));
        assert!(is_made(&[mark(5, 0, &both), Seen::Away]));
        // One that was added, and one that was given up.
        assert!(is_made(&[mark(5, 0, &both), mark(5, 1, &both), Seen::New]));
        assert!(is_made(&[mark(5, 0, &["a", "-b"]), Seen::New]));
    }

    #[test]
    fn the_order_is_that_of_the_marks() {
        let new = of(&[Seen::New, Seen::New], &[]);
        assert_eq!(new, Ok((None, vec![0, 1], named(&["a", "b"]))));
        let all = ["b", "c", "a"];
        let moved = of(&[mark(5, 2, &all), mark(5, 0, &all), mark(5, 1, &all)], &[]);
        assert_eq!(moved, Ok((Some(5), vec![2, 0, 1], named(&all))));
        // As earlier versions wrote them.
        let old = of(&[mark(5, 1, &[]), mark(5, 0, &[])], &[]);
        assert_eq!(old, Ok((Some(5), vec![1, 0], named(&["b", "a"]))));
        // One that is away is known to the others, one that is new gets the next number.
        let away = of(&[mark(5, 0, &["a", "b"]), Seen::Away, Seen::New], &[]);
        assert_eq!(away, Ok((Some(5), vec![0, 1, 2], named(&LABELS))));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let two = ["a", "b"];
        for wrong in [
            vec![mark(5, 0, &two), mark(6, 1, &two)],
            vec![mark(5, 0, &two), mark(5, 0, &two)],
            // One is missing: not even a new one takes its place.
            vec![mark(5, 0, &two)],
            vec![mark(5, 0, &["a", "x"]), Seen::New],
            vec![mark(5, 1, &["x", "a"]), Seen::New],
            vec![Seen::Away, Seen::New],
            vec![mark(5, 0, &["a", "-b"]), mark(5, 1, &["a", "-b"])],
        ] {
            assert!(of(&wrong, &[]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn one_that_is_lost_keeps_its_number() {
        let replaced = of(&[mark(5, 0, &["a", "x"]), Seen::New], &[1]);
        assert_eq!(replaced, Ok((Some(5), vec![0, 2], named(&["a", "-x", "b"]))));
        // The newer of two lists counts.
        let later = [mark(5, 0, &["a", "x"]), mark(5, 2, &["a", "-x", "b"])];
        assert_eq!(of(&later, &[]), Ok((Some(5), vec![0, 2], named(&["a", "-x", "b"]))));
        assert!(of(&[mark(5, 0, &["a"])], &[1]).is_err());
    }
}
