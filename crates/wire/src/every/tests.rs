//! Tests that the table is complete, and that every decoder withstands arbitrary bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::sample::{Sample, Source};
use super::*;

const LISTING: &str = concat!(
    include_str!("../../../../spec/programs.x"),
    include_str!("../../../../spec/lease.x"),
    include_str!("../../../../spec/replica.x"),
    include_str!("../../../../spec/binding.x"),
);

/// Returns the procedures of a listing as (program, version, number, name). A number follows the
/// items that it numbers, so each level collects its items until its number arrives.
fn listed(listing: &'static str) -> Vec<(u32, u32, u32, &'static str)> {
    let (mut listed, mut program_start, mut version_start) = (Vec::new(), 0, 0);
    for line in listing.lines().map(str::trim) {
        let Some((left, number)) = line.strip_suffix(';').and_then(|l| l.split_once(" = ")) else {
            continue;
        };
        let number = number.parse().expect("a number");
        if let Some((name, _)) = left.split_once('(') {
            let (_, name) = name.rsplit_once('_').expect("a prefix");
            listed.push((0, 0, number, name));
        } else if listed[version_start..].is_empty() {
            listed[program_start..].iter_mut().for_each(|(program, ..)| *program = number);
            program_start = listed.len();
        } else {
            listed[version_start..].iter_mut().for_each(|(_, version, ..)| *version = number);
            version_start = listed.len();
        }
    }
    listed
}

#[test]
fn every_procedure_of_the_listing_is_in_the_table() {
    let table: Vec<_> =
        PROCEDURES.iter().map(|p| (p.program, p.version, p.number, p.name)).collect();
    assert_eq!(table, listed(LISTING));
    assert_eq!(table.len(), 6 + 9 + 13 + 18 + 22 + 7 + 8 + 6 + 25 + 28 + 3 + 21 + 5);
}

