# Data that another client's mount has not flushed yet is readable here, and data written here is
# readable there.
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
