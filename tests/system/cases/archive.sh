# Copied, packed and unpacked trees stay equal.
source=/usr/include/linux
cp -a "$source" copied
diff -r --no-dereference "$source" copied

tar -cf packed.tar -C /usr/include linux
mkdir unpacked
tar -xf packed.tar -C unpacked --strip-components=1
diff -r --no-dereference "$source" unpacked

remount
diff -r --no-dereference "$source" unpacked
same "$(find copied -type f | wc -l)" "$(find "$source" -type f | wc -l)" "number of files"
same "$(stat -c '%Y %a %u' copied/nfs3.h)" "$(stat -c '%Y %a %u' "$source/nfs3.h")" "attributes"

rm -rf copied unpacked packed.tar
same "$(names)" "" "what is left"