/// Draws a value, checks that its bytes decode to the same value, and returns the bytes.
type Drawn = fn(&mut Source<'_>) -> Bytes;

macro_rules! drawn {
    ($message:ty) => {
        |source| {
            let value = <$message as Sample>::sample(source);
            let bytes = encoded(&value);
            assert_eq!(decode_all(&mut Reader::new(&bytes)).as_ref(), Ok(&value));
            bytes
        }
    };
}

macro_rules! messages {
    ($($program:path, $version:path {
        $($name:ident $($module:ident)::+:
            $args:ident $(<$args_life:lifetime>)? => $reply:ident $(<$reply_life:lifetime>)?;)*
    })*) => {
        &[
            $($(
                drawn!($($module)::+::$args $(<$args_life>)?),
                drawn!($($module)::+::$reply $(<$reply_life>)?),
            )*)*
            drawn!(rpc::AuthSys<'_>),
            drawn!(rpc::Reply),
            |source| {
                let call = rpc::Call::sample(source);
                let bytes = encoded(&call);
                assert_eq!(rpc::Call::decode(&mut Reader::new(&bytes)), Ok(call));
                bytes
            },
        ]
    };
}

/// Draws the arguments or results of an operation, checks them with their number, and returns them
/// without the number.
macro_rules! drawn_operation {
    ($value:expr) => {{
        let value = $value;
        let bytes = encoded(&value);
        assert_eq!(decode_all(&mut Reader::new(&bytes)).as_ref(), Ok(&value));
        bytes.slice(4..)
    }};
}

macro_rules! operations {
    (untyped: $untyped:pat, $($variant:ident $module:ident:
        $args:ident $(<$args_life:lifetime>)? => $reply:ident $(<$reply_life:lifetime>)?;)*
    ) => {
        &[$(
            |source| drawn_operation!(Args::$variant(Sample::sample(source))),
            |source| drawn_operation!(Results::$variant(Sample::sample(source))),
        )*]
    };
}

/// Draws the results of an operation, and returns the operation and the encoded size.
type Sized = fn(&mut Source<'_>) -> (nfs4::Operation, usize);

macro_rules! sized {
    (untyped: $untyped:pat, $($variant:ident $module:ident:
        $args:ident $(<$args_life:lifetime>)? => $reply:ident $(<$reply_life:lifetime>)?;)*
    ) => {
        &[$(|source| {
            let results = nfs4::compound::Results::$variant(Sample::sample(source));
            (nfs4::Operation::$variant, encoded(&results).len())
        },)*]
    };
}

/// The sizes of results of version 4.
const RESULTS: &[Sized] = for_every_operation!(sized);

/// Every message of every procedure, and the heads.
const MESSAGES: &[Drawn] = for_every_procedure!(messages);

/// The arguments and results of every operation of version 4.
const OPERATION_MESSAGES: &[Drawn] = {
    use crate::nfs4::compound::{Args, Results};
    for_every_operation!(operations)
};

/// The arguments and results of every callback operation of version 4.
const CALLBACK_MESSAGES: &[Drawn] = {
    use crate::nfs4::callback::{Args, Results};
    for_every_callback!(operations)
};

/// Compounds and attributes of version 4.
const COMPOUND_MESSAGES: &[Drawn] = &[
    |source| {
        let attributes = nfs4::Attributes::sample(source);
        let owned = attributes.to_encoded();
        let typed = nfs4::Attributes::typed();
        assert_eq!(nfs4::Attributes::decode(&owned.borrow(), &typed).as_ref(), Ok(&attributes));
        let selected = encoded(&attributes.select(typed));
        assert_eq!(selected, encoded(&owned.borrow()));
        selected
    },
    |source| {
        let mut call = nfs4::compound::CallWriter::new(Writer::new(), Sample::sample(source), 2);
        let args = [
            nfs4::compound::Args::Sequence(Sample::sample(source)),
            nfs4::compound::Args::PutHandle(Sample::sample(source)),
            nfs4::compound::Args::Open(Sample::sample(source)),
        ];
        args.iter().for_each(|args| call.append(args));
        let bytes = call.finish().finish().into_bytes();
        let mut reader = Reader::new(&bytes);
        let header = nfs4::compound::Header::decode(&mut reader).expect("a header");
        let read = nfs4::compound::Operations::new(reader, header.count);
        assert_eq!(read.collect::<Result<Vec<_>, _>>().as_deref(), Ok(&args[..]));
        bytes
    },
    |source| {
        use nfs4::compound::{Operations, ReplyHeader, ReplyWriter, Results};
        let mut reply = ReplyWriter::new(Writer::new(), Sample::sample(source));
        let results = [
            Results::Sequence(Sample::sample(source)),
            Results::GetAttributes(Sample::sample(source)),
            Results::Other(nfs4::Number::ILLEGAL, Sample::sample(source)),
        ];
        results.iter().for_each(|results| reply.append_results(results));
        let bytes = reply.finish(results[2].status()).finish().into_bytes();
        let mut reader = Reader::new(&bytes);
        let header = ReplyHeader::decode(&mut reader).expect("a header");
        assert_eq!(header.status, results[2].status());
        let read = Operations::new(reader, header.count);
        assert_eq!(read.collect::<Result<Vec<_>, _>>().as_deref(), Ok(&results[..]));
        bytes
    },
];

/// All messages.
fn all_messages() -> Vec<Drawn> {
    [MESSAGES, OPERATION_MESSAGES, CALLBACK_MESSAGES, COMPOUND_MESSAGES].concat()
}

/// Words as in real messages: mostly small, some of them lengths above the limit.
fn words(count: usize) -> impl Strategy<Value = Vec<u32>> {
    let word = prop_oneof![6 => 0_u32..12, 2 => any::<u32>(), 1 => Just(u32::MAX)];
    vec(word, 0..count)
}

/// One change to a message.
#[derive(Clone, Debug)]
enum Damage {
    Cut { length: Index },
    Lengthen { bytes: Vec<u8> },
    ReplaceByte { at: Index, byte: u8 },
    ReplaceWord { at: Index, word: u32 },
    RemoveWord { at: Index },
}

fn damage() -> impl Strategy<Value = Damage> {
    let (at, length) = (any::<Index>(), any::<Index>());
    let word = prop_oneof![0_u32..12, Just(u32::MAX), any::<u32>()];
    prop_oneof![
        length.prop_map(|length| Damage::Cut { length }),
        vec(any::<u8>(), 1..9).prop_map(|bytes| Damage::Lengthen { bytes }),
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Damage::ReplaceByte { at, byte }),
        (at.clone(), word).prop_map(|(at, word)| Damage::ReplaceWord { at, word }),
        at.prop_map(|at| Damage::RemoveWord { at }),
    ]
}

impl Damage {
    fn apply(self, message: &mut Vec<u8>) {
        let words = message.len() / 4;
        match self {
            Self::Cut { length } => message.truncate(length.index(message.len() + 1)),
            Self::Lengthen { bytes } => message.extend(bytes),
            Self::ReplaceByte { at, byte } if words > 0 => {
                let at = at.index(message.len());
                message[at] = byte;
            }
            Self::ReplaceWord { at, word } if words > 0 => {
                let at = at.index(words) * 4;
                message[at..at + 4].copy_from_slice(&word.to_be_bytes());
            }
            Self::RemoveWord { at } if words > 0 => {
                let at = at.index(words) * 4;
                message.drain(at..at + 4);
            }
            Self::ReplaceByte { .. } | Self::ReplaceWord { .. } | Self::RemoveWord { .. } => {}
        }
    }
}

/// Runs every decoder, and checks that the peak memory use is within a bound that depends on the
/// message length. READDIRPLUS determines the factor: an entry of 32 bytes occupies about 200 bytes
/// in memory, and while a list grows, both the old and the new buffer exist, and the new buffer has
/// twice the capacity. The constant covers the tests themselves and short lists.
fn decode_in_bounded_memory(bytes: &Bytes) {
    let most = allocation_counter::measure(|| decode_every(bytes)).bytes_max;
    let allowed = 24 * bytes.len() as u64 + 4096;
    assert!(most <= allowed, "{most} bytes for a message of {}", bytes.len());
}

#[test]
fn a_message_can_be_described() {
    let lookup = PROCEDURES.iter().find(|p| (p.version, p.name) == (3, "LOOKUP")).expect("listed");
    let args = Bytes::from_static(b"\0\0\0\x02\xab\xcd\0\0\0\0\0\x03a/\xff\0");
    assert_eq!(
        (lookup.describe_args)(&args).as_deref(),
        Ok("DirectoryArgs { directory: Handle(abcd), name: \"a/\\xff\" }")
    );
    assert_eq!((lookup.describe_reply)(&args), Err(Error::BadValue));
}

proptest! {
    #[test]
    fn encoded_values_decode_to_themselves(words in words(300)) {
        for message in all_messages() {
            message(&mut Source(words.iter()));
        }
    }

    #[test]
    fn results_have_at_most_their_largest_size(words in words(30)) {
        for sized in RESULTS {
            let (operation, size) = sized(&mut Source(words.iter()));
            let most = operation.result_bytes_max();
            assert!(most.is_none_or(|most| size <= most as usize), "{operation:?} {size} {most:?}");
        }
    }

    #[test]
    fn any_bytes_are_harmless(bytes in vec(any::<u8>(), 0..600)) {
        decode_in_bounded_memory(&bytes.into());
    }

    #[test]
    fn any_words_are_harmless(words in words(150)) {
        decode_in_bounded_memory(&words.iter().flat_map(|word| word.to_be_bytes()).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn damaged_messages_are_harmless(
        message in select(all_messages()),
        words in words(100),
        damages in vec(damage(), 1..4),
    ) {
        let mut bytes = message(&mut Source(words.iter())).to_vec();
        for damage in damages {
            damage.apply(&mut bytes);
        }
        decode_in_bounded_memory(&bytes.into());
    }
}

#[test]
fn lists_of_the_smallest_entries_are_harmless() {
    // The count is one more than a power of two, because a list that doubles its capacity then has
    // the most unused memory.
    let entries = |head: &[u32], entry: &[u32], tail: &[u32]| {
        let words = [head, &entry.repeat((1 << 15) + 1), tail].concat();
        words.iter().flat_map(|word| word.to_be_bytes()).collect::<Bytes>()
    };
    let readdirplus = entries(&[0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0], &[0, 0]);
    assert!(nfs3_reply("READDIRPLUS")(&readdirplus).is_ok());
    decode_in_bounded_memory(&readdirplus);
    let readdir = entries(&[0, 0, 0, 0], &[1, 0, 0, 0, 0, 0], &[0, 0]);
    assert!(nfs3_reply("READDIR")(&readdir).is_ok());
    decode_in_bounded_memory(&readdir);
    let readdir = entries(&[0, 0, 0], &[1, 0, 0, 0, 0, 0], &[0, 0]);
    assert!(nfs4_reply("READDIR")(&readdir).is_ok());
    decode_in_bounded_memory(&readdir);
    let names = [&[0, 0, 0, 2049][..], &[0; 2049], &[1]].concat();
    let names: Bytes = names.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    assert!(nfs4_reply("LISTXATTRS")(&names).is_ok());
    decode_in_bounded_memory(&names);
    for entry in [&[1, 0, 0][..], &[1, 0, 1, 0, 0], &[1, 0]] {
        decode_in_bounded_memory(&entries(&[], entry, &[0]));
    }
    decode_in_bounded_memory(&entries(&[1, 0], &[1, 0], &[0, 0]));
}

fn nfs3_reply(name: &str) -> Recode {
    let of_version_3 = |p: &&Procedure| (p.program, p.version) == (nfs3::PROGRAM, nfs3::VERSION);
    let procedure = PROCEDURES.iter().filter(of_version_3).find(|p| p.name == name);
    procedure.expect("a procedure of version 3").reply
}

fn nfs4_reply(name: &str) -> Recode {
    OPERATIONS.iter().find(|p| p.name == name).expect("an operation of version 4").reply
}
