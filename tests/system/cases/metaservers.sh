# Two metaservers of one file system are mounted: changes at one are visible at the other, within
# the lazy windows, and immediately if all are strict. The options disable the kernel's cache of
# names and attributes.

# Two windows of a second, and a reserve for each query.
BOUND_MS=3000

now_ms() {
    local now=$EPOCHREALTIME
    echo "$((${now/[.,]/} / 1000))"
}

# Waits until a command succeeds; an attempt that begins within the bound must succeed. The duration
# of the command does not count, because the machine may be slow.
soon() {
    local from asked
    from=$(now_ms)
    while true; do
        asked=$(now_ms)
        if "$@"; then return; fi
        ((asked - from < bound_ms)) || fail "not so after $((asked - from)) ms: $*"
        sleep 0.02
    done
}

is_gone() { ! stat "$1" >/dev/null 2>&1; }
is_link_to() { [[ $(readlink "$1") == "$2" ]]; }
has_mode() { [[ $(stat -c %a "$1") == "$2" ]]; }
has_names() { [[ $(cd "$1" && echo *) == "$2" ]]; }

# Makes all changes at one, and checks them at the other.
change_at() {
    local one=$1 other=$2
    cp /run/content "$one/file"
    soon cmp -s /run/content "$other/file"
    same "$(stat -c %i "$one/file")" "$(stat -c %i "$other/file")" "one file has two numbers"
    mkdir "$one/folder"
    soon test -d "$other/folder"
    # The other renames a file that this one has made.
    mv "$other/file" "$other/folder/moved"
    soon is_gone "$one/file"
    soon cmp -s /run/content "$one/folder/moved"
    soon has_names "$one/folder" moved
    echo "a line at the end" >>"$other/folder/moved"
    { cat /run/content; echo "a line at the end"; } >/run/longer
    soon cmp -s /run/longer "$one/folder/moved"
    chmod 640 "$one/folder/moved"
    soon has_mode "$other/folder/moved" 640
    ln "$one/folder/moved" "$one/further"
    soon cmp -s /run/longer "$other/further"
    ln -s somewhere "$other/link"
    soon is_link_to "$one/link" somewhere
    rm "$one/folder/moved" "$one/link"
    soon is_gone "$other/folder/moved"
    soon is_gone "$other/link"
    soon cmp -s /run/longer "$other/further"
    truncate -s 5 "$other/further"
    head -c 5 /run/content >/run/short
    soon cmp -s /run/short "$one/further"
    rm "$other/further"
    soon is_gone "$one/further"
    soon has_names "$other/folder" '*'
    rmdir "$other/folder"
    soon is_gone "$one/folder"
}

# Of two creates of one name, one succeeds.
make_at_both() {
    local n here there made
    for n in {1..8}; do
        (set -C && echo here >"$1/name$n") 2>/dev/null &
        here=$!
        (set -C && echo there >"$2/name$n") 2>/dev/null &
        there=$!
        made=0
        if wait "$here"; then made=$((made + 1)); fi
        if wait "$there"; then made=$((made + 1)); fi
        same "$made" 1 "so many have made name$n"
    done
    rm "$1"/name*
}

check() {
    bound_ms=$1
    local first=$2 second=$3 there=/run/there
    mount_options=${any_options//PORT/$first}
    remount
    mkdir -p "$there"
    "$busybox" mount -t nfs -o "${any_options//PORT/$second}" "$mount_source" "$there"
    change_at /mnt "$there"
    change_at "$there" /mnt
    make_at_both /mnt "$there"
    "$busybox" umount "$there"
}

head -c 3M /dev/urandom >/run/content
any_options=${mount_options//=${lazy% *},/=PORT,},actimeo=0,lookupcache=none
check "$BOUND_MS" $lazy
check 0 $strict
