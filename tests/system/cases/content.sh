# What is written is what lies on the server's disk and what is read back.
head -c 64M /dev/urandom >data
# Small writes at odd places, so that edges of pages and of requests are hit.
for offset in 1 4095 4097 32767 65535 1048575 1048577 33554431; do
    printf 'written at %d' "$offset" | dd of=data bs=1 seek="$offset" conv=notrunc status=none
done
sha256sum data >sums
remount
sha256sum --quiet -c sums
dd if=data of=direct iflag=direct oflag=direct bs=1M status=none
cmp data direct
sha256sum direct >>sums
