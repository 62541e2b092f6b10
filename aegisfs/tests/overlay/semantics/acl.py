# Access control lists (acl(5)): shown, enforced, inherited, and what chmod(2) makes of them.
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
TAGS = {"u": 1, "U": 2, "g": 4, "G": 8, "m": 16, "o": 32}
ME, FRIEND, STRANGER = 5001, 5002, 5003


def encode(text):
    """The value for a list such as `u:7 U5002:4 g:5 m:7 o:0`."""
    value = struct.pack("<I", 2)
    for each in text.split():
        who, bits = each.split(":")
        value += struct.pack("<HHI", TAGS[who[0]], int(bits), int(who[1:] or 0xFFFFFFFF))
    return value


def decode(value):
    names = {tag: name for name, tag in TAGS.items()}
    shown = []
    for at in range(4, len(value), 8):
        tag, bits, who = struct.unpack_from("<HHI", value, at)
        shown.append(names[tag] + ("" if who == 0xFFFFFFFF else str(who)) + ":" + str(bits))
    return " ".join(shown)


def set_list(name, text, kind=ACCESS):
    os.setxattr(name, kind, encode(text))


def show(*names):
    for name in names:
        lists = []
        for kind in [ACCESS, DEFAULT]:
            try:
                lists.append(decode(os.getxattr(name, kind)))
            except OSError as error:
                lists.append(errno.errorcode[error.errno])
        print(name, oct(os.stat(name).st_mode), *lists, sorted(os.listxattr(name)), flush=True)


def prepare():
    os.chmod(".", 0o755)
    for name in ["x", "a/y", "d/z"]:
        os.chown(name, ME, ME)
        set_list(name, f"u:6 U{FRIEND}:4 g:0 m:4 o:0")
    os.mkdir("shared")
    set_list("shared", f"u:7 U{FRIEND}:7 g:5 m:7 o:5")
    set_list("shared", f"u:7 U{FRIEND}:6 g:5 G{STRANGER}:4 m:7 o:0", DEFAULT)
    os.mkdir("shared/in")
    set_list("empty", "u:7 g:0 o:0", DEFAULT)


if sys.argv[1:] == ["prepare"]:
    prepare()
    sys.exit()


def tries(*names):
    def run():
        for name in names:
            tell("read " + name, lambda: len(read(name)) >= 0)
            tell("write " + name, lambda: os.close(os.open(name, os.O_WRONLY)))
            print([os.access(name, bits) for bits in [os.R_OK, os.W_OK, os.X_OK]], flush=True)
    return run


write("made", "made")
os.chown("made", ME, ME)
set_list("made", f"u:6 U{FRIEND}:6 g:0 G{STRANGER}:4 m:6 o:0")
names = ["x", "a/y", "d/linked", "made"]
show(*names, "shared", "shared/in", "empty", ".")
for user in [ME, FRIEND, STRANGER]:
    as_user(user, tries(*names))
# Over a first write, a move, a further name.
write("x", "written", "a")
os.rename("a/y", "a/moved")
os.link("d/z", "d/more")
show("x", "d/linked", "a/moved", "d/z", "d/more")
as_user(FRIEND, tries("x", "a/moved", "d/more"))
# chmod(2) changes the mask.
for name in ["x", "a/moved", "made"]:
    for mode in [0o660, 0o607, 0o4750, 0o640]:
        os.chmod(name, mode)
        show(name)
        as_user(FRIEND, tries(name))
# A list that says no more than the bits goes.
set_list("x", "u:7 g:5 o:1")
show("x")
set_list("made", f"u:6 U{FRIEND}:4 g:4 m:4 o:0")
os.removexattr("made", ACCESS)
show("made")
os.chmod("made", 0o664)
show("made")
tell("remove again", os.removexattr, "made", ACCESS)
tell("default of a file", set_list, "made", "u:7 g:5 o:0", DEFAULT)
for damaged in ["u:7 g:5", "u:7 U5:4 g:5 o:0", "u:7 u:7 g:5 o:0", "o:7"]:
    tell(damaged, set_list, "made", damaged)
tell("no list", os.setxattr, "made", ACCESS, b"\x01\0\0\0")
tell("short", os.setxattr, "made", ACCESS, b"\x02\0\0\0\x01")
tell("nothing", os.setxattr, "made", ACCESS, b"\x02\0\0\0")
show("made")


def not_mine():
    tell("another's", set_list, "shared", "u:7 g:7 o:7")
    tell("another's", os.removexattr, "x", ACCESS)


as_user(FRIEND, not_mine)
# What is made in a directory with a default list, whatever the umask.
os.umask(0o077)
for folder in ["shared", "shared/in", "empty", "shared/new"]:
    if folder == "shared/new":
        os.mkdir(folder)
    write(folder + "/f", "inherited")
    os.close(os.open(folder + "/x", os.O_CREAT | os.O_WRONLY, 0o777))
    os.close(os.open(folder + "/closed", os.O_CREAT | os.O_WRONLY, 0o600))
    os.mkdir(folder + "/d")
    os.mkdir(folder + "/private", 0o700)
    os.mkfifo(folder + "/p")
    os.mknod(folder + "/n", 0o644)
    os.symlink("f", folder + "/s")
    show(*(folder + "/" + name for name in ["f", "x", "closed", "d", "private", "p", "n", "s"]))
    os.rename(folder + "/f", "moved-out")
    show("moved-out")
    os.unlink("moved-out")
write("plain", "")
show("plain")
as_user(FRIEND, tries("shared/x", "shared/closed", "shared/d", "shared/in/x"))
as_user(STRANGER, tries("shared/x", "shared/closed"))
os.removexattr("shared", DEFAULT)
write("shared/after", "")
show("shared", "shared/after")
# The set-group-id bit, when somebody of another group sets a list.
write("grouped", "")
os.chown("grouped", ME, STRANGER)
for group in [STRANGER, FRIEND]:
    os.chmod("grouped", 0o2775)
    as_user(ME, lambda: set_list("grouped", f"u:7 U{FRIEND}:7 g:7 m:7 o:5"), group)
    show("grouped")
# An open file without a name.
file = os.open("grouped", os.O_RDWR)
os.unlink("grouped")
set_list(file, f"u:7 U{FRIEND}:1 g:1 m:3 o:0")
print(decode(os.getxattr(file, ACCESS)), oct(os.fstat(file).st_mode))
