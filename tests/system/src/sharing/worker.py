# Performs random operations on cells of a file and on names; prints operations and times.
#
# worker.py FOLDER SEED COUNT [safe] [PORT]
#
# With `safe` a write counts after its sync, and a failed operation may have had an effect. With a
# port a server there requests each operation and reads a clock: COUNT is then the maximum.
import errno, os, random, socket, sys, time

folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
safe, ports = "safe" in sys.argv[4:], [int(word) for word in sys.argv[4:] if word != "safe"]
asker = socket.create_connection(("127.0.0.1", ports[0])).makefile("rw") if ports else None
# With this flag the kernel's client caches no data of the file.
FLAGS = os.O_RDWR | (os.O_DIRECT if asker else 0)
PLACES = [0, 16, 8192, 100000]
now = time.monotonic_ns
chance = random.Random(seed)
cells = folder + "/cells"
fd = os.open(cells, FLAGS)


def write(value, place):
    os.pwrite(fd, b"%016d" % value, place)
    if safe:
        os.fsync(fd)


def make(name):
    # Uses one call: the kernel's client creates a file by two calls, and repeats them if it is
    # removed between them.
    if asker:
        os.symlink("nowhere", name)
    else:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def is_there(name):
    try:
        os.lstat(name)
    except OSError as error:
        # A name that disappears during the lookup gives a stale handle.
        if error.errno not in (errno.ENOENT, errno.ESTALE):
            raise
        return 0
    return 1


def reopen():
    global fd
    try:
        os.close(fd)
    except OSError:
        if not safe:
            raise
    fd = os.open(cells, FLAGS)


for number in range(count):
    if asker and not asker.readline():
        break
    # Looks up names frequently in the kernel's client, because only this would reveal a cached
    # name.
    at, way = chance.randrange(4), chance.randrange(16 if asker else 10)
    if way == 9:
        reopen()
    value = seed * 1000000 + number + 1
    name = "%s/name%d" % (folder, at)
    begin = now()
    try:
        if way < 3:
            write(value, PLACES[at])
            did = "cell", "made", value
        elif way < 6 or way == 9:
            did = "cell", "saw", int(os.pread(fd, 16, PLACES[at]))
        elif way == 6:
            make(name)
            did = "name", "turned", 1
        elif way == 7:
            os.unlink(name)
            did = "name", "turned", 0
        else:
            did = "name", "saw", is_there(name)
    except FileExistsError:
        did = "name", "found", 1
    except FileNotFoundError:
        did = "name", "found", 0
    except OSError:
        # The requester expects a reply.
        if asker or not safe:
            raise
        lost = {6: ("name", "lost", 1), 7: ("name", "lost", 0)}
        did = ("cell", "lost", value) if way < 3 else lost.get(way)
        reopen()
        if not did:
            continue
    told = did[0] + str(at), did[1], did[2]
    if asker:
        print(*told, file=asker, flush=True)
    else:
        print(*told, begin, now())
os.close(fd)
