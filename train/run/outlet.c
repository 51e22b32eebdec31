/* SPDX-License-Identifier: Apache-2.0
 *
 * outlet.c - see outlet.h. The pipe is opened once more, because O_NONBLOCK on the standard file
 * would hold for all who share it. Where that is not allowed, what poll() says is believed: it may
 * block if another process fills the pipe in between.
 */
#include "train/run/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct outlet {
	FILE *plain; /* stdout or stderr as it was; NULL: it still is */
	int fd;      /* written to */
	int is_socket;
	int closed;
	int stalled;    /* nobody reads: what is printed is dropped */
	int torn;       /* the last line that was written is not whole */
	long long lost; /* lines dropped since the reader stopped */
} outlets[STDERR_FILENO + 1];

/* As write() does, but it does not wait. */
static ssize_t put(const struct outlet *o, const char *data, size_t n)
{
	struct pollfd p = { .fd = o->fd, .events = POLLOUT };

	if (o->is_socket)
		return send(o->fd, data, n, MSG_DONTWAIT);
	if (poll(&p, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}

	return write(o->fd, data, n < PIPE_BUF ? n : PIPE_BUF);
}

/* Whether there is room before the patience ends. */
static int is_read(const struct outlet *o)
{
	struct pollfd p = { .fd = o->fd, .events = POLLOUT };
	int n;

	do
		n = poll(&p, 1, (int)(ZR_OUTLET_PATIENCE * 1000));
	while (n < 0 && errno == EINTR);
	return n != 0;
}

/* Writes all, unless nobody reads. Returns the bytes written, or -1. */
static ssize_t put_all(struct outlet *o, const char *data, size_t n)
{
	size_t at = 0;

	while (at < n) {
		ssize_t done = put(o, data + at, n - at);
		if (done > 0)
			at += (size_t)done;
		else if (done < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		else if (done < 0 && errno == EAGAIN && (o->stalled || !is_read(o)))
			break;
	}

	if (at)
		o->torn = data[at - 1] != '\n';
	return (ssize_t)at;
}

/* Says what is missing, once there is room for it. Whether there is. */
static int resume(struct outlet *o)
{
	char line[128];

	int n = snprintf(line, sizeof line,
			 "%szeroth: %lld line%s missing here: nobody read for %g s\n",
			 o->torn ? "\n" : "", o->lost, o->lost == 1 ? " is" : "s are",
			 ZR_OUTLET_PATIENCE);
	if (o->lost && put(o, line, (size_t)n) < 0)
		return 0;

	o->stalled = 0;
	o->torn = 0;
	o->lost = 0;
	return 1;
}

static void drop(struct outlet *o, const char *data, size_t n)
{
	o->stalled = 1;
	for (size_t i = 0; i < n; i++)
		o->lost += data[i] == '\n';
}

static ssize_t on_write(void *cookie, const char *data, size_t n)
{
	struct outlet *o = cookie;

	if (o->closed)
		return (ssize_t)n;

	ssize_t done = o->stalled && !resume(o) ? 0 : put_all(o, data, n);
	if (done < 0)
		return 0; /* the error is in errno */
	if ((size_t)done < n)
		drop(o, data + done, n - (size_t)done);
	return (ssize_t)n;
}

static void begin(int fd, FILE **file)
{
	struct outlet *o = &outlets[fd];
	char path[32];
	struct stat st;

	if (o->plain || fstat(fd, &st) || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		return;

	FILE *f = fopencookie(o, "w", (cookie_io_functions_t){ .write = on_write });
	if (!f)
		return; /* it is written as by any program */
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

	*o = (struct outlet){ .plain = *file, .is_socket = S_ISSOCK(st.st_mode) };
	o->fd = o->is_socket ? -1 : open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (o->fd < 0)
		o->fd = fd;
	setvbuf(f, NULL, fd == STDERR_FILENO ? _IONBF : _IOFBF, BUFSIZ);
	fflush(*file);
	*file = f;
}

void zr_outlets_begin(void)
{
	begin(STDOUT_FILENO, &stdout);
	begin(STDERR_FILENO, &stderr);
}

void zr_outlet_leave(int fd)
{
	struct outlet *o = &outlets[fd];

	if (!o->plain)
		return;
	if (o->fd != fd)
		close(o->fd);
	if (fd == STDOUT_FILENO)
		stdout = o->plain;
	else
		stderr = o->plain;
	o->plain = NULL;
}

void zr_outlet_close(int fd)
{
	outlets[fd].closed = 1;
}

static int pushed_error; /* errno of the first push that failed */

int zr_outlet_push(void)
{
	if ((fflush(stdout) || ferror(stdout)) && !pushed_error)
		pushed_error = errno;
	fflush(NULL);
	return pushed_error;
}

/* Why standard output takes nothing, where the error of the write that failed is not known any
 * more: the next write fails alike. */
static const char *ask_again(void)
{
	if (write(STDOUT_FILENO, "\n", 1) < 0)
		return strerror(errno);
	return "it could not be written";
}

const char *zr_outlet_flush(void)
{
	const struct outlet *o = &outlets[STDOUT_FILENO];

	if (pushed_error)
		return strerror(pushed_error);
	if (fflush(stdout))
		return strerror(errno);
	if (ferror(stdout))
		return ask_again();
	return o->plain && o->stalled ? "nobody reads it, and its last lines are lost" : NULL;
}

void zr_outlet_say(const char *text)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	if (poll(&p, 1, 1000))
		(void)!write(STDERR_FILENO, text, strlen(text));
}
