# The server hands its sockets over to another program repeatedly, while one program writes and
# reads and another changes names. Each handover is a pause of less than a second for them, and no
# call of versions 2 and 3 runs twice. The slots of a session of version 4 do not survive a handover.

# Prints its longest pauses, in milliseconds.
change_always() {
    perl -MTime::HiRes=time -MIO::Handle -MErrno -s -e '
        open my $file, ">>", "log" or die "log: $!";
        my $last = time;
        for (my $n = 0; -e "/exchange/request"; $n++) {
            syswrite $file, "line $n\n" or die "write: $!";
            $file->sync or die "sync: $!";
            # Each operation succeeds once: a retransmission that ran again would fail.
            mkdir "folder" or $repeats && $!{EEXIST} or die "mkdir: $!";
            rename "folder", "other" or $repeats && $!{ENOENT} or die "rename: $!";
            rmdir "other" or $repeats && $!{ENOENT} or die "rmdir: $!";
            my $now = time;
            push @took, 1000 * ($now - $last);
            $last = $now;
            open my $count, ">", "/run/lines" or die;
            print $count $n;
        }
        @took = sort { $b <=> $a } @took;
        printf "%d ", $_ for @took[0 .. 3], $took[@took / 2];' -- -repeats=$((version == 4))
}

# Reads a file and bypasses the client cache.
read_always() {
    while is_asking; do
        dd if=read of=/run/copy bs=64k iflag=direct status=none
        cmp /run/read /run/copy
    done
}

head -c 1M /dev/urandom >/run/read
cp /run/read read
for attempt in 1 2 3; do
    : >log
    ask "hand over"
    change_always >/run/pauses &
    changing=$!
    read_always &
    reading=$!
    wait "$changing" || fail "a program that changes noticed"
    wait "$reading" || fail "a program that reads noticed"
    read -r longest second third fourth median </run/pauses || true
    echo "pauses over 3 restarts: $longest, $second, $third ms; the next $fourth ms, half of all $median ms" |
        tee measured
    same "$(<log)" "$(seq -f 'line %g' 0 "$(</run/lines)")"
    # Other load on the machine may cause pauses that do not count.
    ((second >= 1000 || longest >= 5000)) || break
    ((attempt < 3)) || fail "pauses of $longest and $second ms"
done
sha256sum log read >sums
