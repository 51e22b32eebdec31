/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.c - see nvrtc.h. The library is not linked: only updates by a function of one element need
 * it, and a machine that runs CUDA programs may lack it.
 */
#include "nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct program *program; /* nvrtcProgram */

struct nvrtc {
	void *library;
	int (*create)(program *, const char *source, const char *name, int n_headers,
		      const char *const *headers, const char *const *include_names);
	int (*compile)(program, int n_options, const char *const *options);
	int (*log_size)(program, size_t *);
	int (*log)(program, char *);
	int (*code_size)(program, size_t *);
	int (*code)(program, char *);
	int (*destroy)(program *);
	const char *(*error)(int);
};

static const char *const libraries[] = { "libnvrtc.so.13", "libnvrtc.so",
					 "/usr/local/cuda/lib64/libnvrtc.so" };

static int find(struct nvrtc *n, const char *name, void *function)
{
	void *at = dlsym(n->library, name);
	memcpy(function, &at, sizeof at);
	return at != NULL;
}

static int open_library(const struct zr_host *h, const char *name, struct nvrtc *n)
{
	for (size_t i = 0; !n->library && i < sizeof libraries / sizeof *libraries; i++)
		n->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return zr_fail(h, ZR_ENOTSUP,
			       "optimizer %s is compiled for the GPU when it is first used, by "
			       "NVRTC of the CUDA Toolkit: %s",
			       name, dlerror());
	if (find(n, "nvrtcCreateProgram", &n->create) &&
	    find(n, "nvrtcCompileProgram", &n->compile) &&
	    find(n, "nvrtcGetProgramLogSize", &n->log_size) &&
	    find(n, "nvrtcGetProgramLog", &n->log) && find(n, "nvrtcGetCUBINSize", &n->code_size) &&
	    find(n, "nvrtcGetCUBIN", &n->code) && find(n, "nvrtcDestroyProgram", &n->destroy) &&
	    find(n, "nvrtcGetErrorString", &n->error))
		return ZR_OK;
	return zr_fail(h, ZR_ENOTSUP, "optimizer %s: NVRTC lacks functions of CUDA 11.2: %s", name,
		       dlerror());
}

/* What the compiler says, or only the code of its failure. */
static int refused(const struct zr_host *h, const struct nvrtc *n, program p, const char *name,
		   int code)
{
	size_t size = 0;
	const char *says = "it says no more";
	char *log = NULL;
	if (!n->log_size(p, &size))
		log = calloc(1, size + 1);
	if (log && !n->log(p, log) && *log)
		says = log;

	int rc = zr_fail(h, ZR_EINVAL, "optimizer %s: the GPU's compiler refuses its text: %s: %s",
			 name, n->error(code), says);
	free(log);
	return rc;
}

static int take_code(const struct zr_host *h, const struct nvrtc *n, program p, const char *name,
		     void **code, size_t *bytes)
{
	int e = n->code_size(p, bytes);
	*code = NULL;
	if (!e) {
		*code = malloc(*bytes + 1);
		if (!*code)
			return zr_fail(h, ZR_ENOMEM, "optimizer %s: no memory for its code", name);

		e = n->code(p, *code);
	}
	if (!e)
		return ZR_OK;

	free(*code);
	return zr_fail(h, ZR_EIO, "optimizer %s: NVRTC gives no code: %s", name, n->error(e));
}

int cuda_compile(const struct zr_host *h, const char *name, const char *source, int capability,
		 void **code, size_t *bytes)
{
	char target[32];
	const char *const options[] = { target,
					"--std=c++20",
					"--fmad=false",
					"--ftz=false",
					"--prec-div=true",
					"--prec-sqrt=true",
					"--device-as-default-execution-space",
					"--disable-warnings" };
	static struct nvrtc n; /* never unloaded; [step] is one thread */
	program p = NULL;
	int rc, e;
	if (!n.error) {
		rc = open_library(h, name, &n);
		if (rc)
			return rc;
	}

	snprintf(target, sizeof target, "--gpu-architecture=sm_%d", capability);
	e = n.create(&p, source, name, 0, NULL, NULL);
	if (e)
		return zr_fail(h, ZR_EIO, "optimizer %s: NVRTC does not start: %s", name,
			       n.error(e));

	e = n.compile(p, (int)(sizeof options / sizeof *options), options);
	if (e)
		rc = refused(h, &n, p, name, e);
	else
		rc = take_code(h, &n, p, name, code, bytes);
	n.destroy(&p);
	return rc;
}
