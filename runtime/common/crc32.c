/* CRC-32 (IEEE 802.3, reflected 0xedb88320), four bits at a time: a 64-byte table. */
#include "runtime/common/fusec.h"

FUSEC_WEAK uint32_t fusec_crc32(uint32_t crc, const void *data, uint64_t n) {
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *byte = (const uint8_t *)data;
    crc = ~crc;
    for (uint64_t i = 0; i < n; i++) {
        crc = table[(crc ^ byte[i]) & 15] ^ (crc >> 4);
        crc = table[(crc ^ (uint32_t)(byte[i] >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}

FUSEC_WEAK uint32_t fusec_crc32_position(uint32_t crc, const fusec_position *at) {
    uint8_t bytes[8];
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)((uint32_t)at->step >> 8 * i);
        bytes[4 + i] = (uint8_t)(at->seed >> 8 * i);
    }
    return fusec_crc32(crc, bytes, sizeof bytes);
}
