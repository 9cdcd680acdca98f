#!/bin/bash
# File operations of programs on a mount, the same on the local disk, and a comparison through
# another mount: runs in the tester's place in peer.sh, which passes the server's address as the
# second argument. LEASEHOLD names the program; LASTING is "no" if a handle is valid only until its
# file is renamed.
set -eu
place=${2#nfs://}
place=${place%/}/ here=$(mktemp -d -p "$(dirname "$0")")
host=${place%%/*} path=/${place#*/}
path=${path%/}
source=$host:${path:-/}
mkdir "$here/one" "$here/two" "$here/local"

# Waits for an effect that follows soon, such as the removal of a closed file.
soon() {
    for _ in $(seq 600); do
        if "$@"; then return; fi
        sleep 0.1
    done
    echo "never: $*" >&2
    exit 1
}

end() { soon "$LEASEHOLD" umount "$1"; }

nothing_aside() { [ -z "$(find "$1" -name '.nfs*')" ]; }

use() {
    mkdir -p "$1/folder/empty folder"
    for number in $(seq 100); do echo "$number" >"$1/folder/file $number"; done
    [ "$(ls "$1/folder" | wc -l)" = 101 ]
    cp "$here/bytes" "$1/large"
    cmp "$here/bytes" "$1/large"
    # In the middle, beyond the end, and shorter.
    head -c 100001 "$here/bytes" | dd of="$1/large" bs=4097 seek=9 conv=notrunc status=none
    echo end >>"$1/large"
    cp "$1/large" "$1/short"
    truncate -s 70001 "$1/short"
    mv "$1/folder/file 7" "$1/moved"
    [ ! -e "$1/folder/file 7" ]
    mv "$1/folder/file 8" "$1/moved"
    [ "$(cat "$1/moved")" = 8 ]
    mv "$1/folder/empty folder" "$1/full"
    mv "$1/moved" "$1/full/moved"
    if rmdir "$1/full" 2>"$here/complaint"; then exit 1; fi
    # Open, and removed or replaced by a rename.
    echo first >"$1/open"
    exec 5>>"$1/open" 6<"$1/open"
    rm "$1/open"
    [ ! -e "$1/open" ]
    if [ "$LASTING" != no ]; then
        echo second >&5
        [ "$(cat <&6)" = $'first\nsecond' ]
    fi
    exec 5>&- 6<&-
    echo old >"$1/name"
    echo new >"$1/other"
    exec 5<"$1/name"
    mv "$1/other" "$1/name"
    if [ "$LASTING" != no ]; then [ "$(cat <&5)" = old ]; fi
    [ "$(cat "$1/name")" = new ]
    exec 5<&-
    soon nothing_aside "$1"
}

head -c 5000001 /dev/urandom >"$here/bytes"
use "$here/local"
for options in "" cache=close-to-open cache=none; do
    said=$("$LEASEHOLD" mount "$source" "$here/one" --log info ${options:+-o "$options"} 2>&1)
    if [ -z "$options" ]; then
        # Features that are not requested by name depend on the server.
        case $said in *"grants no leases here: this mount is close-to-open"*) ;; *) exit 1 ;; esac
        "$LEASEHOLD" status --mount "$here/one" | grep -q "cache close-to-open"
    fi
    mkdir "$here/one/run"
    use "$here/one/run"
    diff -r "$here/local" "$here/one/run"
    end "$here/one"
    "$LEASEHOLD" mount "$source" "$here/two" ${options:+-o "$options"}
    diff -r "$here/local" "$here/two/run"
    rm -r "$here/two/run"
    [ ! -e "$here/two/run" ]
    end "$here/two"
done
