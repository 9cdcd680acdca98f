//! Assigns the configured directories or iods to the numbered iods of a volume.

use std::collections::BTreeSet;

use leasehold_store_striped::{Mark, Member};

use crate::{Failure, Kind};

/// The state of a configured directory or iod, as seen at the start.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// The iod does not reply.
    Away,
    /// The directory is empty, so it can become a new iod.
    New,
    /// The directory belongs to a volume, and its mark contains the volume and the iod number.
    Known(Mark),
}

/// The iods of a volume, with their numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// The number of the volume; `None` if the volume has to be created.
    pub(crate) volume: Option<u64>,
    /// All present and former iods, by their numbers.
    pub(crate) members: Vec<Member>,
    /// The iod number of each configured directory or iod.
    pub(crate) numbers: Vec<u16>,
}

/// Assigns an iod number to each configured directory or iod. The iods in `lost` are permanently
/// removed from the volume.
pub(crate) fn members(labels: &[String], seen: &[Seen], lost: &[u16]) -> Result<Members, Failure> {
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

/// Returns true if the volume exists and all its iods have their marks. During the creation of a
/// volume the iods receive their marks one after the other.
pub(crate) fn is_made(labels: &[String], seen: &[Seen]) -> bool {
    let marks =
        || seen.iter().filter_map(|seen| if let Seen::Known(it) = seen { Some(it) } else { None });
    let is_told = |label: &String| {
        let mut told = marks().flat_map(|mark| &mark.members);
        told.any(|member| !member.gone && member.label == *label)
    };
    let mut new = labels.iter().zip(seen).filter(|(_, seen)| matches!(seen, Seen::New));
    marks().next().is_some() && !new.any(|(label, _)| is_told(label))
}

/// Returns the rank of a list of iods, as stored in a mark. A list with more entries, or with more
/// lost iods, is newer.
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

    /// Regression test: a second metaserver that started when only one of two iods had its mark
    /// advised the administrator to declare the other iod lost.
    #[test]
    fn volume_exists_when_all_iods_have_marks() {
        let is_made = |seen: &[Seen]| super::is_made(&LABELS.map(str::to_owned), seen);
        let both = ["a", "b"];
        assert!(!is_made(&[Seen::New, Seen::New]));
        assert!(!is_made(&[mark(5, 0, &both), Seen::New]));
        assert!(is_made(&[mark(5, 0, &both), mark(5, 1, &both)]));
        assert!(is_made(&[mark(5, 0, &both), Seen::Away]));
        // The volume has an additional iod, or an iod that was declared lost.
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
        // The marks of earlier versions contain no list of iods.
        let old = of(&[mark(5, 1, &[]), mark(5, 0, &[])], &[]);
        assert_eq!(old, Ok((Some(5), vec![1, 0], named(&["b", "a"]))));
        // The marks of the other iods list the unreachable iod, and a new iod receives the next
        // number.
        let away = of(&[mark(5, 0, &["a", "b"]), Seen::Away, Seen::New], &[]);
        assert_eq!(away, Ok((Some(5), vec![0, 1, 2], named(&LABELS))));
    }

    #[test]
    fn conflicting_marks_are_rejected() {
        let two = ["a", "b"];
        for wrong in [
            vec![mark(5, 0, &two), mark(6, 1, &two)],
            vec![mark(5, 0, &two), mark(5, 0, &two)],
            // If an iod is missing, a new iod must not take its number.
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
        // If two marks contain different lists, the newer list counts.
        let later = [mark(5, 0, &["a", "x"]), mark(5, 2, &["a", "-x", "b"])];
        assert_eq!(of(&later, &[]), Ok((Some(5), vec![0, 2], named(&["a", "-x", "b"]))));
        assert!(of(&[mark(5, 0, &["a"])], &[1]).is_err());
    }
}
