/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.c - see stacks.h. The thread that gets the signal shows its stack, then sends it to the
 * others one by one and waits for each. Nothing in the handler allocates memory: the unwinder is
 * loaded before. For a thread that blocks the signal it shows where in the kernel it waits.
 */
#include "train/run/stacks.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "train/run/outlet.h"

#define FRAMES   64
#define PATIENCE 100 /* times 2 ms for a thread */

static atomic_int busy, turn; /* the thread that has to show its stack; 0: it has done so */

static void say_thread(int tid, const char *what)
{
	char text[256];
	snprintf(text, sizeof text, "zeroth: thread %d%s\n", tid, what);
	zr_outlet_say(text);
}

static void show(int tid)
{
	void *frame[FRAMES];
	int n = backtrace(frame, FRAMES);
	say_thread(tid, " is at");
	if (n > 2) /* leaves out this function and the handler */
		backtrace_symbols_fd(frame + 2, n - 2, STDERR_FILENO);
}

/* The function of the kernel in which a thread waits. */
static void show_kernel(int tid)
{
	char path[64], what[96] = "", text[160];

	snprintf(path, sizeof path, "/proc/self/task/%d/wchan", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, what, sizeof what - 1);
	what[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
	snprintf(text, sizeof text, " takes no signals; in the kernel it is at %s",
		 *what && strcmp(what, "0") ? what : "an unknown place");
	say_thread(tid, text);
}

static void ask(int tid)
{
	atomic_store(&turn, tid);
	if (syscall(SYS_tgkill, getpid(), tid, ZR_SIGNAL_STACKS))
		return;

	for (int i = 0; i < PATIENCE && atomic_load(&turn); i++)
		nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
	if (atomic_exchange(&turn, 0))
		show_kernel(tid);
}

/* readdir would allocate memory. */
static void ask_all(int me)
{
	struct entry {
		uint64_t inode;
		int64_t offset;
		unsigned short length;
		unsigned char type;
		char name[];
	};
	_Alignas(8) char room[4096];
	int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (long n; fd >= 0 && (n = syscall(SYS_getdents64, fd, room, sizeof room)) > 0;)
		for (long at = 0; at < n; at += ((struct entry *)(room + at))->length) {
			int tid = atoi(((struct entry *)(room + at))->name);
			if (tid && tid != me)
				ask(tid);
		}
	if (fd >= 0)
		close(fd);
}

static void on_signal(int sig)
{
	int saved = errno, me = (int)syscall(SYS_gettid);

	(void)sig;
	if (atomic_load(&turn) == me) {
		show(me);
		atomic_store(&turn, 0);
	} else if (!atomic_exchange(&busy, 1)) {
		show(me);
		ask_all(me);
		atomic_store(&busy, 0);
	}

	errno = saved;
}

void zr_stacks_watch(void)
{
	void *frame[2];
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	backtrace(frame, 2); /* loads the unwinder */
	sigaction(ZR_SIGNAL_STACKS, &sa, NULL);
}
