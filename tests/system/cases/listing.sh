# A large folder is listed with each name exactly once, even if it changes between the parts.
count=5000
seq -f 'name-%05g-with-a-tail-that-makes-it-long' "$count" >/run/wanted
mkdir many
cd many
while read -r name; do : >"$name"; done </run/wanted
same "$(names | sort | cmp - /run/wanted && echo equal)" equal "names"
cd ..
remount
same "$(names many | sort | cmp - /run/wanted && echo equal)" equal "names after a new mount"
same "$(ls -l many | grep -c '^-rw')" "$count" "files with attributes"

# Every second file is removed during the listing; the others appear exactly once.
perl -e '
    opendir my $dir, "many" or die;
    my (%seen, $at);
    while (defined(my $name = readdir $dir)) {
        next if $name =~ /^\./;
        $seen{$name}++;
        unlink "many/$name" or die "$name: $!" if ++$at % 2;
    }
    my @twice = grep { $seen{$_} != 1 } keys %seen;
    die "twice: @twice[0..1]" if @twice;
    print scalar(keys %seen), "\n";
' >/run/seen
same "$(cat /run/seen)" "$count" "names seen while half of them went"
remount
same "$(names many | wc -l)" $((count / 2)) "names left"
rm -rf many
[[ ! -e many ]] || fail "rm -rf left the folder"
