# Runs the tester against the kernel's own server: this guest serves a folder of its disk to itself.
# The settings name the tester and its options; the report is written to the folder that is shared
# with the machine.

# Starts the server's threads; with version 2 if this kernel supports it.
start_threads() {
    rpc.nfsd --udp --no-nfs-version 4 8
}

# Stops and starts the threads, which restarts that server.
restart_threads() {
    rpc.nfsd 0
    start_threads
}

if [[ ${1-} == --again ]]; then
    restart_threads
    exit
fi

# Disconnects the guest from the network.
"$busybox" ip link set vec0 down
"$busybox" ip addr add 127.0.0.1/8 dev lo
mkdir -p /disk
"$busybox" mount -t ext4 -o noatime /dev/ubda /disk
mkdir -p /disk/export /var/lib/nfs /run/rpcbind
: >/var/lib/nfs/etab
: >/var/lib/nfs/rmtab
# Use the groups that callers send.
: >/etc/nfs.conf
modprobe nfsd
"$busybox" mount -t nfsd nfsd /proc/fs/nfsd
rpcbind -w
exportfs -i -o rw,sync,no_root_squash,no_subtree_check,insecure '*:/disk/export'
start_threads
rpc.mountd
cp /exchange/case.sh /run/again.sh
echo "kernel $("$busybox" uname -r)" >/exchange/report
status=0
# shellcheck disable=SC2086 # These are several words.
"$tester" conform nfs://127.0.0.1/disk/export --back-dir /disk/export \
    --restart-command 'bash /run/again.sh --again' $tester_options >>/exchange/report || status=$?
ask "to read the report"
while is_asking; do sleep 0.05; done
exit "$status"
