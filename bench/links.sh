#!/bin/bash
# A cluster in network namespaces, each with a link of 100 Mbit/s to one switch: 12 iods with one
# metaserver or several as entry points, and one server alone, under 1 to 21 clients that read one
# file and write one each.
#
#   bash links.sh LEASEHOLD [MIB] [CLIENTS...]
#
# `ENTRIES="1 7 alone"` in the environment lists the numbers of metaservers to measure; alone is one
# server, under up to 7 clients. `DIRECT=BENCH` uses clients with leases, which access the iods
# directly, and strict metaservers, because lazy ones grant no leases; BENCH is leasehold-bench.
# `RATE=20` sets links of 20 Mbit/s, `META_RATE=1000` sets links of 1 Gbit/s at metaservers;
# `WHAT=read` uses clients that only read. Needs root, and a kernel with namespaces, bridge, veth
# and tbf. The data is MIB, 144 by default: a number of whole rows of stripes, so that all iods have
# equal amounts of it.
# Prints a line for each measurement: read or write, the number of entry points, `direct` or
# `alone`, the number of clients, MB/s of all clients together, the idle share of this machine's
# processors, and the bytes that entry points have sent, relative to the data.
# number of clients, MB/s of all together, the share of this machine's processors that was idle, and
# what entry points have sent, in parts of the data.
set -euo pipefail
leasehold=$(realpath "$1") mib=${2-144}
shift $(($# < 2 ? $# : 2))
counts=("$@")
((${#counts[@]})) || counts=(1 2 4 7 10 12 14 17 21)
direct=${DIRECT-} what=${WHAT-read write}
entries=${ENTRIES-${direct:+7}}
entries=${entries:-1 7 alone}
iods=12 clients=21 most=7
source "$(dirname "$0")/hosts.sh"

for n in $(seq $most); do host "meta$n" "$n" "${META_RATE-}"; done
for n in $(seq $iods); do host "iod$n" $((10 + n)); done
for n in $(seq $clients); do host "client$n" $((100 + n)); done
head -c "${mib}M" /dev/urandom >"$folder/data"

# Starts metaservers over new names and stripes, with additional options if there are several.
metaservers() {
    local count=$1 words=() peers=() more=("${@:2}")
    ((count > 1)) || more=()
    rm -rf "$folder"/names* "$folder"/state-* "$folder"/iod*
    for n in $(seq $iods); do
        mkdir "$folder/iod$n"
        start served "iod$n" iod "$folder/iod$n" --cluster-key "$folder/key" \
            --listen "10.9.0.$((10 + n)):2049"
        # The first one creates the key.
        ready "iod$n"
        words+=(--iod "10.9.0.$((10 + n)):2049")
    done
    if ((count > 1)); then
        for n in $(seq "$count"); do peers+=(--peer "10.9.0.$n:2049"); done
    fi
    for n in $(seq "$count"); do
        mkdir "$folder/names$n"
        start served "meta$n" meta "$folder/names$n" --name /x --cluster-key "$folder/key" \
            --insecure "${words[@]}" "${peers[@]}" "${more[@]}" \
            $( ((count > 1)) && echo --number $((n - 1))) --listen "10.9.0.$n:2049"
        # The first one creates the volume.
        ((n > 1)) || ready meta1
    done
    for n in $(seq "$count"); do ready "meta$n"; done
}

# Prints the processor time of this machine, total and idle, in ticks.
ticks() { awk '/^cpu / { for (n = 2; n <= 9; n++) all += $n; print all, $5 + $6 }' /proc/stat; }

# Prints the bytes that entry points have sent to the switch.
sent() {
    local n links=()
    for n in $(seq $most); do links+=("/sys/class/net/p$n/statistics/rx_bytes"); done
    in_host switch cat "${links[@]}" | awk '{ all += $1 } END { printf "%.0f\n", all }'
}

# Runs one command in each client concurrently; prints MB/s of all clients together, the idle share,
# and the bytes that entry points have sent. Fails if a command failed.
measure() {
    local at=$1 count=$2 begun ended jobs=() job before sent_before failed=0
    shift 2
    sent_before=$(sent)
    before=$(ticks)
    begun=$(date +%s%N)
    for n in $(seq "$count"); do
        in_host "client$n" "$@" "$n" "10.9.0.$(((n - 1) % at + 1)):2049" >/dev/null 2>>"$folder/log" &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job" || failed=1; done
    if ((failed)); then
        cat "$folder/log" >&2
        return 3
    fi
    ended=$(date +%s%N)
    awk "BEGIN { printf \"%.3f \", $count * $mib * 1048576 / 1e6 / (($ended - $begun) / 1e9) }"
    echo "$before $(ticks)" | awk '{ printf "%.3f ", ($4 - $2) / ($3 - $1) }'
    awk "BEGIN { printf \"%.4f\n\", ($(sent) - $sent_before) / ($count * $mib * 1048576) }"
}

# Measures a number of entry points.
points() {
    local name=$1 at=$2 count did
    shift 2
    in_host client1 "$leasehold" cp -q "$folder/data" nfs://10.9.0.1:2049/x/shared
    for count in "$@"; do
        if [[ $what = *read* ]]; then
            did=$(measure "$at" "$count" sh -c "exec $reads")
            echo "read $name $count $did"
        fi
        if [[ $what = *write* ]]; then
            did=$(measure "$at" "$count" sh -c "exec $writes")
            echo "write $name $count $did"
        fi
    done
    if [[ $what = *write* ]]; then
        in_host client1 "$leasehold" cat nfs://10.9.0.1:2049/x/own-1 | cmp - "$folder/data"
    fi
    end served
}

# The command of a client, with its number and the address of its metaserver as arguments.
reads="$leasehold cat nfs://\$1/x/shared"
writes="$leasehold cp -q $folder/data nfs://\$1/x/own-\$0"
if [[ $direct ]]; then
    direct=$(realpath "$direct")
    reads="$direct direct read \$1 shared $folder/data"
    writes="$direct direct write \$1 own-\$0 $folder/data"
fi

for server in $entries; do
    if [[ $direct ]]; then
        metaservers "$server" --strict
        points direct "$server" "${counts[@]}"
        continue
    fi
    if [[ $server != alone ]]; then
        metaservers "$server"
        points "$server" "$server" "${counts[@]}"
        continue
    fi
    mkdir "$folder/plain"
    start served meta1 serve "$folder/plain" --name /x --insecure --listen 10.9.0.1:2049
    ready meta1
    few=()
    for count in "${counts[@]}"; do ((count > 7)) || few+=("$count"); done
    ((${#few[@]} == 0)) || points alone 1 "${few[@]}"
done
