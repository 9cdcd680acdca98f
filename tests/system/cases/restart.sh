# The server is killed and restarted under the mount: open files stay open, and the client rewrites
# written data without a COMMIT.
# With this option the case decides the time of each COMMIT.
mount_options+=,write=eager
remount
count() { awk -v name="$1:" '$1 == name { print $2 }' /proc/self/mountstats; }
mkdir -p held/inner
echo kept >held/kept
exec 3<held/kept
exec 4>>held/log
before=$(count WRITE)
echo one >&4
cd held/inner
# From version 3 on the writes have only begun, and count after their replies.
for i in {1..3000}; do
    ((version >= 3 && $(count WRITE) == before)) || break
    sleep 0.02
done

# Sends all written data (sync_file_range) and commits none before the command (fsync). One process
# does all writes, because the client commits whenever a descriptor of the file is closed.
writes=$(count WRITE) commits=$(count COMMIT)
head -c 8M /dev/urandom >/run/pending
coproc writer {
    perl -e '
        open my $data, "<", "/run/pending" or die;
        open my $file, ">", "../pending" or die;
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
    # Versions from 3 on send 1 MiB at a time; in version 2 no data is pending after a reply.
    ((version >= 3 && $(count WRITE) < writes + 8)) || break
    sleep 0.02
done
((version == 2)) || same "$(count WRITE) $(count COMMIT)" "$((writes + 8)) $commits" "before the restart"

restart_server

same "$(cat <&3)" kept "a file that was open"
exec 3<&-
echo two >&4
exec 4>&-
same "$(pwd -P)" /mnt/held/inner
echo here >here
same "$(cat ../inner/here)" here "the working folder"
echo >&"${writer[1]}"
read -r word <&"${writer[0]}"
same "$word" committed
again=$(($(count WRITE) - writes - 8))
((version == 2 || again >= 8)) || fail "not all was written again: $again writes"
echo >&"${writer[1]}"
wait "$job"
cmp /run/pending ../pending

remount
same "$(cat ../log)" $'one\ntwo' "a file appended to before and after"
cmp /run/pending ../pending
restart_server
same "$(cat ../kept)" kept
cd /mnt
sha256sum held/kept held/log held/pending >sums
