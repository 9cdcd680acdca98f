//! Floor programs: the minimum cost of an operation, due to its system calls. They run as a new
//! process of this program, so that their processor time is separate.
//!
//! Over a connection they implement only the calls of the load generator in NFS version 3. The
//! replies contain only the fields that the load generator examines: the program reads no handle
//! and checks no credential. So the floor and a server process the same load.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fsync, lstat, openat, unlinkat};

/// The argument that starts this program as the floor.
pub(crate) const WORD: &str = "floor";

/// A running floor program.
pub(crate) struct Floor {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Floor {
    /// Starts the floor over the folder with the files of a load generator.
    pub(crate) fn start(folder: &Path) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(WORD)
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it was asked for")).read_line(&mut line)?;
        let port = line.trim().parse().map_err(io::Error::other)?;
        Ok(Self { process, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) })
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Runs the floor until it is killed.
pub(crate) fn serve(folder: &Path) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        let file = File::open(folder.join("file"))?;
        let target = OpenOptions::new().write(true).open(folder.join("target"))?;
        // A closed connection ends the line.
        thread::spawn(move || Line { stream, file, target }.answer_all());
    }
    Ok(())
}

/// One connection.
struct Line {
    stream: TcpStream,
    file: File,
    target: File,
}

const RECEIVE_BYTES: usize = 64 << 10;
const LARGEST_BYTES: usize = 2 << 20;

/// The offset of the procedure's number in a call, in bytes.
const PROCEDURE_AT: usize = 20;

/// The number of words in a READ reply before the data, without the record mark.
const READ_WORDS: usize = 11;

impl Line {
    fn answer_all(mut self) -> io::Result<()> {
        let mut received = BufReader::with_capacity(RECEIVE_BYTES, self.stream.try_clone()?);
        let mut call = vec![0; LARGEST_BYTES];
        let mut reply = vec![0; 4 + READ_WORDS * 4 + LARGEST_BYTES];
        loop {
            let mut mark = [0; 4];
            received.read_exact(&mut mark)?;
            let length = (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize;
            let call = call.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
            received.read_exact(call)?;
            let length = self.answer(call, &mut reply)?;
            self.stream.write_all(&reply[..length])?;
        }
    }

    /// Writes the reply into a buffer; returns its length, with its mark.
    fn answer(&self, call: &[u8], reply: &mut [u8]) -> io::Result<usize> {
        // Accepted, without a verifier, success; and the NFS status.
        let accepted = [word(call, 0)?, 1, 0, 0, 0, 0, 0];
        let (words, data) = match word(call, PROCEDURE_AT)? {
            0 => (accepted[..6].to_vec(), 0),
            1 => ([&accepted[..], &attributes(&self.file)?].concat(), 0),
            6 => {
                let [high, low, count] = last_words(call)?;
                let into = &mut reply[4 + READ_WORDS * 4..][..count as usize];
                self.file.read_exact_at(into, join(high, low))?;
                ([&accepted[..], &[0, count, 0, count]].concat(), count as usize)
            }
            7 => {
                // Offset, count, stability, length, data: the data is the end of the call.
                let head = call.len() - self.data_bytes(call)?;
                let [high, low, count, ..] = last_words::<5>(&call[..head])?;
                self.target.write_all_at(&call[head..], join(high, low))?;
                ([&accepted[..], &[0, 0, count, 0, 0, 0]].concat(), 0)
            }
            21 => {
                self.target.sync_all()?;
                ([&accepted[..], &[0, 0, 0, 0]].concat(), 0)
            }
            other => return Err(io::Error::other(format!("procedure {other}"))),
        };
        let length = words.len() * 4 + data;
        let mark = u32::try_from(length).map_err(io::Error::other)? | 1 << 31;
        for (place, word) in reply.chunks_exact_mut(4).zip([mark].iter().chain(&words)) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        Ok(4 + length)
    }

    /// Returns the length of the data at the end of a WRITE, whose head has a fixed length except
    /// for the credential and the handle.
    fn data_bytes(&self, call: &[u8]) -> io::Result<usize> {
        let credential = word(call, 28)? as usize;
        let handle_at = 24 + 8 + credential + 8;
        let handle = (word(call, handle_at)? as usize).next_multiple_of(4);
        Ok(word(call, handle_at + 4 + handle + 16)? as usize)
    }
}

fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(io::ErrorKind::InvalidData)?;
    Ok(u32::from_be_bytes(*bytes))
}

fn last_words<const N: usize>(bytes: &[u8]) -> io::Result<[u32; N]> {
    let from = bytes.len().checked_sub(N * 4).ok_or(io::ErrorKind::InvalidData)?;
    let mut words = [0; N];
    for (index, place) in words.iter_mut().enumerate() {
        *place = word(bytes, from + index * 4)?;
    }
    Ok(words)
}

fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Returns attributes of version 3: with type, owner, size and number, the rest zero.
fn attributes(file: &File) -> io::Result<[u32; 21]> {
    let seen = file.metadata()?;
    let [.., s0, s1, s2, s3] = seen.size().to_be_bytes();
    let mut words = [0; 21];
    words[0] = 1;
    (words[1], words[2]) = (0o644, 1);
    words[6] = u32::from_be_bytes([s0, s1, s2, s3]);
    Ok(words)
}

/// Returns the entries per second that a local program lists with their attributes.
pub(crate) fn listed(directory: &Path, time: Duration) -> io::Result<f64> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (start, mut entries) = (Instant::now(), 0_u64);
    while start.elapsed() < time {
        let opened = openat(CWD, directory, flags, Mode::empty())?;
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let path = directory.join(OsStr::from_bytes(entry.file_name().to_bytes()));
            lstat(path)?;
            entries += 1;
        }
    }
    Ok(entries as f64 / start.elapsed().as_secs_f64())
}

/// Returns the files per second that threads of a local program create and remove in one directory,
/// each counted, with a sync of the directory after each.
pub(crate) fn made(directory: &Path, threads: u32, time: Duration) -> io::Result<f64> {
    let start = Instant::now();
    let make = |number: u32| -> io::Result<u64> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, directory, flags, Mode::empty())?;
        let name = format!("local-{number}");
        let mut count = 0;
        while start.elapsed() < time {
            let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            drop(openat(&directory, &name, new, Mode::RUSR | Mode::WUSR)?);
            fsync(&directory)?;
            unlinkat(&directory, &name, AtFlags::empty())?;
            fsync(&directory)?;
            count += 2;
        }
        Ok(count)
    };
    let count = thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|number| scope.spawn(move || make(number))).collect();
        running
            .into_iter()
            .map(|one| one.join().expect("it does not panic"))
            .sum::<io::Result<u64>>()
    })?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
