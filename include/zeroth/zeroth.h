/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/zeroth.h - the library libzeroth: training inside a program of one's own. An engine is
 * what `zeroth train` would train, without its output. A program makes one, says what it is by an
 * INI file or text and options over it, opens it, and then trains it step by step. Or it brings its
 * own model, as layers that are functions on plain pointers, and calls forward, backward and step.
 *
 *   cc $(pkg-config --cflags zeroth) program.c $(pkg-config --libs zeroth)
 *
 * Threads: an engine is used by one thread at a time; several engines may be used at once. Its
 * ranks are threads of this process, one also where there is one rank. An engine does not live on
 * in a child that the process forks: calls of it there are ZR_ESTATE.
 *
 * Callbacks: a function that an engine calls, or another thread meanwhile, may call zeroth_error,
 * zeroth_tensor and zeroth_facts of this engine. All other calls are ZR_ESTATE there, and
 * zeroth_close() does nothing. So are those of a log function, of any engine. zeroth_error() has
 * the text for the thread that made the call.
 *
 * Failures: functions return 0 or a negative ZR_E* of <zeroth/plugin.h>, and zeroth_error() then
 * gives the text. What fails between ranks, in opening, resuming or a step, ends the engine: later
 * calls return the same failure until it is closed. So does what the first call after these fails
 * to begin with: parameters, monitors and the directory of [run]. A pointer that is NULL where it
 * must not be is ZR_EINVAL, and ends nothing; an engine that is NULL is ZR_ENOMEM. Nothing here
 * exits, catches signals or prints; what `zeroth train` would print as a warning goes to
 * zeroth_set_log(), or nowhere.
 *
 * Sizes: a struct that a call fills, and one that tables of a model consist of, has its size in
 * the program, as its `size` or in zeroth_model. One below that of the first release of the struct
 * is ZR_EINVAL.
 *
 * What is written: the files that zeroth_save() and zeroth_save_weights() name, and what the
 * configuration asks for, as stores on disk or monitors. Where [run] dir is given, that is the
 * directory of monitors. Without it there is none, and the monitor of defaults.ini is left out.
 */
#ifndef ZEROTH_ZEROTH_H
#define ZEROTH_ZEROTH_H

#include <zeroth/monitor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZEROTH_API ZR_EXTERN __attribute__((visibility("default")))

struct zeroth; /* an engine */

/* ---- before it is opened --------------------------------------------------------- */

/* A new engine, which the caller owns until zeroth_close(). NULL: out of memory. */
ZEROTH_API struct zeroth *zeroth_new(void);

/* The configuration: a file, or its text, as in zeroth.ini(5). The last call counts; none: the
 * defaults and options alone. Both are copied; a file is read in zeroth_open(). */
ZEROTH_API int zeroth_set_file(struct zeroth *, const char *path);
ZEROTH_API int zeroth_set_text(struct zeroth *, const char *text);

/* An option over the configuration, "section.key=value", as -o of zeroth(1); the last one wins. */
ZEROTH_API int zeroth_set(struct zeroth *, const char *option);

/* Plugins that are compiled into the program: the entry that ZR_PLUGIN(...) defines at the end of
 * their source, `&zr_plugin_entry_v1`; several sources are compiled with -Dzr_plugin_entry_v1=NAME.
 * Of this engine alone: an id means them before any file. The entry and what it points to are
 * constant, and stay as long as the process. */
ZEROTH_API int zeroth_add_plugins(struct zeroth *, const struct zr_entry *entry);

/* So many ranks, as threads of this process, instead of those that [boot] finds: 1 to 64. With 1,
 * the default, this process is one rank of those that [boot] finds: alone, or one of `mpirun` or
 * of another launcher. */
ZEROTH_API int zeroth_set_ranks(struct zeroth *, int ranks);

/* Where lines of log go that `level` (ZR_LOG_*) admits; fn NULL: nowhere. The texts are valid
 * during the call, which any thread may make, but never two at once. Lines of threads of which it
 * is not known to which engine they belong go to all that have a log. */
