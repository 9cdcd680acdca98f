# Written data is on the server's disk and is read back unchanged.
head -c 64M /dev/urandom >data
# Small writes at odd offsets, to test the edges of pages and of requests.
for offset in 1 4095 4097 32767 65535 1048575 1048577 33554431; do
    printf 'written at %d' "$offset" | dd of=data bs=1 seek="$offset" conv=notrunc status=none
done
sha256sum data >sums
remount
sha256sum --quiet -c sums
dd if=data of=direct iflag=direct oflag=direct bs=1M status=none
cmp data direct
sha256sum direct >>sums
