use leasehold_base::groups::Groups as List;
use leasehold_base::random::Random;

use super::*;

fn networks(texts: &[&str]) -> Vec<Clients> {
    let clients = |text: &&str| Clients {
        text: (*text).to_owned(),
        networks: vec![text.parse().expect("a network")],
    };
    texts.iter().map(clients).collect()
}

fn rule(texts: &[&str]) -> Rule {
    Rule {
        clients: networks(texts),
        read_only: false,
        insecure: false,
        identity: Identity::default(),
    }
}

fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
    Caller { uid, gid, groups: List::of_server(groups) }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn networks_are_read_and_written() {
    for text in
        ["10.0.0.0/8", "192.0.2.7", "0.0.0.0/0", "::/0", "2001:db8::/32", "::1", "10.1.2.0/23"]
    {
        let network: Network = text.parse().expect("a network");
        assert_eq!(network.to_string(), text);
    }
    assert_eq!(
        "192.0.2.7/32".parse::<Network>().map(|one| one.to_string()),
        Ok("192.0.2.7".into())
    );
    let wrong = |text: &str| text.parse::<Network>().expect_err("is none");
    let meant = |text: &str| BadNetwork::HostBits(text.parse().expect("a network"));
    assert_eq!(wrong("10.1.2.3/8"), meant("10.0.0.0/8"));
    assert_eq!(wrong("2001:db8::1/32"), meant("2001:db8::/32"));
    assert_eq!(wrong("::ffff:10.0.0.0/104"), BadNetwork::Prefix);
    for text in ["10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1"] {
        assert_eq!(wrong(text), BadNetwork::Prefix, "{text}");
    }
    for text in ["", "host", "10.0.0", "*", "10.0.0.0.0", "1::2::3"] {
        assert_eq!(wrong(text), BadNetwork::NoAddress, "{text}");
    }
}

#[test]
fn first_matching_rule_applies() {
    let rules = [&["10.1.0.0/16", "::1"][..], &["10.0.0.0/8"], &["10.1.2.3", "192.0.2.1"]];
    let access = Access::new(rules.map(rule).to_vec());
    for (client, place) in [
        ("10.1.2.3", Some(0)),
        ("10.1.255.255", Some(0)),
        ("10.2.0.0", Some(1)),
        ("10.255.255.255", Some(1)),
        ("11.0.0.0", None),
        ("9.255.255.255", None),
        ("192.0.2.1", Some(2)),
        ("192.0.2.2", None),
        ("::1", Some(0)),
        ("::2", None),
        ("::ffff:10.2.3.4", Some(1)),
    ] {
        assert_eq!(access.place(address(client)), place, "{client}");
    }
    assert_eq!(Access::new(Vec::new()).place(address("127.0.0.1")), None);
    for client in ["0.0.0.0", "255.255.255.255", "::", "ffff:ffff::1"] {
        assert_eq!(Access::everybody(false).place(address(client)), Some(0), "{client}");
    }
}

/// Binary search agrees with a scan of all rules, for random rules and clients.
#[test]
fn binary_search_agrees_with_a_scan() {
    let mut random = Random::from_seed(7);
    let mut draw = |below: u32| u32::try_from(random.below(u64::from(below))).expect("is small");
    for _ in 0..300 {
        let rules: Vec<Rule> = (0..1 + draw(6))
            .map(|_| {
                let texts: Vec<String> = (0..draw(4))
                    .map(|_| {
                        let (width, prefix) =
                            if draw(2) == 0 { (8, draw(33)) } else { (16, draw(129)) };
                        let wide = draw(256);
                        let text = match width {
                            8 => format!("{wide}.{}.0.0/{prefix}", draw(4)),
                            _ => format!("{wide:x}::{:x}/{prefix}", draw(4)),
                        };
                        match text.parse::<Network>() {
                            Err(BadNetwork::HostBits(network)) => network.to_string(),
                            _ => text,
                        }
                    })
                    .collect();
                rule(&texts.iter().map(String::as_str).collect::<Vec<_>>())
            })
            .collect();
        let access = Access::new(rules.clone());
        for _ in 0..200 {
            let client = match draw(2) {
                0 => address(&format!("{}.{}.{}.0", draw(256), draw(4), draw(2))),
                _ => address(&format!("{:x}::{:x}", draw(256), draw(5))),
            };
            let has = |rule: &Rule| {
                rule.clients.iter().flat_map(|one| &one.networks).any(|one| one.contains(client))
            };
            assert_eq!(access.place(client), rules.iter().position(has), "{client} of {rules:?}");
        }
    }
}

