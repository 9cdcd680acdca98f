# The mount lines of the guide: $fstab, $master and $map contain them, with this server's address.

fstab_mounts() {
    local where
    echo "$fstab" >/etc/fstab
    where=$(awk '{ print $2 }' /etc/fstab)
    mkdir -p "$where"
    mount "$where"
    echo fstab >"$where/by-fstab"
    same "$(cat "$where/by-fstab")" fstab
    [[ $(stat -f -c %T "$where") == nfs ]] || fail "$where is no mount"
    umount "$where"
}

autofs_mounts() {
    local place=${master%% *} key=${map%% *}
    modprobe autofs4
    echo "$master" >/etc/auto.master
    echo "$map" >/etc/auto.leasehold
    mkdir -p "$place"
    # The kernel identifies the daemon by its process group.
    setsid automount --foreground --dont-check-daemon /etc/auto.master &
    for _ in {1..2400}; do
        [[ $(stat -f -c %T "$place") != autofs ]] || break
        sleep 0.05
    done
    same "$(cat "$place/$key/by-fstab")" fstab "by autofs"
    [[ $(stat -f -c %T "$place/$key") == nfs ]] || fail "$place/$key is no mount"
    kill "$!"
    wait "$!"
}

fstab_mounts
autofs_mounts
