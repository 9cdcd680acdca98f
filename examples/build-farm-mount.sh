#!/bin/sh
# Mounts sources and results of `build-farm.toml` on a worker, with caches under leases.
#
#     SERVER=192.0.2.10 sh build-farm-mount.sh            mounts at /build/sources and /build/results
#     SERVER=192.0.2.10 sh build-farm-mount.sh --fake     checks the options, and mounts nothing
set -eu

server=${SERVER:-192.0.2.10}
dir=${DIR:-/build}
mkdir -p "$dir/sources" "$dir/results"

# Sources: a large cache, and read-ahead for the first build. Nothing is written.
leasehold mount "$@" --read-only -o cache=lease,buffer=2G,readahead=8M,nconnect=2 \
    "$server:/sources" "$dir/sources"

# Results: up to 512 MiB stay in the cache before the server has them, for 30 seconds at most.
# `fsync` still waits until data is stable; data that the server rejects goes to the rescue folder.
leasehold mount "$@" -o cache=lease,buffer=1G,unsaved=512M,writedelay=30,nconnect=2 \
    "$server:/results" "$dir/results"
