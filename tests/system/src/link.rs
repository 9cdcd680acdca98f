//! The wire between this machine's loopback and a guest.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::{guest, output};

/// The number of guests that may run at once on one machine.
const LINKS_MAX: u8 = 250;

/// A tap device whose other end a guest can hold, with a loopback address for the guest.
///
/// Both ends route loopback addresses over it, so servers need not listen anywhere else.
pub struct Link {
    device: String,
    address: String,
    /// Held as long as the link is in use; ended by the system if this process is killed.
    _slot: File,
}

impl Link {
    /// Makes a link to a server at 127.0.0.1.
    ///
    /// # Panics
    /// If this process may not make one: it must be root, with `/dev/net/tun`.
    #[must_use]
    pub fn new() -> Self {
        let may =
            Path::new("/dev/net/tun").exists() && output(Command::new("id").arg("-u")) == "0\n";
        assert!(may, "tests with the kernel's client need root and /dev/net/tun");
        let folder = std::env::temp_dir().join("leasehold-links");
        fs::create_dir_all(&folder).expect("root may write there");
        let slot = (1..=LINKS_MAX).find_map(|number| {
            let slot = File::create(folder.join(number.to_string())).ok()?;
            slot.try_lock().ok()?;
            Some((number, slot))
        });
        let (number, slot) = slot.expect("not every link of the machine is in use");
        let link = Self {
            device: format!("leasehold{number}"),
            address: format!("127.78.0.{number}"),
            _slot: slot,
        };
        // A device may be left from a process that was killed.
        link.remove();
        link.make();
        link
    }

    /// The device's name.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The guest's address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    fn make(&self) {
        let (device, address) = (self.device.as_str(), self.address.as_str());
        busybox(&["tunctl", "-t", device]);
        let setting = format!("/proc/sys/net/ipv4/conf/{device}/route_localnet");
        fs::write(setting, "1").expect("root may change a device's settings");
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

fn busybox(words: &[&str]) {
    output(Command::new(guest::parts().join("busybox")).args(words));
}
