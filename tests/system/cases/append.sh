# Appends go to the end of the file, and of several exclusive creates only one succeeds.
for word in one two three; do echo "$word" >>log; done
same "$(cat log)" $'one\ntwo\nthree'

# Each line is opened, appended and closed separately, so no line is lost between two writers.
append() { for i in {1..50}; do echo "$1 $i" >>"$2"; done; }
append a mixed
append b mixed
same "$(wc -l <mixed)" 100 "lines"
same "$(grep -c '^a ' mixed)" 50 "lines of the first writer"

set -o noclobber
echo first >once
refuse bash -c 'set -o noclobber; echo second >once'
same "$(cat once)" first
remount
refuse bash -c 'set -o noclobber; echo third >once'
set +o noclobber

# Of many concurrent creates of one name, exactly one succeeds.
won=0 jobs=()
for i in {1..8}; do
    bash -c 'set -o noclobber; : >race' &
    jobs+=($!)
done
for job in "${jobs[@]}"; do
    if wait "$job"; then won=$((won + 1)); fi
done
same "$won" 1 "winners"
# A new file has real times, not the data of the create request.
age=$(($(date +%s) - $(stat -c %Y race)))
((age >= -5 && age < 60)) || fail "a new file is $age s old"
