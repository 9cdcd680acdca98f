# Several exports of one server, each with its own rules on users and permissions. (A change of
# times needs more: in version 2 the client itself checks the owner in the attributes, which is a
# user of the server.)
owner() { stat -c '%u %g' "$1"; }

# Mounts another export in place of the previous one.
enter() {
    cd /
    "$busybox" umount /mnt
    mount_source=127.0.0.1:$1
    mount_server
    cd /mnt
}

# Without squashing root stays root, and other users keep their ids.
same "$(cat secret)" "for root"
touch of-root
as_user 1001 sh -c ': >of-1001'
same "$(owner of-root), $(owner of-1001)" "0 0, 1001 1001" "plain"
# A credential has room for 16 groups besides the main group; the twentieth is dropped.
same "$(setpriv --reuid 3100 --regid 3100 --groups $(seq -s, 2101 2116) cat of-2116)" text
refuse setpriv --reuid 3100 --regid 3100 --groups $(seq -s, 2101 2120) cat of-2120

# By default the server maps root to the anonymous user, and its group to a group of which other
# users may be members.
enter /squashed
touch of-root
as_user 1001 sh -c ': >of-1001'
setpriv --reuid 1001 --regid 0 --clear-groups sh -c ': >of-group-0'
same "$(owner of-root), $(owner of-1001)" "65534 65534, 1001 1001" "squashed"
same "$(owner of-group-0)" "1001 65534" "the group 0"
refuse cat secret
refuse chown 1001 of-root
refuse rm of-1001

# All users become one user.
enter /public
touch of-root
as_user 1001 sh -c ': >of-1001'
same "$(owner of-root), $(owner of-1001)" "7001 7002, 7001 7002" "public"
as_user 1002 rm of-1001

# Users and groups of the client map to others here, by number and by name.
enter /mapped
as_user 3005 sh -c ': >of-3005'
as_user 4000 sh -c ': >of-4000'
as_user 1001 sh -c ': >of-1001'
touch of-root
same "$(owner of-3005), $(owner of-4000)" "8005 9000, 8100 4000" "mapped"
same "$(owner of-1001), $(owner of-root)" "1001 1001, 65534 65534" "mapped"
((version == 2)) || as_user 3005 sh -c 'echo mine >>of-3005'
refuse as_user 8004 sh -c 'echo theirs >>of-3005'

# The server's own group list applies, of any length; the client's list is ignored.
enter /listed
((version == 2)) ||
    same "$(setpriv --reuid 3100 --regid 3100 --clear-groups cat of-2120)" text "the server's list"
refuse setpriv --reuid 3101 --regid 2120 --groups 2120 cat of-2120

# Read-only, by the export and by the rule.
for name in read-only public-to-read; do
    enter "/$name"
    same "$(cat file)" text
    refuse touch file
    refuse touch new
    refuse rm file
    same "$(cat file)" text
done

# For other clients, to which the export is invisible.
cd /
"$busybox" umount /mnt
mount_source=127.0.0.1:/far
refuse mount_server
mount_source=127.0.0.1:/
refuse mount_server
