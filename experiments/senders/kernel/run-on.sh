#!/bin/sh
# Runs a program of ours on another Linux kernel, in a virtual machine that holds nothing but the kernel of a Debian package,
# this program, and what it calls. The machine's own kernel and network are not touched.
#
#   run-on.sh KERNEL.deb PROGRAM [ARGUMENT...]
#
# PROGRAM is `narrows`, or a test program of cargo's; NARROWS_BIN names the `narrows` it starts (by default the one beside it).
# VM_ENV, if set, holds more variables for it, as "RUST_BACKTRACE=1 A=b"; VM_MEMORY is its memory (1G).
#
# Its clock counts instructions, one a nanosecond, and jumps where nothing is to be done. So nobody inside is ever late because
# the host had other work; it takes a few times as long.
#
# Needs qemu-system-x86, busybox-static, cpio, iproute2, ethtool and libbpf1 (Debian's names). Ends with the program's answer.
set -eu

say() { echo "run-on.sh: $*" >&2; exit 2; }

[ $# -ge 2 ] || say "usage: run-on.sh KERNEL.deb PROGRAM [ARGUMENT...]"
package=$1
program=$(readlink -f "$2")
shift 2
[ -f "$package" ] || say "$package: no such package; apt-get download linux-image-... fetches one"
[ -x "$program" ] || say "$program is no program"
narrows=${NARROWS_BIN:-$(dirname "$program")/narrows}
[ -x "$narrows" ] || say "no narrows at $narrows: set NARROWS_BIN"
for need in qemu-system-x86_64 busybox cpio ip tc ss ethtool dpkg-deb; do
    command -v "$need" >/dev/null || say "needs $need"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/run" "$root/etc"
dpkg-deb -x "$package" "$work/kernel"
vmlinuz=$(echo "$work"/kernel/boot/vmlinuz-*)
release=${vmlinuz##*/vmlinuz-}

# A program and the libraries it is linked with, where it looks for them.
bring() {
    cp -L "$1" "$root/bin/$2"
    ldd "$1" 2>/dev/null | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -Ln "$library" "$root$library"
    done
}
bring "$program" program
bring "$narrows" narrows
bring "$(command -v busybox)" busybox
for tool in ip tc ss ethtool; do bring "$(command -v "$tool")" "$tool"; done
# Looked for when it is needed, so no program is linked with it.
libbpf=$(ldconfig -p | sed -n 's/.*libbpf\.so\.1 .*=> //p' | head -n 1)
[ -n "$libbpf" ] || say "needs libbpf1"
bring "$libbpf" libbpf.so.1
mkdir -p "$root$(dirname "$libbpf")"
mv "$root/bin/libbpf.so.1" "$root$libbpf"

modules=lib/modules/$release
mkdir -p "$root/$modules/kernel/drivers/net"
for part in net drivers/net/veth.ko drivers/net/veth.ko.xz; do
    [ -e "$work/kernel/$modules/kernel/$part" ] && cp -r "$work/kernel/$modules/kernel/$part" "$root/$modules/kernel/$part"
done
cp "$work/kernel/$modules"/modules.builtin* "$work/kernel/$modules/modules.order" "$root/$modules/" 2>/dev/null || true
busybox depmod -b "$root" "$release"

arguments=
for argument in "$@"; do arguments="$arguments '$argument'"; done
cat >"$root/init" <<EOF
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ NARROWS_BIN=/bin/narrows ${VM_ENV-}
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
ip link set lo up
for module in veth sch_tbf sch_netem tcp_diag; do modprobe \$module 2>/dev/null; done
ulimit -n 1048576
cd /tmp
echo "running on \$(uname -sr)"
/bin/program$arguments
echo "answer: \$?"
poweroff -f
EOF
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initrd"

qemu-system-x86_64 -accel tcg -icount shift=0,sleep=off -cpu max -smp 1 -m "${VM_MEMORY:-1G}" -nodefaults -no-user-config \
    -display none -no-reboot -serial stdio -kernel "$vmlinuz" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1" </dev/null | sed -u 's/\r$//' | tee "$work/said"
answer=$(sed -n 's/^answer: //p' "$work/said" | tail -n 1)
exit "${answer:-1}"
