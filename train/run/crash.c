/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c - see crash.h. The stack of the crash shows the plugin, and which function of its tables
 * was called. In a signal handler, unwinding and dladdr are safe while no lock of the dynamic
 * linker is held. So both are called once beforehand, to load what they need, and a report that
 * takes longer than PATIENCE is abandoned.
 */
#include "train/run/crash.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "core/config/options.h"
#include "core/exec/exec.h"
#include "core/plugin/loader.h"
#include "train/run/outlet.h"

#define PATIENCE   10      /* seconds that a report may take */
#define DEEPEST    1000000 /* frames that are examined */
#define MEANT_CODE 4

static struct {
	pid_t pid; /* the process that is watched; 0: none */
	struct zr_error *why;
	const struct zr_session *session;
	const char *loading;   /* the plugin that is being loaded; NULL: not known which */
	void (*end)(int code); /* _exit of libc */
	atomic_flag busy;
} watch = { .busy = ATOMIC_FLAG_INIT };

static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

const char *zr_signal_text(int sig, char *out, size_t size)
{
	snprintf(out, size, "SIG%s (%s)", sigabbrev_np(sig), strsignal(sig));
	return out;
}

void zr_crash_session(const struct zr_session *s)
{
	watch.session = s;
}

void zr_crash_loading(const char *plugin)
{
	watch.loading = plugin;
}

/* ---- where ----------------------------------------------------------------------- */

/* What the stack shows, from its innermost frame on. */
struct stack {
	const struct zr_plugin *plugin; /* the innermost plugin; NULL: none */
	/* the innermost plugin that a function of its tables was called in */
	const struct zr_plugin *caller;
	const char *function; /* that function */
	/* the innermost file that is neither a plugin nor ours nor libc's */
	const char *other;
	const void *ours, *libc; /* addresses inside these two */
	int in_options;          /* zr_table_check was looking at a plugin's options */
	void *last;              /* the function that was examined last */
	int frames;
};

static const char *function_of(const struct zr_plugin *p, const void *function)
{
	const struct zr_desc *d = p->desc;

	if (function == (void *)d->create)
		return "create";
	if (function == (void *)d->destroy)
		return "destroy";
	if (function == (void *)d->resolve)
		return "resolve";
	if (function == (void *)d->check)
		return "check";

	for (const struct zr_iface *f = d->ifaces; f->id; f++) {
		const struct zr_role *role = zr_role_of_iface(f->id);
		for (int i = 0; f->vtbl && role->call[i]; i++)
			if ((const void *)zr_role_call_in(role, f->vtbl, i) == function)
				return zr_role_call(role, i);
	}

	return NULL;
}

