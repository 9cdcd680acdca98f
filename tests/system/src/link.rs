//! The network link between this machine's loopback and a guest.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Command;

use crate::{guest, output};

/// The largest number of concurrent guests on one machine.
const LINKS_MAX: u8 = 250;

/// A tap device whose other end a guest can open, with a loopback address for the guest.
///
/// Both ends route loopback addresses over it, so servers need no other address.
pub struct Link {
    device: String,
    address: String,
    _slot: UnixListener,
}

impl Link {
    /// Creates a link to a server at 127.0.0.1.
    ///
    /// # Panics
    /// Panics without the privilege: the process must be root, with `/dev/net/tun`.
    #[must_use]
    pub fn new() -> Self {
        let may =
            Path::new("/dev/net/tun").exists() && output(Command::new("id").arg("-u")) == "0\n";
        assert!(may, "tests with the kernel's client need root and /dev/net/tun");
        let slot = (1..=LINKS_MAX).find_map(|number| Some((number, slot(number)?)));
        let (number, slot) = slot.expect("not every link of the machine is in use");
        let link = Self {
            device: format!("leaseguest{number}"),
            address: format!("127.79.0.{number}"),
            _slot: slot,
        };
        // A killed process may have left a device.
        link.remove();
        link.make();
        link
    }

    /// Returns the device's name.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Returns the guest's address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    fn make(&self) {
        let (device, address) = (self.device.as_str(), self.address.as_str());
        busybox(&["tunctl", "-t", device]);
        // The machine repeats the query for the hardware address frequently, with a long timeout,
        // so that it reaches the next guest as soon as the guest starts.
        let settings = [
            (format!("conf/{device}/route_localnet"), "1"),
            (format!("neigh/{device}/retrans_time_ms"), "20"),
            (format!("neigh/{device}/mcast_solicit"), "500"),
            (format!("neigh/{device}/ucast_solicit"), "500"),
        ];
        for (name, value) in settings {
            let setting = Path::new("/proc/sys/net/ipv4").join(name);
            fs::write(setting, value).expect("root may change a device's settings");
        }
        busybox(&["ip", "link", "set", device, "up"]);
        let route = ["ip", "route", "add", address, "dev", device, "src", "127.0.0.1"];
        busybox(&[&route[..], &["table", "local"]].concat());
    }

    fn remove(&self) {
        if Path::new("/sys/class/net").join(&self.device).exists() {
            busybox(&["ip", "link", "del", &self.device]);
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Reserves a number, if it is free, for the lifetime of the listener. All processes with the same
/// network devices share its name, and the system releases the name of a killed process.
fn slot(number: u8) -> Option<UnixListener> {
    let name = format!("leasehold-link-{number}");
    let address = SocketAddr::from_abstract_name(name).expect("the name is short");
    UnixListener::bind_addr(&address).ok()
}

fn busybox(words: &[&str]) {
    output(Command::new(guest::parts().join("busybox")).args(words));
}
