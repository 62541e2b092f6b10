# fallocate(2), lseek(2), copy_file_range(2), truncation, sparse files.
KEEP, PUNCH, ZERO = 1, 2, 16
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def fallocate(file, mode, offset, length):
    return system(libc.fallocate, file, mode, offset, length)


def holes(file):
    """Data and holes of a file, alternating."""
    found, at, end = [], 0, os.fstat(file).st_size
    while at < end:
        try:
            data = os.lseek(file, at, os.SEEK_DATA)
        except OSError:
            break
        at = os.lseek(file, data, os.SEEK_HOLE)
        found.append((data, at))
    return found


block = 65536
for name in ["x", "made", "big"]:
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    for number in range(8):
        os.pwrite(file, bytes([65 + number]) * block, number * block)
    os.fsync(file)
    print(name, os.fstat(file).st_size, holes(file))
    tell("keep", fallocate, file, KEEP, 8 * block, block)
    print(os.fstat(file).st_size)
    tell("extend", fallocate, file, 0, 8 * block, block)
    print(os.fstat(file).st_size)
    tell("punch", fallocate, file, PUNCH | KEEP, block, 2 * block)
    tell("punch without keep", fallocate, file, PUNCH, block, block)
    os.fsync(file)
    print(os.fstat(file).st_blocks * 512 < 8 * block, holes(file)[0], os.fstat(file).st_size, os.pread(file, 4, block), os.pread(file, 4, 3 * block))
    tell("zero", fallocate, file, ZERO, 4 * block, block)
    print(os.pread(file, 4, 4 * block), os.fstat(file).st_size)
    tell("zero beyond", fallocate, file, ZERO | KEEP, 20 * block, block)
    tell("nothing", fallocate, file, 0, 0, 0)
    tell("negative", fallocate, file, 0, -1, 5)
    tell("unknown", fallocate, file, 0x4000, 0, 5)
    tell("too much", fallocate, file, 0, 1 << 62, 1 << 62)
    tell("past the end", os.lseek, file, 1 << 40, os.SEEK_DATA)
    tell("negative data", system, libc.lseek, file, ctypes.c_long(-1), 3)
    tell("negative hole", system, libc.lseek, file, ctypes.c_long(-5), 4)
    tell("hole at end", os.lseek, file, os.fstat(file).st_size, os.SEEK_HOLE)
    tell("hole", os.lseek, file, os.fstat(file).st_size - 1, os.SEEK_HOLE)
    tell("truncate", os.ftruncate, file, 5)
    tell("longer", os.ftruncate, file, 5000)
    print(os.pread(file, 20, 0))
    tell("too long", os.ftruncate, file, 1 << 63 - 1)
    os.close(file)
    reader = os.open(name, os.O_RDONLY)
    tell("read only", fallocate, reader, 0, 0, 10)
    tell("read only truncate", os.ftruncate, reader, 0)
    os.close(reader)
tell("directory", os.truncate, "a", 0)
tell("truncate through a link", os.truncate, "s", 3)
print(read("s"))

# A file of 2^32 bytes and more: offsets are 64 bits wide everywhere.
far = (1 << 32) + 12345
with open("far", "w+b") as file:
    file.truncate(far + 100000)
    os.pwrite(file.fileno(), b"far", far)
    os.pwrite(file.fileno(), b"near", 3)
    print(os.pread(file.fileno(), 3, far), os.pread(file.fileno(), 4, far - (1 << 32)), os.fstat(file.fileno()).st_size)
    size = (far // 4096) * 4096
    with mmap.mmap(file.fileno(), 8192, offset=size) as mapped:
        print(mapped[far - size:far - size + 3])
        mapped[0:4] = b"MAPS"
        mapped.flush()
    print(os.pread(file.fileno(), 4, size), os.fstat(file.fileno()).st_blocks < 1000)
    print(os.lseek(file.fileno(), 1 << 20, os.SEEK_DATA) >= 1 << 32)
with open("far") as file, open("nearer", "w+b") as target:
    tell("copy far", os.copy_file_range, file.fileno(), target.fileno(), 3, far, 10)
    print(target.read())
os.unlink("far")
os.unlink("nearer")

# copy_file_range between every two of a file of the host, a new one, and one that is written to.
write("own", "own content " * 1000)
write("a/y", "copied up " * 1000)
for source in ["a/b/x", "own", "a/y"]:
    for target in ["d/z", "own2", "a/y"]:
        with open(source, "rb") as one, open(target, "r+b" if os.path.exists(target) else "w+b") as two:
            if source != target:
                tell("copy", os.copy_file_range, one.fileno(), two.fileno(), 100, 7, 30)
            print(source, target, two.read(200))
with open("own", "r+b") as file:
    tell("onto itself", os.copy_file_range, file.fileno(), file.fileno(), 100, 0, 50)
    tell("beside itself", os.copy_file_range, file.fileno(), file.fileno(), 100, 0, 500)
    tell("past the end", os.copy_file_range, file.fileno(), file.fileno(), 100, 1 << 30, 500)
with open("own") as file, open("own2", "r") as reader, open("own2", "a") as appender:
    tell("not writable", os.copy_file_range, file.fileno(), reader.fileno(), 100)
    tell("append", os.copy_file_range, file.fileno(), appender.fileno(), 100)
