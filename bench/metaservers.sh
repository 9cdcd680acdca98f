#!/bin/bash
# Metaservers in network namespaces, each with a link of 100 Mbit/s to one switch, and one iod: the
# cost of a lookup of a name that another metaserver made, the rate of file creation, and the
# staleness of a time that was set at another metaserver.
#
#   bash metaservers.sh LEASEHOLD BENCH [PARTS...]
#
# PARTS are `miss`, `creates`, `build` and `staleness`, by default all. BENCH is leasehold-bench,
# which creates and looks up names. `COUNTS="2 16"` in the environment lists the numbers of
# metaservers for lookups. Needs root, and a kernel with namespaces, bridge, veth and tbf.
# Prints a line for each measurement:
# - `miss ORDER METASERVERS MS`
# - `creates lazy
# strict METASERVERS MADE:CPU_SECONDS...`, for each metaserver the number of created files and its
# processor time
# - `build local 0 SECONDS` and `build lazy
# strict METASERVERS SECONDS UNLIKE OBJECTS`, a program that one client for each metaserver compiles
# with the others, and the number of object files that differ from the local ones, with each file
# compared by each client
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

# Starts metaservers over new names and stripes, with additional options.
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
        # The first one creates the volume.
        ((n > 1)) || ready meta1
    done
    for n in $(seq "$count"); do ready "meta$n"; done
}

# Prints the processor time of each metaserver so far, in ticks.
processor_ticks() {
    local pid
    for pid in $(cat "$folder/pids-metas"); do
        # The fields after the name in parentheses: the 12th and 13th are user and system time.
        sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }'
    done
}

# Starts metaservers, lazy or strict.
metaservers_in() {
    if [[ $1 = strict ]]; then metaservers "$2" --strict; else metaservers "$2"; fi
}

# Builds a program with one client for each metaserver; prints the seconds, the number of object
# files that differ, and their total.
build() {
    local count=$1 n builder building=() builders=()
    rm -f "$folder"/build-*
    for n in $(seq "$count"); do
        # Without a shell in between, so that the process id is the builder's, which ends its mount.
        ip netns exec "${prefix}builder$n" bash "$here/build.sh" client "$leasehold" "10.9.0.$n" \
            "$folder" "$n" "$count" >"$folder/build-took-$n" 2>>"$folder/log" &
        building+=($!)
        echo $! >>"$folder/pids-builders"
        # Later clients find the tree.
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
            # Created at the last one, looked up at one that is not the root's home, if possible.
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
