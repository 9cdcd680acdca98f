//! The systems: one server, diskless workstations, NFSP, and clients that cache under leases.

use super::{Dial, Template, Values};
use leasehold_lab_network::model::{
    Cache, Centre, Class, ClassKind, Demand, Discipline, FORMAT, Kind, Law, Lease, Model, Origin,
    Quantity, Scope, Step, Unit,
};

pub(super) const ALL: &[Template] = &[
    Template {
        key: "server",
        title: "One server",
        about: "Clients, a link, a server with cores and a disk: where most questions begin.",
        dials: &[
            CLIENTS,
            Dial { value: 100.0, ..THINK },
            CORES,
            HIT,
            BLOCK,
            PACKET,
            RTT,
            Dial { value: 2.0, ..DISK },
        ],
        make: server,
    },
    Template {
        key: "diskless",
        title: "Diskless workstations on an Ethernet",
        about: "The canonical system of the thesis: all files come from one server over 10 Mbit/s.",
        dials: &[
            Dial { value: 10.0, most: 100.0, ..CLIENTS },
            Dial { value: 1.0, most: 8.0, ..CORES },
            Dial { value: 0.0, about: "Requests that a client's own cache answers.", ..HIT },
            Dial { value: 4.0, most: 64.0, ..BLOCK },
            Dial { value: 1024.0, least: 256.0, most: 4096.0, ..PACKET },
            Dial { value: 0.0, least: 0.0, most: 100.0, logarithmic: false, ..RTT },
            Dial { value: 18.8, most: 60.0, ..DISK },
        ],
        make: diskless,
    },
    Template {
        key: "nfsp",
        title: "NFSP: metaservers and I/O daemons",
        about: "A block is striped: a metaserver finds it, all daemons send their part at once.",
        dials: &[
            Dial { value: 8.0, most: 200.0, ..CLIENTS },
            Dial {
                value: 1.0,
                most: 8.0,
                key: "metaservers",
                label: "metaservers",
                about: "Servers that know where stripes lie; clients are spread over them.",
                ..CORES
            },
            Dial {
                value: 4.0,
                most: 16.0,
                key: "iods",
                label: "I/O daemons",
                about: "Nodes that keep the stripes.",
                ..CORES
            },
            Dial { value: 1.0, most: 16.0, about: "Cores of each metaserver.", ..CORES },
            Dial { value: 0.8, about: "Parts that a daemon has in memory.", ..HIT },
            Dial { value: 64.0, ..BLOCK },
            Dial { value: 1448.0, ..PACKET },
            Dial { value: 0.2, ..RTT },
            Dial { value: 6.0, ..DISK },
        ],
        make: nfsp,
    },
    Template {
        key: "leases",
        title: "Leases or close-to-open",
        about: "Clients cache; a lease lets them use what they have without asking. Term 0 asks \
                every time, as close-to-open does.",
        dials: &[
            Dial { value: 40.0, ..CLIENTS },
            Dial { value: 50.0, ..THINK },
            Dial { value: 1.0, ..CORES },
            Dial { value: 0.8, about: "Requests whose block the client has.", ..HIT },
            TERM,
            WRITES,
            Dial { value: 8.0, ..BLOCK },
            Dial { value: 1448.0, ..PACKET },
            Dial { value: 0.5, ..RTT },
            Dial { value: 4.0, ..DISK },
        ],
        make: leases,
    },
];

