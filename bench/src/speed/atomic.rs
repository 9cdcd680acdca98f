//! The cost of correct pre-operation attributes of directories (RFC 1813 section 2.6): the server
//! compared with itself without kernel notifications, when it sends no such attributes.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;

use leasehold_load::Operation;

use super::{Bench, cpu, load, pairs};
use crate::Options;
use crate::figure::{Figure, Target};
use crate::servers::Server;

const NAME: &str = "before-and-after.cpu";

/// The number of notification queues of a user.
const QUEUES_MAX: &str = "/proc/sys/fs/inotify/max_user_instances";

pub(super) fn measure(options: &Options, directory: &Path) -> Result<(), Box<dyn Error>> {
    if !options.wants(NAME) {
        return Ok(());
    }
    let with = Bench::start(Server::ours(directory, "memory")?)?;
    let without = Bench::start(unnotified(|| Server::ours(directory, "memory"))?)?;
    let load = load(options, Operation::CreateRemove);
    let pairs = pairs(options, || Ok((cpu(&with.run(&load)?), cpu(&without.run(&load)?))))?;
    with.setting.clear()?;
    let units = ("ratio to saying nothing of before", "us of processor a change of names");
    let mut figure = Figure::of(NAME.to_owned(), &pairs, Target::AtMost(f64::MAX), units, "memory");
    "printed".clone_into(&mut figure.target);
    figure.print();
    Ok(())
}

/// Starts a server without a notification queue.
fn unnotified(start: impl FnOnce() -> io::Result<Server>) -> io::Result<Server> {
    let before = fs::read(QUEUES_MAX)?;
    fs::write(QUEUES_MAX, "0")?;
    let server = start();
    fs::write(QUEUES_MAX, before)?;
    server
}
