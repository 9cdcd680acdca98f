#!/bin/bash
# Metaservers in network namespaces, each with a link of 100 Mbit/s to one switch, and one iod: what a
# name costs that another metaserver made, how many files are made in a second, and how old a time is
# that was set at another.
#
#   bash metaservers.sh LEASEHOLD BENCH [PARTS...]
#
# PARTS are `miss`, `creates`, `build` and `staleness`; all of them unless some are named. BENCH is
# leasehold-bench, which makes and looks names up. `COUNTS="2 16"` in the environment says among how
# many metaservers names are looked for. Needs root, and a kernel with namespaces, bridge, veth and tbf.
# Prints a line for each measurement:
# - `miss ORDER METASERVERS MS`
# - `creates lazy|strict METASERVERS MADE:CPU_SECONDS...`, for each metaserver the files that were made
#   there and the processor time it took meanwhile
# - `build local 0 SECONDS` and `build lazy|strict METASERVERS SECONDS UNLIKE OBJECTS`, a program that as
#   many clients compile together, each at a metaserver of its own, and how many of the object files
#   were not as the local ones, each looked at by each client
# - `staleness SECONDS`
set -euo pipefail
leasehold=$(realpath "$1") bench=$(realpath "$2")
shift 2
parts=("$@")
((${#parts[@]})) || parts=(miss creates build staleness)
read -ra counts <<<"${COUNTS-2 4 8 16}"
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

# The processor time of each metaserver so far, in ticks.
processor_ticks() {
    local pid
    for pid in $(cat "$folder/pids-metas"); do
        # What is behind the name in brackets: the 12th and 13th are the program's and the kernel's.
        sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }'
    done
}

# Starts so many metaservers, lazy or strict.
metaservers_in() {
    if [[ $1 = strict ]]; then metaservers "$2" --strict; else metaservers "$2"; fi
}

# Has as many clients build a program as there are metaservers; says how many seconds it took, and
# how many object files are not as they should be, of how many.
build() {
    local count=$1 n builder building=() builders=()
    rm -f "$folder"/build-*
    for n in $(seq "$count"); do
        # Without a shell between, so that its number is the builder's, which ends its mount.
        ip netns exec "${prefix}builder$n" bash "$here/build.sh" client "$leasehold" "10.9.0.$n" \
            "$folder" "$n" "$count" >"$folder/build-took-$n" 2>>"$folder/log" &
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
    for n in $(seq "$count"); do builders+=("$folder/build-took-$n"); done
    awk 'NR == 1 { took = $1 } { unlike += $2; all += $3 } END { print took, unlike, all }' \
        "${builders[@]}"
}

for n in $(seq $most); do host "meta$n" "$n"; done
for n in {1..4}; do host "builder$n" $((110 + n)); done
host iod 100
host client 101

misses() {
    local order count seeker ms
    for order in sequential nearest tree constant; do
        for count in "${counts[@]}"; do
            metaservers "$count" --search "$order"
            # Made at the last, looked for at one that is not the root's home, where there is one.
            seeker=$((count > 2 ? 2 : 1))
            ms=$(in_host client "$bench" names miss "10.9.0.$count:2049" "10.9.0.$seeker:2049")
            echo "miss $order $count $ms"
        done
    done
}

creates() {
    local mode count n made before after words addresses a_second
    a_second=$(getconf CLK_TCK)
    for mode in lazy strict; do
        for count in 1 2 4; do
            metaservers_in "$mode" "$count"
            addresses=() words=()
            for n in $(seq "$count"); do addresses+=("10.9.0.$n:2049"); done
            mapfile -t before < <(processor_ticks)
            made=$(in_host client "$bench" names creates "${addresses[@]}")
            mapfile -t after < <(processor_ticks)
            read -ra made <<<"$made"
            for n in $(seq 0 $((count - 1))); do
                words+=("${made[n]}:$(awk "BEGIN { print (${after[n]} - ${before[n]}) / $a_second }")")
            done
            echo "creates $mode $count ${words[*]}"
        done
    done
}

builds() {
    local mode count took
    took=$(bash "$here/build.sh" tree "$folder")
    echo "build local 0 $took"
    for mode in lazy strict; do
        for count in 1 2 4; do
            metaservers_in "$mode" "$count"
            took=$(build "$count")
            echo "build $mode $count $took"
        done
    done
}

staleness() {
    local old
    metaservers 2
    old=$(in_host client "$bench" names staleness 10.9.0.1:2049 10.9.0.2:2049)
    echo "staleness $old"
}

for part in "${parts[@]}"; do
    case $part in
    miss) misses ;;
    creates) creates ;;
    build) builds ;;
    staleness) staleness ;;
    *) echo "metaservers.sh: there is no part $part" >&2 && exit 2 ;;
    esac
done
