# Modes, owners, times and sizes keep their values, before and after a remount.
echo text >file
for mode in 600 755 4755 2711 0 1777; do
    chmod "$mode" file
    same "$(stat -c %a file)" "$mode" "mode"
done

chmod 644 file
chown 1234:2345 file
same "$(stat -c '%u %g' file)" "1234 2345" "owner"
chgrp 3456 file
same "$(stat -c '%u %g' file)" "1234 3456" "group"

touch -d '2001-02-03 04:05:06 UTC' file
same "$(stat -c '%X %Y' file)" "981173106 981173106" "times"
touch -a -d '2011-12-13 14:15:16 UTC' file
same "$(stat -c '%X %Y' file)" "1323785716 981173106" "times"
# Version 2 has microseconds.
touch -m -d '2020-01-01 00:00:00.123456 UTC' file
same "$(stat -c %y file)" "$(date -d '2020-01-01 00:00:00.123456 UTC' '+%F %T.%N %z')" "fraction"

remount
same "$(stat -c '%a %u %g %X' file)" "644 1234 3456 1323785716" "after a new mount"

# A change of the mode changes only the change time.
before=$(stat -c %Y file)
chmod 600 file
same "$(stat -c %Y file)" "$before" "modification time"
age=$(($(date +%s) - $(stat -c %Z file)))
((age >= -5 && age < 60)) || fail "the change time is $age s old"

printf 0123456789 >sized
truncate -s 4 sized
same "$(cat sized)" 0123
truncate -s 8 sized
same "$(od -An -c sized | tr -s ' ')" ' 0 1 2 3 \0 \0 \0 \0'
: >sized
same "$(stat -c %s sized)" 0 "size"

(umask 077 && echo a >hidden && mkdir closed)
same "$(stat -c %a hidden closed | tr '\n' ' ')" "600 700 " "modes under umask 077"
(umask 002 && echo a >shared && mkdir -m 2775 group)
same "$(stat -c %a shared group | tr '\n' ' ')" "664 2775 " "modes under umask 002"

mkdir parent
same "$(stat -c %h parent)" 2 "links of an empty folder"
mkdir parent/child
same "$(stat -c %h parent)" 3 "links of a folder with one in it"
