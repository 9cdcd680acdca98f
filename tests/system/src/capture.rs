//! A witness: all that passes on a link, and what tshark reads in it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::{Scratch, output, program};

/// What is recorded, in the folder of a capture.
const FILE: &str = "all.pcapng";

/// dumpcap gets packets up to 250 ms late, and loses those when it is stopped, without a word. This
/// is four times as long.
const DELAY: Duration = Duration::from_secs(1);

/// How often a recorder is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// A running capture of the traffic with one port.
pub struct Capture {
    recorder: Child,
    complaints: BufReader<ChildStderr>,
    folder: Scratch,
    port: u16,
}

impl Capture {
    /// Begins to record what passes on a network device to and from `port`; returns when it does.
    ///
    /// # Panics
    /// If it cannot be recorded.
    #[must_use]
    pub fn start(device: &str, port: u16) -> Self {
        let folder = Scratch::new("capture");
        let mut recorder = Command::new(program("dumpcap"))
            .args(["-q", "-i", device, "-f", &format!("tcp port {port}"), "-B", "64", "-w"])
            .arg(folder.path().join(FILE))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dumpcap can be run");
        let stderr = recorder.stderr.take().expect("standard error is a pipe");
        let mut complaints = BufReader::new(stderr);
        let mut line = String::new();
        while !line.starts_with("File:") {
            line.clear();
            let read = complaints.read_line(&mut line).expect("a pipe can be read");
            assert!(read > 0, "dumpcap does not record on {device}");
        }
        Self { recorder, complaints, folder, port }
    }

    /// Ends the capture.
    ///
    /// # Panics
    /// If packets were lost: then nothing can be said of what passed.
    #[must_use]
    pub fn stop(mut self) -> Captured {
        sleep(DELAY);
        // On a busy machine it may not have looked since. It waits when it has taken all there is.
        let before = self.waits();
        while self.waits() < before + 2 {
            sleep(GLANCE);
        }
        let interrupt = format!("kill -INT {}", self.recorder.id());
        output(Command::new("sh").args(["-c", &interrupt]));
        let mut summary = String::new();
        self.complaints.read_to_string(&mut summary).expect("a pipe can be read");
        let status = self.recorder.wait().expect("it is our child");
        assert!(status.success(), "dumpcap: {status}: {summary}");
        assert!(summary.contains("/0 (pcap"), "packets were lost: {summary}");
        Captured { folder: self.folder, port: self.port }
    }

    /// How often the recorder has waited for something, packets above all.
    fn waits(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.recorder.id()));
        let status = status.expect("the recorder runs");
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse().ok()).expect("the kernel counts them")
    }
}

/// What was recorded.
pub struct Captured {
    folder: Scratch,
    port: u16,
}

impl Captured {
    /// Packets that tshark takes for broken, as it shows them.
    #[must_use]
    pub fn malformed(&self) -> String {
        self.tshark(&["-Y", "_ws.malformed || rpc.unknown_body || rpc.cannot_dissect"])
    }

    /// How many calls there were; each had one reply on its connection.
    ///
    /// # Panics
    /// If one had not.
    #[must_use]
    pub fn answered_calls(&self) -> usize {
        let fields = ["tcp.stream", "rpc.xid", "rpc.msgtyp"].map(|field| ["-e", field]);
        let listing =
            self.tshark(&[&["-Y", "rpc", "-T", "fields"], fields.as_flattened()].concat());
        let (mut calls, mut replies) = (BTreeSet::new(), BTreeSet::new());
        for (stream, xid, is_reply) in listing.lines().flat_map(messages) {
            if is_reply { &mut replies } else { &mut calls }.insert((stream, xid));
        }
        assert_eq!(calls, replies, "every call has a reply, and every reply a call");
        calls.len()
    }

    /// The values that a field has anywhere.
    #[must_use]
    pub fn values(&self, field: &str) -> BTreeSet<String> {
        let listing = self.tshark(&["-Y", field, "-T", "fields", "-e", field]);
        listing.split(['\n', ',']).filter(|value| !value.is_empty()).map(str::to_owned).collect()
    }

    fn tshark(&self, words: &[&str]) -> String {
        let decode = format!("tcp.port=={},rpc", self.port);
        let reorder = "tcp.reassemble_out_of_order:TRUE";
        let mut command = Command::new(program("tshark"));
        command.arg("-r").arg(self.folder.path().join(FILE)).args(["-d", &decode, "-o", reorder]);
        output(command.args(words))
    }
}

/// The messages of one packet: connection, number, and whether it is a reply. A packet may have
/// several, and a field then several values.
fn messages(line: &str) -> Vec<(&str, &str, bool)> {
    let mut fields = line.split('\t');
    let mut field = || fields.next().expect("tshark prints every field that it was asked for");
    let (stream, numbers, kinds) = (field(), field().split(','), field().split(','));
    numbers.zip(kinds).map(|(number, kind)| (stream, number, kind == "1")).collect()
}
