# One metaserver of several is mounted. The others are killed in turn and restarted, while programs
# here write, rename and remove objects that have their home here or at another metaserver. The
# programs see no error, and all names and bytes are correct at the end, here and at another
# metaserver. `others` contains the ports of two of them.

# Performs all operations on names and files in a folder, and the same operations on a copy in
# memory, while the others are killed. Each round leaves some objects and removes some. $1/old1 and
# so on exist.
work_always() {
    perl -e '
        use strict;
        use IO::Handle;
        my $folder = shift;
        my @roots = ("/mnt/$folder", "/run/copy/$folder");
        my $data;
        my $put = sub {
            my ($path, $mode, $safe) = @_;
            open my $file, $mode, $path or die "open $path: $!";
            syswrite($file, $data) == length $data or die "write $path: $!";
            $file->sync or die "sync $path: $!" if $safe;
            close $file or die "close $path: $!";
        };
        my $round = 0;
        # One call may wait for an unreachable peer as long as the peer is killed repeatedly.
        while (-e "/exchange/request" || $round < 5) {
            $round++;
            my $gone = $round - 2;
            $data = pack "N*", map { int rand 2 ** 32 } 1 .. 1 + int rand 4000;
            for (@roots) {
                $put->("$_/new", ">", $round % 2);
                rename "$_/new", "$_/file$round" or die "rename to $_/file$round: $!";
                link "$_/file$round", "$_/link$round" or die "link $_/link$round: $!";
                mkdir "$_/folder$round" or die "mkdir $_/folder$round: $!";
                symlink "file$round", "$_/folder$round/way" or die "symlink in $_: $!";
                if (-e "$_/old$round") {
                    $put->("$_/old$round", ">>", $round % 3);
                    rename "$_/old$round", "$_/folder$round/moved" or die "move $_/old$round: $!";
                }
                next if $gone < 1 || $round % 3 == 0;
                unlink "$_/file$gone" or die "unlink $_/file$gone: $!";
                unlink "$_/folder$gone/way" or die "unlink $_/folder$gone/way: $!";
                if (-e "$_/folder$gone/moved") {
                    unlink "$_/folder$gone/moved" or die "unlink $_/folder$gone/moved: $!";
                }
                rmdir "$_/folder$gone" or die "rmdir $_/folder$gone: $!";
            }
        }' "$1"
}

mount_at() {
    mkdir -p "$2"
    "$busybox" mount -t nfs -o "${mount_options//port=*,mountport=*,mountproto/port=$1,mountport=$1,mountproto}" \
        "$mount_source" "$2"
}

# Within the windows all objects of the copy are visible here, and no others.
is_as_the_copy() {
    local n
    for n in {1..50}; do
        if diff -r --no-dereference /run/copy "$1" >/run/differences 2>&1; then return; fi
        sleep 0.2
    done
    head -20 /run/differences
    fail "$1 is not as what was done"
}

made=0
for port in $others; do
    made=$((made + 1))
    mount_at "$port" "/run/there"
    mkdir -p "/run/copy/of$made" "/run/there/of$made"
    for n in {1..40}; do
        echo "old $n" >"/run/copy/of$made/old$n"
        echo "old $n" >"/run/there/of$made/old$n"
    done
    "$busybox" umount /run/there
done
mkdir -p own /run/copy/own
is_as_the_copy /mnt
ask kills
jobs=()
for folder in own of1 of2; do
    work_always "$folder" &
    jobs+=($!)
done
for job in "${jobs[@]}"; do
    wait "$job" || fail "a program noticed"
done
is_as_the_copy /mnt
remount
is_as_the_copy /mnt
for port in $others; do
    mount_at "$port" /run/there
    is_as_the_copy /run/there
    "$busybox" umount /run/there
done
