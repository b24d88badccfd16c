#!/bin/sh
# The first process of the arm64 machine of scripts/try-arm64: makes a system of what is in memory, runs the trial, tells
# its status in the last line, and ends the machine.
PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export PATH HOME LANG
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
mkdir -p /run/netns /run/lock
ip link set lo up
cd /root/trial
bash trial.sh </dev/null >/dev/console 2>&1
echo "arm64: $?" >/dev/console
sleep 1
echo b >/proc/sysrq-trigger
sleep 5
