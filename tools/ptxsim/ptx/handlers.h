/* What the lowering asks of the executor: who executes an instruction.  Handlers stand in Inst.run; everything here is
 * defined in exec/, of which the reader of PTX sees no more than this and counters.h. */
#pragma once
#include "tools/ptxsim/ptx/ptx.h"

/* builtin.c: by name, or NULL. */
const Builtin *builtin_find(const char *name);

struct MatrixKernels;
/* Arithmetic at the host's instruction-set level. */
const struct MatrixKernels *matrix_kernels(void);
/* The level's own version of a handler of alu.def; other handlers as they are. */
ExecFn alu_direct(ExecFn);
/* Kind and operations by an instruction's name, for the lowering: MIX_TYPED and MIX_SPACED are resolved here. */
void mix_find(const char *name, uint8_t *mix, uint8_t *flops);

ExecFn arith_handler(int op, PtxType);   /* exec_int.c, exec_float.c; NULL when the type does not exist */
ExecFn int_handler(int op, PtxType);
ExecFn float_handler(int op, PtxType);
ExecFn half_handler(int op, PtxType);
ExecFn mul_handler(int op, int half, PtxType); /* mul and mad: .hi and .wide; .lo is int_handler's */
ExecFn compare_handler(PtxType);
ExecFn xorsign_handler(PtxType); /* d = |c| with the sign of a times b's; c is no negative number */
ExecFn move_handler(int bytes);
ExecFn select_handler(int bytes);
ExecFn convert_handler(PtxType to, PtxType from, int to_bytes, int from_bytes);
void exec_rounded(Warp *, const Inst *, uint32_t);
void exec_flush(Warp *, const Inst *, uint32_t);
void exec_saturate(Warp *, const Inst *, uint32_t);
void exec_relu(Warp *, const Inst *, uint32_t);
void exec_carry(Warp *, const Inst *, uint32_t);
void exec_add_sat(Warp *, const Inst *, uint32_t);
void exec_mad_carry(Warp *, const Inst *, uint32_t);
void exec_mad_sat(Warp *, const Inst *, uint32_t);
void exec_dot(Warp *, const Inst *, uint32_t);
void exec_lop3(Warp *, const Inst *, uint32_t);
void exec_predicate_logic(Warp *, const Inst *, uint32_t);
void exec_testp(Warp *, const Inst *, uint32_t);
void exec_slct(Warp *, const Inst *, uint32_t);
void exec_convert_pack(Warp *, const Inst *, uint32_t);
void exec_to_eight(Warp *, const Inst *, uint32_t);   /* to .e4m3x2 and .e5m2x2; op2: .relu */
void exec_from_eight(Warp *, const Inst *, uint32_t); /* from them to .f16x2 */
void exec_pack(Warp *, const Inst *, uint32_t);
void exec_unpack(Warp *, const Inst *, uint32_t);
void exec_special(Warp *, const Inst *, uint32_t);
void exec_load(Warp *, const Inst *, uint32_t);
void exec_store(Warp *, const Inst *, uint32_t);
void exec_atomic(Warp *, const Inst *, uint32_t);
void exec_vector_atomic(Warp *, const Inst *, uint32_t);
void exec_wide_atomic(Warp *, const Inst *, uint32_t); /* of 128 bits */
void exec_discard(Warp *, const Inst *, uint32_t);
void exec_apply_priority(Warp *, const Inst *, uint32_t);
void exec_fence(Warp *, const Inst *, uint32_t);
void exec_isspace(Warp *, const Inst *, uint32_t);
void exec_nothing(Warp *, const Inst *, uint32_t);
void exec_grid_wait(Warp *, const Inst *, uint32_t);
void exec_shuffle(Warp *, const Inst *, uint32_t);
void exec_vote(Warp *, const Inst *, uint32_t);
void exec_match(Warp *, const Inst *, uint32_t);
void exec_redux(Warp *, const Inst *, uint32_t);
void exec_activemask(Warp *, const Inst *, uint32_t);
void exec_warp_barrier(Warp *, const Inst *, uint32_t);
void exec_cp_async(Warp *, const Inst *, uint32_t);        /* exec_async.c */
void exec_commit_group(Warp *, const Inst *, uint32_t);
void exec_wait_group(Warp *, const Inst *, uint32_t);
void exec_cp_async_arrive(Warp *, const Inst *, uint32_t);
void exec_proxy_fence(Warp *, const Inst *, uint32_t);
void exec_mbarrier(Warp *, const Inst *, uint32_t);        /* mbarrier.c */
void exec_mbarrier_wait(Warp *, const Inst *, uint32_t);
void exec_pending_count(Warp *, const Inst *, uint32_t);
void exec_bulk_copy(Warp *, const Inst *, uint32_t);       /* exec_bulk.c */
void exec_store_async(Warp *, const Inst *, uint32_t);
void exec_bulk_prefetch(Warp *, const Inst *, uint32_t);
void exec_tensor_copy(Warp *, const Inst *, uint32_t);     /* tensor_copy.c */
void exec_map_replace(Warp *, const Inst *, uint32_t);     /* tensor_replace.c */
void exec_map_copy(Warp *, const Inst *, uint32_t);
void exec_map_rank(Warp *, const Inst *, uint32_t);        /* exec_cluster.c */
void exec_get_rank(Warp *, const Inst *, uint32_t);
void exec_cluster_arrive(Warp *, const Inst *, uint32_t);
void exec_cluster_wait(Warp *, const Inst *, uint32_t);
void exec_elect(Warp *, const Inst *, uint32_t);
void exec_set_registers(Warp *, const Inst *, uint32_t);
void exec_ldmatrix(Warp *, const Inst *, uint32_t);
void exec_stmatrix(Warp *, const Inst *, uint32_t);
void exec_movmatrix(Warp *, const Inst *, uint32_t);
void exec_mma(Warp *, const Inst *, uint32_t);
void exec_mma_f64(Warp *, const Inst *, uint32_t);
void exec_wmma_load(Warp *, const Inst *, uint32_t);
void exec_wmma_store(Warp *, const Inst *, uint32_t);
void exec_wmma(Warp *, const Inst *, uint32_t);
void exec_wgmma(Warp *, const Inst *, uint32_t);           /* wgmma.c */
void exec_wgmma_fence(Warp *, const Inst *, uint32_t);
void exec_wgmma_commit(Warp *, const Inst *, uint32_t);
void exec_wgmma_wait(Warp *, const Inst *, uint32_t);
