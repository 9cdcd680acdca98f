# The expectations that foreign programs have of a file system: all bytes of fsx are right, and the
# failures of pjdfstest are reported. `tools` is the folder of both.
mkdir tried /run/kept
cd tried
for seed in 1 2 3; do
    "$tools/fsx" -q -N 3000 -S $seed -P /run/kept file
    rm file
done
cat >/run/pjdfstest.toml <<END
[settings]
naptime = 0.1
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"]]
END
"$tools/pjdfstest" -c /run/pjdfstest.toml -p "$PWD" >/run/told || true
sed -nE 's/^([^ ]+) +FAILED$/pjdfstest fails \1/p' /run/told
# The program ran to its end.
grep '^Summary: ' /run/told
