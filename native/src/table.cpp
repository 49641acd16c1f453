// The table of one instruction set's kernels.
#include "kernels.h"
#include "simd.h"

namespace twinfer {
namespace TW_ISA {

void matmul_f32(const Product&, long, long, long, long);
void matmul_bf16(const Product&, long, long, long, long);
void matmul_int8(const Product&, long, long, long, long);
void matmul_int4(const Product&, long, long, long, long);
void rms_norm(const float*, const float*, float, long, float*);
void encode(Format, const float*, long, const Activations&, long, long);
void rope(float*, long, long, const float*, const float*);
void spread(float*, long, long);
void write_kv(const KvLayer&, const Heads&, long, long, const float*, const float*);
void attention(const KvLayer&, const Heads&, const AttentionTile*, long, void*);
void attention_part(const KvLayer&, const Heads&, const AttentionTile&, long, long, float*, void*);
void merge_parts(const Heads&, const AttentionTile&, float*, void*);
long argmax(const float*, long);
void weights(const float*, long, float, float, float, float*, float*);

}  // namespace TW_ISA

#define TW_STRING(x) #x
#define TW_NAME(x) TW_STRING(x)
#define TW_JOIN(a, b) a##b
#define TW_TABLE(isa) TW_JOIN(isa, _kernels)

const Kernels& TW_TABLE(TW_ISA)() {
    using namespace TW_ISA;
    static constexpr Kernels table = {
        .name = TW_NAME(TW_ISA),
        .matmul = {matmul_f32, matmul_bf16, matmul_int8, matmul_int4},
        .rms_norm = rms_norm,
        .encode = encode,
        .rope = rope,
        .spread = spread,
        .write_kv = write_kv,
        .attention = attention,
        .attention_part = attention_part,
        .merge_parts = merge_parts,
        .argmax = argmax,
        .weights = weights,
    };
    return table;
}

}  // namespace twinfer