const CLIENTS: Dial = Dial {
    key: "clients",
    label: "clients",
    unit: "",
    least: 1.0,
    most: 500.0,
    step: 1.0,
    value: 40.0,
    logarithmic: true,
    about: "Users that ask, wait for the answer, and think.",
};
const THINK: Dial = Dial {
    key: "think",
    label: "think time",
    unit: "ms",
    least: 1.0,
    most: 5000.0,
    step: 0.1,
    value: 200.0,
    logarithmic: true,
    about: "From an answer to the next request.",
};
const CORES: Dial = Dial {
    key: "cores",
    label: "cores",
    unit: "",
    least: 1.0,
    most: 64.0,
    step: 1.0,
    value: 4.0,
    logarithmic: true,
    about: "Cores of the server.",
};
const HIT: Dial = Dial {
    key: "hit",
    label: "cache hits",
    unit: "",
    least: 0.0,
    most: 0.99,
    step: 0.01,
    value: 0.5,
    logarithmic: false,
    about: "Requests that the server has in memory.",
};
const BLOCK: Dial = Dial {
    key: "block",
    label: "block",
    unit: "KiB",
    least: 1.0,
    most: 1024.0,
    step: 1.0,
    value: 8.0,
    logarithmic: true,
    about: "Data of one request.",
};
const PACKET: Dial = Dial {
    key: "packet",
    label: "packet",
    unit: "B",
    least: 512.0,
    most: 9000.0,
    step: 1.0,
    value: 1448.0,
    logarithmic: true,
    about: "Data of one packet; each costs the processor and carries a header.",
};
const RTT: Dial = Dial {
    key: "rtt",
    label: "round trip",
    unit: "ms",
    least: 0.01,
    most: 200.0,
    step: 0.01,
    value: 0.5,
    logarithmic: true,
    about: "To the server and back, without waiting.",
};
const DISK: Dial = Dial {
    key: "disk",
    label: "disk",
    unit: "ms",
    least: 0.01,
    most: 30.0,
    step: 0.01,
    value: 6.0,
    logarithmic: true,
    about: "One access that memory does not have.",
};
const TERM: Dial = Dial {
    key: "term",
    label: "lease term",
    unit: "s",
    least: 0.0,
    most: 120.0,
    step: 0.5,
    value: 30.0,
    logarithmic: false,
    about: "How long a block may be used without asking; 0 is close-to-open.",
};
const WRITES: Dial = Dial {
    key: "writes",
    label: "writes",
    unit: "",
    least: 0.0,
    most: 0.2,
    step: 0.001,
    value: 0.002,
    logarithmic: false,
    about: "Requests that write, and take the block from the others.",
};

/// Bytes of headers around a packet's data.
const HEADER: f64 = 66.0;

/// The size of a request in packets and bytes on the wire.
struct Size {
    packets: f64,
    wire_bytes: f64,
    kib: f64,
}

impl Size {
    fn of(values: &Values<'_>) -> Self {
        let kib = values.at("block");
        let packets = libm::ceil(kib * 1024.0 / values.at("packet"));
        Self { packets, wire_bytes: kib * 1024.0 + (packets + 1.0) * HEADER, kib }
    }

    /// Returns the processor time in ms: for a call, each packet, each copied KiB.
    fn cpu_ms(&self) -> f64 {
        0.05 + 0.004 * (self.packets + 1.0) + 0.0005 * self.kib
    }
}

