# Names and what they lead to: hard links, symbolic links, open files without a name, rename(2).
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4


def shape(*names):
    for name in names:
        if os.path.lexists(name):
            it = os.lstat(name)
            print(name, stat.filemode(it.st_mode), it.st_nlink, it.st_size if not stat.S_ISDIR(it.st_mode) else "", end=" ")
        else:
            print(name, "none", end=" ")
    print(flush=True)


# Hard links of the host's, of new files, over a first write.
write("made", "made")
for name, second in [("x", "d/linked"), ("made", "made2"), ("a/y", "a/y2")]:
    if second != "d/linked":
        tell("link", os.link, name, second)
    print(os.stat(name).st_ino == os.stat(second).st_ino)
    write(second, "through the second", "a")
    print(read(name) == read(second), os.stat(name).st_ino == os.stat(second).st_ino)
    shape(name, second)
    tell("again", os.link, name, second)
    tell("rename onto the same file", os.rename, name, second)
    shape(name, second)
    tell("exchange the same file", rename, name, second, EXCHANGE)
    tell("third", os.link, second, "third")
    shape(name, second, "third")
    os.unlink(name)
    os.rename("third", name)
    shape(name, second)
    os.chmod(second, 0o600)
    shape(name, second)
tell("directory", os.link, "a", "a2")
tell("link of a symbolic link", lambda: os.link("s", "s2", follow_symlinks=False))
shape("s", "s2")
os.mkfifo("p")
tell("link of a pipe", os.link, "p", "p2")
shape("p", "p2")
tell("link of nothing", os.link, "none", "none2")

# Symbolic links.
for length in [1, 255, 256, 4095]:
    target = "t" * length
    tell(f"symlink of {length}", os.symlink, target, f"l{length}")
    print(os.readlink(f"l{length}") == target, os.lstat(f"l{length}").st_size)
tell("symlink of 4096", os.symlink, "t" * 4096, "l4096")
tell("empty symlink", os.symlink, "", "l0")
tell("exists", os.symlink, "t", "x")
os.symlink("dangling-target", "dangling")
tell("exclusive on a dangling link", os.open, "dangling", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
tell("no follow", os.open, "dangling", os.O_CREAT | os.O_NOFOLLOW | os.O_WRONLY)
os.close(os.open("dangling", os.O_CREAT | os.O_WRONLY))
shape("dangling", "dangling-target")
os.symlink("loop", "loop")
tell("loop", os.open, "loop", os.O_RDONLY)
tell("readlink of a file", os.readlink, "x")
path = os.open("s", 0o10000000 | os.O_NOFOLLOW)
print(os.readlink("", dir_fd=path))
tell("chmod through", os.chmod, "s", 0o604)
shape("s", "a/x")

# Files without a name.
for name in ["d/z", "made2", "a/b/x"]:
    before = os.open(name, os.O_RDONLY)
    file = os.open(name, os.O_RDWR)
    os.unlink(name)
    print(os.pread(file, 5, 0), os.fstat(file).st_nlink)
    os.pwrite(file, b"written after", 0)
    print(os.pread(before, 13, 0), os.fstat(before).st_ino == os.fstat(file).st_ino)
    os.ftruncate(file, 7)
    os.fchmod(file, 0o4711)
    give(file, 3, 4)
    os.utime(file, ns=(5, 6))
    os.setxattr(file, "user.k", b"v")
    it = os.fstat(before)
    print(it.st_size, oct(it.st_mode), it.st_uid, it.st_gid, it.st_atime_ns, it.st_mtime_ns, os.getxattr(before, "user.k"), os.listxattr(before))
    tell("fallocate", os.posix_fallocate, file, 0, 10000)
    print(os.fstat(before).st_size, os.lseek(before, 0, os.SEEK_DATA))
    with mmap.mmap(file, 10000) as mapped:
        mapped[9990:9999] = b"by memory"
    print(os.pread(before, 9, 9990))
    tell("link by number", os.link, f"/proc/self/fd/{file}", "back")
    again = os.open(f"/proc/self/fd/{file}", os.O_RDWR)
    os.pwrite(again, b"again", 0)
    print(os.pread(before, 7, 0))
    write(name, "another of that name")
    print(os.pread(before, 7, 0), os.stat(name).st_ino == it.st_ino, os.fstat(file).st_nlink)
    for each in [before, file, again]:
        os.close(each)
os.mkdir("gone")
folder = os.open("gone", os.O_RDONLY | os.O_DIRECTORY)
inside = os.open("gone/f", os.O_CREAT | os.O_RDWR)
os.unlink("gone/f")
os.rmdir("gone")
print(os.fstat(folder).st_nlink, os.listdir(folder))
tell("create in a removed directory", lambda: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
tell("mkdir in a removed directory", lambda: os.mkdir("new", dir_fd=folder))
tell("look up in a removed directory", lambda: os.stat("new", dir_fd=folder))
tell("link into a removed directory", lambda: os.link("x", "new", dst_dir_fd=folder))
tell("chmod of a removed directory", os.fchmod, folder, 0o700)
print(oct(os.fstat(folder).st_mode))

# Rename.
os.makedirs("r/full/sub")
os.mkdir("r/free")
write("r/f", "f")
write("r/g", "g")
os.symlink("f", "r/s")
for flags, word in [(0, "replace"), (NOREPLACE, "noreplace"), (EXCHANGE, "exchange"), (WHITEOUT, "whiteout"), (NOREPLACE | EXCHANGE, "both"), (8, "unknown")]:
    if flags == WHITEOUT:
        continue
    for old, new in [("r/f", "r/none"), ("r/none", "r/g"), ("r/f", "r/free"), ("r/free", "r/f"), ("r/free", "r/full"),
                     ("r/full", "r/full/sub"), ("r/full/sub", "r/full"), ("r/full", "r/full"), ("r/s", "r/g"), (".", "r/x"),
                     ("r/full", "r/s"), ("r/g/", "r/y"), ("r/f", "r/nowhere/f"), ("r/free/", "r/renamed/"), ("r/..", "r/z")]:
        tell(f"{word} {old} {new}", rename, old, new, flags)
        shape("r/f", "r/g", "r/none", "r/free", "r/full", "r/full/sub", "r/s")
file = os.open("a/b/c/z", os.O_RDWR)
write("over", "over")
os.rename("over", "a/b/c/z")
os.pwrite(file, b"old still", 0)
print(read("a/b/c/z"), os.pread(file, 9, 0), os.fstat(file).st_nlink)
# A directory of the host's, moved with what it holds, below another and back.
os.rename("a", "d/moved")
print(sorted(os.listdir("d/moved/b")), read("d/moved/x")[:9])
write("d/moved/b/own", "own")
os.rename("d/moved", "a")
print(sorted(os.listdir("a/b")))
os.rename("a/b", "empty")
print(sorted(os.listdir("empty")), sorted(os.listdir("a")))
tell("rename over a full one", os.rename, "empty", "a")
