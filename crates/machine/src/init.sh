#!/bin/sh
# The first process of a guest: makes a system of what is in memory, runs /script in /out, leaves the results where the
# host reads them, and ends the machine.
PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export PATH HOME LANG
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
chmod 1777 /tmp
mkdir -p /run/netns /run/lock /var/lib /var/tmp
stty -F /dev/ttyS0 raw -echo
stty -F /dev/ttyS1 raw -echo
ip link set lo up
ulimit -n 65536
ulimit -c 0
cd /out || exit
sh /script < /dev/null > /dev/ttyS0 2> /dev/ttyS1
echo $? > /out/.status
modprobe nfit
modprobe nd_pmem
tar cf /dev/pmem0 -C /out . 2> /dev/ttyS1
sync
echo b > /proc/sysrq-trigger
