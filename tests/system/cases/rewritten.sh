# All I/O daemons lose uncommitted data when they are killed. The client detects the loss by the
# verifier in the reply to COMMIT, and sends all the data again.

# With this option the case decides the time of each COMMIT.
mount_options+=,write=eager
remount
count() { awk -v name="$1:" '$1 == name { print $2 }' /proc/self/mountstats; }
# The bytes that the server has received by WRITE.
sent() { awk '$1 == "bytes:" { print $7 }' /proc/self/mountstats; }
size=$((8 << 20))
head -c "$size" /dev/urandom >/run/pending
before=$(sent) commits=$(count COMMIT)
# One process does all writes, because the client commits whenever a descriptor of the file is
# closed.
coproc writer {
    perl -e '
        open my $data, "<", "/run/pending" or die;
        open my $file, ">", "pending" or die;
        local $/;
        syswrite $file, <$data> or die;
        syscall(277, fileno $file, 0, 0, 2) == 0 or die "sync_file_range: $!";
        syswrite STDOUT, "written\n";
        sysread STDIN, my $word, 1;
        syscall(74, fileno $file) == 0 or die "fsync: $!";
        syswrite STDOUT, "committed\n";
        sysread STDIN, $word, 1;'
}
job=$writer_PID
read -r word <&"${writer[0]}"
same "$word" written
for i in {1..3000}; do
    (($(sent) < before + size)) || break
    sleep 0.02
done
same "$(sent) $(count COMMIT)" "$((before + size)) $commits" "before the iods are killed"
ask lose
while is_asking; do sleep 0.05; done
echo >&"${writer[1]}"
read -r word <&"${writer[0]}"
same "$word" committed
again=$(($(sent) - before - size))
echo "written again: $again bytes of $size"
((again >= size)) || fail "not all was written again: $again bytes"
echo >&"${writer[1]}"
wait "$job"
remount
cmp /run/pending pending
