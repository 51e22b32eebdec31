/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_launch.c - what `zeroth launch` and its agents say to each other (train/run/frames.h), as it
 * comes to each of them. An input is the side, 1 in its lowest bit: the agent's, and pieces:
 *
 *     machine     % 2: whose agent sends it, to the launcher; above 127: and its greeting first
 *     kind        of a frame, 128 more: the bytes are its last ones; or 255: they are no frame
 *     bytes       of it, two of them, the low one first; 65535: as many as a frame of its kind has
 *     n, bytes    what it begins with; zeros follow. Of no frame: n bytes
 */
#define _GNU_SOURCE
#include "train/run/agent.c"    /* their functions have no other door */
#include "train/run/machines.c" /* than a remote shell */

#include "fuzz.h"

#define MACHINES 2
#define EXACT    65535

static const struct zr_machine_name names[MACHINES] = { { "a", 2 }, { "b", 2 } };
static char *words[] = { "train", "tiny.ini", NULL };
static const struct zr_machines_how how = { .name = names, .n = MACHINES, .version = "1" };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	fuzz_check(zr_beat_new());
	return 0;
}

/* ---- frames ---------------------------------------------------------------------- */

/* The frame of a piece, at most as long as a pipe holds; 0: the input is over. */
static size_t make_frame(const uint8_t *data, size_t size, char *frame, size_t *bytes)
{
	static const size_t exact[] = {
		[ZR_FRAME_PORT] = sizeof(int32_t),
		[ZR_FRAME_JOB] = sizeof(struct zr_frame_job),
		[ZR_FRAME_SIGNAL] = sizeof(int32_t),
		[ZR_FRAME_BEAT] = sizeof(struct zr_frame_beat),
		[ZR_FRAME_END] = sizeof(struct zr_frame_end),
	};
	struct zr_frame_head head = { .kind = data[1] % 128u, .bytes = data[2] + 256u * data[3] };
	size_t n = data[4];
	if (n > size - 5)
		n = size - 5;
	if (data[1] == 255) {
		memcpy(frame, data + 5, n);
		*bytes = n;
		return 5 + n;
	}

	if (head.bytes == EXACT && head.kind < sizeof exact / sizeof *exact)
		head.bytes = (uint32_t)exact[head.kind];
	memcpy(frame, &head, sizeof head);
	*bytes = head.bytes < EXACT - sizeof head ? head.bytes : EXACT - sizeof head;
	memset(frame + sizeof head, 0, *bytes);
	const size_t given = n < *bytes ? n : *bytes;
	memcpy(frame + sizeof head + (data[1] < 128 ? 0 : *bytes - given), data + 5, given);
	*bytes += sizeof head;
	return 5 + n;
}

/* A pipe whose end for reading does not block. */
static void open_pipe(int ends[2])
{
	fuzz_check(!pipe2(ends, O_CLOEXEC | O_NONBLOCK));
	fcntl(ends[1], F_SETPIPE_SZ, 1 << 17);
}

/* ---- to the launcher ------------------------------------------------------------- */

static void open_machine(struct machine *one, int ends[2])
{
	open_pipe(ends);
	one->from.fd = ends[0];
	one->to = open("/dev/null", O_WRONLY | O_CLOEXEC);
	one->errors = -1;
	one->state = STARTING;
	one->heard = zr_now();
}

static void check_line(const char *text)
{
	for (; *text; text++)
		fuzz_check((unsigned char)*text >= ' ' && *text != 0x7f);
}

/* What a restart does with what it was told. */
static void use_beat(void)
{
	const struct zr_beat *b = zr_beat_shared();
	fuzz_check(b->batch >= 0 && b->micro >= 0 && (!b->batch || b->micro));
	fuzz_check(memchr(b->dir, 0, sizeof b->dir) &&
		   memchr(b->checkpoints, 0, sizeof b->checkpoints));
}

static void check_end(struct zr_machines *m)
{
	struct zr_crew_end end;
	const int code = explain(m, &end);
	fuzz_check(code >= 0 && code <= UINT8_MAX && m->failed <= MACHINES);
	check_line(end.text);
	use_beat();
	for (int i = 0; i < MACHINES; i++)
		fuzz_check(m->machine[i].state != STARTING || m->machine[i].from.used <= LINE);
}

static void to_launcher(const uint8_t *data, size_t size)
{
	static char frame[EXACT];
	static const char hello[] = ZR_FRAMES_HELLO "1\n";
	struct zr_machines *m = zr_machines_open(&how);
	int pipes[MACHINES][2], greeted[MACHINES] = { 0 };
	size_t bytes;
	fuzz_check(m);
	m->words = words;
	m->n_words = 2;
	m->world = 4;
	place_ranks(m);
	for (int i = 0; i < MACHINES; i++)
		open_machine(&m->machine[i], pipes[i]);

	while (size >= 5) {
		const int i = data[0] % MACHINES;
		struct machine *one = &m->machine[i];
		const int greets = data[0] > 127 && !greeted[i]++;
		const size_t used = make_frame(data, size, frame, &bytes);
		data += used;
		size -= used;
		if (one->from.fd < 0)
			continue; /* the launcher has lost it */

		if (greets)
			fuzz_check(write(pipes[i][1], hello, sizeof hello - 1) > 0);
		if (bytes)
			fuzz_check(write(pipes[i][1], frame, bytes) == (ssize_t)bytes);
		hear(m, one);
		check_end(m);
	}

	fuzz_usable += m->machine[0].state == RUNNING;
	for (int i = 0; i < MACHINES; i++)
		close(pipes[i][1]);
	end_shells(m);
	zr_machines_close(m);
}

/* ---- to an agent ----------------------------------------------------------------- */

/* What it would start ranks with. */
static void take_first_job(struct agent *a)
{
	const struct zr_frame_head *head;
	struct zr_frame_job job;
	int broken;

	while ((head = zr_frames_first(&a->in, &broken))) {
		char **text = head->kind == ZR_FRAME_JOB ? take_job(head, &job) : NULL;
		zr_frames_drop(&a->in, sizeof *head + head->bytes);
		if (!text)
			continue;

		fuzz_check(job.first >= 0 && job.n > 0 && job.world - job.n >= job.first);
		for (int i = 0; i < 1 + job.n_variables + job.n_words; i++)
			fuzz_check(strlen(text[i]) < ZR_FRAMES_MOST);
		fuzz_usable++;
		free(text[0]);
		free(text);
	}
}

static void to_agent(const uint8_t *data, size_t size)
{
	static char frame[EXACT];
	int ends[2];
	size_t bytes;
	open_pipe(ends);
	struct agent a = { .in.fd = ends[0], .out = -1, .err = -1 };

	while (size >= 5) {
		const size_t used = make_frame(data, size, frame, &bytes);
		data += used;
		size -= used;
		if (bytes && write(ends[1], frame, bytes) == (ssize_t)bytes)
			zr_frames_fill(&a.in);
		take_first_job(&a);
	}

	zr_frames_free(&a.in);
	close(ends[0]);
	close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	*zr_beat_shared() = (struct zr_beat){ .latest = -1 };
	if (data[0] & 1)
		to_agent(data + 1, size - 1);
	else
		to_launcher(data + 1, size - 1);
	return 0;
}
