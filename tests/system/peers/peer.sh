#!/bin/bash
# Runs the tester against a server in separate namespaces: ports, mounts and processes belong to
# this script alone, and end with it.
#
#   unshare --net --mount --pid --fork --kill-child --mount-proc \
#       bash peer.sh SERVER FOLDER LEASEHOLD OPTIONS...
#
# FOLDER is empty and receives the export and all other files. The tester receives the server's
# address, its directory and the command that restarts it; OPTIONS are additional options for the
# tester.
set -eu
server=$1 folder=$2 leasehold=$3
shift 3
export=$folder/export

# The common options of the metaservers of one file system. The metaserver under test listens on
# port 2049.
group=(--name /export --cluster-key "$folder/key" --log warn --stripe-unit 4
    --iod 127.0.0.1:2101 --iod 127.0.0.1:2102
    --peer 127.0.0.1:2110 --peer 127.0.0.1:2049)
if [ "$server" = ours-strict ]; then group+=(--peer 127.0.0.1:2111 --strict); fi

# The prefix that runs a program as the user of server and tester.
as_user=()
if [ "$server" = ours-as-user ] && [ "$(id -u)" = 0 ]; then
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi

# Succeeds if a server accepts connections at a port.
listens() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

await() {
    for _ in $(seq 1200); do
        if listens "$1"; then return; fi
        sleep 0.1
    done
    echo "$server does not listen on port $1:" >&2
    tail "$folder/log" >&2
    exit 3
}

# Starts a program in the background, in place of the previous one.
launch() {
    if [ -e "$folder/pid" ]; then
        kill -9 "$(cat "$folder/pid")" 2>/dev/null || true
        # A killed server keeps its ports until its last thread has ended.
        while listens 2049; do sleep 0.02; done
        rm "$folder/pid"
    fi
    "${as_user[@]}" setsid "$@" >>"$folder/log" 2>&1 </dev/null &
    disown
    echo $! >"$folder/pid"
}

start() {
    case $server in
    ours | ours-as-user)
        launch "$leasehold" serve "$export" --name /export --listen 127.0.0.1:2049 \
            --state "$folder/state" --log warn
        ;;
    ours-striped)
        launch "$leasehold" serve "$export" --name /export --listen 127.0.0.1:2049 \
            --state "$folder/state" --log warn --stripe "$folder/one" --stripe "$folder/two" \
            --stripe-unit 4 --stripe-inline 1
        ;;
    ours-over-iods)
        launch "$leasehold" meta "$export" --name /export --listen 127.0.0.1:2049 \
            --state "$folder/state" --log warn --cluster-key "$folder/key" \
            --iod 127.0.0.1:2101 --iod 127.0.0.1:2102 \
            --iod "nfs://127.0.0.1:2103$folder/three" --stripe-unit 4 --stripe-inline 1
        ;;
    ours-among-others | ours-strict)
        launch "$leasehold" meta "$folder/names1" --number 1 "${group[@]}" \
            --listen 127.0.0.1:2049 --state "$folder/state"
        ;;
    ganesha)
        launch ganesha.nfsd -F -N CRIT -f "$folder/ganesha.conf" -L "$folder/log" \
            -p "$folder/ganesha.pid"
        await 20048
        ;;
    rclone)
        launch rclone serve nfs "$export" --addr 127.0.0.1:2049 --vfs-cache-mode full \
            --cache-dir "$folder/state" \
            --config /dev/null --log-level ERROR
        ;;
    go-nfs) launch osnfs "$export" 2049 ;;
    nfs3_server)
        launch cargo-nfs3-server --path "$export" --bind-ip 127.0.0.1 --bind-port 2049 \
            --log-level error
        ;;
    zerofs) launch env HOME="$folder" zerofs run --config "$folder/zerofs.toml" ;;
    *)
        echo "there is no server $server" >&2
        exit 2
        ;;
    esac
    await 2049
}

# Writes a configuration of nfs-ganesha: a port, and the exported directory.
ganesha_conf() {
    cat >"$folder/ganesha.conf" <<EOF
NFS_CORE_PARAM {
    NFS_Port = $1; MNT_Port = 20048; Protocols = 3; Enable_NLM = false; Enable_RQUOTA = false;
}
EXPORT {
    Export_Id = 1; Path = $2; Pseudo = $2; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Protocols = 3; Transports = TCP, UDP; FSAL { Name = VFS; }
}
EOF
    mkdir -p /run/rpcbind
    rpcbind -w
    await 111
}

