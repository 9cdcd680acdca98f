# The server is killed and restarted under a mount of version 4.2: the client reclaims an open file
# and the lock of a byte range, before others can lock the file.
# With this option, another mount of the same server has inodes of its own, so that the server and not
# this kernel decides on its locks.
other_options=$mount_options,nosharecache
mkdir /run/other
"$busybox" mount -t nfs -o "$other_options" "$mount_source" /run/other

# Prints if a write lock of the whole file (F_SETLK) is possible through the other mount.
lock_of_other() {
    perl -e '
        open my $file, "+<", "/run/other/held" or die "open: $!";
        my $lock = pack "s s x4 q q i x4", 1, 0, 0, 0, 0;
        print fcntl($file, 6, $lock) ? "locked\n" : "denied\n";'
}

echo before >held
same "$(lock_of_other)" locked "before there is a lock"
coproc holder {
    perl -e '
        $| = 1;
        open my $file, "+>>", "held" or die "open: $!";
        my $lock = pack "s s x4 q q i x4", 1, 0, 0, 0, 0;
        fcntl($file, 6, $lock) or die "lock: $!";
        print "locked\n";
        sysread STDIN, my $word, 1;
        syswrite $file, "after\n" or die "write: $!";
        syscall(74, fileno $file) == 0 or die "fsync: $!";
        print "written\n";
        sysread STDIN, $word, 1;'
}
job=$holder_PID
read -r word <&"${holder[0]}"
same "$word" locked
same "$(lock_of_other)" denied "before the restart"

restart_server
since=$SECONDS

same "$(lock_of_other)" denied "after the restart"
echo >&"${holder[1]}"
read -r word <&"${holder[0]}"
same "$word" written "through the file that was open"
# The grace period lasts two minutes if a client does not return.
((SECONDS - since < 60)) || fail "the grace period did not end early: $((SECONDS - since)) s"

echo >&"${holder[1]}"
wait "$job"
same "$(lock_of_other)" locked "after the end of the holder"
same "$(cat /run/other/held)" $'before\nafter'
"$busybox" umount /run/other
