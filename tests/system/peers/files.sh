#!/bin/bash
# User operations on a server's files without a mount: runs in the tester's place in peer.sh, which
# passes the server's address as the second argument, and a command that restarts the server as the
# last. LEASEHOLD names the program, RIG the program for the load; RESTARTS is the number of times
# that the server is killed under it.
set -eu
target=${2%/} restart=${*: -1} here=$(mktemp -d -p "$(dirname "$0")")

mkdir -p "$here/tree/folder/empty folder"
head -c 20000000 /dev/urandom >"$here/tree/large"
: >"$here/tree/folder/empty"
for number in $(seq 100); do echo "$number" >"$here/tree/folder/file $number"; done

"$LEASEHOLD" cp -r "$here/tree" "$target/tree"
"$LEASEHOLD" cp -r "$target/tree" "$here/back"
diff -r "$here/tree" "$here/back"
[ "$("$LEASEHOLD" ls "$target/tree")" = $'folder\nlarge' ]
[ "$("$LEASEHOLD" ls "$target/tree/folder" | wc -l)" = 102 ]
"$LEASEHOLD" cat "$target/tree/large" | cmp - "$here/tree/large"
[ "$("$LEASEHOLD" cat "$target/tree/folder/file%207")" = 7 ]
"$LEASEHOLD" stat --json "$target/tree/large" | grep -q '"type":"file".*"size":20000000,'
# An existing file is overwritten, and becomes no longer than its source.
"$LEASEHOLD" cp "$here/tree/folder/file 7" "$target/tree/large"
[ "$("$LEASEHOLD" cat "$target/tree/large")" = 7 ]
if "$LEASEHOLD" cat "$target/tree/none" 2>"$here/complaint"; then exit 1; fi
grep -q 'no such file or directory' "$here/complaint"

# Programs that record each byte they write, through the caching client.
place=${target#nfs://}/ options=()
host=${place%%/*} path=/${place#*/}
if [ "$host" != "${host%:*}" ]; then options+=(--port "${host#*:}"); fi
if [ "$RESTARTS" != 0 ]; then
    options+=(--restart-command "$restart" --restarts "$RESTARTS")
fi
"$RIG" load "${host%:*}" "${path%/}" "${options[@]}"