# Starts two I/O daemons of this project.
start_iods() {
    mkdir "$folder/one" "$folder/two"
    for iod in 2101:one 2102:two; do
        setsid "$leasehold" iod "$folder/${iod#*:}" --listen "127.0.0.1:${iod%:*}" --log warn \
            --cluster-key "$folder/key" --state "$folder/state-${iod#*:}" \
            >>"$folder/log" 2>&1 </dev/null &
        disown
        await "${iod%:*}"
    done
}

# Starts a server of another project as a third I/O daemon.
start_foreign_iod() {
    mkdir "$folder/three"
    ganesha_conf 2103 "$folder/three"
    setsid ganesha.nfsd -F -N CRIT -f "$folder/ganesha.conf" -L "$folder/log" \
        -p "$folder/ganesha.pid" >>"$folder/log" 2>&1 </dev/null &
    disown
    await 2103
    await 20048
}

# Starts a metaserver of several that is not under test.
start_other() {
    mkdir "$folder/names$1"
    setsid "$leasehold" meta "$folder/names$1" --number "$1" "${group[@]}" --listen "127.0.0.1:$2" \
        --state "$folder/state-names$1" >>"$folder/log" 2>&1 </dev/null &
    disown
    await "$2"
}

# Starts the environment that servers need, and prints the address of the server under test.
prepare() {
    ip link set lo up
    mount -t tmpfs tmpfs /run
    mkdir -p "$export" "$folder/state"
    # Existing files stay unchanged.
    if [ "$server" = ours-striped ]; then
        mkdir "$folder/one" "$folder/two"
        # The directory does not contain the files as clients see them.
        back=()
    elif [[ $server =~ ^ours-(over-iods|among-others|strict)$ ]]; then
        back=()
    else
        mkdir "$export/kept"
        echo kept >"$export/kept/file"
        back=(--back-dir "$export")
    fi
    # An ordinary user may have no access to the source tree.
    cp "$leasehold" "$folder/leasehold"
    cp "$0" "$folder/peer.sh"
    leasehold=$folder/leasehold
    chmod 777 "$folder" "$export"
    # A server rejects a state directory that another user could have written.
    if [ ${#as_user[@]} -gt 0 ]; then chown 65534:65534 "$folder/state"; fi
    : >"$folder/log"
    chmod 666 "$folder/log"
    also=()
    case $server in
    ours-over-iods)
        start_iods
        start_foreign_iod
        target=nfs://127.0.0.1:2049/export
        ;;
    ours-among-others | ours-strict)
        start_iods
        mkdir "$folder/names1"
        start_other 0 2110
        target=nfs://127.0.0.1:2049/export
        if [ "$server" = ours-strict ]; then
            start_other 2 2111
            also=(--also 127.0.0.1:2111)
        fi
        ;;
    ours | ours-as-user | ours-striped) target=nfs://127.0.0.1:2049/export ;;
    ganesha)
        ganesha_conf 2049 "$export"
        target=nfs://127.0.0.1$export
        ;;
    zerofs)
        # The server stores blocks of its own in a directory, so there are no files to compare.
        cat >"$folder/zerofs.toml" <<EOF
[cache]
dir = "$folder/state"
disk_size_gb = 1.0
memory_size_gb = 0.25
[storage]
url = "file://$export"
encryption_password = "for tests"
[servers.nfs]
addresses = ["127.0.0.1:2049"]
EOF
        back=()
        target=nfs://127.0.0.1:2049/
        ;;
    *) target=nfs://127.0.0.1:2049/ ;;
    esac
}

# The state that a run must leave unchanged: names, kinds, modes, owners, times and contents.
print() {
    (cd "$export" && find . -mindepth 1 -printf '%p %y %m %U %G %T@ %l\n' -type f -exec cat {} + | sort)
}

if [ "${1-}" = --again ]; then
    start
    exit
fi
prepare
start
before=$(print)
status=0
"${as_user[@]}" "$leasehold" conform "$target" "${back[@]}" "${also[@]}" \
    --restart-command "bash $folder/peer.sh $server $folder $leasehold --again" "$@" || status=$?
case $server in
ours*) ;;
*) exit $status ;;
esac
if [ "$before" != "$(print)" ]; then
    echo "the export is not as it was found:" >&2
    print >&2
    exit 4
fi
exit $status
