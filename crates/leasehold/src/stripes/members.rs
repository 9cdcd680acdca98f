//! The assignment of numbers to the iods of a volume.

use std::collections::BTreeSet;

use leasehold_store_striped::{Mark, Member};

use crate::failure::{Failure, Kind};

/// The state of a named place.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// The place does not reply.
    Away,
    /// The place is empty.
    New,
    /// An iod of a volume.
    Known(Mark),
}

/// The iods of a volume.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Members {
    /// The volume; `None` if it has to be created.
    pub(super) volume: Option<u64>,
    /// All present and former iods, by their numbers.
    pub(super) members: Vec<Member>,
    /// The number of each named place.
    pub(super) numbers: Vec<u16>,
}

/// Assigns the places to the iods; the iods in `lost` are permanently given up.
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
            None => return refused(format!("unknown iod {number} in lost")),
        }
    }
    let mut taken = BTreeSet::new();
    let mut numbers = Vec::new();
    for (label, seen) in labels.iter().zip(seen) {
        let number = match seen {
            Seen::Known(mark) => {
                if Some(mark.volume) != volume || !taken.insert(mark.number) {
                    return refused(format!("{label} has stripes of another volume, or is a copy"));
                }
                mark.number
            }
            Seen::New | Seen::Away if volume.is_none() && matches!(seen, Seen::Away) => {
                return refused(format!(
                    "{label} does not reply, and no other iod lists it as a member"
                ));
            }
            Seen::New => number(members.len()),
            Seen::Away => {
                let is_it = |(at, member): &(usize, &Member)| {
                    member.label == *label && !member.gone && !taken.contains(&number(*at))
                };
                let Some((at, _)) = members.iter().enumerate().find(is_it) else {
                    return refused(format!(
                        "{label} does not reply, and no other iod lists it as a member: start it \
                         first"
                    ));
                };
                number(at)
            }
        };
        taken.insert(number);
        let member = Member { label: label.clone(), gone: false };
        match members.get_mut(usize::from(number)) {
            Some(there) if there.gone => {
                return refused(format!("{label} was given up: name another iod in its place"));
            }
            Some(there) => *there = member,
            None => members.push(member),
        }
        numbers.push(number);
    }
    let missing = |(at, member): &(usize, &Member)| !member.gone && !taken.contains(&number(*at));
    if let Some((at, Member { label, .. })) = members.iter().enumerate().find(missing) {
        return refused(format!(
            "iod {at} of the volume, {label}, is not named: name all iods; if it is lost for good, \
             with all data that only it had, add --lost {at}"
        ));
    }
    Ok(Members { volume, members, numbers })
}

/// Returns true if the volume exists and is complete: during its creation iods receive their marks
/// one after the other.
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

/// Returns the age of a list: a list with more entries, or more lost iods, is newer.
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

    /// A second metaserver, started when only one of two iods had its mark, advised to give up the
    /// other iod.
    #[test]
    fn volume_exists_when_all_iods_have_marks() {
        let is_made = |seen: &[Seen]| super::is_made(&LABELS.map(str::to_owned), seen);
        let both = ["a", "b"];
        assert!(!is_made(&[Seen::New, Seen::New]));
        assert!(!is_made(&[mark(5, 0, &both), Seen::New]));
        assert!(is_made(&[mark(5, 0, &both), mark(5, 1, &both)]));
        assert!(is_made(&[mark(5, 0, &both), Seen::Away]));
        // An added iod, and an iod that was given up.
        assert!(is_made(&[mark(5, 0, &both), mark(5, 1, &both), Seen::New]));
        assert!(is_made(&[mark(5, 0, &["a", "-b"]), Seen::New]));
    }

    #[test]
    fn marks_determine_the_order() {
        let new = of(&[Seen::New, Seen::New], &[]);
        assert_eq!(new, Ok((None, vec![0, 1], named(&["a", "b"]))));
        let all = ["b", "c", "a"];
        let moved = of(&[mark(5, 2, &all), mark(5, 0, &all), mark(5, 1, &all)], &[]);
        assert_eq!(moved, Ok((Some(5), vec![2, 0, 1], named(&all))));
        // Marks of earlier versions have no list.
        let old = of(&[mark(5, 1, &[]), mark(5, 0, &[])], &[]);
        assert_eq!(old, Ok((Some(5), vec![1, 0], named(&["b", "a"]))));
        // The other iods list an unreachable one, and a new iod receives the next number.
        let away = of(&[mark(5, 0, &["a", "b"]), Seen::Away, Seen::New], &[]);
        assert_eq!(away, Ok((Some(5), vec![0, 1, 2], named(&LABELS))));
    }

    #[test]
    fn conflicting_marks_are_rejected() {
        let two = ["a", "b"];
        for wrong in [
            vec![mark(5, 0, &two), mark(6, 1, &two)],
            vec![mark(5, 0, &two), mark(5, 0, &two)],
            // An iod is missing: a new iod does not take its place.
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
    fn lost_iod_keeps_its_number() {
        let replaced = of(&[mark(5, 0, &["a", "x"]), Seen::New], &[1]);
        assert_eq!(replaced, Ok((Some(5), vec![0, 2], named(&["a", "-x", "b"]))));
        // The newer of two lists is used.
        let later = [mark(5, 0, &["a", "x"]), mark(5, 2, &["a", "-x", "b"])];
        assert_eq!(of(&later, &[]), Ok((Some(5), vec![0, 2], named(&["a", "-x", "b"]))));
        assert!(of(&[mark(5, 0, &["a"])], &[1]).is_err());
    }
}
