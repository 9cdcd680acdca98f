# The server loads other rules under a working mount: only the effect of the rules is visible. The
# connection stays, and open files stay open.
connects() { awk '$1 == "xprt:" { print $5 }' /proc/self/mountstats; }
mkdir load
echo 0 >/run/count
exec 3>load/open
before=$(connects)
[[ -n $before ]] || fail "no count of connections"
(
    n=0
    while [[ ! -e /run/enough ]]; do
        echo "line $n" >>load/log
        cat load/log >/run/log
        touch "load/$n"
        mv "load/$n" load/one
        n=$((n + 1))
        echo "$n" >/run/count.new
        mv /run/count.new /run/count
    done
) &
load=$!
# Waits until the load has completed this number of further rounds.
goes_on() {
    local from
    from=$(cat /run/count)
    while (($(cat /run/count) < from + $1)); do
        kill -0 "$load" || fail "the load ended"
        sleep 0.01
    done
}
goes_on 5
for _ in 1 2 3; do
    ask "another export"
    goes_on 3
    while is_asking; do sleep 0.02; done
    goes_on 3
    ask "as before"
    while is_asking; do sleep 0.02; done
    goes_on 3
done
touch /run/enough
wait "$load"
same "$(connects)" "$before" "how often the client connected"
same "$(cat load/log | wc -l)" "$(cat /run/count)" "lines of the log"

# Read-only from now on, also for open files.
echo one >&3
sync load/open
ask "read only"
while is_asking; do sleep 0.02; done
refuse touch load/new
refuse dd if=/dev/zero of=load/one bs=1 count=1 conv=notrunc,fsync
same "$(cat load/open)" one

# The export is withdrawn from this client: the server denies every further access.
ask withdraw
while is_asking; do sleep 0.02; done
refuse ls load
refuse cat load/one
refuse touch load/new
refuse stat -f .

# The export is available again, with the same handles.
ask "as before"
while is_asking; do sleep 0.02; done
same "$(cat load/open)" one
echo two >>load/open
same "$(cat load/open)" $'one\ntwo'
same "$(connects)" "$before" "how often the client connected"
