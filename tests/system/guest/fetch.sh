#!/usr/bin/env bash
# Fetches the parts of a guest into the folder $1: a user-mode Linux kernel of the Debian release $2
# with the C library that it was linked with, and a statically linked busybox. Does not change the
# machine's own packages and package lists.
set -euo pipefail
folder=$1 release=$2

new=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$new"' EXIT
cd "$new"
mkdir -p lists/partial cache/archives/partial

apt=(apt-get --quiet -o Acquire::Retries=5 -o APT::Sandbox::User=root -o "Dir::State::lists=$new/lists"
    -o "Dir::Cache=$new/cache")
# From the machine's own mirror, independent of the machine's release.
mirror=$(apt-get indextargets --format '$(REPO_URI)' | awk '/\/debian\/*$/ && !n++')
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >sources
apt+=(-o "Dir::Etc::sourcelist=$new/sources" -o Dir::Etc::sourceparts=-)
"${apt[@]}" update
"${apt[@]}" download user-mode-linux libc6 busybox-static

dpkg-deb -x user-mode-linux_*.deb .
dpkg-deb -x busybox-static_*.deb static
mv "$(find static -type f -path '*bin/busybox')" busybox
mkdir libc
dpkg-deb --fsys-tarfile libc6_*.deb | tar -x -C libc --wildcards --transform 's,.*/,,' \
    '*/x86_64-linux-gnu/libc.so.6' '*/x86_64-linux-gnu/ld-linux-x86-64.so.2'
# The kernel names its dynamic linker by an absolute path, where a machine of another release has an
# unsuitable one. A relative path of the same length leads to the linker in this folder; a start of
# the kernel as an argument of that linker would hide the kernel's own file from it.
LC_ALL=C sed -i 's,/lib64/ld-linux-x86-64\.so\.2,libc/ld-linux-x86-64.so.2\x00\x00,' \
    usr/bin/linux.uml

rm -rf -- *.deb static lists cache sources usr/share
chmod 755 .
rm -rf "$folder"
mv "$new" "$folder"
trap - EXIT