/* Examines one frame: `pc` is in the function that begins at `start`. */
static void look(struct stack *s, const void *pc, void *start)
{
	Dl_info info;
	int known = 0;

	if (!dladdr(pc, &info) || !info.dli_fname)
		return;

	for (const struct zr_plugin *p = zr_plugins; p; p = p->next) {
		const char *name;
		if (strcmp(p->path, info.dli_fname))
			continue;

		known = 1;
		s->plugin = s->plugin ? s->plugin : p;
		if (!s->function && start && (name = function_of(p, start))) {
			s->function = name;
			s->caller = p;
		}
	}

	if (!known && !s->other && info.dli_fbase != s->ours && info.dli_fbase != s->libc)
		s->other = info.dli_fname;
}

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *arg)
{
	struct stack *s = arg;

	/* 0: a return address, which may lie behind the end of the function that called */
	int exact = 0;
	char *pc = (char *)_Unwind_GetIPInfo(context, &exact);
	void *start = pc ? _Unwind_FindEnclosingFunction(pc - !exact) : NULL;
	if (pc && (!start || start != s->last))
		look(s, pc - !exact, start);
	s->in_options |= start == (void *)zr_table_check;
	s->last = start;
	return ++s->frames < DEEPEST && !s->function ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

/* If the process jumped to an address that is no code, such as NULL, the unwinder cannot start
 * there: it starts at the call. u: the interrupted context; NULL: the caller of this function. */
static void unwind(struct stack *s, ucontext_t *u)
{
#if defined(__x86_64__) || defined(__aarch64__)
	Dl_info info;
#ifdef __x86_64__
	const int nowhere = u && !dladdr((void *)u->uc_mcontext.gregs[REG_RIP], &info);
#else
	const int nowhere = u && !dladdr((void *)u->uc_mcontext.pc, &info);
#endif
	if (nowhere) {
		ucontext_t before = *u;
#ifdef __x86_64__
		greg_t *sp = &u->uc_mcontext.gregs[REG_RSP];
		u->uc_mcontext.gregs[REG_RIP] = *(greg_t *)*sp - 1;
		*sp += sizeof(void *);
#else
		u->uc_mcontext.pc = u->uc_mcontext.regs[30] - 1;
#endif
		_Unwind_Backtrace(frame, s);
		*u = before;
		return;
	}
#else
	(void)u;
#endif
	_Unwind_Backtrace(frame, s);
}

static void base_of(const void *address, const void **base)
{
	Dl_info info;
	*base = address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

static void append_text(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void append_text(char *out, size_t size, const char *fmt, ...)
{
	size_t at = strlen(out);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(out + at, size - at, fmt, ap);
	va_end(ap);
}

/* " in step() of plugin optimizer/adamw, FILE; rank 1, step 3, update (unit h.0)" */
static void where(ucontext_t *u, char *out, size_t size)
{
	struct stack s = { 0 };
	const struct zr_session *now = watch.session;

	base_of((const void *)zr_crash_watch, &s.ours);
	base_of(dlsym(RTLD_NEXT, "exit"), &s.libc);
	unwind(&s, u);
	*out = 0;
	if (s.plugin) {
		const struct zr_desc *d = s.plugin->desc;
		append_text(out, size, " in %s%splugin %s/%s, %s",
			    s.caller == s.plugin ? s.function : "",
			    s.caller == s.plugin ? "() of " : "", d->role, d->id, s.plugin->path);
		if (s.caller && s.caller != s.plugin)
			append_text(out, size, ", below %s() of plugin %s/%s", s.function,
				    s.caller->desc->role, s.caller->desc->id);
	} else if (s.in_options) {
		append_text(out, size,
			    " looking at the options of %s%s: they are not what opts, n_opts "
			    "and opt_stride of its descriptor say; mend it",
			    watch.loading ? "plugin " : "a plugin",
			    watch.loading ? watch.loading : "");
	} else {
		append_text(out, size, " in %s", s.other ? s.other : "zeroth itself");
	}
	if (now) {
		char doing[256] = "";
		zr_running_text(now, doing, sizeof doing);
		append_text(out, size, "; rank %d, step %lld%s%s", now->setup->facts.process.rank,
			    (long long)zr_step_running(now), *doing ? ", " : "", doing);
	}
}

/* ---- the end --------------------------------------------------------------------- */

static void give_up(int sig)
{
	(void)sig;
	zr_outlet_say("zeroth: crashed, and its stack cannot be looked at\n");
	watch.end(MEANT_CODE);
}

/* Only the first thread reports; others wait here for the end of the process. */
static void begin_report(void)
{
	sigset_t clock;

	if (atomic_flag_test_and_set(&watch.busy))
		for (;;)
			pause();
	signal(SIGALRM, give_up);
	sigemptyset(&clock);
	sigaddset(&clock, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &clock, NULL);
	alarm(PATIENCE);
}

static void crashed(int sig, siginfo_t *info, void *context)
{
	static char text[sizeof watch.why->text], name[128], line[sizeof text + sizeof name + 32];
	int sent = info->si_code <= 0;

	if (getpid() == watch.pid && !(sent && info->si_pid != watch.pid)) {
		begin_report();
		where(context, text, sizeof text);
		if (watch.why)
			memcpy(watch.why->text, text, sizeof text);
		else
			snprintf(line, sizeof line, "zeroth: killed by %s%s\n",
				 zr_signal_text(sig, name, sizeof name), text);
		zr_outlet_say(line);
		alarm(0);
	}

	signal(sig, SIG_DFL);
	if (sent)
		raise(sig); /* a fault happens again when the handler returns */
}

/* Ends the process with code 4 instead of the code that the call has. */
static void exited(const char *call)
{
	static char text[sizeof watch.why->text];

	if (getpid() != watch.pid)
		return;

	begin_report();
	fflush(stdout);
	where(NULL, text, sizeof text);
	struct zr_error why = { 0 };
	zr_err(&why, ZR_EINTERNAL, "%s ended the process%s", call, text);
	if (watch.why) {
		*watch.why = why;
	} else {
		zr_outlet_say("zeroth: ");
		zr_outlet_say(why.text);
		zr_outlet_say("\n");
	}

	watch.end(MEANT_CODE);
}

static void on_exit_called(int code, void *unused)
{
	char call[32];
	(void)unused;
	snprintf(call, sizeof call, "exit(%d)", code);
	exited(call);
}

static void on_quick_exit(void)
{
	exited("quick_exit()");
}

/* These replace the functions of libc for all callers that find them by name. */
__attribute__((visibility("default"))) void _exit(int code)
{
	char call[32];

	snprintf(call, sizeof call, "_exit(%d)", code);
	exited(call);
	if (watch.end)
		watch.end(code);
	for (;;)
		syscall(SYS_exit_group, code);
}

__attribute__((visibility("default"))) void _Exit(int code)
{
	_exit(code);
}

/* ---- life ------------------------------------------------------------------------ */

static void handle_signals(void)
{
	/* after a stack overflow a handler cannot run on the normal stack */
	static char room[1 << 17];
	struct sigaction sa = { .sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK }, old;
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room };

	sigaltstack(&stack, NULL);
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		sigaddset(&sa.sa_mask, fatal[i]);
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		if (!sigaction(fatal[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(fatal[i], &sa, NULL);
}

void zr_crash_watch(struct zr_error *why)
{
	static char unused[512];

	if (!watch.end) {
		watch.end = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
		/* makes the linker bind all functions that a handler calls */
		where(NULL, unused, sizeof unused);
		on_exit(on_exit_called, NULL);
		at_quick_exit(on_quick_exit);
		handle_signals();
	}

	watch.why = why;
	watch.pid = getpid();
}

void zr_crash_unwatch(void)
{
	watch.pid = 0;
}
