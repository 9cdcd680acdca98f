# Writes files and records each byte, or compares the remaining files.
#
# worker.py work FOLDER SEED STATE OVER
#     until the file OVER exists, or, if OVER.killed exists, until the mount is gone; prints a line
#     for each step, and writes the expected contents of the folder to STATE
# worker.py check FOLDER STATE
#     compares; on a killed mount synced data, or later data, must be present
import errno, json, os, random, struct, sys

BLOCK = 4096
# The largest size of each file, in blocks: some stay inline, some outgrow this.
LONGEST = [8, 8, 32, 32, 512, 512]
# The largest write or read, in blocks.
PIECE = 64


def content(number, stamp):
    """What a block holds that was written by the write with this stamp; 0 stands for a hole."""
    return struct.pack(">Q", stamp << 24 | number) * (BLOCK // 8) if stamp else bytes(BLOCK)


def shown(piece):
    """A block in short: the first words, and the last."""
    return "%s %s" % (piece[:8].hex(), piece[-8:].hex())


class File:
    def __init__(self, work, longest):
        self.work, self.longest = work, longest
        self.size, self.sizes = 0, [0, 0]
        # The permitted values of each block: the synced value, followed by later writes.
        self.blocks = [[0] for _ in range(longest)]
        self.name = work.new_name()
        work.pending = ["create", self.name]
        # Not O_EXCL: a killed metaserver may have created the file already.
        self.fd = os.open(work.path(self.name), os.O_RDWR | os.O_CREAT)
        work.pending = None

    def some(self):
        start = self.work.chance.randrange(self.longest)
        return start, min(self.longest, start + 1 + self.work.chance.randrange(PIECE))

    def write(self):
        start, end = self.some()
        stamp = self.work.new_stamp()
        for number in range(start, end):
            self.blocks[number].append(stamp)
        self.sizes[1] = max(self.sizes[1], end)
        data = b"".join(content(number, stamp) for number in range(start, end))
        done = os.pwrite(self.fd, data, start * BLOCK)
        if done < len(data):
            told = (self.work.folder, self.name, done, len(data), start)
            raise OSError(errno.EIO, "%s/%s: %d of %d bytes are written from block %d" % told)
        self.size = max(self.size, end)

    def read(self):
        start, end = self.some()
        data = os.pread(self.fd, (end - start) * BLOCK, start * BLOCK)
        numbers = range(start, min(end, self.size))
        due = b"".join(content(number, self.blocks[number][-1]) for number in numbers)
        if len(data) < len(due):
            # If the mount is killed meanwhile, the kernel returns its cached data.
            told = (self.work.folder, self.name, len(data), len(due), start, self.size)
            raise OSError(errno.EIO, "%s/%s: %d of %d bytes are read from block %d of %d" % told)
        assert len(data) == len(due), "%d bytes are read, not %d" % (len(data), len(due))
        for number, at in zip(numbers, range(0, len(due), BLOCK)):
            piece = data[at : at + BLOCK]
            if piece != due[at : at + BLOCK]:
                told = (self.work.folder, self.name, number, start, end, shown(piece), self.blocks[number])
                raise AssertionError("%s/%s, block %d of %d to %d: %s, of %s" % told)

    def resize(self):
        size = self.work.chance.randrange(self.longest + 1)
        for block in self.blocks[size:]:
            if block[-1]:
                block.append(0)
        self.sizes = [min(self.sizes[0], size), max(self.sizes[1], size)]
        os.ftruncate(self.fd, size * BLOCK)
        self.size = size

    def sync(self):
        os.fsync(self.fd)
        for block in self.blocks:
            del block[:-1]
        self.sizes = [self.size, self.size]

    def look(self):
        size = os.fstat(self.fd).st_size
        assert size == self.size * BLOCK, "%s has %d bytes" % (self.name, size)

    def reopen(self):
        os.close(self.fd)
        self.fd = os.open(self.work.path(self.name), os.O_RDWR)

    def rename(self):
        new = self.work.new_name()
        self.work.pending = ["rename", self.name, new]
        try:
            os.rename(self.work.path(self.name), self.work.path(new))
        except FileNotFoundError:
            # A killed metaserver had executed the call.
            os.lstat(self.work.path(new))
        self.name, self.work.pending = new, None

    def remove(self):
        self.work.pending = ["remove", self.name]
        os.close(self.fd)
        try:
            os.unlink(self.work.path(self.name))
        except FileNotFoundError:
            pass
        self.work.pending = None


class Work:
    def __init__(self, folder, seed):
        self.folder, self.chance = folder, random.Random(seed)
        self.stamp, self.names, self.pending = (seed % (1 << 16)) << 20, 0, None
        self.files = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def new_name(self):
        self.names += 1
        return "file%d" % self.names

    def new_stamp(self):
        self.stamp += 1
        return self.stamp

    def step(self):
        at, way = self.chance.randrange(len(LONGEST)), self.chance.randrange(32)
        if len(self.files) < len(LONGEST):
            return self.files.append(File(self, LONGEST[len(self.files)]))
        file = self.files[at]
        if way < 14:
            file.write()
        elif way < 22:
            file.read()
        elif way < 25:
            file.sync()
        elif way < 27:
            file.look()
        elif way < 29:
            file.reopen()
        elif way == 29:
            file.resize()
        elif way == 30:
            file.rename()
        else:
            file.remove()
            self.files[at] = None
            self.files[at] = File(self, LONGEST[at])

    def tell(self, state, killed):
        files = {}
        for file in filter(None, self.files):
            files[file.name] = {"size": file.size, "sizes": file.sizes, "blocks": file.blocks}
        with open(state, "w") as told:
            json.dump({"killed": killed, "pending": self.pending, "files": files}, told)


def work(folder, seed, state, over):
    work, killed = Work(folder, int(seed)), over + ".killed"
    try:
        while not os.path.exists(over):
            work.step()
            print("one more", flush=True)
        for file in work.files:
            os.close(file.fd)
    except OSError:
        if not os.path.exists(killed):
            raise
        return work.tell(state, True)
    work.tell(state, False)


def wrong(name, data, file, killed):
    least, most = file["sizes"] if killed else [file["size"]] * 2
    if not least * BLOCK <= len(data) <= most * BLOCK:
        yield "%s has %d bytes, not %d to %d blocks" % (name, len(data), least, most)
    for number, stamps in enumerate(file["blocks"]):
        piece = data[number * BLOCK : (number + 1) * BLOCK].ljust(BLOCK, b"\0")
        stamps = stamps if killed else stamps[-1:]
        if all(piece != content(number, stamp) for stamp in stamps):
            yield "%s, block %d: %s, not of %s" % (name, number, shown(piece), stamps)


def check(folder, state):
    with open(state) as told:
        told = json.load(told)
    killed, (what, *names) = told["killed"], told["pending"] or [None]
    found, faults, read = set(os.listdir(folder)), [], 0
    for name, file in told["files"].items():
        if what == "rename" and name == names[0] and name not in found:
            name = names[1]
        if name in found:
            with open(os.path.join(folder, name), "rb") as there:
                data = there.read()
            read += len(data)
            faults.extend(wrong(name, data, file, killed))
        elif what != "remove" or name != names[0]:
            faults.append("%s is gone" % name)
        found.discard(name)
    # The last operation may have had an effect, or not.
    faults.extend("%s is there" % name for name in sorted(found.difference(names)))
    print(len(told["files"]), read)
    if faults:
        sys.exit("\n".join(faults[:20] + ["%d faults" % len(faults)]))


if sys.argv[1] == "work":
    work(*sys.argv[2:])
else:
    check(*sys.argv[2:])