typedef void zeroth_log_fn(void *arg, int level, const char *topic, const char *text);
ZEROTH_API int zeroth_set_log(struct zeroth *, int level, zeroth_log_fn *fn, void *arg);

/* ---- a model of the program's own ------------------------------------------------ */

/* A tensor of parameters. GROWABLE by zeroth_model.tensor_size. */
struct zeroth_tensor {
	const char *name; /* of all tensors only this one */
	int64_t dims[4];  /* row-major, unused trailing ones 1 */
	int32_t ndim;
	int32_t init; /* ZEROTH_INIT_* */
	double mean, std;
	uint32_t flags, rsv; /* ZEROTH_TENSOR_* */
};

#define ZEROTH_TENSOR_FROZEN 1u /* not trained, whatever [train] freeze says */

#define ZEROTH_INIT_NORMAL  1 /* N(mean, std), from [train] seed, tensor and element */
#define ZEROTH_INIT_CONST   2 /* mean everywhere */
#define ZEROTH_INIT_UNIFORM 3 /* U(mean - std, mean + std) */

/* Tensors that are split, gathered and updated together. GROWABLE by zeroth_model.unit_size. */
struct zeroth_unit {
	const char *name;
	const struct zeroth_tensor *tensors;
	uint32_t n_tensors, rsv;
};

/* What a layer is called with. Samples are those of a micro-batch: [train] micro_batch_size, S. All
 * pointers are valid during the call. Activations and parameters are of type `dtype`, which
 * [precision] decides; with fp32, the default, they are float. GROWABLE. */
struct zeroth_call {
	uint32_t size;
	int32_t layer;    /* its number */
	int32_t rank;     /* of all ranks; another thread for each of this process */
	int32_t training; /* 0: only the loss is wanted, no backward follows */
	int32_t dtype;    /* ZR_F32, ZR_BF16 or ZR_F16 */
	int32_t rsv;
	int64_t samples;    /* S */
	int64_t step, slot; /* of the micro-batch in the training, both from 0 */
	void *arg;          /* of the model */
	const void *batch;  /* what zeroth_forward() or load() gave for this micro-batch */
	const void *in;     /* [S * out of the layer before]; NULL: the first layer */
	void *out;          /* [S * out]; NULL: the last layer */
	void *saved;        /* [S * saved bytes] from its forward to its backward */
	void *work;         /* [S * work bytes] during the call */
	/* [tensors of its units, in order] parameters, and in backward their fp32 gradients, sums
	 * over the samples: stored where accumulate is 0, else added. dparam and accumulate are
	 * NULL in forward, dparam[i] where the gradient is not wanted. */
	const void *const *param;
	float *const *dparam;
	const uint8_t *accumulate;
	/* backward: the gradient with respect to out, which is NULL for the last layer, and the
	 * place of that with respect to in, which is NULL for the first */
	const void *dout;
	void *din;
	/* The last layer: where the loss of each sample goes, [S]. Gradients are those of `scale`
	 * times the sum of these. */
	float *loss;
	float scale;
	float *right; /* [S] evaluation: 1 where the sample is right, 0 before the call */
};

/* A layer of a chain: the input of each is the output of the one before. The last one has no output
 * and gives a loss for each sample. In training only its backward is called, which gives the losses
 * as well. Functions return 0, or a negative ZR_E* that ends the engine. They are called by the
 * threads of ranks, at the same time for several ranks. A layer may be called again with the same
 * values ([activation] recompute), and must then give the same bits. GROWABLE by
 * zeroth_model.layer_size. */
struct zeroth_layer {
	const char *name;
	const int32_t *units; /* numbers of those that it uses; several layers may use one */
	uint32_t n_units, rsv;
	uint64_t out;         /* elements of its output per sample; 0: the last layer */
	uint64_t saved, work; /* bytes per sample */
	int (*forward)(const struct zeroth_call *);
	int (*backward)(const struct zeroth_call *);
};

