# Runs in a guest that mounts two servers, and does the same work on both in turn. Earlier settings
# name the mounts ($ours, $other, each options and a source), $rounds and $mib.
cd /
mkdir -p /run/ours /run/other
"$busybox" umount /mnt
"$busybox" mount -t nfs -o "${ours% *}" "${ours#* }" /run/ours
"$busybox" mount -t nfs -o "${other% *}" "${other#* }" /run/other

export HOME=/run GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init -q -b main /run/repository
cp /usr/include/linux/[a-f]*.h /run/repository
git -C /run/repository add .
git -C /run/repository commit -q -m one

say() {
    ask "$*"
    while is_asking; do sleep 0.005; done
}

forget() { sync; echo 3 >/proc/sys/vm/drop_caches; }

write() { dd if=/dev/zero of=stream bs=1M count="$mib" conv=fsync status=none; }
read_back() { dd if=stream of=/dev/null bs=1M status=none; }
small() {
    mkdir small
    for i in {1..200}; do echo "$i" >"small/$i"; done
    cat small/* >/dev/null
    rm -r small
}
clone() { git clone -q --no-hardlinks /run/repository clone; }
compile() {
    for i in {1..6}; do
        printf '#include <stdio.h>\nint part%d(void) { return printf("%d"); }\n' "$i" "$i" >"part$i.c"
    done
    echo 'int main(void) { return 0; }' >main.c
    make -s -j2 part{1..6}.o main
}

# Does one piece of work, and prints its duration in microseconds.
timed() {
    local before=${EPOCHREALTIME/./} after
    "$2"
    after=${EPOCHREALTIME/./}
    say "$1 $2 $((after - before))"
}

for ((round = 0; round < rounds; round++)); do
    for server in ours other; do
        mkdir "/run/$server/work"
        cd "/run/$server/work"
        for what in write read_back small clone compile; do
            forget
            say begin
            timed "$server" "$what"
        done
        cd /
        rm -r "/run/$server/work"
    done
done
