//! The Debian package: the program, its unit files, manual pages and completions, packed by
//! `dpkg-deb`, which every Debian system has.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{PACKAGERS, ensure};

/// Files from the tree: source and destination.
const FILES: [(&str, &str); 16] = [
    ("package/leasehold.service", "usr/lib/systemd/system/leasehold.service"),
    ("package/leasehold-iod.service", "usr/lib/systemd/system/leasehold-iod.service"),
    ("package/leasehold.socket", "usr/lib/systemd/system/leasehold.socket"),
    ("README.md", "usr/share/doc/leasehold/README.md"),
    ("SEMANTICS.md", "usr/share/doc/leasehold/SEMANTICS.md"),
    ("docs/semantics/names.md", "usr/share/doc/leasehold/docs/semantics/names.md"),
    ("docs/semantics/access.md", "usr/share/doc/leasehold/docs/semantics/access.md"),
    ("docs/semantics/durability.md", "usr/share/doc/leasehold/docs/semantics/durability.md"),
    ("docs/semantics/leases.md", "usr/share/doc/leasehold/docs/semantics/leases.md"),
    ("docs/semantics/cache.md", "usr/share/doc/leasehold/docs/semantics/cache.md"),
    ("docs/semantics/stripes.md", "usr/share/doc/leasehold/docs/semantics/stripes.md"),
    ("docs/semantics/cluster.md", "usr/share/doc/leasehold/docs/semantics/cluster.md"),
    ("docs/reference/promises.md", "usr/share/doc/leasehold/docs/reference/promises.md"),
    ("METRICS.md", "usr/share/doc/leasehold/METRICS.md"),
    ("docs/mounting.md", "usr/share/doc/leasehold/mounting.md"),
    ("package/deb/copyright", "usr/share/doc/leasehold/copyright"),
];

/// Files that the program generates: the argument and the destination.
const COMPLETIONS: [(&str, &str); 3] = [
    ("leasehold.bash", "usr/share/bash-completion/completions/leasehold"),
    ("leasehold.fish", "usr/share/fish/vendor_completions.d/leasehold.fish"),
    ("_leasehold", "usr/share/zsh/vendor-completions/_leasehold"),
];

/// The scripts that dpkg runs at installation and removal.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The configuration file, which an upgrade does not overwrite.
const CONFIGURATION: &str = "etc/leasehold/leasehold.toml";

/// The folder in which the package is built.
const FOLDER: &str = "target/package";

/// The options of the package.
#[derive(Args)]
pub(crate) struct Options {
    /// A built program [default: a release build].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The output file.
    #[arg(long, value_name = "FILE", default_value = "target/package/leasehold.deb")]
    out: PathBuf,
}

/// Makes the package.
pub(crate) fn build(repository: &Repository, options: &Options) -> Tally {
    let made = ensure(PACKAGERS)
        && Package::begin(repository, options)
            .and_then(|package| package.fill().and_then(|()| package.close(&options.out)))
            .inspect_err(|error| println!("the package was not built: {error}"))
            .is_ok();
    Tally::of(made)
}

struct Package<'r> {
    repository: &'r Repository,
    program: PathBuf,
    /// The folder that becomes the root of a machine.
    root: PathBuf,
}

impl<'r> Package<'r> {
    fn begin(repository: &'r Repository, options: &Options) -> Result<Self, String> {
        let program = match &options.program {
            Some(program) => std::path::absolute(program).map_err(|error| error.to_string())?,
            None => {
                let words = ["cargo", "build", "--release", "--quiet", "--package", "leasehold"];
                program::output(repository.root(), &words)?;
                repository.target().join("release/leasehold")
            }
        };
        let root = repository.root().join(FOLDER).join("root");
        if root.exists() {
            fs::remove_dir_all(&root).map_err(|error| error.to_string())?;
        }
        Ok(Self { repository, program, root })
    }

