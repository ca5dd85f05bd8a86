/* GEMM as a library: C = act(alpha * op(A) * op(B) + beta * C), row-major, with biases, scales and a
 * residual where they are given. The C interface; gemm.hpp is the C++ one. docs/library.md explains both.
 *
 *   gemm_problem problem = GEMM_PROBLEM_DEFAULT;
 *   problem.m = problem.n = problem.k = 4096;
 *   problem.type_a = problem.type_b = problem.type_c = GEMM_F16;
 *   gemm_status status = gemm_matmul(&problem, NULL, A, B, C, stream, GEMM_CURRENT_DEVICE);
 *   if (status != GEMM_OK) fprintf(stderr, "%s\n", gemm_last_error());
 *
 * A call computes on a GPU or in the simulator; its device says which. On a GPU the pointers are
 * device pointers, and a call queues its work on a stream and returns. In the simulator they are host
 * pointers, and the result is there on return. gemm::gemm has both, where a CUDA toolkit was found
 * when it was built; gemm::sim has the simulator alone.
 *
 * Every function may be called by several threads at once; gemm_sharded_run and
 * gemm_sharded_destroy say under which conditions. A child of fork() may call them, too, but for
 * CUDA and gemm_sharded's products that its parent has made. There is no setting but
 * gemm_set_interrupt's, and no handle but
 * gemm_sharded's, a product on several devices: what a call needs to know is among its arguments. */
#ifndef GEMM_GEMM_H
#define GEMM_GEMM_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GEMM_API __attribute__((visibility("default")))
#else
#define GEMM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What became of a call. After all but GEMM_OK, gemm_last_error() says why in one line. After
 * GEMM_BAD_ARGUMENT, GEMM_UNSUPPORTED and GEMM_NO_DEVICE nothing of the call has been queued. After
 * the others some of its kernels may have been: they run in the order of its streams. */
typedef enum gemm_status {
  GEMM_OK = 0,
  GEMM_BAD_ARGUMENT = 1,   /* a mistake of the caller */
  GEMM_UNSUPPORTED = 2,    /* no kernel here computes this, or not on this GPU */
  GEMM_NO_DEVICE = 3,      /* no such GPU, or no driver */
  GEMM_OUT_OF_MEMORY = 4,  /* no memory for a workspace or for a kernel's code */
  GEMM_LAUNCH_REFUSED = 5, /* CUDA refused; the device can go on */
  GEMM_DEVICE_FAULT = 6,   /* the device's context is broken: this process cannot use it any more */
  GEMM_INTERNAL_ERROR = 7, /* a mistake of this library */
  GEMM_RANK_FAILED = 8     /* another process of a sharded product failed, ended or did not come */
} gemm_status;

/* Types of elements. */
typedef enum gemm_type {
  GEMM_F32 = 0,  /* float */
  GEMM_F16 = 1,  /* __half, IEEE 754 binary16 */
  GEMM_BF16 = 2, /* __nv_bfloat16 */
  GEMM_E4M3 = 3, /* __nv_fp8_e4m3: A and B, with C in bf16 or float */
  GEMM_E5M2 = 4  /* __nv_fp8_e5m2: A and B, with C in bf16 */
} gemm_type;

/* How elements are multiplied. Sums are float, but of GEMM_COMPUTE_FAST_SUMS. */
typedef enum gemm_compute {
  GEMM_COMPUTE_EXACT = 0,       /* products of the elements as they are */
  GEMM_COMPUTE_TF32 = 1,        /* floats rounded to 10 bits of mantissa first, on tensor cores */
  GEMM_COMPUTE_FAST_SUMS = 2,   /* of FP8: sums of 14 bits, which is faster */
  GEMM_COMPUTE_BLOCK_SCALES = 3 /* of e4m3: with gemm_epilogue's scales_a and scales_b */
} gemm_compute;

/* op(X): X as stored, or its transpose. A transposed A is stored k x m, a transposed B n x k. */
typedef enum gemm_op { GEMM_N = 0, GEMM_T = 1 } gemm_op;

typedef enum gemm_activation {
  GEMM_ACTIVATION_NONE = 0,
  GEMM_ACTIVATION_RELU = 1,
  GEMM_ACTIVATION_LEAKY_RELU = 2, /* x, and slope * x below 0 */
  GEMM_ACTIVATION_GELU = 3,       /* with tanh */
  GEMM_ACTIVATION_SILU = 4,       /* x / (1 + exp(-x)) */
  GEMM_ACTIVATION_GELU_ERF = 5    /* GELU with erf */
} gemm_activation;

