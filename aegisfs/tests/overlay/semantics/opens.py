# open(2) and what its flags promise.
for name in ["x", "made", "a/b/x"]:
    write(name, "", "a")
    # Concurrent appenders lose nothing.
    before = os.stat(name).st_size
    line = b"%d " + b"." * 60 + b"\n"

    def append(number):
        file = os.open(name, os.O_WRONLY | os.O_APPEND)
        for turn in range(250):
            os.write(file, line % number)

    children = [child(lambda number=number: append(number)) for number in range(4)]
    print([ended(each) for each in children])
    lines = open(name, "rb").read()[before:].split(b"\n")
    print(sorted(lines) == sorted([(line % number)[:-1] for number in range(4)] * 250 + [b""]))
    file = os.open(name, os.O_RDWR | os.O_APPEND)
    size = os.fstat(file).st_size
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, b"end")
    print(os.fstat(file).st_size - size, os.pread(file, 3, size))
    # Linux appends whatever the offset of pwrite(2) is.
    os.pwrite(file, b"PW", 0)
    print(os.fstat(file).st_size - size, os.lseek(file, 0, os.SEEK_CUR) - size)
    os.close(file)
    for flags in [os.O_SYNC, os.O_DSYNC, os.O_DIRECT]:
        file = os.open(name, os.O_RDWR | flags)
        buffer = mmap.mmap(-1, 4096)
        buffer[:] = b"d" * 4096
        tell("write", os.pwritev, file, [buffer], 0)
        tell("fsync", os.fsync, file)
        reader = os.open(name, os.O_RDONLY)
        print(os.pread(reader, 4, 4090), os.preadv(file, [buffer], 0), buffer[:4])
        os.close(reader)
        os.close(file)
    print(read(name)[:4])
    os.truncate(name, 4096)
    tell("exclusive", os.open, name, os.O_CREAT | os.O_EXCL)
    tell("directory", os.open, name, os.O_DIRECTORY)
tell("write a directory", os.open, "a", os.O_WRONLY)
tell("create a directory", os.open, "a", os.O_CREAT)
tell("read a directory", lambda: os.read(os.open("a", os.O_RDONLY), 5))
tell("missing", os.open, "none", os.O_RDWR)
tell("missing below", os.open, "none/none", os.O_CREAT | os.O_RDWR)
tell("below a file", os.open, "x/none", os.O_CREAT | os.O_RDWR)
tell("temporary in no directory", os.open, "none", os.O_TMPFILE | os.O_RDWR)

# A program that runs can not be written to, and one that is written to can not run.
write("program", "#!/bin/sh\nexit 3\n")
os.chmod("program", 0o755)
print(subprocess.call(["./program"]))
sleep = "sleeper"
write(sleep, open("/bin/sleep", "rb").read(), "wb")
os.chmod(sleep, 0o755)
running = subprocess.Popen(["./" + sleep, "30"])
time.sleep(0.2)
tell("write a running program", os.open, sleep, os.O_WRONLY)
tell("truncate a running program", os.truncate, sleep, 0)
tell("empty a running program", os.open, sleep, os.O_RDONLY | os.O_TRUNC)
print(os.stat(sleep).st_size == os.stat("/bin/sleep").st_size, running.poll())
os.rename(sleep, "moved-sleeper")
running.kill()
running.wait()
file = os.open("moved-sleeper", os.O_WRONLY)
tell("run what is written to", subprocess.call, ["./moved-sleeper", "0"])
os.close(file)
print(subprocess.call(["./moved-sleeper", "0"]))
os.chmod("moved-sleeper", 0o644)
tell("not executable", subprocess.call, ["./moved-sleeper", "0"])

# Reading and writing what is mapped; a mapping from before the first write.
for name in ["a/x", "new", "d/z"]:
    write(name, "start " * 2000, "a")
for name in ["a/y", "new"]:
    file = os.open(name, os.O_RDONLY)
    early = mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_READ)
    print(early[:5])
    late = os.open(name, os.O_RDWR)
    os.pwrite(late, b"WROTE", 0)
    print(early[:5], os.pread(file, 5, 0))
    writer = mmap.mmap(late, 0)
    writer[2:5] = b"map"
    print(early[:5], os.pread(file, 5, 0), os.pread(late, 5, 0))
    writer.flush()

    def other():
        with open(name, "r+b") as mine, mmap.mmap(mine.fileno(), 0) as theirs:
            print(theirs[:5], flush=True)
            theirs[0:2] = b"ch"
            theirs.flush()

    print(ended(child(other)))
    print(early[:5], writer[:5], os.pread(file, 5, 0))
    private = mmap.mmap(late, 0, mmap.MAP_PRIVATE)
    private[0:2] = b"pr"
    print(early[:5], private[:5])
    size = os.fstat(late).st_size
    os.ftruncate(late, size + 5000)
    bigger = mmap.mmap(late, size + 5000)
    bigger[size + 4990:size + 5000] = b"0123456789"
    print(os.pread(file, 10, size + 4990))

    def past():
        os.ftruncate(late, 0)
        bigger[8000]

    print("beyond the end", ended(child(past)))
    for each in [early, writer, private, bigger]:
        each.close()
    print(os.fstat(file).st_size, read(name))
    os.close(file)
    os.close(late)
# Truncation at opening, with somebody reading.
file = os.open("d/z", os.O_RDONLY)
os.close(os.open("d/z", os.O_WRONLY | os.O_TRUNC))
print(os.fstat(file).st_size, os.read(file, 10))
os.close(file)
# Writing after a hole, and a vector.
file = os.open("vector", os.O_CREAT | os.O_RDWR)
print(os.pwritev(file, [b"a" * 5000, b"b" * 10, b"c" * 70000], 3))
print(os.fstat(file).st_size, os.pread(file, 20, 4998))
os.lseek(file, 100000, os.SEEK_SET)
os.write(file, b"far")
print(os.fstat(file).st_size, os.pread(file, 5, 90000), os.lseek(file, -3, os.SEEK_END))
tell("negative", os.lseek, file, -1, os.SEEK_SET)
tell("negative end", os.lseek, file, -200000, os.SEEK_END)
os.close(file)
# A limit of the process on sizes.
import resource


def limited():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    file = os.open("limited", os.O_CREAT | os.O_RDWR)
    tell("in part", os.write, file, b"x" * 200)
    tell("at the limit", os.write, file, b"x")
    tell("truncate", os.ftruncate, file, 101)


ended(child(limited))
# Another's umask does not come into it; access(2).
os.chmod("x", 0o000)
print(os.access("x", os.R_OK), os.access("x", os.X_OK), os.access("none", os.F_OK))
os.sync()
folder = os.open(".", os.O_RDONLY)
tell("fsync of a directory", os.fsync, folder)
tell("fdatasync of a directory", os.fdatasync, folder)
tell("syncfs", system, libc.syncfs, folder)
