# Functions for cases. A case runs with `-euo pipefail` in the root of the mount, as root; the first
# failing command ends it.

mount_server() {
    "$busybox" mount -t nfs -o "$mount_options" "$mount_source" /mnt
}

# Ends the case as failed.
fail() {
    echo "FAILED: $*"
    exit 1
}

# Fails unless two words are equal.
same() {
    [[ $1 == "$2" ]] || fail "${3-these differ}: '$1' and '$2'"
}

# Fails if a command succeeds; what it complains about is shown.
refuse() {
    if "$@"; then fail "not refused: $*"; fi
}

# Remounts, so that this kernel's caches are empty.
remount() {
    local here=$PWD
    cd /
    "$busybox" umount /mnt
    mount_server
    cd "$here"
}

# Sends a request to the host; `is_asking` is true until the host has served it.
ask() {
    echo "$1" >/exchange/request.new
    mv /exchange/request.new /exchange/request
}

is_asking() {
    [[ -e /exchange/request ]]
}

# Requests a restart of the server, with the same port and folder.
restart_server() {
    ask restart
    while is_asking; do sleep 0.05; done
}

# Runs a command as an ordinary user: as_user ID COMMAND...
as_user() {
    local id=$1
    shift
    setpriv --reuid "$id" --regid "$id" --clear-groups "$@"
}

# Lists the names in a folder, without . and .., one per line.
names() {
    find "${1-.}" -mindepth 1 -maxdepth 1 -printf '%f\n'
}
