# One of those who work on the same files at once, as exact as this kernel's client can be. The
# lines before say where a Python is, where chance begins, and the port of whoever asks.
mount_options=$mount_options,noac,lookupcache=none
remount
"$python" /run/worker.py /mnt "$seed" 900000 "$port"
