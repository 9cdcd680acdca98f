# A workload like the Modified Andrew Benchmark: it copies five directories with 70 files, 200 KB,
# from a source tree, stats and searches them, compiles and archives a library of them. Its programs
# are in the tree and run there, one for each file, as in the benchmark's scripts; the compiler's
# temporary files are on the local disk.
import json, os, random, shutil, subprocess, sys, time

DIRECTORIES, SOURCES, HEADERS = 5, 4, 10
PROGRAMS = ['cp', 'ls', 'du', 'grep', 'wc', 'as', 'ar']

# Creates the tree and its programs; all callers create the same tree.
def make(folder):
    chance = random.Random(1)
    for number in range(DIRECTORIES):
        place = '%s/source/%d' % (folder, number)
        os.makedirs(place)
        for name in range(HEADERS):
            with open('%s/h%d.h' % (place, name), 'w') as file:
                file.write('/* %d */\nint sum%d_%d(int);\n' % (name, number, name))
                file.write('/* nothing */\n' * chance.randrange(100, 280))
        for name in range(SOURCES):
            with open('%s/c%d.c' % (place, name), 'w') as file:
                for header in range(HEADERS):
                    file.write('#include "h%d.h"\n' % header)
                for function in range(30):
                    file.write('int f%d_%d_%d(int a) { int i; for (i = 0; i < %d; i++) a += i * a; '
                               'return a; }\n' % (number, name, function, chance.randrange(99)))
    os.makedirs(folder + '/bin')
    compiler = subprocess.run(['gcc', '-print-prog-name=cc1'], stdout=subprocess.PIPE, check=True)
    for program in PROGRAMS + [compiler.stdout.decode().strip()]:
        target = '%s/bin/%s' % (folder, os.path.basename(program))
        shutil.copy(shutil.which(program), target)

def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

def files(folder):
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)

# Does some of the phases, in order, with programs of a folder; prints the duration of each.
def work(folder, target, programs, wanted):
    binary = lambda name: programs + '/' + name
    def make_directories():
        os.mkdir(target)
        for number in range(DIRECTORIES):
            os.mkdir('%s/%d' % (target, number))
    def copy():
        for number in range(DIRECTORIES):
            place = '%s/source/%d/' % (folder, number)
            run(binary('cp'), *[place + name for name in sorted(os.listdir(place))],
                '%s/%d' % (target, number))
    def stat():
        for file in files(target):
            run(binary('ls'), '-l', file)
        run(binary('du'), '-s', target)
    def read():
        for file in files(target):
            run(binary('grep'), '-c', 'int', file)
        run(binary('wc'), *files(target))
    def compile():
        objects, scratch = [], '/tmp/andrew%d.s' % os.getpid()
        for file in files(target):
            if file.endswith('.c'):
                run(binary('cc1'), '-quiet', '-O1', file, '-o', scratch)
                run(binary('as'), scratch, '-o', file[:-1] + 'o')
                objects.append(file[:-1] + 'o')
        run(binary('ar'), 'rc', target + '/all.a', *objects)
        os.unlink(scratch)
    phases, times = [make_directories, copy, stat, read, compile], {}
    for phase in phases:
        name = phase.__name__.replace('_', '-')
        if name in wanted or not wanted:
            begin = time.perf_counter()
            phase()
            times[name] = time.perf_counter() - begin
    print('RESULT', json.dumps(dict(times, what='andrew', seconds=sum(times.values()))))

if sys.argv[1] == 'make':
    make(sys.argv[2])
else:
    work(*sys.argv[2:5], sys.argv[5:])
