#include "embedding.h"

#include <bit>
#include <cstring>

namespace twinfer {
namespace {

float from_f16(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
    const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
    // Scaling by 2^112 moves the exponent's bias, subnormal numbers included.
    uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1.0p112f);
    if ((h & 0x7c00) == 0x7c00) bits |= 0x7f800000u;
    return std::bit_cast<float>(bits | sign);
}

float scale_at(const Matrix& m, long index) {
    if (m.wide) return reinterpret_cast<const float*>(m.scales)[index];
    return from_f16(reinterpret_cast<const uint16_t*>(m.scales)[index]);
}

float four_bit(const Matrix& m, long tile, long block, long lane, int code) {
    const long index = (tile * m.blocks() + block) * 32 + lane;
    if (m.wide) return scale_at(m, index) * static_cast<float>(code) + scale_at(m, index + 16);
    const int16_t* steps = reinterpret_cast<const int16_t*>(m.scales) +
                           ((tile * m.groups() + block / 2) * 32 + lane) * 2 + block % 2;
    return m.units()[tile * 16 + lane] * static_cast<float>(steps[0] * (code - 8) + steps[32]);
}

}  // namespace

void unpack_row(const Matrix& m, long row, float* out) {
    const long tile = row / 16, lane = row % 16, k = m.padded_k(), blocks = m.blocks();
    if (m.format == Format::f32) {
        const float* from = reinterpret_cast<const float*>(m.data) + tile * k * 16 + lane;
        for (long i = 0; i < m.k; i++) out[i] = from[i * 16];
    } else if (m.format == Format::bf16) {
        const uint16_t* from = reinterpret_cast<const uint16_t*>(m.data) + tile * k * 16 + lane * 2;
        for (long i = 0; i < m.k; i++)
            out[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i / 2 * 32 + i % 2]) << 16);
    } else if (m.format == Format::int8) {
        const uint8_t* from = m.data + tile * k * 16 + lane * 4;
        for (long i = 0; i < m.k; i++) {
            float scale = scale_at(m, (tile * blocks + i / 32) * 16 + lane);
            out[i] = scale * static_cast<float>(from[i / 4 * 64 + i % 4] - 128);
        }
    } else {
        const uint8_t* from = m.data + tile * k * 8 + lane * 4;
        for (long i = 0; i < m.k; i++) {
            const long block = i / 32, at = i % 16;
            const uint8_t both = from[block * 256 + at / 4 * 64 + at % 4];
            out[i] = four_bit(m, tile, block, lane, i % 32 < 16 ? both & 15 : both >> 4);
        }
    }
}

}  // namespace twinfer
