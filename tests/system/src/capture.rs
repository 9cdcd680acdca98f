//! A network capture of a link, and its analysis by tshark.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::{Scratch, output, program};

/// The file of the recording, in the folder of a capture.
const FILE: &str = "all.pcapng";

/// dumpcap receives packets up to 250 ms late, and loses them silently when it is stopped. This
/// delay is four times as long.
const DELAY: Duration = Duration::from_secs(1);

/// The poll interval of a recorder.
const GLANCE: Duration = Duration::from_millis(10);

/// A running capture of the traffic with one port.
pub struct Capture {
    recorder: Child,
    complaints: BufReader<ChildStderr>,
    folder: Scratch,
    port: u16,
}

impl Capture {
    /// Begins to record the traffic of a network device to and from `port`; returns when the
    /// recorder is active.
    ///
    /// # Panics
    /// Panics if the recorder fails.
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
    /// Panics if packets were lost, because the capture is then incomplete.
    #[must_use]
    pub fn stop(mut self) -> Captured {
        sleep(DELAY);
        // On a busy machine the recorder may not have polled since. It waits after it has taken all
        // packets.
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

    /// Returns the number of waits of the recorder, usually for packets.
    fn waits(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.recorder.id()));
        let status = status.expect("the recorder runs");
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse().ok()).expect("the kernel counts them")
    }
}

/// A finished capture.
pub struct Captured {
    folder: Scratch,
    port: u16,
}

impl Captured {
    /// Returns the packets that tshark reports as malformed, as it prints them.
    #[must_use]
    pub fn malformed(&self) -> String {
        self.tshark(&["-Y", "_ws.malformed || rpc.unknown_body || rpc.cannot_dissect"])
    }

    /// Returns the number of calls; each had one reply on its connection.
    ///
    /// # Panics
    /// Panics if a call had no reply, or several.
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

    /// Returns all values of a field.
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

/// Returns the messages of one packet: connection, number, and true for a reply. A packet may
/// contain several messages, and a field then has several values.
fn messages(line: &str) -> Vec<(&str, &str, bool)> {
    let mut fields = line.split('\t');
    let mut field = || fields.next().expect("tshark prints every field that it was asked for");
    let (stream, numbers, kinds) = (field(), field().split(','), field().split(','));
    numbers.zip(kinds).map(|(number, kind)| (stream, number, kind == "1")).collect()
}
