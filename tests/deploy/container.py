"""Runs a program in a folder as a container runtime would: with a read-only root, without privileges. Needs root.

Mounts, processes and the network are the container's own; the program has the given user, no capability, and no way to get
one. What is left out is what a runtime adds on top: control groups, system call filters, published ports.
"""
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags, data=""):
    check(LIBC.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()))


def own_network():
    """From here on this process, and what it starts, has a network of its own, with nothing but a loopback."""
    check(LIBC.unshare(CLONE_NEWNET))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        flags = struct.unpack("16xH22x", fcntl.ioctl(sock, 0x8913, struct.pack("16s24x", b"lo")))[0]  # SIOCGIFFLAGS
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH22x", b"lo", flags | 1))  # SIOCSIFFLAGS, IFF_UP


def enter(root, binds, user):
    """In a process of the container: its mounts, then its user. `binds` is {place inside: (path outside, writable)}."""
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    mount(root, root, "none", MS_BIND)
    for inside, (outside, writable) in binds.items():
        mount(outside, root + inside, "none", MS_BIND)
        flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | (0 if writable else MS_RDONLY)
        mount("none", root + inside, "none", flags)
    mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", root + "/dev", "tmpfs", MS_NOSUID, "mode=755,size=64k")
    for name in ("null", "urandom"):
        os.close(os.open(f"{root}/dev/{name}", os.O_CREAT))
        mount(f"/dev/{name}", f"{root}/dev/{name}", "none", MS_BIND)
    mount("none", root + "/dev", "none", MS_REMOUNT | MS_RDONLY | MS_NOSUID)
    mount("none", root, "none", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.chroot(root)
    os.chdir("/")
    for capability in range(64):
        if LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # the kernel has no more
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def main(root, user, binds, arguments):
    """The process that waits: the container's first process is its child, and ends with it."""
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID))
    child = os.fork()
    if child == 0:
        enter(root, binds, user)
        check(LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))  # last: a change of the user takes it back
        path = next(p for p in (f"{way}/{arguments[0]}" for way in os.environ["PATH"].split(":")) if os.path.exists(p))
        os.execve(path, arguments, os.environ)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status) & 255)


def start(root, user, environment, binds, arguments, **options):
    """A Popen of the arguments in the container; a signal to it reaches the first process."""
    words = [f"{inside}={outside}={'rw' if writable else 'ro'}" for inside, (outside, writable) in binds.items()]
    return subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), root, str(user), ",".join(words), *arguments], env=environment, **options
    )


if __name__ == "__main__":
    mounts = [word.split("=") for word in sys.argv[3].split(",") if word]
    main(sys.argv[1], int(sys.argv[2]), {place: (path, mode == "rw") for place, path, mode in mounts}, sys.argv[4:])
