# Directories: offsets while they change, counts, sticky and set-group-id bits, umask, names.
def prepare():
    os.mkdir("set-id")
    for name in ["written", "direct", "group", "group-direct"]:
        name = "set-id/" + name
        write(name, "the host's")
        give(name, 5001, 5001)
        os.chmod(name, 0o2775 if "group" in name else 0o4755)


if sys.argv[1:] == ["prepare"]:
    prepare()
    sys.exit()


class Entry(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_ulong), ("off", ctypes.c_long), ("reclen", ctypes.c_ushort), ("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]


libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.POINTER(Entry)
for function in [libc.readdir, libc.closedir, libc.telldir, libc.rewinddir]:
    function.argtypes = [ctypes.c_void_p]
libc.telldir.restype = ctypes.c_long
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]


def following(folder):
    entry = libc.readdir(folder)
    return entry.contents.name if entry else None


many = 10000
os.mkdir("many")
for number in range(many):
    os.mkfifo(f"many/{number}")
folder = libc.opendir(b"many")
seen, marks = [], []
while True:
    place = libc.telldir(folder)
    name = following(folder)
    if name is None:
        break
    seen.append(name)
    marks.append((place, name))
print(len(seen), len(set(seen)))
# Every mark leads to its name, in any order.
step = marks[:: len(marks) // 50]
right = 0
for place, name in reversed(step):
    libc.seekdir(folder, place)
    right += following(folder) == name
print(right == len(step))
# Names that are there from first to last are seen exactly once, whatever comes and goes meanwhile.
libc.rewinddir(folder)
seen = []
for turn in range(many * 2):
    name = following(folder)
    if name is None:
        break
    seen.append(name)
    if turn % 3 == 0 and turn < 3000:
        os.unlink(f"many/{many - 1 - turn}")
        os.mkfifo(f"many/late{turn}")
stay = {str(number).encode() for number in range(many)} - {str(many - 1 - turn).encode() for turn in range(0, 3000, 3)}
counts = [seen.count(name) for name in list(stay)[:200]]
print(set(counts), stay <= set(seen), len(seen) == len(set(seen)))
libc.rewinddir(folder)
seen = set()
while (name := following(folder)) is not None:
    seen.add(name)
print(seen - {b".", b".."} == set(map(os.fsencode, os.listdir("many"))))
libc.closedir(folder)
# Removed while it is read.
removed = 0
with os.scandir("many") as entries:
    for entry in entries:
        os.unlink(entry.path)
        removed += 1
print(removed == many, os.listdir("many"))
os.rmdir("many")
# A seek to what an earlier read said, after names before it are gone.
os.mkdir("few")
for number in range(300):
    write(f"few/{number:03}", "")
folder = libc.opendir(b"few")
first = [following(folder) for _ in range(150)]
place = libc.telldir(folder)
for name in first:
    if name not in (b".", b".."):
        os.unlink(b"few/" + name)
libc.seekdir(folder, place)
rest = []
while (name := following(folder)) is not None:
    rest.append(name)
print(sorted(set(rest) - {b".", b".."}) == sorted(map(os.fsencode, os.listdir("few"))))
libc.closedir(folder)
for name in os.listdir("few"):
    os.unlink("few/" + name)

# st_nlink of a directory counts the directories in it.
for name in ["a", "a/b", "empty", "fresh"]:
    if name == "fresh":
        os.mkdir(name)
    before = os.stat(name).st_nlink
    os.mkdir(name + "/one")
    os.mkdir(name + "/two")
    write(name + "/file", "")
    counts = [before, os.stat(name).st_nlink]
    os.rmdir(name + "/one")
    counts.append(os.stat(name).st_nlink)
    os.rename(name + "/two", "elsewhere")
    counts.append(os.stat(name).st_nlink)
    os.rename("elsewhere", name + "/two")
    counts.append(os.stat(name).st_nlink)
    print(name, counts, os.stat(".").st_nlink)

# Umask, set-group-id, sticky.
for mask in [0, 0o022, 0o077, 0o777]:
    os.umask(mask)
    name = f"u{mask:o}"
    os.mkdir(name, 0o1777)
    os.close(os.open(name + "f", os.O_CREAT | os.O_WRONLY, 0o6777))
    os.mkfifo(name + "p", 0o777)
    os.mknod(name + "n", 0o777)
    os.symlink("t", name + "s")
    print(name, [oct(os.lstat(name + each).st_mode) for each in ["", "f", "p", "n", "s"]])
os.umask(0o022)
os.mkdir("group")
give("group", -1, 1234)
os.chmod("group", 0o2775)
os.mkdir("group/d")
write("group/f", "")
os.mkfifo("group/p")
os.symlink("t", "group/s")
print([(oct(os.lstat("group/" + each).st_mode), os.lstat("group/" + each).st_gid) for each in "dfps"])
os.mkdir("group/d/deeper")
print(oct(os.stat("group/d/deeper").st_mode), os.stat("group/d/deeper").st_gid)


os.mkdir("sticky")
os.chmod("sticky", 0o1777)
for name in ["mine", "theirs"]:
    write("sticky/" + name, name)
give("sticky/mine", 5001, 5001)


def sticky():
    tell("remove another's", os.unlink, "sticky/theirs")
    tell("rename another's", os.rename, "sticky/theirs", "sticky/t2")
    tell("rename over another's", os.rename, "sticky/mine", "sticky/theirs")
    tell("link another's", os.link, "sticky/mine", "sticky/mine2")
    tell("chmod another's", os.chmod, "sticky/theirs", 0o777)
    tell("utime another's now", os.utime, "sticky/theirs")
    tell("remove mine", os.unlink, "sticky/mine")
    tell("create in closed", os.mkdir, "group/none")
    tell("chgrp to another", os.chown, "sticky/mine2", -1, 1234)
    tell("chown away", os.chown, "sticky/mine2", 0, -1)
    os.chmod("sticky/mine2", 0o6755)
    print(oct(os.stat("sticky/mine2").st_mode))


os.chmod(".", 0o755)
as_user(5001, sticky)
os.chmod("group", 0o2777)


def grouped():
    write("group/user", "")
    os.chmod("group/user", 0o2755)
    print(oct(os.stat("group/user").st_mode), os.stat("group/user").st_gid)
    os.close(os.open("group/user2", os.O_CREAT | os.O_WRONLY, 0o2775))
    print(oct(os.stat("group/user2").st_mode))
    os.close(os.open("group/user3", os.O_CREAT | os.O_WRONLY, 0o2745))
    print(oct(os.stat("group/user3").st_mode))
    os.mkdir("group/dir", 0o755)
    print(oct(os.stat("group/dir").st_mode), os.stat("group/dir").st_gid)


as_user(5001, grouped)

# Set-id bits when the content changes: by the owner in the group or outside of it, by somebody else.
def changes(name):
    def in_place(call):
        file = os.open(name, os.O_RDWR)
        call(file)
        os.close(file)

    for what, call in [("write", lambda file: os.write(file, b"x")), ("truncate", lambda file: os.ftruncate(file, 3)),
                       ("allocate", lambda file: os.posix_fallocate(file, 0, 100)), ("nothing", lambda file: None),
                       ("copy", lambda file: os.copy_file_range(os.open("a/x", os.O_RDONLY), file, 5))]:
        yield what, lambda: in_place(call)


def mode_alone(name):
    """The mode, asked for without anything else (statx(2)), so that no other answer renews it."""
    answer = ctypes.create_string_buffer(256)
    system(libc.statx, -100, os.fsencode(name), 0, 2, answer)
    return struct.unpack_from("H", answer, 28)[0]


def direct(name):
    page = mmap.mmap(-1, 4096)
    os.pwritev(os.open(name, os.O_RDWR | os.O_DIRECT), [page], 0)


os.mkdir("bits")
os.chmod("bits", 0o777)
for mode in [0o6777, 0o6767]:
    for what, call in changes("bits/f"):
        for owner, group in [(5001, 5001), (5001, 7), (7, 7), (7, 5001)]:
            write("bits/f", "text")
            give("bits/f", owner, group)
            os.chmod("bits/f", mode)
            as_user(5001, call)
            print(oct(mode), what, owner, group, oct(mode_alone("bits/f")))
            os.unlink("bits/f")
if os.path.exists("set-id"):
    for name in sorted(os.listdir("set-id")):
        name = "set-id/" + name
        print(oct(mode_alone(name)))
        as_user(5001, lambda: direct(name) if "direct" in name else write(name, "by its owner"))
        print(name, oct(mode_alone(name)), oct(os.stat(name).st_mode))

# Names.
for name in [b"n" * 255, b"\xff\xfe\x01", b"new\nline", b" ", b"-rf", b"\xe2\x80\xae", b"a\\b", b"*", b"..."]:
    write(name, "named")
    print(name[:10], name in os.listdir(b"."), read(name))
tell("256", write, b"n" * 256, "")
tell("none", os.mkdir, "")
tell("dot", os.mkdir, ".")
tell("dotdot", os.rmdir, "a/..")
tell("rmdir dot", os.rmdir, "a/.")
tell("rmdir file", os.rmdir, "x")
tell("unlink directory", os.unlink, "a")
tell("through a file", os.stat, "x/y")
tell("slash after a file", os.stat, "x/")
tell("mkdir with a slash", os.mkdir, "slashed/")
tell("create with a slash", os.open, "slashed2/", os.O_CREAT | os.O_WRONLY)
tell("too long a path", os.stat, "a/../" * 900)
depth = "deep"
for level in range(60):
    os.mkdir(depth)
    depth += "/d" + str(level)
write(os.path.dirname(depth) + "/f", "bottom")
print(read(os.path.dirname(depth) + "/f"))
