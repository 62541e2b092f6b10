# Files that are made without a name (O_TMPFILE of open(2)) and may be given one (linkat(2)).
FOLLOW, EMPTY = 0x400, 0x1000


def name_it(file, name):
    """Gives an open file a name, by its descriptor."""
    path = f"/proc/self/fd/{file}".encode()
    return system(libc.linkat, -100, path, -100, os.fsencode(name), FOLLOW)


def show(name):
    it = os.lstat(name)
    print(name, oct(it.st_mode), it.st_nlink, it.st_size, it.st_uid, flush=True)


for folder in [".", "a", "a/b", "fresh"]:
    if folder == "fresh":
        os.mkdir(folder)
    before = sorted(os.listdir(folder))
    file = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o640)
    print(sorted(os.listdir(folder)) == before, os.fstat(file).st_nlink)
    os.write(file, b"nameless")
    os.fchmod(file, 0o604)
    os.setxattr(file, "user.k", b"v")
    print(os.pread(file, 20, 0), oct(os.fstat(file).st_mode), os.getxattr(file, "user.k"))
    os.ftruncate(file, 4)
    with mmap.mmap(file, 4) as mapped:
        mapped[0:2] = b"MM"
    tell("fsync", os.fsync, file)
    name = folder + "/named"
    tell("name", name_it, file, name)
    show(name)
    print(read(name), os.getxattr(name, "user.k"), os.fstat(file).st_ino == os.stat(name).st_ino)
    os.pwrite(file, b"after", 0)
    print(read(name))
    tell("exists", name_it, file, name)
    tell("another", name_it, file, folder + "/second")
    show(name)
    os.unlink(name)
    os.unlink(folder + "/second")
    tell("when its names are gone", name_it, file, name)
    os.close(file)
    # It stays nameless where that was promised, and goes with its descriptor.
    file = os.open(folder, os.O_TMPFILE | os.O_EXCL | os.O_RDWR, 0o600)
    os.write(file, b"secret")
    tell("exclusive", name_it, file, name)
    os.close(file)
    print(sorted(os.listdir(folder)) == before)
    file = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600)
    os.write(file, b"by number")
    tell("by number", system, libc.linkat, file, b"", -100, os.fsencode(name), EMPTY)
    os.close(file)
    if os.path.exists(name):
        print(read(name))
tell("read only", os.open, ".", os.O_TMPFILE | os.O_RDONLY)
tell("in a file", os.open, "x", os.O_TMPFILE | os.O_RDWR)
tell("in nothing", os.open, "none", os.O_TMPFILE | os.O_RDWR)
folder = os.open("a", os.O_RDONLY)
os.umask(0o077)
file = os.open("a", os.O_TMPFILE | os.O_RDWR, 0o666)
print(oct(os.fstat(file).st_mode))
import tempfile
with tempfile.TemporaryFile(dir="a") as temporary:
    temporary.write(b"x" * 100000)
    temporary.seek(0)
    print(len(temporary.read()))
