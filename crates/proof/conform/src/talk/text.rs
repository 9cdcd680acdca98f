//! Calls and replies as text for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use leasehold_base::xdr::{Decode as _, Reader, decode_all};
use leasehold_wire::every::PROCEDURES;
use leasehold_wire::rpc::{AuthSys, Call, Reply, ReplyStatus, flavor};

use super::plain::{Handles, plain};
use super::{Carrier, Procedure, Said, What};

/// Longer lines are cut, in characters.
const LINE_LENGTH_MAX: usize = 600;

/// Longer texts and lists of numbers are cut, in characters.
const TEXT_LENGTH_MAX: usize = 80;

/// The number of bytes that are shown of data that is no message.
const BYTES_SHOWN_MAX: usize = 64;

/// The number and the procedure of a call.
pub(super) fn call_of(message: &[u8]) -> Option<(u32, Procedure)> {
    let call = Call::decode(&mut Reader::of_part(message)).ok()?;
    let procedure =
        Procedure { program: call.program, version: call.version, number: call.procedure };
    Some((call.xid.0, procedure))
}

/// The name of a procedure, such as `NFS3 LOOKUP`.
pub(crate) fn procedure_name(procedure: Procedure) -> String {
    let Procedure { program, version, number } = procedure;
    let name = match program {
        leasehold_wire::nfs3::PROGRAM => format!("NFS{version}"),
        leasehold_wire::mount::PROGRAM => format!("MOUNT{version}"),
        leasehold_wire::portmap::PROGRAM => format!("PORTMAP{version}"),
        _ => format!("program {program} version {version}"),
    };
    match known(procedure) {
        Some(known) => format!("{name} {}", known.name),
        None => format!("{name} procedure {number}"),
    }
}

fn known(procedure: Procedure) -> Option<&'static leasehold_wire::every::Procedure> {
    let Procedure { program, version, number } = procedure;
    PROCEDURES.iter().find(|p| (p.program, p.version, p.number) == (program, version, number))
}

/// Returns the record, one line for each entry.
pub(super) fn text<'a>(
    said: impl Iterator<Item = &'a Said>,
    missing: usize,
    calls: &BTreeMap<u32, Procedure>,
) -> String {
    let (mut text, mut handles) = (String::new(), Handles::default());
    if missing > 0 {
        let _ = writeln!(text, "({missing} earlier messages are not shown)");
    }
    for said in said {
        let carrier = match said.side.carrier {
            Carrier::Tcp => "tcp",
            Carrier::Udp => "udp",
        };
        let (arrow, what) = match &said.what {
            What::Call(message) => (">", call(message)),
            What::Bytes(bytes) => (">", format!("bytes {}", hexadecimal(bytes))),
            What::Reply(message) => ("<", reply(message, calls)),
            What::Note(note) => ("-", note.clone()),
        };
        let what = plain(&what, &mut handles);
        let milliseconds = said.at.as_secs_f64() * 1e3;
        let port = said.side.local.port();
        let _ = writeln!(text, "{milliseconds:10.3} ms {carrier} {port:5} {arrow} {}", cut(&what));
    }
    text
}

fn call(message: &Bytes) -> String {
    let mut reader = Reader::new(message);
    let Ok(call) = Call::decode(&mut reader) else {
        return format!("no call: {}", hexadecimal(message));
    };
    let procedure =
        Procedure { program: call.program, version: call.version, number: call.procedure };
    let arguments = reader.rest_shared();
    let described = match known(procedure).map(|known| (known.describe_args)(&arguments)) {
        Some(Ok(args)) => readable(&args),
        Some(Err(error)) => format!("unreadable, {error}: {}", hexadecimal(&arguments)),
        None => hexadecimal(&arguments),
    };
    let who = match (call.credential.flavor, call.credential.body) {
        (flavor::NONE, _) => "as nobody".to_owned(),
        (flavor::SYS, body) => match decode_all::<AuthSys<'_>>(&mut Reader::of_part(body)) {
            Ok(sys) => format!("as {}:{} {:?}", sys.uid, sys.gid, sys.groups.as_slice()),
            Err(error) => format!("with a broken credential ({error})"),
        },
        (other, _) => format!("with flavour {other}"),
    };
    format!("{:08x} {} {who} {described}", call.xid.0, procedure_name(procedure))
}

