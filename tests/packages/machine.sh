#!/bin/sh
# A Debian of a test's own, in namespaces, with no network but a loopback of its own.
#
#   machine.sh keep FOLDER ROOT INIT REAPER...   starts it, prints its first pid, ends it when stdin ends
#   machine.sh become FOLDER ROOT INIT           is it: lays the files and becomes INIT
#
# FOLDER is empty and the machine's own, ROOT has the files of the system, FOLDER/shared is its /media. REAPER is the
# command that kills what lives in a cgroup.
set -eu
command=$1 folder=$2 root=$3 init=$4

keep() {
    mkdir "$folder/cgroup"
    mount -t cgroup2 cgroup2 "$folder/cgroup"
    cgroup=$folder/cgroup/edgeagent-packages-$$
    mkdir "$cgroup"
    (
        echo 0 >"$cgroup/cgroup.procs"
        # A cgroup namespace has the cgroup for its root in which the process stands at that moment.
        exec unshare --pid --fork --cgroup --ipc --uts --net --mount --propagation private -- \
            sh "$0" become "$folder" "$root" "$init"
    ) </dev/null >"$folder/boot.log" 2>&1 &
    while pid=$(cat "/proc/$!/task/$!/children") && [ -z "$pid" ]; do sleep 0.05; done
    echo "$pid"
    exec "$@" "$cgroup"
}

become() {
    mkdir "$folder/memory"
    mount -t tmpfs tmpfs "$folder/memory"
    mkdir "$folder/memory/upper" "$folder/memory/work" "$folder/memory/root"
    machine=$folder/memory/root
    mount -t overlay -o "lowerdir=$root,upperdir=$folder/memory/upper,workdir=$folder/memory/work" overlay "$machine"
    mount -t proc proc "$machine/proc"
    mount --bind "$machine/proc/sys" "$machine/proc/sys"
    mount -o remount,bind,ro "$machine/proc/sys"
    mount -t sysfs -o ro sysfs "$machine/sys"
    mount -t cgroup2 cgroup2 "$machine/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$machine/run"
    mount -t tmpfs -o mode=755 tmpfs "$machine/dev"
    mkdir "$machine/dev/shm" "$machine/dev/pts"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$machine/dev/pts"
    ln -s pts/ptmx "$machine/dev/ptmx"
    for device in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "$machine/dev/${device%:*}" c 1 "${device#*:}"
    done
    ln -s /proc/self/fd "$machine/dev/fd"
    mount --bind "$folder/shared" "$machine/media"
    mount -o remount,bind,ro "$machine/media"
    mkdir "$machine/mnt/outside"
    cd "$machine"
    pivot_root . mnt/outside
    umount -l /mnt/outside
    rmdir /mnt/outside
    # As on a real machine, so that a later mount arrives in the sandbox of a service.
    mount --make-rshared /
    exec env -i container=edgeagent-tests PATH=/usr/sbin:/usr/bin:/sbin:/bin $init
}

[ "$command" = become ] || shift 4
"$command" "$@"
