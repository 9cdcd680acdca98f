# The server is killed, or asked to end, and restarted repeatedly, while programs write, read,
# rename and remove. The programs see no error, no data is lost and no call runs twice.

# One file with writes at random offsets and occasional syncs; and one file without a name.
write_always() {
    perl -e '
        use IO::Handle;
        sub both { my ($offset, $data) = @_;
            for my $file (@files) {
                sysseek $file, $offset, 0 or die "seek: $!";
                syswrite($file, $data) == length $data or die "write: $!";
            }
        }
        for my $path ("written", "/run/written", "unlinked") {
            open my $file, "+>", $path or die "$path: $!";
            push @files, $file;
        }
        unlink "unlinked" or die "unlink: $!";
        open my $random, "<", "/dev/urandom" or die;
        for (my $round = 0; -e "/exchange/request"; $round++) {
            sysread $random, my $data, 1 + int rand 100_000;
            both(int rand(8 << 20), $data);
            $files[0]->sync or die "sync: $!" if $round % 4 == 0;
            select undef, undef, undef, 0.01;
        }
        # The files without a name are unchanged.
        sysseek $_, 0, 0 for @files;
        local $/;
        my ($named, $copy, $unnamed) = map { scalar readline $_ } @files;
        die "the open file differs" if $named ne $copy;
        die "the file without a name differs" if $unnamed ne $copy;
        close $_ or die "close: $!" for @files;'
}

append_always() {
    local n
    for ((n = 0; ; n++)); do
        is_asking || break
        echo "line $n" >>appended
    done
    echo "$n" >/run/lines
}

# Names are added and removed. Each command succeeds once; a retransmission that ran again would
# fail.
rename_always() {
    local n
    for ((n = 0; ; n++)); do
        is_asking || break
        once mkdir "folder$n"
        echo "$n" >"folder$n/new"
        once mv "folder$n/new" "folder$n/file"
        once ln "folder$n/file" "link$n"
        once ln -s "folder$n/file" "symlink$n"
        same "$(cat "symlink$n")" "$n"
        chmod 600 "link$n"
        once rm "folder$n/file"
        once rmdir "folder$n"
        once mv "link$n" "kept$n"
        once rm "symlink$n"
        same "$(cat "kept$n")" "$n"
        rm "kept$((n - 5))" 2>/dev/null || true
    done
    echo "$n" >/run/rounds
}

# Runs a command that a gracefully stopped server of version 2 or 3 executes once. A server that was
# killed while a change was on its way to the disk has not recorded its reply, and the slots of a
# session of version 4 do not survive a restart: the retransmission finds the effect of the first call.
once() {
    "$@" 2>/run/complaint && return
    [[ $outage == kill || $version == 4 ]] && grep -Eq 'File exists|No such file' /run/complaint ||
        fail "$* with $outage: $(</run/complaint)"
}

# A file that stays open, read without the client's cache.
read_always() {
    local rounds=0
    while is_asking; do
        dd bs=64k iflag=direct status=none <&3 | cmp - /run/read
        perl -e 'open my $file, "<&=3" or die; sysseek $file, 0, 0 or die'
        rounds=$((rounds + 1))
    done
    ((rounds > 0))
}

for outage in end kill; do
    mkdir "$outage"
    cd "$outage"
    head -c 4M /dev/urandom >/run/read
    cp /run/read read
    exec 3<read
    ask "outages $outage"
    jobs=()
    for job in write append rename read; do
        "${job}_always" &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do
        wait "$job" || fail "a program noticed"
    done
    exec 3<&-
    remount
    cmp /run/read read
    cmp /run/written written
    lines=$(</run/lines) rounds=$(</run/rounds)
    same "$(<appended)" "$(seq -f 'line %g' 0 $((lines - 1)))"
    kept=$(seq $((rounds > 5 ? rounds - 5 : 0)) $((rounds - 1)))
    for n in $kept; do same "$(<"kept$n")" "$n"; done
    same "$(names | sort)" "$({ printf '%s\n' appended read written; printf 'kept%s\n' $kept; } | sort)"
    ((rounds > 0)) || fail "too little was done: $rounds rounds"
    cd ..
done
sha256sum ./*/{appended,read,written} >sums
