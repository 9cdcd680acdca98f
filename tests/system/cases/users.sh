# The server distinguishes users: each owns the objects it creates and has no further access than
# permitted.
mkdir -m 1777 open
as_user 1001 sh -c 'umask 027; echo mine >open/file; mkdir -m 700 open/private; touch open/private/x'
same "$(stat -c '%u %g %a' open/file)" "1001 1001 640" "owner and mode"
same "$(stat -c '%u %g %a' open/private)" "1001 1001 700" "owner and mode"
same "$(as_user 1001 cat open/file)" mine

refuse as_user 1002 cat open/file
refuse as_user 1002 sh -c 'echo theirs >>open/file'
refuse as_user 1002 rm -f open/file
refuse as_user 1002 mv open/file open/other
refuse as_user 1002 chmod 777 open/file
refuse as_user 1002 touch -d 2001-01-01 open/file
refuse as_user 1002 ls open/private
refuse as_user 1002 stat open/private/x
refuse as_user 1001 chown 1002 open/file
refuse as_user 1001 touch in-the-root
refuse as_user 1001 mkdir folder-in-the-root

# By group, main or supplementary.
chgrp 2000 open/file
same "$(setpriv --reuid 1002 --regid 2000 --clear-groups cat open/file)" mine
same "$(setpriv --reuid 1002 --regid 1002 --groups 5,6,2000 cat open/file)" mine
refuse setpriv --reuid 1002 --regid 1002 --groups 5,6,7 cat open/file
mkdir -m 2777 inherits
chgrp 2000 inherits
as_user 1001 touch inherits/file
same "$(stat -c '%u %g' inherits/file)" "1001 2000" "group of a set-group-id folder"

# An open descriptor stays usable after a change of the mode.
as_user 1001 bash -euc '
    exec 3<open/file 4>open/written
    chmod 000 open/file open/written
    cat <&3 >/dev/null
    echo text >&4'
same "$(cat open/written)" text "written by the owner of a file without mode bits"
# A file may be created without write permission, and its creator may write to it.
as_user 1001 sh -c 'umask 777; echo born >open/born'
same "$(cat open/born) $(stat -c %a open/born)" "born 0"
refuse as_user 1001 cat open/born

remount
refuse as_user 1002 cat open/file
same "$(cat open/private/x)" "" "root reads all"
