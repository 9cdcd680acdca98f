# Pipes, devices and sockets are created and keep their kind.
mkfifo pipe
echo through >pipe &
same "$(cat pipe)" through "what came through a pipe"
wait
mknod null c 1 3
mknod disk b 7 300
perl -MSocket -e 'socket S, AF_UNIX, SOCK_STREAM, 0; bind S, pack_sockaddr_un("socket") or die $!'
remount
same "$(stat -c %F pipe null disk socket | tr '\n' ,)" \
    "fifo,character special file,block special file,socket," "kinds"
same "$(stat -c '%t %T' null)" "1 3" "device"
same "$(stat -c '%t %T' disk)" "7 12c" "device"
same "$(echo swallowed >null && cat null)" "" "what a null device gives"
rm pipe null disk socket