fn reply(message: &Bytes, calls: &BTreeMap<u32, Procedure>) -> String {
    let mut reader = Reader::new(message);
    let reply = match Reply::decode(&mut reader) {
        Ok(reply) => reply,
        Err(error) => return format!("no reply, {error}: {}", hexadecimal(message)),
    };
    let xid = reply.xid.0;
    if reply.status != ReplyStatus::Success {
        return format!("{xid:08x} {:?}", reply.status);
    }
    let results = reader.rest_shared();
    let described = match calls.get(&xid).and_then(|call| known(*call)) {
        Some(known) => match (known.describe_reply)(&results) {
            Ok(results) => readable(&results),
            Err(error) => format!("unreadable, {error}: {}", hexadecimal(&results)),
        },
        None => hexadecimal(&results),
    };
    format!("{xid:08x} {described}")
}

fn hexadecimal(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(BYTES_SHOWN_MAX)];
    let mut text = String::new();
    for word in shown.chunks(4) {
        for byte in word {
            let _ = write!(text, "{byte:02x}");
        }
        text.push(' ');
    }
    let more = if shown.len() < bytes.len() { "... " } else { "" };
    format!("{text}{more}({} bytes)", bytes.len())
}

/// Shortens the description of a message: modes in octal, long texts and lists of bytes cut.
fn readable(described: &str) -> String {
    let mut out = String::new();
    let mut rest = described;
    while let Some(at) = rest.find(['"', '[', 'm']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (said, length) = match rest.as_bytes()[0] {
            b'"' => text_literal(rest),
            b'[' => number_list(rest),
            _ => mode(rest),
        };
        out.push_str(&said);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Returns a quoted text at the start, cut if it is long, and the number of its characters.
fn text_literal(rest: &str) -> (String, usize) {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, character)| {
        let ends = *character == '"' && !escaped;
        escaped = *character == '\\' && !escaped;
        ends
    });
    let length = end.map_or(rest.len(), |(at, _)| at + 1);
    if length <= TEXT_LENGTH_MAX {
        return (rest[..length].to_owned(), length);
    }
    (format!("{}...\" ({} more)", &rest[..TEXT_LENGTH_MAX], length - TEXT_LENGTH_MAX), length)
}

/// Returns a list of bytes at the start as hexadecimal digits, and the number of its characters.
fn number_list(rest: &str) -> (String, usize) {
    let Some(end) = rest.find(']') else {
        return ("[".to_owned(), 1);
    };
    let numbers: Result<Vec<u8>, _> = rest[1..end].split(", ").map(str::parse).collect();
    match numbers {
        Ok(numbers) => (numbers.iter().map(|byte| format!("{byte:02x}")).collect(), end + 1),
        Err(_) => ("[".to_owned(), 1),
    }
}

/// Returns permission bits at the start in octal, and the number of their characters.
fn mode(rest: &str) -> (String, usize) {
    for before in ["mode: Some(", "mode: "] {
        if let Some(number) = rest.strip_prefix(before) {
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            if let Ok(mode) = number[..digits].parse::<u32>() {
                return (format!("{before}0{mode:o}"), before.len() + digits);
            }
        }
    }
    ("m".to_owned(), 1)
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_LENGTH_MAX) {
        Some((at, _)) => format!("{} ...", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_become_readable() {
        assert_eq!(
            readable("A { mode: Some(420), verifier: [0, 255], name: \"a[1]\\\"\" }"),
            "A { mode: Some(0644), verifier: 00ff, name: \"a[1]\\\"\" }"
        );
        assert_eq!(readable("mode: 2048, gid"), "mode: 04000, gid");
        assert_eq!(readable("[Entry { m: 1 }]"), "[Entry { m: 1 }]");
        let long = readable(&format!("data: b\"{}\"", "x".repeat(1000)));
        assert!(long.ends_with("xxx...\" (922 more)"), "{long}");
    }

    #[test]
    fn bytes_that_are_no_message_are_shown_as_digits() {
        assert_eq!(call(&Bytes::from_static(&[1, 2, 3, 4, 5])), "no call: 01020304 05 (5 bytes)");
        let long = Bytes::from(vec![0; 100]);
        assert!(reply(&long, &BTreeMap::new()).ends_with("... (100 bytes)"));
    }
}
