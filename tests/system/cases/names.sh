# Names are added, changed and removed.
echo a >a
mv a b
[[ ! -e a && $(cat b) == a ]] || fail "rename"
echo c >c
mv -f b c
same "$(cat c)" a "renamed over another"
mkdir d e
mv c d/c
mv d e/d
same "$(cat e/d/c)" a "moved with its folder"
refuse mv -T e/d/c e
refuse mv e e/d/inside
mkdir -p full/of empty
refuse mv -T empty full
mv -T full empty
[[ -d empty/of ]] || fail "an empty folder gives way to another"
refuse rmdir empty
rmdir empty/of empty
refuse rmdir e/d/c
refuse rm e

number=$(stat -c %i e/d/c)
ln e/d/c hard
same "$(stat -c '%i %h' hard)" "$number 2" "a second name"
mv hard harder
same "$(stat -c %i harder)" "$number" "the file's number after a rename"
rm e/d/c
same "$(stat -c %h harder)" 1 "links after one went"
refuse ln e/d folder-link
refuse ln harder harder

ln -s harder soft
same "$(readlink soft) $(cat soft)" "harder a" "a symbolic link"
ln -s /no/where dangling
refuse cat dangling
ln -sfn other dangling
same "$(readlink dangling)" other
target=$(printf 'x%.0s' {1..1000})
ln -s "$target" long
remount
same "$(readlink long)" "$target" "a long target"

# A name may contain any byte except a slash.
odd=(' blank ' '-dash' $'new\nline' $'\xff\xfe' '*?["$' '..dots' 'back\slash' "$(printf 'n%.0s' {1..255})")
mkdir odd
for name in "${odd[@]}"; do echo "$name" >"odd/$name"; done
remount
for name in "${odd[@]}"; do same "$(cat "odd/$name")" "$name" "a file's text and its name"; done
same "$(find odd -mindepth 1 -printf x)" xxxxxxxx "names"
refuse touch "odd/$(printf 'n%.0s' {1..256})"
refuse mkdir odd/-dash
refuse rmdir nothing
rm -rf odd e
refuse ls odd
[[ -e e/.. ]] && fail "a removed folder is still there"
mkdir -p deep/{1..3}/{4..6}/{7..9}
same "$(cd deep/1/4/7/../../.. && pwd)" "$PWD/deep"
rm -rf deep
