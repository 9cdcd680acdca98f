/*
 * Has a program that knows of one mount use two of the same files: each call goes to the one or to
 * the other, by chance that is the same in each run. It is loaded before the C library, whose
 * functions it stands in for.
 *
 * CROSSED is the folder on both mounts, with a colon between; the program is told of the first. A
 * path in it that is absolute is one of either. Of a regular file that is opened by such a path both
 * are open, and what is done to it is done by either. Directories stay where the program has them,
 * for what it names by them has to be on one mount.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { FILES = 1024 };

static char here[PATH_MAX], there[PATH_MAX];
static size_t length;
/* By its descriptor, what is open of the same file on the other mount; 0 is none. */
static int twins[FILES];
static dev_t devices[2];
static uint64_t chance = 88172645463325252;

__attribute__((constructor)) static void begin(void)
{
	const char *folders = getenv("CROSSED");
	const char *colon = folders ? strchr(folders, ':') : NULL;
	if (!colon || strlen(folders) >= PATH_MAX) {
		fputs("CROSSED is missing\n", stderr);
		abort();
	}
	length = (size_t)(colon - folders);
	memcpy(here, folders, length);
	strcpy(there, colon + 1);
	/* Else a path could be too long on one of them alone. The first is the longer one. */
	while (strlen(there) < length)
		strcat(there, "/");
	struct stat is[2];
	if (REAL(stat)(here, &is[0]) < 0 || REAL(stat)(there, &is[1]) < 0)
		abort();
	devices[0] = is[0].st_dev;
	devices[1] = is[1].st_dev;
}

static int heads(void)
{
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return (int)(chance >> 40 & 1);
}

static int is_here(const char *path)
{
	/* Programs ask what becomes of places where there is no memory. */
	return (intptr_t)path > 4096 && strncmp(path, here, length) == 0 &&
	       (path[length] == '/' || path[length] == 0);
}

/* The same path on the other mount, which is as long; `room` holds it. */
static const char *across(const char *path, char *room)
{
	if (!is_here(path) || strlen(path) > 2 * PATH_MAX)
		return path;
	strcpy(room, path);
	memcpy(room, there, length);
	return room;
}

static const char *either(const char *path, char *room)
{
	return is_here(path) && heads() ? across(path, room) : path;
}

static int file(int fd)
{
	int twin = fd >= 0 && fd < FILES ? twins[fd] : 0;
	return twin && heads() ? twin : fd;
}

#define ROOM 2 * PATH_MAX + 1
/*
 * Before it lets a user change an object the kernel looks whose it is, but not whether what it knows
 * of that is good. So that is asked for first.
 */
static void look(const char *path)
{
	struct stat is;
	if (is_here(path) || ((intptr_t)path > 4096 && strncmp(path, there, length) == 0))
		if (REAL(lstat)(path, &is) == 0)
			REAL(stat)(path, &is);
	errno = 0;
}

/* Of one path. */
#define NAME(type, name, parameters, arguments)                                                    \
	type name parameters                                                                       \
	{                                                                                          \
		char room[ROOM];                                                                   \
		path = either(path, room);                                                         \
		look(path);                                                                        \
		return REAL(name) arguments;                                                       \
	}

/* Of two, which have to be on one mount. */
#define NAMES(name, parameters, arguments)                                                         \
	int name parameters                                                                        \
	{                                                                                          \
		char room[ROOM], more[ROOM];                                                       \
		if (is_here(from) && is_here(to) && heads()) {                                     \
			from = across(from, room);                                                 \
			to = across(to, more);                                                     \
		}                                                                                  \
		look(from);                                                                        \
		look(to);                                                                          \
		return REAL(name) arguments;                                                       \
	}

/* Of an open file. */
#define FILE_CALL(type, name, parameters, arguments)                                               \
	type name parameters                                                                       \
	{                                                                                          \
		fd = file(fd);                                                                     \
		return REAL(name) arguments;                                                       \
	}

/*
 * The kernel does not heed what it is told of a file's size if it is told to drop pages at the same
 * time, and goes on with the size that it had: that is asked for before, more than once.
 */
static int asked(int fd)
{
	struct stat is;
	fd = file(fd);
	for (int time = 0; fd >= 0 && time < 3; time++)
		REAL(fstat)(fd, &is);
	return fd;
}

/* Of an open file whose size matters. */
#define ASKED_CALL(name, parameters, arguments)                                                    \
	ssize_t name parameters                                                                    \
	{                                                                                          \
		fd = asked(fd);                                                                    \
		return REAL(name) arguments;                                                       \
	}

static int opened(int (*open)(const char *, int, ...), const char *path, int flags, mode_t mode)
{
	char room[ROOM];
	struct stat is;
	int crosses = is_here(path) && heads();
	int fd = open(crosses ? across(path, room) : path, flags, mode);
	if (fd < 0 || !is_here(path) || REAL(fstat)(fd, &is) < 0)
		return fd;
	if (S_ISDIR(is.st_mode) && crosses) {
		REAL(close)(fd);
		return open(path, flags & ~(O_CREAT | O_EXCL), mode);
	}
	if (S_ISREG(is.st_mode) && fd < FILES && !(flags & O_PATH)) {
		const char *other = crosses ? path : across(path, room);
		int twin = open(other, flags & ~(O_CREAT | O_EXCL | O_TRUNC), mode);
		twins[fd] = twin > 0 ? twin : 0;
	}
	return fd;
}

