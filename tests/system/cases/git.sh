# git creates a repository on the mount, clones it and finds no error in it.
export HOME=/run GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init -q -b main first
cp /usr/include/linux/[a-f]*.h first
(
    cd first
    git add .
    git commit -q -m one
    sed -i 's/linux/LINUX/' a*.h
    git commit -q -a -m two
    git gc -q
)
git clone -q --no-hardlinks first second
git clone -q first linked
for clone in second linked; do
    git -C "$clone" fsck --strict --no-progress
    same "$(git -C "$clone" status --porcelain)" "" "status of $clone"
done
remount
cd second
git status --porcelain | cmp - /dev/null
git checkout -q -b other HEAD~1
git fsck --strict --no-progress
same "$(git rev-list --count main)" 2 "commits"
git merge -q main
diff -r --exclude=.git ../first .
