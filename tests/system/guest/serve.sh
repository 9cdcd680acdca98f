# Serves a folder of the guest's disk and runs the requests of the host, lines of shell in
# `command`, until the guest ends. The settings contain the mount options of the disk and the
# options of the server; if they name I/O daemons, the server is their metaserver, and each has a
# disk of its own.
cluster_key=/disk/state/cluster.key
iod_jobs=() iod_pids=()

# Starts the server and waits until it accepts mounts.
start_server() {
    local ready n words=(serve /disk/export)
    if ((iods > 0)); then
        words=(meta /disk/export --cluster-key "$cluster_key")
        for ((n = 0; n < iods; n++)); do words+=(--iod "$guest_address:$((port + 1 + n))"); done
    fi
    # shellcheck disable=SC2086 # Both are several words.
    $wrapper "$server" "${words[@]}" --state /disk/state --listen "$guest_address:$port" \
        --insecure --json --log warn $server_options >/run/ready &
    server_job=$!
    read -r ready </run/ready || return
    ready=${ready##*\"pid\":}
    server_pid=${ready%%[!0-9]*}
}

# Ends the server: by force (KILL) or with time to clean up (TERM).
end_server() {
    kill "-$1" "$server_pid"
    wait "$server_job" || true
}

# Starts an I/O daemon by its number, from 0, and waits until it serves.
start_iod() {
    local ready
    # shellcheck disable=SC2086 # It is several words.
    $wrapper "$server" iod "/iods/$1/data" --state "/iods/$1/state" --cluster-key "$cluster_key" \
        --listen "$guest_address:$((port + 1 + $1))" --json --log warn >"/run/ready$1" &
    iod_jobs[$1]=$!
    read -r ready <"/run/ready$1" || return
    ready=${ready##*\"pid\":}
    iod_pids[$1]=${ready%%[!0-9]*}
}

# Inserts a device layer below a file system that can be switched to fail: NAME DISK
lay_layer() {
    local sectors
    sectors=$("$busybox" blockdev --getsz "$2")
    dmsetup create --noudevsync "$1" --table "0 $sectors linear $2 0"
}

# From now on every request to a disk fails (`error`), or none fails (`linear DISK 0`): NAME DISK
# STATE
turn_layer_to() {
    local sectors
    sectors=$("$busybox" blockdev --getsz "$2") || return
    dmsetup suspend --noudevsync --nolockfs --noflush "$1" || return
    dmsetup load "$1" --table "0 $sectors $3" || return
    dmsetup resume --noudevsync "$1"
}

# Switches the layer of the server's disk.
turn_disk_to() {
    turn_layer_to below /dev/ubda "$1"
}

# Prints the disk of an I/O daemon.
disk_of_iod() {
    local letters=bcdefgh
    echo "/dev/ubd${letters:$1:1}"
}

# Mounts the disk of an I/O daemon; its layer has the number after the server's layer, in order.
mount_iod() {
    local layer=/dev/dm-$(($1 + 1))
    ((repairs == 0)) || e2fsck -fy "$layer" || (($? == 1)) || return
    "$busybox" mount -t "$disk_type" -o "$disk_options" "$layer" "/iods/$1"
}

# Cuts the power of these I/O daemons during their work: unsynced data is lost, because their file
# systems cannot write any more, and their memory is lost.
cut_iods() {
    local n
    for n; do kill -KILL "${iod_pids[$n]}" || return; done
    for n; do
        wait "${iod_jobs[$n]}" || true
        turn_layer_to "iod$n" "$(disk_of_iod "$n")" error || return
        "$busybox" umount "/iods/$n" || return
    done
}

# Restores the power of these I/O daemons.
boot_iods() {
    local n disk
    for n; do
        disk=$(disk_of_iod "$n")
        turn_layer_to "iod$n" "$disk" "linear $disk 0" || return
        mount_iod "$n" || return
        start_iod "$n" || return
    done
}

mount_disk() {
    "$busybox" mount -t "$disk_type" -o "$disk_options" "$device" /disk
}

# Returns the output and the status of a request.
answer() {
    echo "$1" >>/exchange/answer.new
    mv /exchange/answer.new /exchange/answer
}

mkdir -p /disk
mkfifo /run/ready /run/never
exec 9<>/run/never
modprobe dm-mod
lay_layer below /dev/ubda
device=/dev/dm-0
eval "$before_mount"
mount_disk
# shellcheck disable=SC2086 # They are several.
mkdir -p /disk/export /disk/state $directories
# shellcheck disable=SC2086
chown "$user" /disk/export /disk/state $directories
if ((user != 0)); then
    # The directories that this user may access.
    cp "$server" /run/server
    server=/run/server
fi
for ((n = 0; n < iods; n++)); do
    mkfifo "/run/ready$n"
    mkdir -p "/iods/$n"
    lay_layer "iod$n" "$(disk_of_iod "$n")"
    mount_iod "$n"
    mkdir -p "/iods/$n/data" "/iods/$n/state"
    chown "$user" "/iods/$n/data" "/iods/$n/state"
    start_iod "$n"
done
start_server
answer 0
while true; do
    if [[ -e /exchange/command ]]; then
        status=0
        . /exchange/command >/exchange/answer.new 2>&1 || status=$?
        rm /exchange/command
        answer "$status"
    fi
    # A pause that starts no process.
    read -r -t 0.005 -u 9 || true
done
