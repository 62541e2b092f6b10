# Which call sets which time (POSIX.1, inode(7)); nanoseconds; utimensat(2).
OMIT, NOW = (1 << 30) - 2, (1 << 30) - 1


class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def utimensat(name, accessed, modified, flags=0):
    times = (Time * 2)(Time(*accessed), Time(*modified))
    return system(libc.utimensat, -100, os.fsencode(name) if name else None, times, flags)


def times(name):
    it = os.lstat(name)
    return (it.st_atime_ns, it.st_mtime_ns, it.st_ctime_ns)


def changes(what, names, call, *arguments):
    """Which of the three times of each name a call changes."""
    before = {name: times(name) for name in names if os.path.lexists(name)}
    time.sleep(0.02)
    try:
        call(*arguments)
        end = "ok"
    except OSError as error:
        end = errno.errorcode[error.errno]
    shown = []
    for name in names:
        after = times(name) if os.path.lexists(name) else None
        if name in before and after:
            letters = [letter for letter, old, new in zip("amc", before[name], after) if old != new]
            shown.append(name + ":" + "".join(letters))
        else:
            shown.append(name + (":new" if after else ":gone" if name in before else ":none"))
    print(what, end, *shown, flush=True)


os.mkdir("n")
write("made", "made")
for name in ["x", "made", "d", "n"]:
    old = (1000000001, 123456789)
    utimensat(name, old, (1000000002, 987654321))
    it = os.stat(name)
    print(name, it.st_atime_ns, it.st_mtime_ns)
    utimensat(name, (0, OMIT), (1000000003, 1))
    it = os.stat(name)
    print(name, it.st_atime_ns, it.st_mtime_ns)
    utimensat(name, (1000000004, 2), (0, OMIT))
    it = os.stat(name)
    print(name, it.st_atime_ns, it.st_mtime_ns)
    before = time.time_ns() - 20_000_000
    utimensat(name, (0, NOW), (0, NOW))
    it = os.stat(name)
    print(name, before <= it.st_atime_ns, before <= it.st_mtime_ns)
    utimensat(name, (-5, 3), (-1, 999999999))
    it = os.stat(name)
    print("before 1970", it.st_atime_ns, it.st_mtime_ns)
    utimensat(name, (4102444800, 1), (4102444801, 2))
    it = os.stat(name)
    print("after 2038", it.st_atime_ns, it.st_mtime_ns)
    changes("omit both", [name], utimensat, name, (0, OMIT), (0, OMIT))
    tell("invalid", utimensat, name, (0, 1_000_000_000), (0, 0))
utimensat("s", (1000000005, 7), (1000000006, 8), 0x100)
it = os.lstat("s")
print("link itself", it.st_atime_ns, it.st_mtime_ns, os.stat("s").st_mtime_ns == it.st_mtime_ns)

for name in ["d/z", "a/x", "made", "n/made"]:
    folder = os.path.dirname(name) or "."
    both = [name, folder]
    write(name, "content", "a")
    file = os.open(name, os.O_RDWR)
    changes("write", both, os.pwrite, file, b"more", 2)
    changes("write nothing", both, os.pwrite, file, b"", 2)
    changes("truncate", both, os.ftruncate, file, 3)
    changes("truncate to the same", both, os.ftruncate, file, 3)
    changes("truncate by name to the same", both, os.truncate, name, 3)
    changes("open to truncate", both, lambda: os.close(os.open(name, os.O_WRONLY | os.O_TRUNC)))
    changes("allocate", both, os.posix_fallocate, file, 0, 10000)
    changes("chmod", both, os.chmod, name, 0o640)
    changes("chmod to the same", both, os.chmod, name, 0o640)
    changes("chown", both, os.chown, name, 7, 7)
    changes("chown to nobody new", both, os.chown, name, -1, -1)
    changes("setxattr", both, os.setxattr, name, "user.k", b"v")
    changes("removexattr", both, os.removexattr, name, "user.k")
    changes("link", both, os.link, name, name + ".l")
    changes("unlink", [name, folder, name + ".l"], os.unlink, name + ".l")
    changes("rename", [name, folder], os.rename, name, name + ".r")
    changes("rename back", [name, folder, name + ".r"], os.rename, name + ".r", name)
    os.lseek(file, 0, os.SEEK_SET)
    changes("read", both, os.read, file, 10)
    changes("stat", both, os.stat, name)
    changes("fsync", both, os.fsync, file)
    os.close(file)
for folder in ["a/b", "n"]:
    inside = folder + "/"
    changes("create", [folder, inside + "f"], write, inside + "f", "")
    changes("exclusive", [folder, inside + "f"], lambda: os.open(inside + "f", os.O_CREAT | os.O_EXCL))
    changes("open existing", [folder, inside + "f"], lambda: os.close(os.open(inside + "f", os.O_CREAT | os.O_RDWR)))
    changes("mkdir", [folder, inside + "d"], os.mkdir, inside + "d")
    changes("mkdir again", [folder, inside + "d"], os.mkdir, inside + "d")
    changes("symlink", [folder], os.symlink, "t", inside + "s")
    changes("mkfifo", [folder], os.mkfifo, inside + "p")
    changes("write inside", [folder, inside + "f"], write, inside + "f", "x")
    changes("rename inside", [folder, inside + "g"], os.rename, inside + "f", inside + "g")
    changes("rename out", [folder, ".", inside + "g"], os.rename, inside + "g", "out")
    changes("rename in", [folder, ".", "out"], os.rename, "out", inside + "g")
    changes("rename over", [folder, inside + "s", inside + "p"], os.rename, inside + "s", inside + "p")
    changes("move a directory", [folder, ".", inside + "d"], os.rename, inside + "d", "moved")
    changes("move it back", [folder, ".", "moved"], os.rename, "moved", inside + "d")
    changes("exchange", [folder, inside + "d", inside + "g"], rename, inside + "d", inside + "g", 2)
    changes("rmdir", [folder, inside + "g"], os.rmdir, inside + "g")
    changes("rmdir full", [folder], os.rmdir, folder)
    changes("unlink missing", [folder], os.unlink, inside + "none")
    changes("list", [folder], os.listdir, folder)
    changes("chmod folder", [folder], os.chmod, folder, 0o755)
with open("a/y", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
    # When the first page of a mapping counts as read is left to the system.
    before = times("a/y")
    time.sleep(0.02)
    mapped[0:3] = b"MAP"
    mapped.flush()
    print("mapping", [old != new for old, new in zip(before, times("a/y"))][1:])
