#!/bin/bash
# Metaservers in network namespaces, each with a link of 100 Mbit/s to one switch, and one iod: what a
# name costs that another metaserver made, how many files are made in a second, and how old a time is
# that was set at another.
#
#   bash metaservers.sh LEASEHOLD BENCH [COUNTS...]
#
# BENCH is leasehold-bench, which makes and looks names up. Needs root, and a kernel with namespaces,
# bridge, veth and tbf. Prints a line for each measurement: `miss ORDER METASERVERS MS`,
# `creates lazy|strict METASERVERS A_SECOND CPU_SECONDS`, all metaservers' processor time,
# `build lazy|strict METASERVERS SECONDS`, a program that as many clients compile together, each at a
# metaserver of its own, and `staleness SECONDS`.
set -euo pipefail
leasehold=$(realpath "$1") bench=$(realpath "$2")
shift 2
counts=("$@")
((${#counts[@]})) || counts=(2 4 8 16)
most=16
here=$(dirname "$(realpath "$0")")
source "$here/hosts.sh"

# Starts so many metaservers over new names and stripes, with what they are told besides.
metaservers() {
    local count=$1 peers=() more=("${@:2}")
    end metas
    end iods
    rm -rf "$folder"/names* "$folder"/state-* "$folder/iod"
    mkdir "$folder/iod"
    start iods iod iod "$folder/iod" --cluster-key "$folder/key" --listen 10.9.0.100:2049
    ready iod
    for n in $(seq "$count"); do peers+=(--peer "10.9.0.$n:2049"); done
    for n in $(seq "$count"); do
        mkdir "$folder/names$n"
        chmod 777 "$folder/names$n"
        start metas "meta$n" meta "$folder/names$n" --name /x --cluster-key "$folder/key" --insecure \
            --iod 10.9.0.100:2049 "${peers[@]}" --number $((n - 1)) "${more[@]}" \
            --listen "10.9.0.$n:2049"
        # The first makes the volume.
        ((n > 1)) || ready meta1
    done
    for n in $(seq "$count"); do ready "meta$n"; done
}

# The processor time of all metaservers so far.
processor_ticks() {
    local pid total=0
    for pid in $(cat "$folder/pids-metas"); do
        # What is behind the name in brackets: the 12th and 13th are the program's and the kernel's.
        total=$((total + $(sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }')))
    done
    echo "$total"
}

# Has as many clients build a program as there are metaservers; says how many seconds it took.
build() {
    local count=$1 n builder building=()
    rm -f "$folder"/build-*
    for n in $(seq "$count"); do
        # Without a shell between, so that its number is the builder's, which ends its mount.
        ip netns exec "${prefix}builder$n" bash "$here/build.sh" "$leasehold" "10.9.0.$n" "$folder" \
            "$n" "$count" >"$folder/build-took-$n" 2>>"$folder/log" &
        building+=($!)
        echo $! >>"$folder/pids-builders"
        # Who comes later finds the tree.
        for _ in $(seq 1200); do
            [[ ! -e $folder/build-ready-$n ]] || break
            kill -0 $! 2>/dev/null || break
            sleep 0.05
        done
    done
    touch "$folder/build-go"
    for builder in "${building[@]}"; do
        wait "$builder" || { end builders && cat "$folder/log" >&2 && exit 3; }
    done
    end builders
    cat "$folder/build-took-1"
}

for n in $(seq $most); do host "meta$n" "$n"; done
for n in {1..4}; do host "builder$n" $((110 + n)); done
host iod 100
host client 101

for order in sequential constant; do
    for count in "${counts[@]}"; do
        metaservers "$count" --search "$order"
        # Made at the last, looked for at one that is not the root's home, where there is one.
        seeker=$((count > 2 ? 2 : 1))
        ms=$(in_host client "$bench" names miss "10.9.0.$count:2049" "10.9.0.$seeker:2049")
        echo "miss $order $count $ms"
    done
done
for mode in lazy strict; do
    for count in 1 2 4; do
        if [[ $mode = strict ]]; then metaservers "$count" --strict; else metaservers "$count"; fi
        addresses=()
        for n in $(seq "$count"); do addresses+=("10.9.0.$n:2049"); done
        before=$(processor_ticks)
        rate=$(in_host client "$bench" names creates "${addresses[@]}")
        ticks=$(($(processor_ticks) - before))
        echo "creates $mode $count $rate $(awk "BEGIN { print $ticks / $(getconf CLK_TCK) }")"
        took=$(build "$count")
        echo "build $mode $count $took"
    done
done
metaservers 2
echo "staleness $(in_host client "$bench" names staleness 10.9.0.1:2049 10.9.0.2:2049)"