#[test]
fn squashing_examines_the_claimed_credential() {
    let anonymous = User { uid: 99, gid: 98 };
    let squashing = |squash| Identity { squash, anonymous, ..Identity::default() };
    let decide = |squash, claimed: Caller| {
        let Decided { caller, because } = squashing(squash).of(Some(&claimed));
        (caller, because)
    };
    let nobody = || caller(99, 98, &[]);
    let (root, ann) = (caller(0, 0, &[0, 4]), caller(5, 6, &[7]));
    assert_eq!(decide(Squash::None, root.clone()), (root.clone(), Because::Claimed));
    assert_eq!(decide(Squash::Root, root.clone()), (nobody(), Because::SquashedRoot));
    assert_eq!(decide(Squash::All, root), (nobody(), Because::SquashedAll));
    assert_eq!(decide(Squash::All, ann.clone()), (nobody(), Because::SquashedAll));
    assert_eq!(decide(Squash::Root, ann.clone()), (ann, Because::Claimed));
    let in_root_group = decide(Squash::Root, caller(5, 0, &[7, 0]));
    assert_eq!(in_root_group, (caller(5, 98, &[7, 98]), Because::Mapped));
    let silent = squashing(Squash::None).of(None);
    assert_eq!((silent.caller, silent.because), (nobody(), Because::NoCredential));
}

/// A client sends the id [`NO_USER`] for a user that has no id. The server must not pass this id to
/// the kernel, where it means that the owner stays unchanged.
#[test]
fn the_number_of_no_user_is_anonymous() {
    let anonymous = User { uid: 99, gid: 98 };
    let identity = Identity { squash: Squash::None, anonymous, ..Identity::default() };
    let of = |claimed: Caller| identity.of(Some(&claimed)).caller;
    let mapped = identity.of(Some(&caller(u32::MAX, u32::MAX, &[7])));
    assert_eq!((mapped.caller, mapped.because), (caller(99, 98, &[7]), Because::Mapped));
    assert_eq!(of(caller(u32::MAX, 6, &[])), caller(99, 6, &[]));
    assert_eq!(of(caller(5, u32::MAX, &[])), caller(5, 98, &[]));
}

#[test]
fn maps_change_numbers_after_squashing() {
    let range = |first, last, to, to_one| Range { first, last, to, to_one };
    let users = IdMap::new(vec![range(1000, 1999, 500_000, false), range(0, 9, 77, true)]);
    let identity = Identity {
        squash: Squash::Root,
        users: users.expect("they are apart"),
        groups_map: IdMap::new(vec![range(100, 100, 0, true)]).expect("one is apart"),
        ..Identity::default()
    };
    let of = |claimed: Caller| identity.of(Some(&claimed)).caller;
    assert_eq!(of(caller(1000, 1, &[])).uid, 500_000);
    assert_eq!(of(caller(1999, 1, &[])).uid, 500_999);
    assert_eq!(of(caller(2000, 1, &[])).uid, 2000, "a number without a range stays");
    assert_eq!(of(caller(9, 1, &[])).uid, 77);
    assert_eq!(of(caller(0, 1, &[])).uid, NOBODY, "the superuser is squashed before");
    // A map to user 0 is intentional, so squashing does not apply to its result.
    assert_eq!(of(caller(5, 100, &[100, 3])), caller(77, 0, &[0, 3]));
    let overlap = IdMap::new(vec![range(5, 9, 0, true), range(9, 12, 0, true)]);
    assert_eq!(overlap, Err((range(5, 9, 0, true), range(9, 12, 0, true))));
    let high = IdMap::new(vec![range(0, u32::MAX, 10, false)]).expect("one is apart");
    assert_eq!(high.of(u32::MAX), u32::MAX);
}

#[test]
fn credential_counts_according_to_its_trust() {
    let claimed = caller(5, 6, &[7]);
    let decide = |insecure, trust| {
        let rule = Rule { insecure, ..rule(&["10.0.0.0/8"]) };
        rule.decide(Some(&claimed), trust).map(|decided| decided.caller.uid)
    };
    for insecure in [false, true] {
        assert_eq!(decide(insecure, Trust::Claimed), Ok(5));
        assert_eq!(decide(insecure, Trust::Pinned { uid: 8, gid: 9 }), Ok(8));
        assert_eq!(decide(insecure, Trust::Nobody), Ok(NOBODY));
        assert_eq!(decide(insecure, Trust::Refused), Err(Refused));
    }
    assert_eq!(decide(false, Trust::Unvouched { refuse: false }), Ok(NOBODY));
    assert_eq!(decide(false, Trust::Unvouched { refuse: true }), Err(Refused));
    assert_eq!(decide(true, Trust::Unvouched { refuse: false }), Ok(5));
    assert_eq!(decide(true, Trust::Unvouched { refuse: true }), Ok(5));
}

const NOBODY: u32 = leasehold_fs::NOBODY;