fn quantity(value: f64, unit: Unit, said: &str) -> Quantity {
    Quantity { value, unit, from: Origin::Assumed, r#where: said.into() }
}

/// Rounds numbers to nine digits, to remove rounding noise.
fn tidy(value: f64) -> f64 {
    let mut scale = 1e9;
    while scale > 1.0 && value.abs() * scale > 1e9 {
        scale /= 10.0;
    }
    libm::round(value * scale) / scale
}

fn ms(value: f64, said: &str) -> Demand {
    Demand {
        value: tidy(value),
        unit: Unit::Milliseconds,
        from: Origin::Assumed,
        r#where: said.into(),
        law: Law::Exponential,
    }
}

fn constant(value: f64, said: &str) -> Demand {
    Demand { law: Law::Constant, ..ms(value, said) }
}

fn seed(value: f64) -> Demand {
    let said = "canonical system of the thesis (seed 000, chapter 3)";
    Demand { from: Origin::Seed, ..ms(value, said) }
}

fn centre(name: &str, kind: Kind, discipline: Discipline) -> Centre {
    Centre { name: name.into(), kind, discipline, capacity: None, loss: None, crashes: None }
}

fn servers(count: f64) -> Kind {
    if count == 1.0 { Kind::Queue } else { Kind::Servers { count: Quantity::assumed(count) } }
}

fn closed(name: &str, clients: f64, think: Demand, demands: Vec<(&str, Demand)>) -> Class {
    Class {
        name: name.into(),
        kind: ClassKind::Closed { population: Quantity::assumed(clients), think },
        demands: demands.into_iter().map(|(name, demand)| (name.to_owned(), demand)).collect(),
        route: Vec::new(),
        priority: 0,
        timeout: None,
        try_again: None,
        cache: None,
    }
}

fn model(title: &str, centres: Vec<Centre>, class: Class) -> Model {
    Model { format: FORMAT.into(), title: title.into(), centres, classes: vec![class] }
}

const LINK: &str = "a link of 1 Gbit/s, with headers";
const CPU: &str = "50 us a call, 4 us a packet, 0.5 us a KiB";

/// Returns the time on a link of 1 Gbit/s.
fn link_ms(bytes: f64) -> f64 {
    bytes * 8.0 / 1e6
}

fn server(values: &Values<'_>) -> Model {
    let size = Size::of(values);
    let shared = Discipline::ProcessorSharing;
    let missed = 1.0 - values.at("hit");
    let class = closed(
        "client",
        values.at("clients"),
        ms(values.at("think"), "think time"),
        vec![
            ("round trip", constant(values.at("rtt"), "round trip without waiting")),
            ("network", ms(link_ms(size.wire_bytes), LINK)),
            ("server cpu", ms(size.cpu_ms(), CPU)),
            ("disk", ms(values.at("disk") * missed, "disk time of the requests that miss")),
        ],
    );
    model(
        "One server",
        vec![
            centre("round trip", Kind::Delay, Discipline::Fcfs),
            centre("network", Kind::Queue, shared),
            centre("server cpu", servers(values.at("cores")), shared),
            centre("disk", Kind::Queue, Discipline::Fcfs),
        ],
        class,
    )
}

/// The numbers of the seed apply to a block of 4 KiB in packets of 1 KiB: five packets with the
/// request. Half of the processor's time and a fifth of the network's time belong to the packets.
fn diskless(values: &Values<'_>) -> Model {
    let size = Size::of(values);
    let asked = 1.0 - values.at("hit");
    let (blocks, packets) = (size.kib / 4.0, (size.packets + 1.0) / 5.0);
    let frame = values.at("packet") + HEADER;
    let ethernet = Kind::Ethernet {
        frame: quantity(frame, Unit::Bytes, "a packet with its headers"),
        bandwidth: Quantity {
            from: Origin::Seed,
            ..quantity(10.0, Unit::MegabitsPerSecond, "seed 000, chapter 3")
        },
        slot: quantity(51.2, Unit::Microseconds, "the 10 Mbit/s Ethernet standard"),
    };
    let mut demands = vec![
        ("network", seed(3.6 * asked * (0.8 * blocks + 0.2 * packets))),
        ("server cpu", seed(40.0 * asked * (0.5 * blocks + 0.5 * packets))),
        ("disk", ms(values.at("disk") * asked, "18.8 ms in seed 000, chapter 3")),
    ];
    let mut centres = vec![
        centre("network", ethernet, Discipline::Fcfs),
        centre("server cpu", servers(values.at("cores")), Discipline::Fcfs),
        centre("disk", Kind::Queue, Discipline::Fcfs),
    ];
    if values.at("rtt") > 0.0 {
        let trip = constant(values.at("rtt") * asked, "round trip without waiting");
        demands.insert(0, ("round trip", trip));
        centres.insert(0, centre("round trip", Kind::Delay, Discipline::Fcfs));
    }
    model(
        "Diskless workstations on an Ethernet",
        centres,
        closed("workstation", values.at("clients"), seed(937.6), demands),
    )
}

fn nfsp(values: &Values<'_>) -> Model {
    let size = Size::of(values);
    let (iods, missed) = (values.at("iods"), 1.0 - values.at("hit"));
    let part = Size {
        packets: libm::ceil(size.packets / iods),
        wire_bytes: size.wire_bytes / iods,
        kib: size.kib / iods,
    };
    let each = part.cpu_ms() + link_ms(part.wire_bytes) + values.at("disk") * missed;
    let said = "processor, link and disk of a daemon for its part of a block";
    let mut names = Vec::new();
    let mut index = 1.0;
    while index <= iods {
        names.push(format!("iod {index}"));
        index += 1.0;
    }
    let mut demands = vec![
        ("round trip", constant(values.at("rtt"), "round trip without waiting")),
        ("metaservers", ms(0.15, "one look-up and one message to each daemon's host")),
    ];
    demands.extend(names.iter().map(|name| (name.as_str(), ms(each, said))));
    let count = values.at("metaservers") * values.at("cores");
    let shared = Discipline::ProcessorSharing;
    let mut centres = vec![
        centre("round trip", Kind::Delay, Discipline::Fcfs),
        centre("metaservers", servers(count), shared),
    ];
    centres.extend(names.iter().map(|name| centre(name, Kind::Queue, Discipline::Fcfs)));
    let mut class = closed("reader", values.at("clients"), ms(30.0, "think time"), demands);
    class.route = vec![
        Step::Visit("round trip".into()),
        Step::Visit("metaservers".into()),
        Step::Fork { fork: names },
    ];
    model("NFSP: a block is striped over the I/O daemons", centres, class)
}

/// Popularity is uniform, so the hit ratio is the share of the blocks that fit in the cache.
fn leases(values: &Values<'_>) -> Model {
    const OBJECTS: f64 = 200.0;
    let size = Size::of(values);
    let all = || vec!["round trip".to_owned(), "network".into(), "server cpu".into()];
    let shared = Discipline::ProcessorSharing;
    let mut class = closed(
        "client",
        values.at("clients"),
        ms(values.at("think"), "think time"),
        vec![
            ("client", ms(0.05, "a block from the client's own memory")),
            ("round trip", constant(values.at("rtt"), "round trip without waiting")),
            ("network", ms(link_ms(size.wire_bytes), LINK)),
            ("server cpu", ms(size.cpu_ms(), CPU)),
            ("disk", ms(values.at("disk"), "one access")),
        ],
    );
    let blocks = libm::round(values.at("hit") * OBJECTS).max(1.0);
    class.cache = Some(Cache {
        scope: Scope::Client,
        blocks: Quantity::assumed(blocks),
        objects: Quantity::assumed(OBJECTS),
        zipf: 0.0,
        writes: values.at("writes"),
        skips: [all(), vec!["disk".into()]].concat(),
        lease: Some(Lease {
            term: quantity(values.at("term"), Unit::Seconds, "0 asks at every use"),
            renewal: [vec!["client".into()], all()].concat(),
        }),
    });
    model(
        "Clients that cache, under leases or close-to-open",
        vec![
            centre("client", Kind::Delay, Discipline::Fcfs),
            centre("round trip", Kind::Delay, Discipline::Fcfs),
            centre("network", Kind::Queue, shared),
            centre("server cpu", servers(values.at("cores")), shared),
            centre("disk", Kind::Queue, Discipline::Fcfs),
        ],
        class,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_seeds_numbers_come_out_of_its_template() {
        let template = &ALL[1];
        let given = BTreeMap::new();
        let model = (template.make)(&Values { template, given: &given });
        let demand = |name: &str| model.classes[0].demands[name].value;
        assert_eq!((demand("network"), demand("server cpu"), demand("disk")), (3.6, 40.0, 18.8));
    }
}
