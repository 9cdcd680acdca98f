//! The Debian package: made from the built program, installed on a copy of this machine's root,
//! used to serve, and removed. The test has no effect outside.

use std::path::Path;
use std::process::Command;

use leasehold_system_tests::{Scratch, built, output};

#[test]
fn the_package_installs_serves_and_uninstalls() {
    let scratch = Scratch::new("package");
    let package = scratch.path().join("leasehold.deb");
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut make = Command::new(env!("CARGO"));
    make.args(["run", "--quiet", "--package", "xtask", "--", "package", "--program"]);
    output(make.arg(built()).arg("--out").arg(&package).current_dir(tree));
    let mut install = Command::new("unshare");
    install.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "bash"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("package/install.sh");
    let done = install.arg(script).arg(package).output().expect("unshare can be run");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = said(&done.stdout) + &said(&done.stderr);
    assert!(done.status.success(), "{}: {text}", done.status);
}
