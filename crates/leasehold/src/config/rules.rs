//! Converts the rules for clients in the configuration file into the rules that the server applies
//! to each call.

use std::net::IpAddr;
use std::ops::Range as Span;

use leasehold_fs::NOBODY;
use leasehold_serve::access::{
    self, BadNetwork, Clients, IdMap, Identity, Network, Range, Rule, User,
};
use leasehold_shell::users;
use toml::Spanned;

use super::options::{Client, Groups, Id, Mapping, Squash};

/// A fault, and its location in the file.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) span: Span<usize>,
    pub(crate) text: String,
}

impl Wrong {
    pub(crate) fn at<T>(place: &Spanned<T>, text: impl Into<String>) -> Self {
        Self { span: place.span(), text: text.into() }
    }
}

/// Returns the rule of an export without rules: full access for all clients, with root squashed.
pub(super) fn without_any() -> Rule {
    let identity = Identity { squash: access::Squash::Root, ..Identity::default() };
    Rule { clients: vec![Clients::everybody()], read_only: false, insecure: false, identity }
}

pub(super) fn rule(client: &Client) -> Result<Rule, Wrong> {
    if client.from.get_ref().is_empty() {
        let text = "names no client: give addresses, networks, names of hosts, or \"*\"";
        return Err(Wrong::at(&client.from, text));
    }
    let anonymous = User {
        uid: one(client.anonuid.as_ref(), Kind::User)?,
        gid: one(client.anongid.as_ref(), Kind::Group)?,
    };
    Ok(Rule {
        clients: client.from.get_ref().iter().map(clients).collect::<Result<_, _>>()?,
        read_only: client.read_only,
        insecure: client.insecure,
        identity: Identity {
            squash: match client.squash {
                Squash::All => access::Squash::All,
                Squash::None => access::Squash::None,
                Squash::Root => access::Squash::Root,
            },
            anonymous,
            users: map(&client.uid_map, Kind::User)?,
            groups_map: map(&client.gid_map, Kind::Group)?,
            groups: match client.groups {
                Groups::Client => access::Groups::Client,
                Groups::Server => access::Groups::Server,
            },
        },
    })
}

/// Parses the clients of a rule. Host names are resolved later, because the resolution may take
/// long.
fn clients(from: &Spanned<String>) -> Result<Clients, Wrong> {
    let text = from.get_ref().clone();
    if text == "*" {
        return Ok(Clients::everybody());
    }
    let networks = match text.parse::<Network>() {
        Ok(network) => vec![network],
        Err(BadNetwork::HostBits(network)) => {
            let text = format!("{text} has bits set beyond its prefix: write {network}");
            return Err(Wrong::at(from, text));
        }
        Err(BadNetwork::Prefix) => {
            let text = format!("{text} is not a network: write it like 10.0.0.0/8 or fd00::/8");
            return Err(Wrong::at(from, text));
        }
        Err(BadNetwork::NoAddress) if is_host(&text) => Vec::new(),
        Err(BadNetwork::NoAddress) => {
            let text = format!("{text:?} is not an address, network or name of a host");
            return Err(Wrong::at(from, text));
        }
    };
    Ok(Clients { text, networks })
}

/// Returns true if a text may be a host name. Returns false for a text of digits and dots, which is
/// a mistyped address.
fn is_host(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().all(letter) && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Resolves the host names in rules; returns the names without an address.
pub(crate) fn look_up(rules: &mut [Rule]) -> Vec<String> {
    let mut unknown = Vec::new();
    for clients in rules.iter_mut().flat_map(|rule| &mut rule.clients) {
        if !is_name(clients) {
            continue;
        }
        let found: Vec<IpAddr> = match users::addresses_of(&clients.text) {
            Ok(addresses) => addresses,
            Err(error) => {
                unknown.push(format!("{}: {error}", clients.text));
                // The rule keeps the known addresses while the name service is unreachable.
                continue;
            }
        };
        clients.networks = found.into_iter().map(Network::host).collect();
    }
    unknown
}

/// Returns true if the clients of a rule are a host name, which the server has to resolve to
/// addresses.
pub(crate) fn is_name(clients: &Clients) -> bool {
    clients.text != "*" && clients.text.parse::<Network>() == Err(BadNetwork::NoAddress)
}

/// The kinds of ids: each id has a number and a name in the user database.
#[derive(Clone, Copy)]
enum Kind {
    Group,
    User,
}

impl Kind {
    fn named(self, name: &str) -> Result<u32, String> {
        let (number, what) = match self {
            Self::Group => (users::group_named(name), "group"),
            Self::User => (users::user_named(name), "user"),
        };
        number.ok_or_else(|| format!("this machine has no {what} {name:?}: give a number instead"))
    }
}

/// Parses the id of the anonymous user or group.
fn one(id: Option<&Spanned<Id>>, kind: Kind) -> Result<u32, Wrong> {
    let Some(id) = id else { return Ok(NOBODY) };
    match span(id.get_ref(), kind) {
        Ok((first, last)) if first == last => Ok(first),
        Ok(_) => Err(Wrong::at(id, "is a range: give one number or name")),
        Err(text) => Err(Wrong::at(id, text)),
    }
}

fn map(mappings: &[Spanned<Mapping>], kind: Kind) -> Result<IdMap, Wrong> {
    let range = |mapping: &Spanned<Mapping>| {
        range(mapping.get_ref(), kind).map_err(|text| Wrong::at(mapping, text))
    };
    let ranges: Vec<Range> = mappings.iter().map(range).collect::<Result<_, _>>()?;
    IdMap::new(ranges).map_err(|(one, other)| {
        let place = mappings.last().expect("at least two ranges overlap");
        let (a, b, c, d) = (one.first, one.last, other.first, other.last);
        Wrong::at(place, format!("{a}-{b} and {c}-{d} overlap: each number may occur once"))
    })
}

fn range(mapping: &Mapping, kind: Kind) -> Result<Range, String> {
    let (first, last) = span(&mapping.from, kind)?;
    let (to, to_last) = span(&mapping.to, kind)?;
    let to_one = to == to_last;
    if !to_one && to_last - to != last - first {
        return Err(
            "both ranges must have the same length, or `to` must be a single number".to_owned()
        );
    }
    Ok(Range { first, last, to, to_one: to_one && first != last })
}

/// Parses a range of ids, and returns the first and the last id. The largest 32-bit number is not
/// valid, because the kernel uses it for "no id".
fn span(id: &Id, kind: Kind) -> Result<(u32, u32), String> {
    match numbers(id, kind)? {
        (_, u32::MAX) => Err(format!("{} is not a valid user or group", u32::MAX)),
        numbers => Ok(numbers),
    }
}

fn numbers(id: &Id, kind: Kind) -> Result<(u32, u32), String> {
    let text = match id {
        Id::Number(number) => return Ok((*number, *number)),
        Id::Text(text) => text.trim(),
    };
    let number = |text: &str| text.trim().parse::<u32>();
    if let Ok(one) = number(text) {
        return Ok((one, one));
    }
    if let Some((first, last)) = text.split_once('-')
        && let (Ok(first), Ok(last)) = (number(first), number(last))
    {
        return match first <= last {
            true => Ok((first, last)),
            false => Err(format!("{text} ends before it begins")),
        };
    }
    kind.named(text).map(|number| (number, number))
}