/* Structures grow: a later version adds fields at the end, and there 0 means what was before. `size`
 * tells the library which fields a program knows. So a program need not be compiled again for a newer
 * library; an older library refuses fields that it does not know, unless they are 0. */

/* What is multiplied. op(A) is m x k, op(B) k x n, C m x n; each size 0 to 2147482623. k = 0 scales
 * C; m = 0 or n = 0 touches nothing. What is 0 has its default. */
typedef struct gemm_problem {
  uint32_t size;   /* sizeof(gemm_problem) */
  int32_t compute; /* gemm_compute */
  int64_t m, n, k;
  /* Elements from row to row, at least as many as a stored row has. 0: rows without gaps. */
  int64_t lda, ldb, ldc;
  int32_t type_a, type_b, type_c; /* gemm_type */
  int32_t op_a, op_b;             /* gemm_op */
  /* For gemm_plan_create, which sees no pointers: A, B and C lie at multiples of so many bytes, a
   * power of two up to 128. 0: 128, what cudaMalloc gives. gemm_matmul looks at the pointers. */
  int32_t align_a, align_b, align_c;
  /* A batch: so many products of this shape in one call, of matrices that lie so many elements apart.
   * 0 and 1: one product, and no stride counts. stride_a = 0 or stride_b = 0: all products share the
   * operand. Products of C must not overlap: stride_c is at least what one spans, (m - 1) * ldc + n,
   * or the products lie beside each other in C's rows. Products up to 2^31 - 1. */
  int64_t batch;
  int64_t stride_a, stride_b, stride_c;
  /* 1: C is gated. It is m x n / 2, and n is even: columns 2 j and 2 j + 1 of op(B) are a gate and a
   * value, and column j of C is act(gate) * value. beta is 0 then. Not of groups. */
  int32_t gated;
  /* 1: a row's bits depend neither on m nor on the other rows. Of F16 and BF16, whatever type C has, and
   * of F32 exact; others are GEMM_UNSUPPORTED. It is slower where the default splits K for few rows, where
   * an epilogue would be fused, and in F32. */
  int32_t invariant;
} gemm_problem;

/* What becomes of a product: act(scale * alpha * AB + beta * C + bias), where it is gated then its
 * gates times its values. A null pointer to an epilogue
 * means GEMM_EPILOGUE_DEFAULT. beta = 0 never reads C, alpha = 0 never reads A or B.
 *
 * Vectors and the residual are operands like A and B: device pointers of a call on a GPU, aligned to
 * their elements; what is null is not there. */
typedef struct gemm_epilogue {
  uint32_t size; /* sizeof(gemm_epilogue) */
  float alpha, beta;
  int32_t activation;         /* gemm_activation */
  float slope;                /* of GEMM_ACTIVATION_LEAKY_RELU; others do not look at it */
  int32_t reserved;           /* 0 */
  const void* bias;           /* n elements of type_c, one for each column */
  const void* row_bias;       /* m elements of type_c, one for each row */
  const float* scale_columns; /* n factors, one for each column of the product */
  const float* scale_rows;    /* m factors, one for each row */
  /* C where it is not the matrix that the result goes to: m x n elements of type_c, which beta
   * multiplies. The call's C is then only written. ld_residual 0: rows without gaps. Not of a batch,
   * whose products share the vectors above: GEMM_UNSUPPORTED. */
  const void* residual;
  int64_t ld_residual;
  /* Of GEMM_COMPUTE_BLOCK_SCALES alone, which needs both: a factor for each 1 x 128 elements of op(A)
   * and each 128 x 128 of op(B). That of A at (row, k) is scales_a[k / 128 * ld_scales_a + row], that of
   * B at (k, column) scales_b[column / 128 * ld_scales_b + k / 128]: as cuBLASLt's VEC128_32F and
   * BLK128x128_32F. ld 0: m, and k / 128 rounded up to a multiple of 4. Not of a batch. */
  const float* scales_a;
  int64_t ld_scales_a;
  const float* scales_b;
  int64_t ld_scales_b;
} gemm_epilogue;

