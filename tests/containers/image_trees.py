"""The trees that `scripts/images --trees` leaves, and processes in them as a container engine
starts them.

A process is the first of its PID namespace, its root is read-only, it runs as the image's user
without capabilities or new privileges. All share one network of their own, where the services'
names are 127.0.0.1. """

import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from container_files import ROOT

IMAGES = ("tandem-draft", "tandem-target", "tandem-orchestrator", "tandem", "tandem-demo-models")
CACHE = pathlib.Path(
    os.environ.get("TANDEM_CACHE") or
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tandem")
FOLDER = pathlib.Path(os.environ.get("TANDEM_IMAGES") or CACHE / "images")
PATIENCE = 120  # seconds; conditions decide, not this
DEVICES = ("null", "zero", "full", "random", "urandom")


def skip(why):
    """Ends this test program; ctest shows it as skipped."""
    print(f"SKIPPED: the whole test: {why}")
    sys.exit(0)


def build():
    """The real Dockerfile, by buildah; its output goes where this test's goes. Minutes to an
    hour."""
    if os.geteuid() != 0:
        skip("root is required to build trees and to change the root of a process")
    for program in ("buildah", "debootstrap", "unshare", "setpriv", "readelf"):
        if not shutil.which(program):
            skip(f"no {program} here (a Debian package)")
    subprocess.run([ROOT / "scripts/images", "--trees", FOLDER], check=True)


def tree(image):
    return FOLDER / "trees" / image


def config(image):
    """What the image says of itself: User, Entrypoint, ExposedPorts, StopSignal, Labels."""
    return json.loads((FOLDER / "trees" / f"{image}.json").read_text())["OCIv1"]["config"]


def files(image):
    """Every regular file of a tree, by its path inside."""
    root = tree(image)
    for folder, _, names in os.walk(root):
        for name in names:
            path = pathlib.Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield "/" + str(path.relative_to(root)), path


def own_network():
    """This process and its children get a network with nothing but 127.0.0.1."""
    clone_newnet, siocsifflags, up_running = 0x40000000, 0x8914, 0x41
    if ctypes.CDLL(None, use_errno=True).unshare(clone_newnet) != 0:
        skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, siocsifflags, struct.pack("16sh14x", b"lo", up_running))


class Container:
    """A command in an image's tree. mounts: {path inside: path here}, read-only but for those in
    writable."""

    def __init__(self, image, arguments=None, command=None, mounts=None, writable=()):
        self.image = image
        self.output = tempfile.TemporaryFile()
        said = config(image)
        words = command or [*said["Entrypoint"], *(arguments or [])]
        steps = ["set -e", f"root={tree(image)}", 'mount --bind "$root" "$root"', 'cd "$root"',
                 'mount -t tmpfs -o mode=755 dev dev', 'mount -t proc proc proc']
        for device in DEVICES:
            steps += [f"touch dev/{device}", f"mount --bind /dev/{device} dev/{device}"]
        for inside, here in (mounts or {}).items():
            point = tree(image) / inside.lstrip("/")
            point.parent.mkdir(parents=True, exist_ok=True)  # as an engine does
            if pathlib.Path(here).is_dir():
                point.mkdir(exist_ok=True)
            else:
                point.touch()
            steps.append(f"mount --bind {here} {point}")
            if inside not in writable:
                steps.append(f"mount -o remount,bind,ro {point}")
        steps.append('mount -o remount,bind,ro "$root"')
        steps.append(f'exec setpriv --no-new-privs chroot --userspec={said["User"]} "$root" "$@"')
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private",
             "sh", "-c", "\n".join(steps), "sh", *words],
            stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})

    def pid(self):
        """Of the first process inside, as it is seen from here."""
        own = self.process.pid
        return int(pathlib.Path(f"/proc/{own}/task/{own}/children").read_text().split()[0])

    def status(self):
        """/proc/PID/status as {name: value}."""
        lines = pathlib.Path(f"/proc/{self.pid()}/status").read_text().splitlines()
        return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}

    def wait(self, timeout=PATIENCE):
        return self.process.wait(timeout)

    def stop(self, timeout):
        """As an engine does; the exit status, or TimeoutExpired."""
        os.kill(self.pid(), signal.Signals[config(self.image)["StopSignal"]])
        return self.wait(timeout)

    def end(self):
        self.process.kill()  # --kill-child takes the first process along, and that its namespace
        self.process.wait()
        self.output.close()

    def text(self):
        with os.fdopen(os.open(f"/proc/self/fd/{self.output.fileno()}", os.O_RDONLY), "rb") as output:
            return output.read().decode(errors="replace")


def run(image, *command, arguments=None, mounts=None, writable=()):
    """(exit status, output) of a command in an image's tree."""
    container = Container(image, arguments=arguments, command=list(command) or None, mounts=mounts, writable=writable)
    try:
        status = container.wait()
        return status, container.text()
    finally:
        container.end()


def until(what, ask):
    """Waits until ask() is true; what it was waited for is in the message."""
    end = time.monotonic() + PATIENCE
    while not ask():
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.1)