/* GROWABLE. All that it points to is borrowed until zeroth_close(). */
struct zeroth_model {
	uint32_t size; /* sizeof(struct zeroth_model) */
	uint32_t n_units, n_layers;
	/* sizeof of the three structs above */
	uint32_t tensor_size, unit_size, layer_size;
	const struct zeroth_unit *units;
	const struct zeroth_layer *layers;
	void *arg; /* passed on to all functions */
	/* (optional) The micro-batch `slot` of step `step`, of S samples; training 0: batch `slot`
	 * of what is held out. The same for the same numbers, whatever the rank. What *batch points
	 * to stays until the next call for the same rank. NULL: batches come from zeroth_forward()
	 * alone, and nothing evaluates but zeroth_infer(). */
	int (*load)(void *arg, int32_t rank, int training, int64_t step, int64_t slot,
		    int64_t samples, const void **batch);
	int64_t held_out; /* samples that zeroth_evaluate() goes over; 0: none */
	uint32_t flags;   /* ZEROTH_MODEL_* */
	/* fp32 numbers, at most 2^20, that checkpoints keep and zeroth_numbers() shows; 0: none */
	int32_t numbers;
};

/* Threads of the program compute the layers, and own the activations: see zeroth_begin(). */
#define ZEROTH_MODEL_OUTSIDE 1u

/* The model, instead of [model] and [data] of the configuration. What it points to is read, and
 * judged, in zeroth_open(): a failure names the field. Names are UTF-8 of 1 to 255 bytes without
 * control characters, equal to no other of their kind; each unit is used by a layer; mean and std
 * are numbers of fp32, std and held_out 0 or more. On devices whose memory this process can read,
 * as cpu; with ZEROTH_MODEL_OUTSIDE on all. */
ZEROTH_API int zeroth_set_model(struct zeroth *, const struct zeroth_model *model);

/* ---- training -------------------------------------------------------------------- */

/* Reads the configuration, loads plugins, takes all memory. */
ZEROTH_API int zeroth_open(struct zeroth *);

/* Goes on from the newest whole checkpoint at `path`, a checkpoint, a directory of them or of a
 * run; "auto": in that of [checkpoint] or [run]. Before the first step. *step (NULL: not wanted):
 * after which it was saved; -1: with "auto", none is there. */
ZEROTH_API int zeroth_resume(struct zeroth *, const char *path, int64_t *step);

#define ZEROTH_APPLIED 1 /* parameters were updated */
#define ZEROTH_SKIPPED 2 /* non-finite gradients: only the loss scale changed */
#define ZEROTH_PENDING 3 /* after some micro-batches of a step: nothing was done */

/* GROWABLE. */
struct zeroth_result {
	uint32_t size;    /* set by the caller */
	int32_t outcome;  /* ZEROTH_APPLIED, ... */
	int64_t step;     /* steps of the training so far, this one included */
	double loss;      /* mean over the samples or tokens of the step, before the update */
	double grad_norm; /* L2, before clipping */
	double lr;
	double loss_scale;
	double seconds;
};

/* One step: all its micro-batches, and the update. After zeroth_backward() it ends the step that
 * these began, once it has all its micro-batches; before that it does nothing and says
 * ZEROTH_PENDING. ZR_ESTATE after [train] steps steps. ZR_ENUMERIC where non-finite numbers end the
 * training. r: NULL: not wanted. */
ZEROTH_API int zeroth_step(struct zeroth *, struct zeroth_result *r);

/* Of a model of the program's own: a micro-batch of S samples for each rank of this process, which
 * layers get as `batch`, and its mean loss over these ranks (loss NULL: not wanted). Each is
 * followed by zeroth_backward(), and each of these by zeroth_step(). */
ZEROTH_API int zeroth_forward(struct zeroth *, const void *const *batch, double *loss);
ZEROTH_API int zeroth_backward(struct zeroth *);

/* As zeroth_forward(), but nothing is learned: layers are called with training 0. Between steps. */
ZEROTH_API int zeroth_infer(struct zeroth *, const void *const *batch, double *loss);

