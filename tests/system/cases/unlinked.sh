# An open file that is removed stays usable until it is closed.
echo start >file
exec 3<>file
rm file
[[ ! -e file ]] || fail "the name is still there"
echo more >&3
same "$(cat /proc/self/fd/3)" more "what was written after the removal"
exec 4<>/proc/self/fd/3
echo again >&4
same "$(cat /proc/self/fd/4)" again
exec 3>&- 4>&-
# The client removes the silly name of the file at the last close.
for i in {1..1200}; do
    [[ $(names) != "" ]] || break
    sleep 0.05
done
same "$(names)" "" "what is left"

# The same for a file that a rename replaced.
echo old >old
echo new >new
exec 3<old
mv new old
same "$(cat <&3) $(cat old)" "old new"
exec 3<&-
remount
same "$(cat old)" new
