# What a mount of another client has not written yet is read, and what is written here is read there.
mount_options=$mount_options,noac
remount
ask "make it dirty"
while is_asking; do sleep 0.05; done
begin=$(date +%s%N)
read -r text <file || true
end=$(date +%s%N)
same "$text" "written late"
echo "by the kernel" >file
echo "what a mount had not written was read after $(((end - begin) / 1000)) us" >measured
