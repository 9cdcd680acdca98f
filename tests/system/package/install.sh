# Installs the package on a copy of this machine's root, in separate namespaces: the effects are
# invisible outside and disappear at the end. Serves with the installed program, with the
# capabilities from the unit and a socket as from systemd, and removes the package.
#
# install.sh PACKAGE; run by `unshare --mount --net --pid --fork`, as root.
set -euo pipefail
package=$1
place=$(mktemp -d)
trap 'umount -l "$place"; rmdir "$place"' EXIT
mount -t tmpfs tmpfs "$place"
mkdir "$place"/{upper,work,root}
root=$place/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$root"
for folder in dev sys; do mount --rbind "/$folder" "$root/$folder"; done
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/srv"
ip link set lo up
cp "$package" "$root/run/leasehold.deb"

fail() {
    echo "FAILED: $*"
    exit 1
}

there() { chroot "$root" "$@"; }

await() {
    for _ in {1..2400}; do
        "$@" >"$root/run/answer" 2>&1 && return
        sleep 0.05
    done
    fail "$* does not come about: $(<"$root/run/answer")"
}

there dpkg --no-triggers --install /run/leasehold.deb

units=/usr/lib/systemd/system
for unit in leasehold.service leasehold.socket leasehold-iod.service; do
    # Messages of other packages on their own units are ignored.
    said=$(there systemd-analyze verify "$units/$unit" 2>&1 | grep leasehold || true)
    [[ -z $said ]] || fail "$said"
done
for page in "$root"/usr/share/man/man1/leasehold*.gz; do
    said=$(there man --warnings -E UTF-8 -l -Z "${page#"$root"}" 2>&1 >/dev/null)
    [[ -z $said ]] || fail "$page: $said"
done
there bash -n /usr/share/bash-completion/completions/leasehold
said=$(there bash -c '. /usr/share/bash-completion/completions/leasehold
    COMP_WORDS=(leasehold serve --read) COMP_CWORD=2
    _leasehold leasehold --read serve; echo "${COMPREPLY[@]}"')
[[ $said == --read-only ]] || fail "completed: $said"

# A file of the administrator, and a world-writable directory.
mkdir -m 1777 "$root/srv/data"
echo kept >"$root/srv/data/kept"
configuration=/etc/leasehold/leasehold.toml
cat >>"$root$configuration" <<'END'

[[export.client]]
from = ["127.0.0.1"]
END
there leasehold check --config "$configuration"

# From the units: the command line and the capabilities.
words_of() { sed -n 's/^ExecStart=//p' "$root$units/$1"; }
powers_of() {
    local powers
    powers=$(sed -n 's/^CapabilityBoundingSet=//p' "$root$units/$1")
    powers=$(tr ' ' '\n' <<<"$powers" | sed 's/^CAP_/+/' | tr 'A-Z\n' 'a-z,')
    echo "-all,${powers%,}"
}

# And the socket, which exists before the server.
words=$(words_of leasehold.service)
# shellcheck disable=SC2086 # They are several.
there setpriv --no-new-privs --bounding-set "$(powers_of leasehold.service)" \
    systemd-socket-activate --listen=127.0.0.1:2049 $words &
server=$!
await there leasehold ls nfs://127.0.0.1/data
grep -q kept "$root/run/answer" || fail "listed: $(<"$root/run/answer")"
there sh -c 'test -S /var/lib/leasehold/servers/leasehold.toml-*/control'

# The server acts with the identity of each caller.
echo text >"$root/run/text"
chmod 644 "$root/run/text"
there setpriv --reuid man --regid man --init-groups \
    leasehold cp /run/text nfs://127.0.0.1/data/written
[[ $(stat -c %u:%g "$root/srv/data/written") == "$(id -u man):$(id -g man)" ]] || fail "of $(stat -c %u:%g "$root/srv/data/written")"
there leasehold restart
[[ $(there leasehold cat nfs://127.0.0.1/data/written) == text ]]
# Installs the same version again: the administrator's configuration stays.
there dpkg --no-triggers --install /run/leasehold.deb
there leasehold check --config "$configuration" | grep -q /srv/data || fail "the configuration is gone"

kill "$(there leasehold status --json | sed 's/.*"pid":\([0-9]*\).*/\1/')"
wait "$server" || fail "the server ended with $?"

# An I/O daemon from its unit, and a metaserver over it, with one configuration file.
cp "$root$configuration" "$root/run/before.toml"
mkdir "$root/srv/stripes" "$root/srv/names"
cat >"$root$configuration" <<'END'
[server]
listen = ["127.0.0.1:2049"]
[iod]
directory = "/srv/stripes"
[[export]]
directory = "/srv/names"
cluster-key = "/etc/leasehold/cluster.key"
iod = ["192.0.2.1:2049", "127.0.0.2:2049"]
stripe-inline = "0 KiB"
END
(umask 077; head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$root/etc/leasehold/cluster.key")
words=$(words_of leasehold-iod.service)
# shellcheck disable=SC2086 # They are several.
chroot "$root" setpriv --no-new-privs --bounding-set "$(powers_of leasehold-iod.service)" $words &
iod=$!
await there leasehold cluster check --cluster-key /etc/leasehold/cluster.key --iod 127.0.0.2:2049
sed -i 's/"192.0.2.1:2049", //' "$root$configuration"
words=$(words_of leasehold.service)
# shellcheck disable=SC2086 # They are several.
chroot "$root" setpriv --no-new-privs --bounding-set "$(powers_of leasehold.service)" $words &
server=$!
await there leasehold ls nfs://127.0.0.1/names
chmod 1777 "$root/srv/names"
there leasehold cp /run/text nfs://127.0.0.1/names/striped
[[ $(there leasehold cat nfs://127.0.0.1/names/striped) == text ]]
grep -rq '^text$' "$root/srv/stripes" || fail "the iod has nothing: $(find "$root/srv/stripes")"
for one in "$server" "$iod"; do
    kill "$one"
    wait "$one" || fail "$one ended with $?"
done
rm "$root/etc/leasehold/cluster.key"
cp "$root/run/before.toml" "$root$configuration"
there dpkg --no-triggers --remove leasehold
[[ ! -e $root/usr/bin/leasehold && ! -e $root$units/leasehold-iod.service ]] || fail "something is left"
[[ -e $root$configuration && -e $(echo "$root"/var/lib/leasehold/servers/leasehold.toml-*/handle-key) ]] || fail "too much is gone"
there dpkg --no-triggers --purge leasehold
[[ ! -e $root/etc/leasehold && ! -e $root/var/lib/leasehold && ! -e $root/var/lib/leasehold-iod ]] || fail "something is left of the state"
[[ $(<"$root/srv/data/kept") == kept && $(<"$root/srv/data/written") == text ]] || fail "data is gone"
