"""What a confined process must not be able to do, as Python an agent could run. Each attempt is a function that returns
when it succeeded, and raises OSError where it was refused.

Run as a program, in any of three ways: `outside` makes the attempts where nothing confines them; `strict` and `stdlib`
make a turn of that tier, whose agent makes them. It prints what became of each, as JSON. Only cruft_sched and the
standard library are needed, so that it also runs as a user who can read nothing else.
"""

from __future__ import annotations

import json
import os
import sys

AGENT = r'''
import ctypes, errno, fcntl, mmap, os, resource, select, signal, socket, subprocess, sys, termios, threading, time

folder, port, parent = context["folder"], context["port"], context["parent"]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
buffer = ctypes.create_string_buffer(256)

def checked(returned, allowed=()):
    """A call's result; an error number that says the call itself was let through is a success."""
    code = ctypes.get_errno()
    if returned in (-1, ctypes.c_void_p(-1).value) and code not in allowed:
        raise OSError(code, os.strerror(code))
    return returned

def raw(x86_64, aarch64, *arguments, allowed=()):
    number = x86_64 if os.uname().machine == "x86_64" else aarch64
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return checked(libc.syscall(ctypes.c_long(number), *converted), allowed)

def opened(path, flags=os.O_RDONLY):
    os.close(os.open(path, flags))

def new(name):
    return f"{folder}/{name}-{os.getpid()}"

def in_a_child(act):
    pid = os.fork()
    if pid == 0:
        try: act()
        except OSError as error: os._exit(error.errno)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code: raise OSError(code, "in a child")

def thread():
    try: started = threading.Thread(target=int)
    except RuntimeError: raise OSError(errno.EPERM, "no thread")
    try: started.start()
    except RuntimeError: raise OSError(errno.EPERM, "no thread")
    started.join()

def system(command):
    code = os.system(command)
    if code: raise OSError(code, "os.system")

def run_program():
    subprocess.run(["/bin/true"], check=True)

def execute():
    try: os.execv("/no/such/program", ["x"])
    except FileNotFoundError: return

def connect():
    with socket.socket() as to: to.connect(("127.0.0.1", port))

def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to: to.sendto(b"x", ("127.0.0.1", port))

def a_socket(family, kind=socket.SOCK_STREAM):
    return lambda: socket.socket(family, kind).close()

def pair():
    for end in socket.socketpair(): end.close()

def executable_memory(flags=0x22, fd=-1, prot=7):
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    checked(libc.mmap(None, 4096, prot, flags, fd, 0))

def made_executable():
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    page = checked(libc.mmap(None, 4096, 3, 0x22, -1, 0))
    checked(libc.mprotect(ctypes.c_void_p(page), 4096, 5))

def file_made_executable():
    with open(context["file"], "rb") as file: executable_memory(2, file.fileno(), 7)

def raise_limit(which):
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (hard if soft == 0 else soft // 2, hard))
    resource.setrlimit(which, (hard, hard))

def vm_read():
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
    raw(310, 270, parent, ctypes.byref(local), 1, ctypes.byref(local), 1, 0, allowed=(errno.EFAULT,))

def ioctl_terminal():
    with open("/dev/tty", "rb", buffering=0) as tty: fcntl.ioctl(tty, termios.TIOCGWINSZ, b"\0" * 8)

def pipes():
    for end in os.pipe(): os.close(end)

def own(path):
    return f"/proc/self/{path}"

def of_parent(path):
    return f"/proc/{parent}/{path}"

reading = os.O_RDONLY
ATTEMPTS = {
    "read a file": lambda: opened("/etc/passwd"),
    "read a device": lambda: opened("/dev/zero"),
    "read our own program": lambda: opened(sys.executable),
    "read a file of the project": lambda: opened(context["file"]),
    "take a path": lambda: opened("/etc/passwd", os.O_PATH),
    "list the root": lambda: os.listdir("/"),
    "list a folder": lambda: os.listdir(folder),
    "read a link": lambda: os.readlink("/proc/self/exe"),
    "make a file": lambda: opened(new("file"), os.O_CREAT | os.O_WRONLY),
    "make a file without a name": lambda: opened(folder, os.O_TMPFILE | os.O_WRONLY),
    "write a file": lambda: opened(f"{folder}/there", os.O_WRONLY),
    "append to a file": lambda: opened(f"{folder}/there", os.O_WRONLY | os.O_APPEND),
    "write a device": lambda: opened("/dev/null", os.O_WRONLY),
    "truncate a file": lambda: os.truncate(f"{folder}/there", 0),
    "remove a file": lambda: (opened(new("gone"), os.O_CREAT | os.O_WRONLY), os.unlink(new("gone"))),
    "unlink": lambda: checked(libc.unlink(f"{folder}/nothing".encode()), (errno.ENOENT,)),
    "rename": lambda: checked(libc.rename(f"{folder}/nothing".encode(), b"/x"), (errno.ENOENT,)),
    "make a folder": lambda: os.mkdir(new("folder")),
    "make a link": lambda: os.symlink("x", new("link")),
    "make a hard link": lambda: os.link(f"{folder}/there", new("hard")),
    "make a named pipe": lambda: os.mkfifo(new("fifo")),
    "change a mode": lambda: checked(libc.chmod(f"{folder}/nothing".encode(), 0o777), (errno.ENOENT,)),
    "change an owner": lambda: checked(libc.chown(f"{folder}/nothing".encode(), 0, 0), (errno.ENOENT,)),
    "change a time": lambda: os.utime(f"{folder}/there"),
    "change the folder": lambda: os.chdir("/etc"),
    "change the umask": lambda: raw(95, 166, 0o22),
    "read its own environment": lambda: opened(own("environ")),
    "read its own memory": lambda: opened(own("mem")),
    "write its own memory": lambda: opened(own("mem"), os.O_RDWR),
    "read its own maps": lambda: opened(own("maps")),
    "list its own descriptors": lambda: os.listdir(own("fd")),
    "read its parent's environment": lambda: opened(of_parent("environ")),
    "read its parent's memory": lambda: opened(of_parent("mem")),
    "read its parent's command": lambda: opened(of_parent("cmdline")),
    "list processes": lambda: os.listdir("/proc"),
    "look at a file": lambda: os.stat("/etc/passwd"),
    "ask for access to a file": lambda: checked(libc.access(b"/etc/passwd", 4)),
    "open an IPv4 socket": a_socket(socket.AF_INET),
    "open an IPv6 socket": a_socket(socket.AF_INET6),
    "open a UDP socket": a_socket(socket.AF_INET, socket.SOCK_DGRAM),
    "open a Unix socket": a_socket(socket.AF_UNIX),
    "open a netlink socket": a_socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "open a packet socket": a_socket(socket.AF_PACKET, socket.SOCK_RAW),
    "open a socket pair": pair,
    "connect": connect,
    "send": send,
    "fork": lambda: in_a_child(int),
    "clone": lambda: raw(435, 435, ctypes.byref(buffer), 0, allowed=(errno.EINVAL,)),
    "start a thread": thread,
    "run a shell": lambda: system("true"),
    "run a program": run_program,
    "spawn a program": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
    "execute": execute,
    "be traced": lambda: in_a_child(lambda: raw(101, 117, 0, 0, 0, 0)),
    "trace its parent": lambda: raw(101, 117, 0x4206, parent, 0, 0),
    "read its parent's memory at once": vm_read,
    "signal its parent": lambda: os.kill(parent, 0),
    "signal itself": lambda: os.kill(os.getpid(), 0),
    "signal a thread": lambda: raw(234, 131, os.getpid(), os.getpid(), 0),
    "hold on to its parent": lambda: os.close(os.pidfd_open(parent)),
    "set up an io_uring": lambda: os.close(raw(425, 425, 4, ctypes.byref(buffer))),
    "make a file in memory": lambda: os.close(raw(319, 279, b"x", 0)),
    "load a kernel program": lambda: os.close(raw(321, 280, 0, context["bpf_map"].encode("latin-1"), 72)),
    "catch page faults": lambda: os.close(raw(323, 282, 0)),
    "use keys": lambda: raw(250, 219, 0, -3, 0, allowed=(errno.ENOKEY,)),
    "measure performance": lambda: raw(298, 241, 0, 0, -1, -1, 0, allowed=(errno.EFAULT, errno.E2BIG, errno.EINVAL)),
    "change its personality": lambda: raw(135, 92, 0xFFFFFFFF),
    "leave its namespaces": lambda: in_a_child(lambda: raw(272, 97, 0x10000000)),
    "enter a namespace": lambda: raw(308, 268, -1, 0, allowed=(errno.EBADF,)),
    "mount": lambda: raw(165, 40, b"none", b"/no/such/folder", b"tmpfs", 0, 0, allowed=(errno.ENOENT,)),
    "change the root": lambda: raw(161, 51, b"/no/such/folder", allowed=(errno.ENOENT,)),
    "share memory": lambda: raw(29, 194, 0, 4096, 0o600),
    "make a queue": lambda: raw(68, 186, 0, 0o600),
    "watch files": lambda: os.close(raw(294, 26, 0)),
    "make an event descriptor": lambda: os.close(os.eventfd(0)),
    "make a timer descriptor": lambda: os.close(raw(283, 85, 1, 0)),
    "make a pipe": pipes,
    "copy a descriptor": lambda: os.close(os.dup(2)),
    "wait for descriptors": lambda: select.select([], [], [], 0),
    "have executable memory": executable_memory,
    "make memory executable": made_executable,
    "execute a file it can write to in memory": file_made_executable,
    "raise its limit of descriptors": lambda: raise_limit(resource.RLIMIT_NOFILE),
    "raise its limit of file sizes": lambda: raise_limit(resource.RLIMIT_FSIZE),
    "raise its limit of memory": lambda: raise_limit(resource.RLIMIT_AS),
    "handle a signal": lambda: signal.signal(signal.SIGXCPU, lambda *_: None),
    "block signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, []),
    "set an alarm": lambda: signal.setitimer(signal.ITIMER_REAL, 0),
    "make a timer": lambda: raw(222, 107, 1, 0, ctypes.byref(buffer)),
    "disarm its timers": lambda: raw(226, 111, 0, allowed=() if confined else (errno.EINVAL,)),
    "change its user": lambda: os.setuid(os.getuid()),
    "change its group": lambda: os.setgid(os.getgid()),
    "change its groups": lambda: os.setgroups([]),
    "change its capabilities": lambda: raw(125, 90, (ctypes.c_uint32 * 2)(0x20080522, 0), 0),
    "become dumpable": lambda: checked(libc.prctl(4, 1, 0, 0, 0)),
    "outlive its driver": lambda: checked(libc.prctl(1, 0, 0, 0, 0)),
    "filter its calls": lambda: raw(317, 277, 1, 0, 0, allowed=(errno.EFAULT,)),
    "rename itself": lambda: checked(libc.prctl(15, b"init", 0, 0, 0)),
    "change its priority": lambda: os.nice(0),
    "lock memory": lambda: checked(libc.mlockall(1)),
    "open a terminal": ioctl_terminal,
    "read the kernel's log": lambda: raw(103, 116, 3, ctypes.byref(buffer), 10),
    "reboot": lambda: raw(169, 142, 0, 0, 0, 0, allowed=(errno.EINVAL,)),
    "set the clock": lambda: raw(227, 112, 99, 0, allowed=(errno.EINVAL, errno.EFAULT)),
}

def attempt(act):
    try: act()
    except OSError as error: return error.errno
    return 0

results = {name: attempt(act) for name, act in ATTEMPTS.items()}
uses = (lambda fd: os.read(fd, 0), lambda fd: os.write(fd, b""))
results["have descriptors"] = [fd for fd in range(3, 64) if any(attempt(lambda: use(fd)) == 0 for use in uses)]
results["have an environment"] = sorted(os.environ)
results["read its standard input"] = os.read(0, 1).decode("latin-1")
'''

