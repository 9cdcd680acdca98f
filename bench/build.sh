#!/bin/bash
# One of several clients that build a program together, each through its own mount of a metaserver:
# it compiles its share of the files by make. The first client copies the tree beforehand, and links
# and runs the result of all. The client runs in a mount namespace of its own.
#
#   bash build.sh tree FOLDER
#   bash build.sh client LEASEHOLD METASERVER FOLDER NUMBER COUNT
#
# The first form makes the tree in the local FOLDER, builds it there too, and prints the build time
# in seconds. The caller of the clients creates `build-go` in FOLDER after each client has created
# `build-ready-NUMBER` there. Each client prints three numbers: the seconds from the start until the
# program was linked and had run (only the first client knows them), the object files that differ
# from the local build through its own mount, and the object files in total.
# knows them), how many object files are not as the local build's by its own mount, and of how many.
set -euo pipefail
files=24 functions=30 headers=6

make_tree() {
    local tree=$1 file function header
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
    printf 'objects/%%.o: source/%%.c $(wildcard include/*.h)\n\tgcc -O1 -Iinclude -c $< -o $@\n' \
        >"$tree/Makefile"
}

# Compiles the named targets by make, two at once, in the tree.
compile() { make -s -C "$1" -j 2 "${@:2}"; }

link() { gcc "$1"/objects/*.o -o "$1/program"; }

seconds() { awk "BEGIN { print ${2/,/.} - ${1/,/.} }"; }

all=()
for file in $(seq $files); do all+=("objects/c$file.o"); done
all+=(objects/main.o)

if [[ $1 = tree ]]; then
    make_tree "$2/tree"
    cp -r "$2/tree" "$2/local"
    began=$EPOCHREALTIME
    compile "$2/local" "${all[@]}"
    link "$2/local"
    [[ $("$2/local/program") == "$files" ]]
    seconds "$began" "$EPOCHREALTIME"
    exit
fi

leasehold=$2 metaserver=$3 folder=$4 number=$5 count=$6
place=$folder/mount$number
tree=$place/build

await() {
    for _ in $(seq 24000); do
        [[ -e $folder/$1 ]] && return
        sleep 0.005
    done
    echo "build.sh: $1 does not come" >&2
    exit 3
}

# Prints the number of object files that differ from the local build. Files of other clients may
# become visible one window later.
unlike() {
    local object wrong=0
    for object in "${all[@]}"; do
        for _ in $(seq 100); do
            ! cmp -s "$tree/$object" "$folder/local/$object" || continue 2
            sleep 0.1
        done
        wrong=$((wrong + 1))
    done
    echo "$wrong"
}

mkdir -p "$place"
"$leasehold" mount "$metaserver:/x" "$place" >&2
trap '"$leasehold" umount "$place" >&2' EXIT
((number > 1)) || cp -r "$folder/tree" "$tree"
touch "$folder/build-ready-$number"
await build-go
began=$EPOCHREALTIME
own=()
for file in $(seq "$number" "$count" $files); do own+=("objects/c$file.o"); done
((number > 1)) || own+=(objects/main.o)
compile "$tree" "${own[@]}"
touch "$folder/build-done-$number"
took=-
if ((number == 1)); then
    for other in $(seq "$count"); do await "build-done-$other"; done
    # Files of other clients may become visible one window later, and are missing until then.
    for _ in $(seq 100); do
        ! link "$tree" || break
        sleep 0.1
    done
    [[ $("$tree/program") == "$files" ]]
    took=$(seconds "$began" "$EPOCHREALTIME")
    touch "$folder/build-linked"
fi
await build-linked
echo "$took $(unlike) ${#all[@]}"
