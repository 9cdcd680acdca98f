//! Logging to targets that accept no lines.

use std::io::Read as _;
use std::os::fd::OwnedFd;

use super::*;

fn pipe() -> (File, File) {
    let (reader, writer) = io::pipe().expect("there are descriptors");
    (OwnedFd::from(reader).into(), OwnedFd::from(writer).into())
}

/// Logs a line, and waits until it was written or lost.
fn log(lines: &Lines, text: &str) {
    lines.clone().write_all(text.as_bytes()).expect("the log takes every line");
    lines.flush(Duration::from_secs(20));
}

#[test]
fn lines_come_whole_and_in_order() {
    let (mut reader, writer) = pipe();
    let lines = Lines::to(Target::File(writer)).expect("there are threads");
    log(&lines, "one\n");
    log(&lines, "two\n");
    let mut read = [0; 8];
    reader.read_exact(&mut read).expect("both lines are there");
    assert_eq!((&read, lines.lost()), (b"one\ntwo\n", 0));
}

#[test]
fn a_full_device_costs_lines_and_nothing_else() {
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    let lines = Lines::to(Target::File(full)).expect("there are threads");
    for count in 1..=3 {
        log(&lines, "a line\n");
        assert_eq!(lines.lost(), count);
    }
}

#[test]
fn a_closed_pipe_costs_lines_and_nothing_else() {
    let (reader, writer) = pipe();
    let lines = Lines::to(Target::File(writer)).expect("there are threads");
    drop(reader);
    log(&lines, "a line\n");
    assert_eq!(lines.lost(), 1);
}

#[test]
fn unread_pipe_does_not_block_logging_threads() {
    let (mut reader, writer) = pipe();
    let lines = Lines::to(Target::File(writer)).expect("there are threads");
    let line = [b'x'; 1023].iter().chain(b"\n").copied().collect::<Vec<_>>();
    // The number of lines exceeds the capacity of the pipe and the queue by far, so that lines are
    // lost.
    let count = 4 * LOG_BYTES_MAX / line.len();
    for _ in 0..count {
        lines.clone().write_all(&line).expect("the log takes every line");
    }
    let lost = usize::try_from(lines.lost()).expect("it is small");
    assert!(lost >= count / 2, "{lost} of {count} lines are lost");
    // When the pipe is read, it contains every line that was not lost.
    let mut read = vec![0; (count - lost) * line.len()];
    reader.read_exact(&mut read).expect("the writer goes on");
    assert!(read.chunks(line.len()).all(|one| one == line));
}

#[test]
fn a_torn_line_is_ended_before_the_next() {
    let place = tempfile::NamedTempFile::new().expect("there is room");
    let file = place.reopen().expect("it is there");
    let mut writer = Writer { target: Target::File(file), is_torn: true, told: 0, failure: None };
    assert!(writer.write(b"whole\n").is_ok());
    assert_eq!(std::fs::read(place.path()).expect("it is there"), b"\nwhole\n");
}

/// A subscriber that panics at each line, like a subscriber that tries to report a failure of
/// standard error on standard error.
struct Panics;

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        panic!("standard error cannot be written");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// A loop that panics logs the panic before it ends the process. If the log panics as well, the
/// process must still end: otherwise it would remain without its loops, and no supervisor would
/// restart it.
#[test]
fn the_process_ends_where_no_line_can_be_written() {
    const CHILD: &str = "LEASEHOLD_TEST_OF_THE_END";
    if std::env::var_os(CHILD).is_some() {
        tracing::subscriber::set_global_default(Panics).expect("it is the first");
        end_the_process("a test");
    }
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    let name = "log::tests::the_process_ends_where_no_line_can_be_written";
    let mut child = process::Command::new(std::env::current_exe().expect("it is known"));
    child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").stderr(full);
    let status = child.stdout(process::Stdio::null()).status().expect("it can be started");
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(rustix::process::Signal::ABORT.as_raw()), "{status}");
}
