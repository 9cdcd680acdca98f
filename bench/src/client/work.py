# File operations of programs, and their duration: a line of JSON.
import hashlib, json, os, subprocess, sys, tempfile, time

# Each runs in its own folder, because guests use the same process ids.
def small(folder, count):
    folder = tempfile.mkdtemp(prefix='small', dir=folder)
    start = time.perf_counter()
    data = b'x' * 1024
    for number in range(count):
        with open('%s/%d' % (folder, number), 'wb') as file:
            file.write(data)
    for number in range(count):
        with open('%s/%d' % (folder, number), 'rb') as file:
            assert file.read() == data
    for number in range(count):
        os.unlink('%s/%d' % (folder, number))
    seconds = time.perf_counter() - start
    os.rmdir(folder)
    return seconds

def write(path, mib):
    data = os.urandom(1 << 20)
    start = time.perf_counter()
    with open(path, 'wb', buffering=0) as file:
        for _ in range(mib):
            file.write(data)
        os.fsync(file.fileno())
    return time.perf_counter() - start

def read(path, _):
    start = time.perf_counter()
    with open(path, 'rb', buffering=0) as file:
        while file.read(128 << 10):
            pass
    return time.perf_counter() - start

def stats(folder, count):
    folder = os.path.join(folder, 'stats')
    if not os.path.exists(folder):
        os.mkdir(folder)
        for number in range(100):
            open('%s/%d' % (folder, number), 'w').close()
    start = time.perf_counter()
    for number in range(count):
        os.stat('%s/%d' % (folder, number % 100))
    return time.perf_counter() - start

def run(folder, *words):
    said = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert said.returncode == 0, said.stdout

# `git status` of a work tree that was just filled.
def git(folder, count):
    folder = tempfile.mkdtemp(prefix='git', dir=folder)
    run(folder, 'git', 'init', '--quiet')
    for number in range(count):
        directory = '%s/%d' % (folder, number % 10)
        os.makedirs(directory, exist_ok=True)
        with open('%s/%d' % (directory, number), 'w') as file:
            file.write(str(number))
    run(folder, 'git', '-c', 'core.fsync=none', 'add', '.')
    start = time.perf_counter()
    run(folder, 'git', 'status', '--porcelain')
    return time.perf_counter() - start

# A build of small files that share a header.
def build(folder, count):
    folder = tempfile.mkdtemp(prefix='build', dir=folder)
    with open(folder + '/all.h', 'w') as file:
        file.write('int sum(int);\n')
    for number in range(count):
        with open('%s/%d.c' % (folder, number), 'w') as file:
            file.write('#include "all.h"\nint f%d(int a) { return a + %d; }\n' % (number, number))
    start = time.perf_counter()
    for number in range(count):
        run(folder, 'gcc', '-c', '%d.c' % number)
    run(folder, 'ar', 'rc', 'all.a', *['%d.o' % number for number in range(count)])
    return time.perf_counter() - start

# Writes pieces until a file `end` exists; prints the sum of all acknowledged data.
def checked(path, end):
    sum, start = hashlib.sha256(), time.perf_counter()
    with open(path, 'wb', buffering=0) as file:
        number = 0
        while not os.path.exists(end) and number < 4000:
            data = hashlib.sha256(str(number).encode()).digest() * 2048
            file.write(data)
            sum.update(data)
            number += 1
            if number % 50 == 0:
                os.fsync(file.fileno())
        os.fsync(file.fileno())
    print(json.dumps({'sum': sum.hexdigest(), 'bytes': number * 65536}))
    sys.exit()

what, where, much = sys.argv[1:4]
if what == 'checked':
    checked(where, much)
print('RESULT', json.dumps({'what': what, 'seconds': globals()[what](where, int(much))}))
