//! Programs of the machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a program.
///
/// # Panics
/// Panics if the machine does not have it.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()));
    found.unwrap_or_else(|| panic!("{name} is missing: cargo xtask setup installs it"))
}

/// Returns the standard output of a program.
///
/// # Panics
/// Panics if the program fails; the message contains its standard error.
pub fn output(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}: {complaint}", done.status);
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Returns the folder of the programs that `cargo xtask setup` has installed for this tree.
#[must_use]
pub fn tools_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools")
}