#define OPEN(name)                                                                                 \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		va_list rest;                                                                      \
		va_start(rest, flags);                                                             \
		mode_t mode = va_arg(rest, mode_t);                                                \
		va_end(rest);                                                                      \
		return opened(REAL(name), path, flags, mode);                                      \
	}

OPEN(open)
OPEN(open64)

int close(int fd)
{
	if (fd >= 0 && fd < FILES && twins[fd]) {
		int twin = twins[fd];
		twins[fd] = 0;
		REAL(close)(twin);
	}
	return REAL(close)(fd);
}

NAME(int, chmod, (const char *path, mode_t mode), (path, mode))
NAME(int, chown, (const char *path, uid_t user, gid_t group), (path, user, group))
NAME(int, lchown, (const char *path, uid_t user, gid_t group), (path, user, group))
NAME(int, mkdir, (const char *path, mode_t mode), (path, mode))
NAME(int, mkfifo, (const char *path, mode_t mode), (path, mode))
NAME(int, mknod, (const char *path, mode_t mode, dev_t device), (path, mode, device))
NAME(int, rmdir, (const char *path), (path))
NAME(int, unlink, (const char *path), (path))
NAME(int, symlink, (const char *to, const char *path), (to, path))
NAME(int, truncate, (const char *path, off_t size), (path, size))
NAME(ssize_t, readlink, (const char *path, char *to, size_t size), (path, to, size))
NAME(int, statfs64, (const char *path, struct statfs64 *is), (path, is))
NAME(long, pathconf, (const char *path, int what), (path, what))
NAME(DIR *, opendir, (const char *path), (path))

/* An absolute path needs no directory. */
NAME(int, fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags))
NAME(int, fchownat, (int fd, const char *path, uid_t user, gid_t group, int flags),
     (fd, path, user, group, flags))
NAME(int, symlinkat, (const char *to, int fd, const char *path), (to, fd, path))
NAME(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
NAME(int, utimensat, (int fd, const char *path, const struct timespec times[2], int flags),
     (fd, path, times, flags))

NAMES(link, (const char *from, const char *to), (from, to))
NAMES(rename, (const char *from, const char *to), (from, to))
NAMES(linkat, (int fd, const char *from, int other, const char *to, int flags),
      (fd, from, other, to, flags))
NAMES(renameat, (int fd, const char *from, int other, const char *to), (fd, from, other, to))

/* Both mounts are one device. */
#define STAT(name, of, parameters, arguments)                                                      \
	int name parameters                                                                        \
	{                                                                                          \
		of;                                                                                \
		int result = REAL(name) arguments;                                                 \
		if (result == 0 && is->st_dev == devices[1])                                       \
			is->st_dev = devices[0];                                                   \
		return result;                                                                     \
	}
#define OF_PATH                                                                                    \
	char room[ROOM];                                                                           \
	path = either(path, room)

STAT(stat, OF_PATH, (const char *path, struct stat *is), (path, is))
STAT(lstat, OF_PATH, (const char *path, struct stat *is), (path, is))
STAT(stat64, OF_PATH, (const char *path, struct stat64 *is), (path, is))
STAT(lstat64, OF_PATH, (const char *path, struct stat64 *is), (path, is))
STAT(fstatat64, OF_PATH, (int fd, const char *path, struct stat64 *is, int flags),
     (fd, path, is, flags))
STAT(fstat, fd = file(fd), (int fd, struct stat *is), (fd, is))
STAT(fstat64, fd = file(fd), (int fd, struct stat64 *is), (fd, is))

int statx(int fd, const char *path, int flags, unsigned mask, struct statx *is)
{
	char room[ROOM];
	fd = *path ? fd : file(fd);
	return REAL(statx)(fd, either(path, room), flags, mask, is);
}

FILE_CALL(int, fsync, (int fd), (fd))
FILE_CALL(int, fdatasync, (int fd), (fd))
FILE_CALL(int, ftruncate, (int fd, off_t size), (fd, size))
FILE_CALL(int, ftruncate64, (int fd, off64_t size), (fd, size))
ASKED_CALL(pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
ASKED_CALL(pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
FILE_CALL(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
FILE_CALL(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at),
	  (fd, from, size, at))
FILE_CALL(ssize_t, sendfile64, (int to, int fd, off64_t *at, size_t size), (to, fd, at, size))

/* Where a file ends either knows; where the program goes on is kept with its own. */
off64_t lseek64(int fd, off64_t offset, int whence)
{
	if (whence != SEEK_END)
		return REAL(lseek64)(fd, offset, whence);
	off64_t end = REAL(lseek64)(asked(fd), offset, whence);
	return end < 0 ? end : REAL(lseek64)(fd, end, SEEK_SET);
}

void *mmap(void *place, size_t size, int rights, int flags, int fd, off_t at)
{
	return REAL(mmap)(place, size, rights, flags, asked(fd), at);
}

void *mmap64(void *place, size_t size, int rights, int flags, int fd, off64_t at)
{
	return REAL(mmap64)(place, size, rights, flags, asked(fd), at);
}
