# The client reports the space of the file system, and the report follows written data.
read -r size used free < <(df -B1 --output=size,used,avail /mnt | tail -n1)
((size > 0 && used > 0 && free > 0 && free < size)) || fail "size $size, used $used, free $free"
# The guest sees the same disk as the server, within the changes by other programs.
((version == 2)) || (($(df --output=iavail /mnt | tail -n1) > 0)) || fail "no free files"
same "$(stat -f -c %T /mnt)" nfs "type"
head -c 1M /dev/urandom >file
(($(du -k --apparent-size file | cut -f1) == 1024)) || fail "apparent size"
blocks=$(stat -c '%b * %B' file)
((blocks >= 2**20 && blocks < 2**20 + 2**17)) || fail "a file of 1 MiB takes $blocks"