_STRICT_BOOT = (
    "import sys; sys.path[:0] = sys.argv[3:]; "
    "import ctypes, errno, fcntl, mmap, os, resource, select, signal, socket, subprocess, termios, threading, time; "
    "from cruft_sched.turns import child; child._TIERS['python'] = 'strict'; child.main()"
)


def outside(context: dict[str, object]) -> object:
    """Make the attempts in a child of this process, at the terminal that our standard input is."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    context["parent"] = os.getpid()
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    names = {"context": context, "confined": False}
    exec(AGENT, names)  # noqa: S102  # the same source as the agent's, without its compartment
    return names["results"]


def confined(context: dict[str, object], tier: str) -> object:
    """Make the attempts as an agent of a turn of a tier."""
    import msgspec

    from cruft_sched.core.policy import Budgets
    from cruft_sched.turns import launcher
    from cruft_sched.turns.turn import Turn, run_turn

    if tier == "strict":  # a Python agent, so that it can try; what it imports is there before it is confined
        launcher._BOOT = _STRICT_BOOT
    turn = Turn(
        source=b"confined = True\n" + AGENT.encode() + b"\nclose(results)",
        context={key: msgspec.Raw(msgspec.json.encode(value)) for key, value in context.items()},
        state={},
        budgets=Budgets(timeout_ms=20_000),
        language="python",
        scheduled=False,
    )
    levels: list[object] = []
    ending = run_turn(turn, lambda _kind, _fields: None, on_ready=levels.append).ending
    return json.loads(msgspec.json.encode({"level": levels[0] if levels else None, "ending": ending}))


def main(tier: str, context: dict[str, object]) -> None:
    context["parent"] = os.getpid()
    answer = outside(context) if tier == "outside" else confined(context, tier)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
