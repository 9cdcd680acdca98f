# Serves a folder of the guest's disk and does what the machine outside asks for, line by line of
# shell in `command`, until the guest ends. The settings say how the disk is mounted and how the
# server is run.

# Starts the server and waits until it can be mounted.
start_server() {
    local ready
    # shellcheck disable=SC2086 # Both are several words.
    $wrapper "$server" serve /disk/export --state /disk/state --listen "$guest_address:$port" \
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

# Puts a layer below the file system that can be told to fail.
lay_device() {
    modprobe dm-mod
    sectors=$("$busybox" blockdev --getsz /dev/ubda)
    dmsetup create --noudevsync below --table "0 $sectors linear /dev/ubda 0"
    device=/dev/dm-0
}

# From now on every request to the disk fails (`error`), or none does (`linear /dev/ubda 0`).
turn_disk_to() {
    dmsetup suspend --noudevsync --nolockfs --noflush below
    dmsetup load below --table "0 $sectors $1"
    dmsetup resume --noudevsync below
}

mount_disk() {
    "$busybox" mount -t "$disk_type" -o "$disk_options" "$device" /disk
}

# Hands over what was asked for and how it ended.
answer() {
    echo "$1" >>/exchange/answer.new
    mv /exchange/answer.new /exchange/answer
}

mkdir -p /disk
mkfifo /run/ready /run/never
exec 9<>/run/never
lay_device
eval "$before_mount"
mount_disk
# shellcheck disable=SC2086 # They are several.
mkdir -p /disk/export /disk/state $directories
# shellcheck disable=SC2086
chown "$user" /disk/export /disk/state $directories
if ((user != 0)); then
    # Where that user may go.
    cp "$server" /run/server
    server=/run/server
fi
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
