use std::path::PathBuf;

use super::*;

/// Returns the facts of a machine without faults that serves all clients.
fn well() -> Facts {
    let address = "0.0.0.0:2049".parse().expect("an address");
    Facts {
        ports: vec![Port { address, with_udp: true, trouble: None }],
        is_running: false,
        replaced: Vec::new(),
        lacks_v4: None,
        telling: Telling::Rpcbind,
        has_portmapper: true,
        firewall: Firewall::Rules("nft", String::new()),
        clock: Some(Discipline { is_synchronized: true, error_max_s: 0.01, drift_ppm: -12.0 }),
        powers: Powers { acts_as_others: true, opens_handles: true, takes_leases: true },
        descriptors: 1 << 20,
        places: vec![place_on(&disk("ext4", "rw,relatime"), Some(true))],
        mounts: Vec::new(),
    }
}

fn disk(kind: &str, options: &str) -> Mount {
    let options = options.split(',').map(str::to_owned).collect();
    Mount { id: 1, point: "/srv".into(), kind: kind.into(), source: "/dev/sda1".into(), options }
}

fn place_on(mount: &Mount, has_journal: Option<bool>) -> Place {
    Place {
        path: PathBuf::from("/srv/data"),
        mount: Some(mount.clone()),
        has_journal,
        free_percent: Some((50, 90)),
        refused: None,
        begins: Vec::new(),
        crosses: false,
    }
}

/// Returns the findings that report a problem.
fn worse(facts: &Facts) -> Vec<String> {
    let all = findings(facts).into_iter().filter(|finding| finding.verdict != Verdict::Good);
    all.map(|finding| format!("{}: {}", finding.about, finding.text)).collect()
}

#[test]
fn machine_without_faults_has_only_good_findings() {
    assert_eq!(worse(&well()), [] as [&str; 0]);
    assert_eq!(findings(&well()).len(), 8);
    let running = Facts { is_running: true, ..well() };
    assert_eq!(worse(&running), [] as [&str; 0]);
}

#[test]
fn each_fault_is_found() {
    let address = "0.0.0.0:2049".parse().expect("an address");
    let taken = vec![Port { address, with_udp: true, trouble: Some("it is taken".to_owned()) }];
    let rules = "chain input {\ntype filter hook input priority 0; policy drop;\n}".to_owned();
    let clock = |is_synchronized, error_max_s, drift_ppm| {
        Some(Discipline { is_synchronized, error_max_s, drift_ppm })
    };
    let on = |kind: &str, options: &str, has_journal| Facts {
        places: vec![place_on(&disk(kind, options), has_journal)],
        ..well()
    };
    let full = Place { free_percent: Some((60, 1)), ..place_on(&disk("xfs", "rw"), None) };
    for (facts, told) in [
        (Facts { ports: taken, ..well() }, "port 0.0.0.0:2049: it is taken"),
        (Facts { has_portmapper: false, ..well() }, "no rpcbind replies"),
        (Facts { telling: Telling::Ourselves, ..well() }, "port 111 is in use"),
        (Facts { telling: Telling::Nobody, ..well() }, "one runs without this server"),
        (Facts { firewall: Firewall::Rules("nft", rules), ..well() }, "none accepts port 2049"),
        (Facts { firewall: Firewall::Unknown("no rights".into()), ..well() }, "no rights"),
        (Facts { clock: clock(false, 0.0, 0.0), ..well() }, "not synchronized"),
        (Facts { clock: clock(true, 7.0, 0.0), ..well() }, "an error of up to 7.0 s"),
        (Facts { clock: clock(true, 0.0, -450.0), ..well() }, "drifts by -450 ppm"),
        (Facts { clock: None, ..well() }, "does not report its synchronization"),
        (Facts { descriptors: 1024, ..well() }, "1024: half for connections"),
        (on("ext4", "rw", Some(false)), "without a journal"),
        (on("ext4", "rw,data=writeback", Some(true)), "mounted with data=writeback"),
        (on("tmpfs", "rw", None), "loses all data"),
        (on("vfat", "rw", None), "does not store owners"),
        (on("nfs4", "rw", None), "belongs to another server"),
        (on("ourfs", "rw", None), "unknown file system"),
        (on("xfs", "ro", None), "mounted read-only"),
        (Facts { places: vec![full], ..well() }, "1% of its inodes are free"),
    ] {
        let worse = worse(&facts);
        assert!(worse.len() == 1 && worse[0].contains(told), "{told:?}: {worse:?}");
    }
    let powers = |acts_as_others, opens_handles, takes_leases| Facts {
        powers: Powers { acts_as_others, opens_handles, takes_leases },
        ..well()
    };
    assert!(worse(&powers(false, false, false))[0].contains("serves only its own user"));
    assert!(worse(&powers(true, false, true))[0].contains("must search"));
    assert!(worse(&powers(true, true, false))[0].contains("cannot take kernel leases"));
}

/// A firewall does not affect the loopback, so the check is skipped for a server on the loopback
/// only.
#[test]
fn firewall_is_ignored_on_loopback() {
    let address = "127.0.0.1:2049".parse().expect("an address");
    let firewall = Firewall::Unknown("no rights".to_owned());
    let facts =
        Facts { ports: vec![Port { address, with_udp: true, trouble: None }], firewall, ..well() };
    assert_eq!(worse(&facts), [] as [&str; 0]);
}

#[test]
fn options_of_mounts_get_advice() {
    let told = |options: &str| -> Vec<String> {
        mount(&disk("nfs", options)).into_iter().map(|finding| finding.text).collect()
    };
    let good = ["its options cause no problem"];
    assert_eq!(told("rw,vers=4.2,rsize=1048576,hard,proto=tcp6,timeo=600,local_lock=none"), good);
    assert_eq!(told("rw,vers=2,rsize=8192,hard,proto=tcp"), good, "version 2 has no larger");
    for (options, found) in [
        ("soft", "writes are lost"),
        ("proto=udp", "reassembled wrongly"),
        ("nolock,local_lock=all", "locks are local"),
        ("noac,acregmin=0", "calls the server"),
        ("actimeo=3600", "3600 s old"),
        ("acregmax=10,acdirmax=600", "600 s old"),
        ("vers=3,rsize=8192", "small pieces"),
    ] {
        let told = told(options);
        assert!(told.len() == 1 && told[0].contains(found), "{options}: {told:?}");
    }
}
