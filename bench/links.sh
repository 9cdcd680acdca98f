#!/bin/bash
# A cluster in network namespaces, each with a link of 100 Mbit/s to one switch: a metaserver with 12
# iods, and one server alone, under 1 to 21 clients that read one file and write one each.
#
#   bash links.sh LEASEHOLD [MIB] [CLIENTS...]
#
# Needs root, and a kernel with namespaces, bridge, veth and tbf. Prints a line for each measurement:
# read or write, meta or serve, the number of clients, and MB/s of all together.
set -euo pipefail
leasehold=$(realpath "$1") mib=${2-128}
shift $(($# < 2 ? $# : 2))
counts=("$@")
((${#counts[@]})) || counts=(1 2 4 7 10 12 14 17 21)
iods=12 clients=21
folder=$(mktemp -d)
prefix=lh$$-

# Ends what was started here, and nothing else.
cleanup() {
    for pid in $(cat "$folder"/pids 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for name in $(ip netns list | cut -d' ' -f1 | grep "^$prefix" || true); do
        ip netns delete "$name"
    done
    rm -rf "$folder"
}
trap cleanup EXIT

in_host() { ip netns exec "$prefix$1" "${@:2}"; }

limit() { in_host "$1" tc qdisc add dev "$2" root tbf rate 100mbit burst 32kb latency 100ms; }

# A host with a link to the switch, limited in both directions.
host() {
    ip netns add "$prefix$1"
    ip -n "${prefix}switch" link add "p$2" type veth peer name eth0 netns "$prefix$1"
    ip -n "${prefix}switch" link set "p$2" master br0 up
    ip -n "$prefix$1" addr add "10.9.0.$2/24" dev eth0
    ip -n "$prefix$1" link set eth0 up
    ip -n "$prefix$1" link set lo up
    limit switch "p$2"
    limit "$1" eth0
}

# Starts the program in a host, and waits until it serves.
start() {
    local name=$1
    shift
    # Without a shell between, so that its number is the program's.
    ip netns exec "$prefix$name" "$leasehold" "$@" --json --log error --state "$folder/state-$name" \
        >"$folder/ready-$name" 2>>"$folder/log" &
    echo $! >>"$folder/pids"
    for _ in $(seq 200); do
        [[ -s $folder/ready-$name ]] && return
        sleep 0.05
    done
    cat "$folder/log" >&2
    exit 3
}

ip netns add "${prefix}switch"
ip -n "${prefix}switch" link add br0 type bridge
ip -n "${prefix}switch" link set br0 up
host meta 1
host serve 2
for n in $(seq $iods); do host "iod$n" $((10 + n)); done
for n in $(seq $clients); do host "client$n" $((100 + n)); done

mkdir "$folder/names" "$folder/plain"
words=()
for n in $(seq $iods); do
    mkdir "$folder/iod$n"
    start "iod$n" iod "$folder/iod$n" --cluster-key "$folder/key" --listen "10.9.0.$((10 + n)):2049"
    words+=(--iod "10.9.0.$((10 + n)):2049")
done
start meta meta "$folder/names" --name /x "${words[@]}" --cluster-key "$folder/key" --insecure \
    --listen 10.9.0.1:2049
start serve serve "$folder/plain" --name /x --insecure --listen 10.9.0.2:2049
head -c "${mib}M" /dev/urandom >"$folder/data"

# Runs one command in each of so many clients at once; prints MB/s of all together.
measure() {
    local count=$1 begun ended jobs=()
    shift
    begun=$(date +%s%N)
    for n in $(seq "$count"); do
        in_host "client$n" "$@" "$n" >/dev/null 2>>"$folder/log" &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job"; done
    ended=$(date +%s%N)
    awk "BEGIN { printf \"%.3f\\n\", $count * $mib * 1048576 / 1e6 / (($ended - $begun) / 1e9) }"
}

for server in meta serve; do
    address=10.9.0.$([[ $server == meta ]] && echo 1 || echo 2):2049
    in_host client1 "$leasehold" cp -q "$folder/data" "nfs://$address/x/shared"
    for count in "${counts[@]}"; do
        echo "read $server $count $(measure "$count" sh -c \
            "exec $leasehold cat nfs://$address/x/shared" read)"
        echo "write $server $count $(measure "$count" sh -c \
            "exec $leasehold cp -q $folder/data nfs://$address/x/own-\$1" write)"
    done
    in_host client1 "$leasehold" cat "nfs://$address/x/own-1" | cmp - "$folder/data"
done