/* GROWABLE. */
struct zeroth_evaluation {
	uint32_t size; /* set by the caller */
	uint32_t rsv;
	double loss;     /* mean over targets, by their weights */
	double accuracy; /* part of the targets that were the likeliest */
	int64_t targets;
};

/* Evaluates on what [data] holds out, name "", or on [eval.NAME]. Between steps. Monitors get its
 * numbers with those of the step before it, when the next step, a save or the end comes. */
ZEROTH_API int zeroth_evaluate(struct zeroth *, const char *name, struct zeroth_evaluation *out);

/* ---- what comes out -------------------------------------------------------------- */

/* Saves a checkpoint, between steps, in the directory of [checkpoint] or [run]; `zeroth train
 * --resume` and zeroth_resume() go on from it. Returns when it is whole. If it cannot be written,
 * all ranks return the same failure, and the engine goes on as if the call had not been made; but
 * no memory, ranks that have drifted apart, or that cannot reach each other, end it. */
ZEROTH_API int zeroth_save(struct zeroth *);

/* The parameters in fp32 as a safetensors file, which is whole or not there; fails as
 * zeroth_save(). */
ZEROTH_API int zeroth_save_weights(struct zeroth *, const char *file);

/* GROWABLE. */
struct zeroth_tensor_info {
	uint32_t size; /* set by the caller */
	int32_t ndim;
	const char *name; /* until zeroth_close() */
	int64_t dims[4];
	int64_t elements;
	uint32_t flags; /* ZEROTH_TENSOR_FROZEN: the training does not change it */
	int32_t dtype;  /* in which layers read it: ZR_F32, ZR_BF16 or ZR_F16 */
};

/* The i-th tensor, from 0; returns 0, or ZR_EINVAL behind the last one. */
ZEROTH_API int zeroth_tensor(struct zeroth *, int64_t i, struct zeroth_tensor_info *out);
/* All parameters in fp32. fn is called on one thread at a time: elements [first, first + n) of the
 * i-th tensor, ascending. get: x is read; put: x is to be written, for the parts that each rank of
 * this process holds, some of them perhaps for several. Both are collective over all processes; fn
 * returns 0, or a negative ZR_E* that ends the engine. */
typedef int zeroth_get_fn(void *arg, int64_t i, int64_t first, int64_t n, const float *x);
typedef int zeroth_put_fn(void *arg, int64_t i, int64_t first, int64_t n, float *x);
ZEROTH_API int zeroth_get(struct zeroth *, zeroth_get_fn *fn, void *arg);
ZEROTH_API int zeroth_put(struct zeroth *, zeroth_put_fn *fn, void *arg);

/* The numbers of the last step and of evaluations after it, as monitors get them: *m points to
 * them until the next call. Returns how many, 0 before the first step. */
ZEROTH_API int zeroth_metrics(struct zeroth *, const struct zr_metric **m);
/* One of them by name; ZR_EINVAL: there is none. */
ZEROTH_API int zeroth_metric(struct zeroth *, const char *name, double *value);

/* GROWABLE. */
struct zeroth_facts {
	uint32_t size;        /* set by the caller */
	int32_t ranks;        /* of all processes */
	int32_t rank;         /* the first of this process */
	int32_t accumulation; /* micro-batches of a rank and step */
	int64_t micro_batch;  /* S */
	int64_t parameters;
	int64_t step, steps; /* done, and of [train] */
	uint64_t bytes;      /* of the first rank, on host and device */
};
ZEROTH_API int zeroth_facts(struct zeroth *, struct zeroth_facts *out);

/* The two numbers in the last line of `zeroth train`: XXH3-64 of the losses of all steps, and of
 * all parameters in fp32. Equal trainings have equal ones. */
ZEROTH_API int zeroth_digest(struct zeroth *, uint64_t *losses, uint64_t *parameters);

/* The text of the last failure of this engine, "" if there is none; until the next call. */
ZEROTH_API const char *zeroth_error(const struct zeroth *);

