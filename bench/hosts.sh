# Hosts in network namespaces, each with a link of 100 Mbit/s to one switch, and their programs.
# `RATE=20` in the environment sets links of 20 Mbit/s. Sourced; needs root, and Linux 5.18 or later
# with namespaces, bridge, veth and tbf. The sourcing script sets `leasehold` to the program.
folder=$(mktemp -d)
prefix=lh$$-

# Ends a group of programs that this script started.
end() {
    [[ -e $folder/pids-$1 ]] || return 0
    kill $(cat "$folder/pids-$1") 2>/dev/null || true
    wait $(cat "$folder/pids-$1") 2>/dev/null || true
    rm -f "$folder/pids-$1"
}

# Ends everything that this script started, and nothing else.
cleanup() {
    for group in "$folder"/pids-*; do end "${group##*/pids-}"; done
    for name in $(ip netns list | cut -d' ' -f1 | grep "^$prefix" || true); do
        ip netns delete "$name"
    done
    rm -rf "$folder"
}
trap cleanup EXIT

in_host() { ip netns exec "$prefix$1" "${@:2}"; }

# The queue before a link of 100 Mbit/s holds up to 100 ms of data, 1.25 MB; other links hold as
# many bytes. A wide link has a larger burst, because its late wake-ups cost more.
limit() {
    local rate=$3 burst=32
    ((rate <= 100)) || burst=320
    in_host "$1" tc qdisc add dev "$2" root tbf rate "${rate}mbit" burst "${burst}kb" limit 1282768
}

# A host with a link to the switch, limited in both directions: its name, the last part of its
# address, and the link's Mbit/s if they differ from the default.
host() {
    local rate=${3:-${RATE-100}}
    ip netns add "$prefix$1"
    ip -n "${prefix}switch" link add "p$2" type veth peer name eth0 netns "$prefix$1"
    ip -n "${prefix}switch" link set "p$2" master br0 up
    ip -n "$prefix$1" addr add "10.9.0.$2/24" dev eth0
    ip -n "$prefix$1" link set eth0 up
    ip -n "$prefix$1" link set lo up
    # As on the machines of the compared measurements. BBR, the default of some systems, paces each
    # connection by its lowest share of the link.
    in_host "$1" sysctl -qw "net.ipv4.tcp_congestion_control=${CONGESTION-reno}"
    # Linux sends larger pieces on a connection that once saw no queue. Here all connections of a
    # host share one queue, where other systems share by connection (fq_codel), so the first
    # connection would have five times the share.
    in_host "$1" sysctl -qw net.ipv4.tcp_tso_rtt_log=20
    # Several frames pass in one piece, of which a link counts each with its header; a piece above
    # the 32 KiB of a burst is split into frames. Then each host must process single frames, and a
    # machine that simulates all hosts has no time for this at these rates.
    ip -n "$prefix$1" link set eth0 gso_max_size 16384
    limit switch "p$2" "$rate"
    limit "$1" eth0 "$rate"
}

# Starts the program in a host, in the group of programs that end together.
start() {
    local group=$1 name=$2
    shift 2
    rm -f "$folder/ready-$name"
    # Without a shell in between, so that the process id is the program's.
    ip netns exec "$prefix$name" "$leasehold" "$@" --json --log error --threads 1 \
        --state "$folder/state-$name" >"$folder/ready-$name" 2>>"$folder/log" &
    echo $! >>"$folder/pids-$group"
}

# Waits until the program serves.
ready() {
    for _ in $(seq 600); do
        [[ -s $folder/ready-$1 ]] && return
        sleep 0.05
    done
    cat "$folder/log" >&2
    exit 3
}

ip netns add "${prefix}switch"
ip -n "${prefix}switch" link add br0 type bridge
ip -n "${prefix}switch" link set br0 up
