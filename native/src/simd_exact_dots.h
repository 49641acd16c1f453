// What follows for products where dot_bytes multiplies unsigned with signed bytes exactly, and bf16 in pairs:
// codes, queries and weights are used as they are stored. Included by the vocabularies that do.
#pragma once

namespace twinfer {
namespace TW_ISA {

// A group of nibbles is summed in two passes, block after block.
constexpr int kPasses4 = 2;
TW_INLINE Bytes load_nibbles(const uint8_t* codes, int pass, int j) {
    return load_bytes(codes + pass * 256 + j * 64);
}
TW_INLINE void order_codes4(int8_t*) {}
// The even block's sum becomes the lower half of a lane: 2^15 more for as long lest it borrows from the
// other; that is taken off again when both are there.
TW_INLINE int32_t offset4(int32_t even, int32_t) { return -8 * even + 0x8000; }
TW_INLINE Int shifted_back(Int both) { return ixor(both, isplat(0x8000)); }
TW_INLINE Int dot_nibbles(Int acc, Bytes nibbles, const int8_t* signed4) {
    return dot_bytes(acc, nibbles, signed4);
}

// Weights of 8 bits, stored with 128 added.
using Weights8 = Bytes;
TW_INLINE Weights8 load_weights8(const uint8_t* shifted) { return load_bytes(shifted); }
// What sums with them begin with, given -128 times the sum of the other factors.
TW_INLINE Int begin8(int32_t offset) { return isplat(offset); }
TW_INLINE Int dot_weights8(Int acc, const Weights8& w, const int8_t* signed4) {
    return dot_bytes(acc, w, signed4);
}

// What attention multiplies keys and values with, in kUnitWords words for each of their units: the same pairs
// of bf16 and unsigned bytes.
constexpr int kUnitWords = 1, kQuerySums = 2;
template <bool>
TW_INLINE Float dot_bf16_word(Float acc, Bytes pairs, const uint32_t* word, int) {
    return dot_bf16(acc, pairs, word);
}
TW_INLINE void store_pairs(uint32_t* to, Float x) { store_bf16((uint16_t*)to, x); }
TW_INLINE void store_codes(uint32_t* to, Int x) { store_u8((uint8_t*)to, x); }

}  // namespace TW_ISA
}  // namespace twinfer
