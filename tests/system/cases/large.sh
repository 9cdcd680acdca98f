# Sparse files and large offsets. The limit of version 2 is 2 GiB.
if ((version == 2)); then
    end=$((2**31 - 1))
    truncate -s "$end" big
    refuse truncate -s $((end + 1)) big
else
    end=$((5 * 2**30))
    truncate -s "$end" big
fi
same "$(stat -c %s big)" "$end" "size"

write_at() { printf %s "$2" | dd of=big bs=1 seek="$1" conv=notrunc status=none; }
read_at() { dd if=big bs=1 skip="$1" count="$2" status=none; }
write_at $((end - 3)) end
write_at $((2**30 - 2)) edge
((version == 2)) || write_at $((2**32 - 2)) border
same "$(stat -c %s big)" "$end" "size after writing inside"

remount
same "$(stat -c %s big)" "$end" "size after a new mount"
same "$(read_at $((end - 3)) 10)" end
same "$(read_at $((2**30 - 2)) 4)" edge
((version == 2)) || same "$(read_at $((2**32 - 2)) 6)" border
# Unwritten ranges read as zeros and take no space.
dd if=big bs=1M skip=100 count=8 status=none | cmp - <(head -c 8M /dev/zero)
(($(du -k big | cut -f1) < 1024)) || fail "a sparse file takes $(du -k big)"

((version == 2)) || { write_at "$end" more && same "$(stat -c %s big)" $((end + 4)) "longer"; }
truncate -s 3 big
same "$(od -An -c big | tr -s ' ')" ' \0 \0 \0'
