#!/bin/bash
# One of several clients that build a program together, each by a mount of its own of a metaserver:
# it compiles its share of the files, and the first makes the tree before, and links and runs what all
# have compiled. It runs where its mount is seen by nobody else.
#
#   bash build.sh LEASEHOLD METASERVER FOLDER NUMBER COUNT
#
# Who starts them makes `build-go` in the local FOLDER when all have made `build-ready-NUMBER` there.
# The first prints how many seconds it took from then on.
set -euo pipefail
leasehold=$1 metaserver=$2 folder=$3 number=$4 count=$5
files=24 functions=30 headers=6
place=$folder/mount$number
tree=$place/build

await() {
    for _ in $(seq 12000); do
        [[ -e $folder/$1 ]] && return
        sleep 0.005
    done
    echo "build.sh: $1 does not come" >&2
    exit 3
}

make_tree() {
    local file function header
    mkdir "$tree" "$tree/include" "$tree/source" "$tree/objects"
    for header in $(seq $headers); do
        {
            for file in $(seq $files); do echo "int sum_$file(int);"; done
            seq -f '/* %g */' 200
        } >"$tree/include/h$header.h"
    done
    for file in $(seq $files); do
        {
            for header in $(seq $headers); do echo "#include \"h$header.h\""; done
            for function in $(seq $functions); do
                echo "static int f$function(int a) { for (int i = 0; i < $function; i++) a += i; return a; }"
            done
            echo "int sum_$file(int a) {"
            for function in $(seq $functions); do echo "    a += f$function(a);"; done
            echo "    return a; }"
        } >"$tree/source/c$file.c"
    done
    {
        echo '#include "h1.h"'
        echo '#include <stdio.h>'
        echo 'int main(void) { unsigned a = 0;'
        for file in $(seq $files); do echo "    a += sum_$file(1) != 0;"; done
        echo '    printf("%u\n", a); }'
    } >"$tree/source/main.c"
}

compile() {
    gcc -O1 -I "$tree/include" -c "$tree/source/$1.c" -o "$tree/objects/$1.o"
}

link() { gcc "$tree"/objects/*.o -o "$tree/program"; }

mkdir -p "$place"
"$leasehold" mount "$metaserver:/x" "$place"
trap '"$leasehold" umount "$place"' EXIT
((number > 1)) || make_tree
touch "$folder/build-ready-$number"
await build-go
began=$EPOCHREALTIME
for file in $(seq "$number" "$count" $files); do compile "c$file"; done
touch "$folder/build-done-$number"
((number == 1)) || exit 0
compile main
for other in $(seq "$count"); do await "build-done-$other"; done
# What others have compiled may be seen a window later, and until then something is missing.
for _ in $(seq 100); do
    ! link || break
    sleep 0.1
done
[[ $("$tree/program") == "$files" ]]
ended=$EPOCHREALTIME
awk "BEGIN { print ${ended/,/.} - ${began/,/.} }"
