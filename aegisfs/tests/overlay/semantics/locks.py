# Locks between processes: flock(2), fcntl(2) for processes and for open files, over a first write.
OFD_GET, OFD_SET, OFD_WAIT = 36, 37, 38


def lock(file, kind, start=0, length=0, command=fcntl.F_SETLK):
    answer = fcntl.fcntl(file, command, struct.pack("hhqqi", kind, 0, start, length, 0))
    return struct.unpack("hhqqi", answer)[:4] if command in (fcntl.F_GETLK, OFD_GET) else "got"


def in_child(work):
    print(ended(child(work)), flush=True)


for name in ["x", "made", "a/y"]:
    write(name, "", "a")
    file = os.open(name, os.O_RDWR)
    # Of a process: a range of bytes each.
    tell("write lock", lock, file, fcntl.F_WRLCK, 10, 10)

    def other():
        mine = os.open(name, os.O_RDWR)
        tell("held", lock, mine, fcntl.F_WRLCK, 15, 10)
        tell("beside", lock, mine, fcntl.F_WRLCK, 20, 10)
        tell("read", lock, mine, fcntl.F_RDLCK, 0, 11)
        tell("who", lock, mine, fcntl.F_WRLCK, 0, 100, fcntl.F_GETLK)
        owner = struct.unpack("hhqqi", fcntl.fcntl(mine, fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 100, 0)))[4]
        print(owner == os.getppid())

    in_child(other)
    os.write(file, b"a first write does not lose a lock")
    in_child(other)
    # Closing any descriptor of the file drops the locks of the process.
    os.close(os.open(name, os.O_RDONLY))
    in_child(other)
    # Of an open file: they stay, and two of one process exclude each other.
    second = os.open(name, os.O_RDWR)
    tell("open file", lock, file, fcntl.F_WRLCK, 0, 50, OFD_SET)
    tell("second", lock, second, fcntl.F_WRLCK, 0, 50, OFD_SET)
    os.close(os.open(name, os.O_RDONLY))
    in_child(other)
    tell("unlock", lock, file, fcntl.F_UNLCK, 0, 25, OFD_SET)
    tell("second half", lock, second, fcntl.F_WRLCK, 0, 25, OFD_SET)
    tell("second", lock, second, fcntl.F_WRLCK, 0, 50, OFD_SET)
    for each in [file, second]:
        tell("unlock", lock, each, fcntl.F_UNLCK, 0, 0, OFD_SET)
    # Whole files.
    tell("flock", fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    tell("flock second", fcntl.flock, second, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def whole():
        mine = os.open(name, os.O_RDONLY)
        tell("flock child", fcntl.flock, mine, fcntl.LOCK_SH | fcntl.LOCK_NB)
        tell("fcntl beside flock", lock, os.open(name, os.O_RDWR), fcntl.F_WRLCK)

    in_child(whole)
    tell("flock down", fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    in_child(whole)
    # A lock that is waited for is handed on, also by a process that dies.
    ready, go = os.pipe()

    def dies():
        mine = os.open(name, os.O_RDWR)
        lock(mine, fcntl.F_WRLCK)
        fcntl.flock(os.open(name, os.O_RDWR), fcntl.LOCK_SH)
        os.write(go, b"x")
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)

    process = child(dies)
    os.read(ready, 1)
    tell("still held", lock, second, fcntl.F_WRLCK)
    begun = time.time()
    tell("waited", lock, second, fcntl.F_WRLCK, 0, 0, fcntl.F_SETLKW)
    print(time.time() - begun > 0.1, ended(process))
    lock(second, fcntl.F_UNLCK)
    # A wait that a signal ends.
    blocker = child(lambda: (lock(os.open(name, os.O_RDWR), fcntl.F_WRLCK), os.write(go, b"x"), time.sleep(5))[0] and 0)
    os.read(ready, 1)

    def alarmed(*_):
        raise InterruptedError(errno.EINTR, "")

    signal.signal(signal.SIGALRM, alarmed)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    tell("interrupted", lock, second, fcntl.F_WRLCK, 0, 0, fcntl.F_SETLKW)
    os.kill(blocker, signal.SIGKILL)
    print(ended(blocker))
    # Two that wait for each other: one is told.
    lock(file, fcntl.F_WRLCK, 0, 1)

    def crossing():
        mine = os.open(name, os.O_RDWR)
        lock(mine, fcntl.F_WRLCK, 1, 1)
        os.write(go, b"x")
        lock(mine, fcntl.F_WRLCK, 0, 1, fcntl.F_SETLKW)

    process = child(crossing)
    os.read(ready, 1)
    time.sleep(0.2)
    tell("deadlock", lock, file, fcntl.F_WRLCK, 1, 1, fcntl.F_SETLKW)
    lock(file, fcntl.F_UNLCK)
    print(ended(process))
    tell("write lock of a reader", lock, os.open(name, os.O_RDONLY), fcntl.F_WRLCK)
    # A lock is the file's, whatever it is called now.
    lock(file, fcntl.F_WRLCK)
    os.rename(name, name + ".moved")

    def moved():
        tell("moved", lock, os.open(name + ".moved", os.O_RDWR), fcntl.F_WRLCK)

    in_child(moved)
    os.rename(name + ".moved", name)
    tell("lease", fcntl.fcntl, os.open(name, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_UNLCK)
    for each in [file, second, ready, go]:
        os.close(each)
# A lock file in the way that it is usually made.
tell("lock file", os.open, "lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
tell("lock file", os.open, "lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
os.unlink("lock")
tell("lock file", os.open, "lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY)

# SQLite in WAL mode: two processes write to one database that share memory.
import sqlite3


def database():
    connection = sqlite3.connect("base", timeout=60, isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    return connection


base = database()
base.execute("create table t(who, value)")
base.close()


def worker(number):
    mine = database()
    for turn in range(40):
        mine.execute("begin immediate")
        mine.execute("insert into t values(?, ?)", (number, turn))
        mine.execute("commit")


children = [child(lambda number=number: worker(number)) for number in range(3)]
print([ended(each) for each in children])
base = database()
print(base.execute("select who, count(*), sum(value) from t group by who").fetchall(), base.execute("pragma integrity_check").fetchall(), base.execute("pragma journal_mode").fetchall())
base.close()
os.unlink("base")
