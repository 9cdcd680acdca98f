#!/bin/bash
# The first process of a guest. Its root is the machine's own file system, read-only; it mounts an
# overlay in memory, mounts the server at /mnt if the settings name one, runs the case there, and
# switches the guest off.
#
# The kernel passes its command line as variables: guest_parts, the folder from fetch.sh; guest_run,
# this run's folder, which the guest sees as /exchange and may write to.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
busybox=$guest_parts/busybox

enter_overlay() {
    local version
    "$busybox" mount -t proc proc /proc
    version=$("$busybox" uname -r)
    "$busybox" insmod "$guest_parts/usr/lib/uml/modules/$version/kernel/fs/overlayfs/overlay.ko"
    "$busybox" mount -t tmpfs -o mode=755 tmpfs /mnt
    "$busybox" mkdir /mnt/upper /mnt/work /mnt/root
    "$busybox" mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
    cd /mnt/root
    "$busybox" mount -o move /dev dev
    "$busybox" mount -t proc proc proc
    "$busybox" mount -t sysfs sysfs sys
    "$busybox" mount -t tmpfs -o mode=755 tmpfs run
    "$busybox" mkdir -p run/lock run/old dev/shm exchange mnt usr/lib/modules
    "$busybox" mount -t tmpfs -o mode=1777 tmpfs dev/shm
    "$busybox" ln -sfn /proc/self/fd dev/fd
    # The paths at which the kernel looks for the module loader, and the loader for modules.
    "$busybox" ln -sfn "$guest_parts/usr/lib/uml/modules/$version" "usr/lib/modules/$version"
    "$busybox" cp "$busybox" run/busybox
    [[ -e sbin/modprobe ]] || "$busybox" ln -s /run/busybox sbin/modprobe
    "$busybox" mount -t hostfs -o "$guest_run/exchange" none exchange
    "$busybox" cp exchange/init.sh run/init.sh
    "$busybox" pivot_root . run/old
    exec "$busybox" chroot . /bin/bash /run/init.sh
}

# Routes the machine's loopback addresses over the tap device, including 127.0.0.1.
join_network() {
    echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet
    "$busybox" ip link set lo up
    "$busybox" ip addr del 127.0.0.1/8 dev lo
    "$busybox" ip link set vec0 up
    "$busybox" ip addr add "$guest_address/8" dev vec0
}

run_case() {
    cd /
    [[ -z ${mount_source-} ]] || mount_server || return 32
    /bin/bash -euo pipefail -c '. /exchange/prelude.sh; cd /mnt; . /exchange/case.sh'
}

main() {
    local status=0
    "$busybox" umount -l /run/old
    # Keeps the line ends of the case.
    stty -F /dev/console -opost
    exec </dev/null >/dev/console 2>&1
    join_network
    set -a
    . /exchange/settings
    set +a
    . /exchange/prelude.sh
    run_case || status=$?
    echo "$status" >/exchange/status
    cd /
    "$busybox" umount /exchange
    # Unmounts the server; by force if a process is left or the server has ended.
    timeout 10 "$busybox" umount /mnt 2>/dev/null || "$busybox" umount -f -l /mnt 2>/dev/null
    # Waits until the machine has received all output.
    stty -F /dev/console opost
}

if [[ ! -e /run/init.sh ]]; then
    enter_overlay
fi
export busybox=/run/busybox
main
"$busybox" poweroff -f
