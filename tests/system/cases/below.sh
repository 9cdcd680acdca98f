# A file system is mounted below the export, which crosses mounts: `one` is a file system of its
# own.
ls -l one
echo text >one/file
same "$(cat one/file)" text
same "$(names)" one
[[ $(stat -c %d one) != $(stat -c %d .) ]] || fail "one is no file system of its own"
[[ $(df --output=size one | tail -1) != $(df --output=size . | tail -1) ]] || fail "df shows one size"
same "$(find . -xdev | sort | tr '\n' ' ')" ". ./one "
same "$(find . | sort | tr '\n' ' ')" ". ./one ./one/file "
same "$(stat -c %i one/..)" "$(stat -c %i .)"
refuse ln one/file link
echo moved >away
mv away one/away
same "$(cat one/away)" moved
[[ ! -e away ]] || fail "it was copied"

# The administrator unmounts it and mounts it again: an open file stays the same file.
exec 3<>one/file
sync
ask unmount
while is_asking; do sleep 0.1; done
ask mount
while is_asking; do sleep 0.1; done
cat <&3 >/run/first
echo more >&3
exec 3>&-
same "$(cat /run/first)" text
same "$(cat one/file)" $'text\nmore'

# While it is unmounted, its stub is visible; after it is mounted again, the client sees it without
# a remount.
ask unmount
while is_asking; do sleep 0.1; done
refuse cat one/file
same "$(names one)" ""
ask mount
while is_asking; do sleep 0.1; done
until [[ -e one/file ]]; do sleep 0.2; done
same "$(cat one/file)" $'text\nmore'