    fn fill(&self) -> Result<(), String> {
        let tree = self.repository.root();
        let program = self.put(&self.program, "usr/bin/leasehold", "755")?;
        self.run(&["strip", "--strip-unneeded", &program])?;
        // The same program under the name that mount(8) runs for its file system type.
        self.run(&["install", "-d", &self.at("usr/sbin")])?;
        self.run(&["ln", "-s", "../bin/leasehold", &self.at("usr/sbin/mount.leasehold")])?;
        for (from, to) in FILES {
            self.put(&tree.join(from), to, "644")?;
        }
        let changes =
            self.put(&tree.join("CHANGELOG.md"), "usr/share/doc/leasehold/changelog", "644")?;
        self.run(&["gzip", "-9", "-n", &changes])?;
        let documents = self.root.with_file_name("documents");
        self.say(&["documents", &documents.display().to_string()])?;
        for (from, to) in COMPLETIONS {
            self.put(&documents.join("completions").join(from), to, "644")?;
        }
        let pages = fs::read_dir(documents.join("man")).map_err(|error| error.to_string())?;
        for page in pages.map_while(Result::ok) {
            let to = format!("usr/share/man/man1/{}", page.file_name().to_string_lossy());
            let page = self.put(&page.path(), &to, "644")?;
            self.run(&["gzip", "-9", "-n", &page])?;
        }
        let configuration = self.root.with_file_name("leasehold.toml");
        let text = self.say(&["config", "init"])?;
        fs::write(&configuration, text).map_err(|error| error.to_string())?;
        self.put(&configuration, CONFIGURATION, "644").map(drop)
    }

    /// Writes the control files, and packs the package.
    fn close(&self, out: &Path) -> Result<(), String> {
        let tree = self.repository.root();
        for script in SCRIPTS {
            let from = tree.join("package/deb").join(script);
            self.put(&from, &format!("DEBIAN/{script}"), "755")?;
        }
        let write = |name: &str, text: String| {
            let path = self.root.join("DEBIAN").join(name);
            fs::write(path, text).map_err(|error| error.to_string())
        };
        write("conffiles", format!("/{CONFIGURATION}\n"))?;
        let sums = "cd \"$1\" && find etc usr -type f | LC_ALL=C sort | xargs md5sum";
        write("md5sums", self.run(&["sh", "-c", sums, "sh", &self.at("")])?)?;
        write("control", self.control()?)?;
        // The same source gives the same package, byte for byte.
        let time = self.run(&["git", "-c", "safe.directory=*", "log", "-1", "--format=%ct"])?;
        let time = format!("SOURCE_DATE_EPOCH={}", time.trim());
        let out = tree.join(out).display().to_string();
        self.run(&["env", &time, "dpkg-deb", "--root-owner-group", "--build", &self.at(""), &out])?;
        println!("{out}");
        Ok(())
    }

    fn control(&self) -> Result<String, String> {
        let template =
            self.repository.text("package/deb/control").ok_or("no package/deb/control")?;
        let version = self.say(&["--version"])?;
        let version =
            version.trim().strip_prefix("leasehold ").ok_or("a program without version")?;
        let architecture = self.run(&["dpkg", "--print-architecture"])?;
        let size = self.run(&["du", "-sk", "--exclude=DEBIAN", &self.at("")])?;
        let size = size.split_whitespace().next().unwrap_or_default();
        Ok(template
            .replace("@VERSION@", version)
            .replace("@ARCHITECTURE@", architecture.trim())
            .replace("@SIZE@", size)
            .replace("@LIBC@", &self.newest_libc()?))
    }

    /// Returns the minimum version of the C library for the program.
    fn newest_libc(&self) -> Result<String, String> {
        let symbols = self.run(&["objdump", "-T", &self.at("usr/bin/leasehold")])?;
        let versions = symbols.split("(GLIBC_").skip(1).filter_map(|rest| rest.split(')').next());
        let numbers = versions.filter_map(|version| {
            version.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>()
        });
        let newest = numbers.max().ok_or("the program needs no C library")?;
        Ok(newest.iter().map(ToString::to_string).collect::<Vec<_>>().join("."))
    }

    /// Copies a file into the package; returns its path there.
    fn put(&self, from: &Path, to: &str, mode: &str) -> Result<String, String> {
        let to = self.at(to);
        self.run(&["install", "-D", "-m", mode, &from.display().to_string(), &to])?;
        Ok(to)
    }

    fn at(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }

    fn say(&self, words: &[&str]) -> Result<String, String> {
        let program = self.program.display().to_string();
        self.run(&[&[program.as_str()], words].concat())
    }

    fn run(&self, words: &[&str]) -> Result<String, String> {
        program::output(self.repository.root(), words)
    }
}
