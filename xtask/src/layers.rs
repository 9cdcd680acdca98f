//! Each crate uses only crates of lower layers.

use std::path::Path;

use crate::check::Check;
use crate::repository::{Dependency, Package, Repository};

/// A layer, or a crate with additional permissions: its folder under `crates/`, the layers or single
/// crates that it may use, and the permitted outside crates, if the list is restricted.
struct Tier {
    folder: &'static str,
    uses: &'static [&'static str],
    outside: Option<&'static [&'static str]>,
}

const ALL: &[&str] = &[
    "base",
    "wire",
    "core",
    "session",
    "fs",
    "stores",
    "service",
    "shell",
    "operate",
    "lab",
    "proof",
    "leasehold",
];

/// The layers, each of which uses only lower ones.
const TIERS: &[Tier] = &[
    Tier { folder: "base", uses: &[], outside: Some(&["bytes"]) },
    Tier { folder: "wire", uses: &["base"], outside: Some(&["bytes"]) },
    Tier { folder: "core", uses: &["base"], outside: Some(&["bytes"]) },
    Tier { folder: "session", uses: &["base", "wire", "core"], outside: None },
    Tier { folder: "fs", uses: &["base", "core"], outside: None },
    // Metaservers keep names consistent by a program of their own.
    Tier { folder: "stores", uses: &["base", "wire", "core", "session", "fs"], outside: None },
    Tier { folder: "service", uses: &["base", "wire", "core", "session", "fs"], outside: None },
    // The front ends are above the owner of the leases, which is above the stores: an operation then
    // takes one way down, with leases and without.
    Tier {
        folder: "service/serve",
        uses: &["base", "wire", "core", "session", "fs", "service/leases"],
        outside: None,
    },
    Tier {
        folder: "shell",
        uses: &["base", "wire", "core", "session", "fs", "stores", "service"],
        outside: None,
    },
    // The parts of a mount depend on the kernel interface.
    Tier {
        folder: "shell/mount",
        uses: &["base", "wire", "core", "session", "service", "shell"],
        outside: None,
    },
    Tier {
        folder: "operate",
        uses: &["base", "wire", "core", "session", "fs", "stores", "service", "shell"],
        outside: None,
    },
    // The model file, the solvers and the simulator depend on each other.
    Tier { folder: "lab", uses: &["base", "lab"], outside: None },
    // This crate serves the laboratory's page.
    Tier { folder: "lab/cli", uses: &["base", "lab", "shell"], outside: None },
    // The load generator is a client.
    Tier {
        folder: "lab/load",
        uses: &["base", "wire", "session", "service", "shell", "lab"],
        outside: None,
    },
    Tier { folder: "proof", uses: ALL, outside: None },
    Tier { folder: "leasehold", uses: ALL, outside: None },
];

/// Dependencies of tests only: the tests of a front end use a store, and so do the tests of `fs`
/// and of the stores over other stores.
const TEST_EDGES: &[(&str, &str)] =
    &[("service", "stores"), ("fs", "stores"), ("stores", "stores")];

/// Checks every dependency in the manifests of the workspace.
pub(crate) fn checks(repository: &Repository) -> Vec<Check> {
    let packages = repository.packages();
    let faults = packages.iter().flat_map(|package| faults_of(repository.root(), package));
    vec![Check { rule: "each crate uses lower tiers only", faults: faults.collect() }]
}

fn faults_of(root: &Path, package: &Package) -> Vec<String> {
    let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
    let Some(inside) = inside(root, folder) else {
        // Tools and system tests may use every crate.
        return Vec::new();
    };
    let rows = TIERS.iter().filter(|tier| inside.starts_with(tier.folder));
    let Some(tier) = rows.max_by_key(|tier| tier.folder.len()) else {
        return vec![format!("{}: there is no tier for {}", package.name, inside.display())];
    };
    package.dependencies.iter().filter_map(|edge| fault(root, package, tier, edge)).collect()
}