/* Ends the engine and frees it; what monitors were given is written first. NULL is fine. */
ZEROTH_API void zeroth_close(struct zeroth *);

/* As "0.2.0". */
ZEROTH_API const char *zeroth_version(void);

/* ---- a model that threads of the program compute --------------------------------- */

/* With ZEROTH_MODEL_OUTSIDE layers are places in a computation that the program does by itself, as
 * in PyTorch: what an engine has for it is their parameters and room for their gradients, at the
 * right time. Layers have no functions, and out, saved and work are 0; the last one has no units,
 * and stands for the loss. There is no load and nothing held out, and zeroth_forward(),
 * zeroth_backward() and zeroth_infer() are ZR_ESTATE.
 *
 * For each rank of this process one thread of the program computes a micro-batch: zeroth_begin(),
 * then zeroth_take() and zeroth_give() by turns until that says ZEROTH_DONE. When all ranks have
 * done the same number of micro-batches zeroth_step() ends the step, or says ZEROTH_PENDING.
 * These three functions, and zeroth_error(), are called by the threads of several ranks at once,
 * and by no callback. No other call may come while a rank is within a micro-batch, except that
 * zeroth_close() ends it. */

/* Begins a micro-batch of `rank`, a number among those of this process, from 0. training 0:
 * nothing is learned, and no BACKWARD comes; between steps. */
ZEROTH_API int zeroth_begin(struct zeroth *, int rank, int training);

#define ZEROTH_DONE    0 /* there is no more layer in this micro-batch */
#define ZEROTH_FORWARD 1 /* of the layer; those before the last one come in their order */
/* The last layer, once in each micro-batch, after all FORWARDs: `loss` is to be filled. The
 * gradients that are given later are those of `scale` times the sum of these. */
#define ZEROTH_LOSS     2
#define ZEROTH_BACKWARD 3 /* layers in descending order, down to the lowest that is trained */

/* Waits for what `rank` comes to next, and returns it, or the failure that ended the engine. In
 * *call, whose size the caller sets, are the layer, its param and, at BACKWARD, its dparam and
 * accumulate, which are to be filled; all pointers are valid until zeroth_give(). param[i] and
 * dparam[i] are addresses of the device, `loss` is host memory. On a device with streams they are
 * for what is enqueued on that of zeroth_stream(), by zeroth_give() at the latest. */
ZEROTH_API int zeroth_take(struct zeroth *, int rank, struct zeroth_call *call);

/* The thread is done with what zeroth_take() gave it. code: 0, or a negative ZR_E*, which ends the
 * engine. */
ZEROTH_API int zeroth_give(struct zeroth *, int rank, int code);

/* Where the device of `rank` has streams, *stream is the cudaStream_t on which the engine computes,
 * until zeroth_close(); NULL: it has none, as cpu. */
ZEROTH_API int zeroth_stream(struct zeroth *, int rank, void **stream);

/* As zeroth_put(), but x has the values so far, and what fn leaves stays. Of any engine. */
ZEROTH_API int zeroth_change(struct zeroth *, zeroth_put_fn *fn, void *arg);

/* Where the zeroth_model.numbers of `rank`, of those of this process, are: *x points to them until
 * zeroth_close(). At first they are 0, or what a checkpoint had. The program alone writes them,
 * between steps. Where they differ between ranks zeroth_save() fails. Returns how many. */
ZEROTH_API int zeroth_numbers(struct zeroth *, int rank, float **x);

/* The whole configuration as an INI that loads to the same values, with `auto` resolved: *text
 * points to it until zeroth_close(). Of any engine. */
ZEROTH_API int zeroth_config(struct zeroth *, const char **text);

/* Sums over all ranks: x[i][0 to n) of the i-th rank of this process, finite numbers, become the
 * sums of those of all ranks, added in the order of ranks. n: 1 to 65536, on all ranks the same.
 * Collective over all processes; of any engine, between steps. */
ZEROTH_API int zeroth_sum(struct zeroth *, double *const *x, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