/* Initialisers. float; A B, neither transposed. */
#define GEMM_PROBLEM_DEFAULT \
  { (uint32_t)sizeof(gemm_problem), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define GEMM_EPILOGUE_DEFAULT                                                                      \
  {                                                                                                \
    (uint32_t)sizeof(gemm_epilogue), 1.0f, 0.0f, GEMM_ACTIVATION_NONE, 0.01f, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0                                                                                 \
  }

/* A launch, planned: which kernel, which tiles, on which device. A plain value to copy and keep for
 * as long as the process lives, and to be used by any number of threads at once. */
typedef struct gemm_plan {
  uint64_t opaque[64];
} gemm_plan;

/* A kernel of the ladder, for one choice of types. The texts live as long as the process. */
typedef struct gemm_rung {
  uint32_t size; /* sizeof(gemm_rung): set before the call */
  int32_t compute;
  int32_t type_a, type_b, type_c;
  int32_t transposed;  /* 1: takes every op_a and op_b, 0: GEMM_N alone */
  int32_t approximate; /* 1: products are less exact than their type's: never chosen unasked */
  int32_t runs;        /* 1: on this device */
  const char* id;      /* "v24" */
  const char* name;    /* "v24_pingpong" */
  const char* idea;    /* one line */
} gemm_rung;

enum {
  GEMM_CURRENT_DEVICE = -1, /* the calling thread's current GPU; of gemm::sim the simulator */
  GEMM_SIMULATOR = -2       /* host memory, no GPU */
};

/* GPUs that there are, numbered from 0 as CUDA counts them; 0 without a driver, and where the library
 * has kernels for none of them. */
GEMM_API gemm_status gemm_gpu_count(int* count);

/* Plans a problem for a device. Loads the kernels, so that gemm_run does nothing that a captured
 * stream refuses; host code only, no work is queued. */
GEMM_API gemm_status gemm_plan_create(const gemm_problem* problem, int device, gemm_plan* plan);
/* The same by the rung with this id or name. What its kernel does not take, the rung before it does:
 * gemm_plan_explain tells. */
GEMM_API gemm_status gemm_plan_create_with(const gemm_problem* problem, int device,
                                           const char* rung, gemm_plan* plan);
/* The same for runs with an epilogue like this one, which may take another kernel: the activation counts,
 * whether beta is 0, and which operands are not null. A plan runs every epilogue; the others plan for
 * GEMM_EPILOGUE_DEFAULT. */
GEMM_API gemm_status gemm_plan_create_for(const gemm_problem* problem,
                                          const gemm_epilogue* epilogue, int device,
                                          gemm_plan* plan);

/* The plan in words, one line: "KERNEL VARIANT: how", "v27_engine 64x128 s8 tiles: 48 tiles ...". A
 * kernel of one form has no variant; a kernel without a choice says no more. At most `size` bytes
 * with the terminating 0. */
GEMM_API gemm_status gemm_plan_explain(const gemm_plan* plan, char* text, size_t size);

/* Bytes of device memory that a run of this plan takes and gives back, in the order of its stream,
 * from the library's own pool of that device: copies of unaligned operands, partial sums. 0 for most
 * plans. A run with scales whose beta multiplies C itself may take a product besides, m x n elements;
 * a plan of gemm_plan_create_for for such an epilogue counts it. The pool keeps what it has. */
GEMM_API gemm_status gemm_plan_workspace_size(const gemm_plan* plan, size_t* bytes);

/* Reads what `gemm_bench --tune` has measured. Plans made from now on, by any thread, take it in place of
 * the estimate, for a plain product of exactly these sizes, types and layout, on a GPU of this name. Rows
 * of each matrix must be aligned to 16 bytes where the measured ones were, and only there. NULL: the file
 * that --tune writes unless told otherwise. "": none from now on. Plans that exist stay, and a plan by a
 * named rung is that rung's own choice. A file that is not there, or that --tune has not written, is
 * GEMM_BAD_ARGUMENT, and changes nothing. */
GEMM_API gemm_status gemm_use_tuning(const char* file);

/* Runs a plan on other pointers: aligned as planned or better, else GEMM_BAD_ARGUMENT. `stream`, a
 * cudaStream_t of the plan's device, may be captured into a CUDA graph. Null: the default stream. */
GEMM_API gemm_status gemm_run(const gemm_plan* plan, const gemm_epilogue* epilogue, const void* a,
                              const void* b, void* c, void* stream);

/* Plans and runs. Each thread keeps its last plans, up to 128, and finds them without a lock. */
GEMM_API gemm_status gemm_matmul(const gemm_problem* problem, const gemm_epilogue* epilogue,
                                 const void* a, const void* b, void* c, void* stream, int device);

/* A batch whose matrices lie anywhere: problem->batch products of one shape, of A, B and C at a[i],
 * b[i] and c[i]; none where it is 0. The strides do not count. The arrays are host memory, read
 * during the call; what they point to is device memory of a call on a GPU. Products of C must not
 * overlap. Planned once. Where the pointers of each operand are equally spaced, or all the same, this is
 * gemm_matmul of a batch; else each product is a launch. The epilogue is that of a batch. */
GEMM_API gemm_status gemm_batched_matmul(const gemm_problem* problem, const gemm_epilogue* epilogue,
                                         const void* const* a, const void* const* b, void* const* c,
                                         void* stream, int device);

/* Products of different heights, the groups of a mixture of experts, in one call. A (m x k) and C
 * (m x n) are the rows of all groups, one below the other, and B has a matrix for each: problem->batch
 * of them, problem->stride_b elements apart. Group i has the rows from ends[i - 1], or 0, to before
 * ends[i]; it may have none. Rows from the last end on belong to no group: C's are not written.
 * stride_a and stride_c do not count.
 *
 * `ends` has problem->batch numbers, which rise and are at most m, where the matrices are: device
 * memory of a call on a GPU, read when the kernel runs. So the host need not know them, and nothing
 * waits. Where no kernel takes groups in one launch (docs/library.md says where), each group is a
 * launch of its own, and the call waits for the stream to read the ends: a stream that is captured
 * then refuses. An epilogue has alpha, beta and an activation but GEMM_ACTIVATION_GELU_ERF;
 * anything else is GEMM_UNSUPPORTED. */
GEMM_API gemm_status gemm_grouped_matmul(const gemm_problem* problem, const gemm_epilogue* epilogue,
                                         const void* a, const void* b, void* c, const int32_t* ends,
                                         void* stream, int device);

/* Which elements of a matrix share a scale, and how the scales lie. */
typedef enum gemm_scale_of {
  GEMM_SCALE_TENSOR = 0,    /* all: one number */
  GEMM_SCALE_ROW = 1,       /* a row: `rows` numbers */
  GEMM_SCALE_BLOCK_ROW = 2, /* 1 x 128: as scales_a of a matrix `rows` x k */
  GEMM_SCALE_BLOCK = 3      /* 128 x 128: as scales_b of a transposed B, stored n x k */
} gemm_scale_of;

/* What is quantised: x, a matrix of float, half or bfloat16, to FP8 numbers q and scales with
 * x = q * scale but for rounding. A scale is the largest |x| over the type's largest number, 448 or
 * 57344; 1 where all are 0. Infinities and NaN do not count for it: infinities become the largest
 * number, NaN stays NaN. 0: rows without gaps; GEMM_E4M3 for type_q; scales as of gemm_epilogue. */
typedef struct gemm_quantisation {
  uint32_t size;    /* sizeof(gemm_quantisation) */
  int32_t scale_of; /* gemm_scale_of */
  int64_t rows, cols;
  int64_t ldx, ldq;       /* elements from row to row */
  int32_t type_x, type_q; /* gemm_type */
  int64_t ld_scales;      /* of GEMM_SCALE_BLOCK_ROW and GEMM_SCALE_BLOCK */
} gemm_quantisation;

/* Quantises on a device: queued on the stream of a GPU, like gemm_matmul. */
GEMM_API gemm_status gemm_quantise(const gemm_quantisation* quantisation, const void* x, void* q,
                                   float* scales, void* stream, int device);

/* A product of several devices of one host, the ranks. They are of one process, or each has a
 * process of its own. Each multiplies m x k by k x n, and all are row-major:
 *
 *                       A of a rank     B of a rank   C of a rank
 *   GEMM_ALL_GATHER     its rows x k    k x n         m x n: all ranks' rows of A, times its own B
 *   GEMM_REDUCE_SCATTER m x k           k x n         its rows x n: of the sum of all ranks' A * B
 *   GEMM_ALL_REDUCE     m x k           k x n         m x n: the sum of all ranks' A * B
 *
 * m counts the rows of all ranks. gemm_shard_rows says which of them are a rank's: equal shards of a
 * multiple of 16 rows, but the last one with rows may be shorter, and those after it have none.
 * Sums round what a rank sends to the type before it is added. Without NCCL ("m1") they are added in
 * a fixed order: GEMM_ALL_REDUCE gives the same bits on every rank, and in every run. */
typedef enum gemm_collective {
  GEMM_ALL_GATHER = 0,
  GEMM_REDUCE_SCATTER = 1,
  GEMM_ALL_REDUCE = 2
} gemm_collective;

enum { GEMM_MOST_RANKS = 8 };

typedef struct gemm_sharded_problem {
  uint32_t size;      /* sizeof(gemm_sharded_problem) */
  int32_t collective; /* gemm_collective */
  /* 1 to 2147482623 each. m * k of GEMM_ALL_GATHER, m * n of the others: up to 2^40. */
  int64_t m, n, k;
  int32_t type;     /* of A, B and C: GEMM_F16 or GEMM_BF16 */
  int32_t op_b;     /* gemm_op: a transposed B is stored n x k */
  int32_t ranks;    /* 2 to GEMM_MOST_RANKS */
  int32_t reserved; /* 0 */
} gemm_sharded_problem;

/* One rank's matrices, in the memory of its device, and a stream of its device. C must not overlap
 * any rank's A or B. A matrix without rows may be null. */
typedef struct gemm_sharded_operands {
  uint32_t size;    /* sizeof(gemm_sharded_operands) */
  int32_t reserved; /* 0 */
  const void* a;
  const void* b;
  void* c;
  int64_t lda, ldb, ldc; /* elements from row to row; 0: rows without gaps */
  void* stream;          /* cudaStream_t; null: the device's default stream */
} gemm_sharded_operands;

/* Initialisers. float16; 2 ranks. */
#define GEMM_SHARDED_PROBLEM_DEFAULT \
  { (uint32_t)sizeof(gemm_sharded_problem), GEMM_ALL_GATHER, 0, 0, 0, GEMM_F16, GEMM_N, 2, 0 }
#define GEMM_SHARDED_OPERANDS_DEFAULT \
  { (uint32_t)sizeof(gemm_sharded_operands), 0, 0, 0, 0, 0, 0, 0, 0 }

/* A sharded product with the memory that its ranks exchange data through. Made by
 * gemm_sharded_create, never copied, run as often as wanted on other matrices of the same shape. */
typedef struct gemm_sharded gemm_sharded;

/* The rows of the rank's shard: `rows` of them from `first` on. */
GEMM_API gemm_status gemm_shard_rows(const gemm_sharded_problem* problem, int rank, int64_t* first,
                                     int64_t* rows);

/* Makes a handle, allocates on every device, and waits for that.
 *
 * `devices`: problem->ranks different GPUs of one kind that reach each other's memory, or
 * GEMM_SIMULATOR as often. Null: GPUs 0, 1 and so on; of gemm::sim the simulator.
 * `rung`: id or name of a rung of several GPUs, such as "m1". Null: the last one of this collective
 * that runs here: "m3" gathers, "m4" scatters and reduces, "m5" reduces a small C. GEMM_UNSUPPORTED where none runs, where two GPUs do not
 * reach each other's memory, or where "m1" finds no NCCL. */
GEMM_API gemm_status gemm_sharded_create(const gemm_sharded_problem* problem, const int* devices,
                                         const char* rung, gemm_sharded** sharded);

/* One rank that this process has, and how it meets the others, each in a process of its own. */
typedef struct gemm_rank {
  uint32_t size;      /* sizeof(gemm_rank) */
  int32_t rank;       /* 0 to problem->ranks - 1 */
  int32_t device;     /* its GPU, GEMM_CURRENT_DEVICE or GEMM_SIMULATOR */
  int32_t time_limit; /* seconds that a product waits for other ranks once it has begun; 0: 600 */
  /* All-gather of the launcher, such as MPI_Allgather: copies `bytes` bytes at `mine` of every rank
   * to `all`, by rank. 0: done. It gives up by itself where another rank does not come. Called by
   * gemm_sharded_create_rank alone, a few times, for up to some hundred bytes. */
  int (*exchange)(void* context, const void* mine, void* all, size_t bytes);
  void* context;
} gemm_rank;

/* Rank 0 on the current GPU, without an exchange. */
#define GEMM_RANK_DEFAULT \
  { (uint32_t)sizeof(gemm_rank), 0, GEMM_CURRENT_DEVICE, 0, 0, 0 }

/* The same for one rank of a process of its own. All ranks call it, with the same problem and rung,
 * in the same order as their other handles. `rung`: "m3" to "m5" or null.
 *
 * The handle's runs take one gemm_sharded_operands, this rank's. All ranks make the same runs in
 * the same order. A run returns when its part is queued, and waits on the GPU for the others. Where
 * one of them fails here, all do: that rank with its own status, the others with GEMM_RANK_FAILED
 * and its text. In the simulator the ranks are threads of one process, and a run returns when all
 * have come.
 *
 * Where a rank fails, ends, or does not come within the time limit while this one's product waits
 * for it: one line on stderr, and this process's GPU context is broken, as by a fault. Every later
 * call of CUDA fails there, also one that waits for the product. Where no product waits, the next
 * run is GEMM_RANK_FAILED. */
GEMM_API gemm_status gemm_sharded_create_rank(const gemm_sharded_problem* problem,
                                              const gemm_rank* rank, const char* rung,
                                              gemm_sharded** sharded);

/* In words, one line: "m03_peer_copies on GPUs 0, 1". At most `size` bytes with the terminating 0. */
GEMM_API gemm_status gemm_sharded_explain(const gemm_sharded* sharded, char* text, size_t size);

/* Queues the product on all ranks, and returns; the simulator has computed it then. `operands`:
 * problem->ranks of them, by rank; one of gemm_sharded_create_rank's handle. It begins after what
 * was in every rank's stream. What comes later in a rank's stream finds the rank's C, and may
 * overwrite its A, B and C. A captured stream is GEMM_UNSUPPORTED.
 *
 * Several threads may run one handle, or several: products are queued one at a time, and run in that
 * order on all devices. Order other kernels that wait for other GPUs, such as NCCL's, before or after
 * the product by the ranks' streams: side by side, both could wait for ever. Another thread that
 * allocates or frees device memory between the launches on two GPUs may have to wait for the first
 * kernel, which waits for the second launch. That has not been tested on GPUs: allocate before.
 *
 * After a failure but GEMM_BAD_ARGUMENT and GEMM_UNSUPPORTED, the handle can only be destroyed;
 * until then its runs return that failure's status. Kernels of some ranks may have been queued, and
 * may wait for the others' for ever. Every rank's stream waits for them where CUDA still takes that.
 * So the matrices must live until gemm_sharded_destroy has returned GEMM_OK. The simulator never
 * computes what a failed run has queued. */
GEMM_API gemm_status gemm_sharded_run(gemm_sharded* sharded, const gemm_sharded_operands* operands);

/* Waits for the handle's products, 60 seconds at most, and frees the handle. No other call of it may
 * be going on in another thread. To free device memory, CUDA waits for all that runs on the devices;
 * products of other handles are not queued meanwhile. After those 60 seconds, or where a device has
 * failed: GEMM_DEVICE_FAULT, and its device memory is left as it is. The handle is gone in any case.
 * The calling thread may be capturing a stream. Null is ignored. */
GEMM_API gemm_status gemm_sharded_destroy(gemm_sharded* sharded);

/* "bad argument"; never null. */
GEMM_API const char* gemm_status_string(gemm_status status);
/* Why the calling thread's last call that failed did: one line, valid until its next call. */
GEMM_API const char* gemm_last_error(void);
/* "0.9.0", and what computes on GEMM_CURRENT_DEVICE: "cuda" or "simulator". */
GEMM_API const char* gemm_version(void);
GEMM_API const char* gemm_backend(void);

/* Lets signals end what the simulator computes, which may take long. `asked` is called some twenty
 * times a second while the process's main thread waits there, and may run what signals have asked for;
 * where it returns other than 0 the call ends with GEMM_LAUNCH_REFUSED, its C half written. What it
 * runs cannot compute in the simulator: such a call is GEMM_LAUNCH_REFUSED at once. Null, as
 * from the start: nobody is asked. Of the whole process. On a GPU no call waits. */
GEMM_API gemm_status gemm_set_interrupt(int (*asked)(void));

/* The kernels that this library has for a device, in the ladder's order. */
GEMM_API gemm_status gemm_rung_count(int device, int* count);
GEMM_API gemm_status gemm_rung_get(int device, int index, gemm_rung* rung);

#ifdef __cplusplus
}
#endif

#endif
