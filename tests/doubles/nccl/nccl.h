/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.h - what comm/nccl calls of NCCL, for a double of it on host memory: see double.h.
 */
#ifndef ZR_DOUBLE_NCCL_H
#define ZR_DOUBLE_NCCL_H

#include <cuda_runtime_api.h>

#define NCCL_VERSION(x, y, z) ((x)*10000 + (y)*100 + (z))
#define NCCL_VERSION_CODE     NCCL_VERSION(2, 28, 3)
#define NCCL_SPLIT_NOCOLOR    -1
#define NCCL_UNDEF            (-2147483647 - 1)

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError,
	ncclSystemError,
	ncclInternalError,
	ncclInvalidArgument,
	ncclInvalidUsage,
	ncclRemoteError,
	ncclInProgress
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclInt64 = 4,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9
} ncclDataType_t;

typedef enum { ncclSum = 0 } ncclRedOp_t;

typedef struct {
	char internal[128];
} ncclUniqueId;

typedef struct {
	size_t size;
	int blocking, cgaClusterSize, minCTAs, maxCTAs;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
	{                                                                                          \
		sizeof(ncclConfig_t), NCCL_UNDEF, NCCL_UNDEF, NCCL_UNDEF, NCCL_UNDEF               \
	}

typedef struct double_comm *ncclComm_t;

const char *ncclGetErrorString(ncclResult_t e);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetVersion(int *version);

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
				    ncclConfig_t *config);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n, int rank, int n_ids,
				      ncclUniqueId *ids, ncclConfig_t *config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made,
			   ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *e);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommRegister(ncclComm_t comm, void *p, size_t bytes, void **handle);
ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle);

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t s);
ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t s);
ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type,
			   ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
			   ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t s);
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t type,
			       ncclRedOp_t op, ncclComm_t comm, cudaStream_t s);

#endif
