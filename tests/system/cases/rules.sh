# Several exports of one server, each with rules of its own: who one is there, and what one may.
# (To touch what one has made takes more: in version 2 the client itself looks at the owner that it
# is shown, who is one of the server's.)
owner() { stat -c '%u %g' "$1"; }

# Mounts another export in place of the one before.
enter() {
    cd /
    "$busybox" umount /mnt
    mount_source=127.0.0.1:$1
    mount_server
    cd /mnt
}

# Without squashing root is root, and others are who they say they are.
same "$(cat secret)" "for root"
touch of-root
as_user 1001 sh -c ': >of-1001'
same "$(owner of-root), $(owner of-1001)" "0 0, 1001 1001" "plain"
# A credential has room for 16 groups beside the main one; the twentieth is cut.
same "$(setpriv --reuid 3100 --regid 3100 --groups $(seq -s, 2101 2116) cat of-2116)" text
refuse setpriv --reuid 3100 --regid 3100 --groups $(seq -s, 2101 2120) cat of-2120

# Unless told otherwise, root is nobody; so is its group, of which others may be members.
enter /squashed
touch of-root
as_user 1001 sh -c ': >of-1001'
setpriv --reuid 1001 --regid 0 --clear-groups sh -c ': >of-group-0'
same "$(owner of-root), $(owner of-1001)" "65534 65534, 1001 1001" "squashed"
same "$(owner of-group-0)" "1001 65534" "the group 0"
refuse cat secret
refuse chown 1001 of-root
refuse rm of-1001

# Everybody is one user.
enter /public
touch of-root
as_user 1001 sh -c ': >of-1001'
same "$(owner of-root), $(owner of-1001)" "7001 7002, 7001 7002" "public"
as_user 1002 rm of-1001

# Users and groups over there are others here, by number and by name.
enter /mapped
as_user 3005 sh -c ': >of-3005'
as_user 4000 sh -c ': >of-4000'
as_user 1001 sh -c ': >of-1001'
touch of-root
same "$(owner of-3005), $(owner of-4000)" "8005 9000, 8100 4000" "mapped"
same "$(owner of-1001), $(owner of-root)" "1001 1001, 65534 65534" "mapped"
((version == 2)) || as_user 3005 sh -c 'echo mine >>of-3005'
refuse as_user 8004 sh -c 'echo theirs >>of-3005'

# The server's own list has the groups, any number; what the client says of groups does not count.
enter /listed
((version == 2)) ||
    same "$(setpriv --reuid 3100 --regid 3100 --clear-groups cat of-2120)" text "the server's list"
refuse setpriv --reuid 3101 --regid 2120 --groups 2120 cat of-2120

# Read only, by the export and by the rule.
for name in read-only public-to-read; do
    enter "/$name"
    same "$(cat file)" text
    refuse touch file
    refuse touch new
    refuse rm file
    same "$(cat file)" text
done

# For others, who do not even find it.
cd /
"$busybox" umount /mnt
mount_source=127.0.0.1:/far
refuse mount_server
mount_source=127.0.0.1:/
refuse mount_server