fn fault(root: &Path, package: &Package, tier: &Tier, edge: &Dependency) -> Option<String> {
    let for_tests = edge.kind.as_deref() == Some("dev");
    let Some(path) = &edge.path else {
        let allowed =
            for_tests || tier.outside.is_none_or(|allowed| allowed.contains(&edge.name.as_str()));
        return (!allowed)
            .then(|| format!("{} uses {}; its tier has std only", package.name, edge.name));
    };
    let Some((inside, used)) = inside(root, path).and_then(|path| Some((path, tier_name(path)?)))
    else {
        return Some(format!("{} uses {}, which is in no tier", package.name, edge.name));
    };
    let layer = tier_name(Path::new(tier.folder)).unwrap_or(tier.folder);
    let allowed = tier.uses.iter().any(|folder| inside.starts_with(folder))
        || (for_tests && TEST_EDGES.contains(&(layer, used)));
    (!allowed)
        .then(|| format!("{} uses {}: {} may not use {used}", package.name, edge.name, tier.folder))
}

/// Returns the path of a folder below `crates/`, or `None` outside `crates/`.
fn inside<'a>(root: &Path, folder: &'a Path) -> Option<&'a Path> {
    folder.strip_prefix(root.join("crates")).ok()
}

/// Returns the layer of a crate's folder below `crates/`.
fn tier_name(inside: &Path) -> Option<&str> {
    inside.iter().next()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &str, edges: &[(&str, Option<&str>)]) -> Package {
        let dependency = |&(path, kind): &(&str, Option<&str>)| Dependency {
            name: path.to_owned(),
            kind: kind.map(str::to_owned),
            path: path.starts_with('/').then(|| path.into()),
        };
        Package {
            name: folder.to_owned(),
            manifest_path: format!("{folder}/Cargo.toml").into(),
            dependencies: edges.iter().map(dependency).collect(),
        }
    }

    fn fault_count(folder: &str, edges: &[(&str, Option<&str>)]) -> usize {
        faults_of(Path::new("/r"), &package(folder, edges)).len()
    }

    #[test]
    fn an_edge_goes_down() {
        assert_eq!(fault_count("/r/crates/fs", &[("/r/crates/base", None)]), 0);
        assert_eq!(fault_count("/r/crates/base", &[("/r/crates/fs", None)]), 1);
        assert_eq!(fault_count("/r/crates/fs", &[("/r/crates/wire", None)]), 1);
        assert_eq!(fault_count("/r/crates/stores/a", &[("/r/crates/stores/b", None)]), 1);
        assert_eq!(fault_count("/r/crates/operate/a", &[("/r/crates/shell", None)]), 0);
        assert_eq!(fault_count("/r/crates/operate/a", &[("/r/crates/operate/b", None)]), 1);
        assert_eq!(fault_count("/r/crates/operate/a", &[("/r/crates/leasehold", None)]), 1);
        assert_eq!(fault_count("/r/crates/lab/load", &[("/r/crates/wire", None)]), 0);
        assert_eq!(fault_count("/r/crates/lab/des", &[("/r/crates/wire", None)]), 1);
    }

    #[test]
    fn tests_may_use_a_store() {
        let store = "/r/crates/stores/mem";
        assert_eq!(fault_count("/r/crates/service/serve", &[(store, Some("dev"))]), 0);
        assert_eq!(fault_count("/r/crates/service/serve", &[(store, None)]), 1);
        assert_eq!(fault_count("/r/crates/base", &[(store, Some("dev"))]), 1);
    }

    #[test]
    fn front_ends_use_the_leases_and_no_other_service() {
        let leases = ("/r/crates/service/leases", None);
        assert_eq!(fault_count("/r/crates/service/serve", &[leases]), 0);
        assert_eq!(
            fault_count("/r/crates/service/serve", &[("/r/crates/service/client", None)]),
            1
        );
        assert_eq!(fault_count("/r/crates/service/client", &[leases]), 1);
        assert_eq!(
            fault_count("/r/crates/service/leases", &[("/r/crates/service/serve", None)]),
            1
        );
    }

    #[test]
    fn a_tier_must_be_known() {
        assert_eq!(fault_count("/r/crates/util", &[]), 1);
        assert_eq!(fault_count("/r/xtask", &[("/r/crates/shell", None)]), 0);
        assert_eq!(fault_count("/r/crates/shell", &[("/r/xtask", None)]), 1);
    }

    #[test]
    fn low_tiers_use_no_outside_crate() {
        assert_eq!(fault_count("/r/crates/wire", &[("bytes", None)]), 0);
        assert_eq!(fault_count("/r/crates/wire", &[("nom", None)]), 1);
        assert_eq!(fault_count("/r/crates/wire", &[("proptest", Some("dev"))]), 0);
    }
}
