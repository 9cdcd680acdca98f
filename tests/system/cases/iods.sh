# I/O daemons are killed at random and restarted, some after a pause, while programs write, sync and
# read large files. The programs see no error, and every byte has its written value.

# One file with writes at random offsets and occasional syncs, and its copy in memory.
write_always() {
    perl -e '
        use IO::Handle;
        for my $path ("written", "/run/written") {
            open my $file, "+>", $path or die "$path: $!";
            push @files, $file;
        }
        open my $random, "<", "/dev/urandom" or die;
        for (my $round = 0; -e "/exchange/request"; $round++) {
            sysread $random, my $data, 1 + int rand 300_000;
            my $offset = int rand(12 << 20);
            for my $file (@files) {
                sysseek $file, $offset, 0 or die "seek: $!";
                syswrite($file, $data) == length $data or die "write: $!";
            }
            $files[0]->sync or die "sync: $!" if $round % 4 == 0;
            select undef, undef, undef, 0.01;
        }
        close $_ or die "close: $!" for @files;'
}

# Small enough to need no I/O daemon, so that the host sees it grow.
append_always() {
    local n
    for ((n = 0; ; n++)); do
        is_asking || break
        echo "line $n" >>appended
        sleep 0.02
    done
}

# A file that stays open, read without the client's cache.
read_always() {
    local rounds=0
    while is_asking; do
        dd bs=1M iflag=direct status=none <&3 | cmp - /run/read
        perl -e 'open my $file, "<&=3" or die; sysseek $file, 0, 0 or die'
        rounds=$((rounds + 1))
    done
    ((rounds > 0))
}

head -c 8M /dev/urandom >/run/read
cp /run/read read
exec 3<read
ask iods
jobs=()
for job in write append read; do
    "${job}_always" &
    jobs+=($!)
done
for job in "${jobs[@]}"; do
    wait "$job" || fail "a program noticed"
done
exec 3<&-
remount
for file in read written; do
    lost=$(cmp -l "/run/$file" "$file" | wc -l)
    echo "lost bytes of $file: $lost"
    same "$lost" 0
    same "$(stat -c %s "/run/$file")" "$(stat -c %s "$file")"
done
