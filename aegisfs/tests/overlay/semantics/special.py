# Pipes and sockets between processes.
os.mkfifo("pipe")


def writes():
    with open("pipe", "w") as pipe:
        pipe.write("through the pipe")


process = child(writes)
print(read("pipe"), ended(process))
tell("nobody reads", os.open, "pipe", os.O_WRONLY | os.O_NONBLOCK)
reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
tell("nobody writes", os.read, reader, 1)
os.close(reader)
os.rename("pipe", "a/pipe")
os.link("a/pipe", "pipe2")


def writes_there():
    with open("a/pipe", "w") as pipe:
        pipe.write("one pipe")


process = child(writes_there)
print(read("pipe2"), ended(process))
for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
    server = socket.socket(socket.AF_UNIX, kind)
    tell("bind", server.bind, "socket")
    print(stat.filemode(os.lstat("socket").st_mode))
    tell("bind again", socket.socket(socket.AF_UNIX, kind).bind, "socket")
    if kind == socket.SOCK_STREAM:
        server.listen()

    def client():
        mine = socket.socket(socket.AF_UNIX, kind)
        mine.connect("a/socket" if os.path.exists("a/socket") else "socket")
        mine.send(b"through the socket")

    for moved in [False, True]:
        if moved:
            os.rename("socket", "a/socket")
        process = child(client)
        there = server.accept()[0] if kind == socket.SOCK_STREAM else server
        print(there.recv(100), ended(process))
    server.close()
    tell("nobody listens", socket.socket(socket.AF_UNIX, kind).connect, "a/socket")
    tell("open a socket", os.open, "a/socket", os.O_RDWR)
    os.unlink("a/socket")
    tell("gone", socket.socket(socket.AF_UNIX, kind).connect, "a/socket")
