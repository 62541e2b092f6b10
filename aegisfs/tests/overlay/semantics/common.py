"""What every program here begins with."""
import ctypes, errno, fcntl, mmap, os, signal, socket, stat, struct, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)


def tell(what, call, *arguments):
    """Prints what a call returns, or the name of its error."""
    try:
        answer = call(*arguments)
    except OSError as error:
        answer = errno.errorcode[error.errno]
    print(what, answer, flush=True)
    return answer


def system(number, *arguments):
    """A call of the C library that sets errno."""
    answer = number(*arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "")
    return answer


def rename(old, new, flags=0):
    """renameat2(2)"""
    return system(libc.renameat2, -100, os.fsencode(old), -100, os.fsencode(new), flags)


def write(name, text, how="w"):
    with open(name, how) as file:
        file.write(text)


def read(name):
    with open(name) as file:
        return file.read()


def child(work):
    """Runs `work` in a process of its own; returns the number that it exits with."""
    process = os.fork()
    if process == 0:
        code = 99
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return process


def give(name, user, group):
    """Changes the owner; only root can give files away."""
    if os.getuid() == 0:
        os.chown(name, user, group)


def as_user(user, work, group=None):
    """Runs `work` as an ordinary user; only root can."""
    def run():
        os.setgroups([])
        os.setgid(group or user)
        os.setuid(user)
        work()

    if os.getuid() == 0:
        print(user, "exit", ended(child(run)), flush=True)


def ended(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
