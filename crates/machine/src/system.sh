#!/bin/sh
# The first process of a guest with a root of its own: mounts that root, leaves the script where the root's systemd
# starts it, and makes way for systemd.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
modprobe nfit
modprobe nd_pmem
mount -t ext4 /dev/pmem0 /root || { echo 'init: no root on /dev/pmem0' > /dev/console; echo b > /proc/sysrq-trigger; }
mount -t tmpfs -o mode=755 run /root/run
mkdir -p /root/run/machine /root/run/systemd/system/multi-user.target.wants
cp /script /machine.sh /root/run/machine/
cp /machine.service /root/run/systemd/system/
ln -s ../machine.service /root/run/systemd/system/multi-user.target.wants/
exec switch_root /root /sbin/init
