# A participant that works on shared files with the strictest settings of this kernel's client. The
# preceding lines name a Python interpreter, the seed, and the port of the requester.
mount_options=$mount_options,noac,lookupcache=none
remount
"$python" /run/worker.py /mnt "$seed" 900000 "$port"
