/* sha256.c: the hash function SHA-256, by the instructions that x86 processors have for it, or
 * without them. */
#include "sha256.h"

#include <string.h>

#if defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

/* The first 32 bits of the fractions of the square roots of the first 8 primes. */
static const uint32_t sha256_start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t sha256_rotated(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* Returns the number whose bytes are at p, the highest byte first. */
static uint32_t sha256_word(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Extends the 16 words of a block to 64. */
static void sha256_extend(uint32_t w[64], const uint8_t *block) {
    for (int i = 0; i < 16; i++)
        w[i] = sha256_word(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        const uint32_t s0 = sha256_rotated(a, 7) ^ sha256_rotated(a, 18) ^ a >> 3;
        const uint32_t s1 = sha256_rotated(b, 17) ^ sha256_rotated(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* Changes the state by a block of 64 bytes. The names are those of FIPS 180-4. */
static void sha256_add_block(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64];
    sha256_extend(w, block);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        const uint32_t s1 = sha256_rotated(e, 6) ^ sha256_rotated(e, 11) ^ sha256_rotated(e, 25);
        const uint32_t choice = (e & f) ^ (~e & g);
        const uint32_t t1 = h + s1 + choice + sha256_constants[i] + w[i];
        const uint32_t s0 = sha256_rotated(a, 2) ^ sha256_rotated(a, 13) ^ sha256_rotated(a, 22);
        const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + s0 + majority;
    }
    const uint32_t change[8] = { a, b, c, d, e, f, g, h };
    for (int i = 0; i < 8; i++)
        state[i] += change[i];
}

void rgi_sha256_blocks_plain(uint32_t state[8], const uint8_t *blocks, size_t n) {
    for (size_t i = 0; i < n; i++)
        sha256_add_block(state, blocks + 64 * i);
}

#if defined __x86_64__

/* Returns whether the processor has the SHA extensions, and SSE4.1, which is used with them. The
 * processor is asked once, since the question takes microseconds on a virtual machine. */
static bool has_sha_extensions(void) {
    static int answer; /* 0: not asked yet, 1: no, 2: yes */
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (known == 0) {
        unsigned a, b, c, d;
        const bool found = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
        known = found && __builtin_cpu_supports("sse4.1") ? 2 : 1;
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known == 2;
}

/* An instruction computes two rounds. It takes the state as two vectors: a, b, e and f in one, and
 * c, d, g and h in the other, the first in the highest element. words[i % 4] has the words 4 i to
 * 4 i + 3 of the extended block. */
__attribute__((target("sha,sse4.1"))) static void add_blocks_by_sha(uint32_t state[8],
                                                                     const uint8_t *blocks,
                                                                     size_t n) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abef = _mm_set_epi32((int)state[0], (int)state[1], (int)state[4], (int)state[5]);
    __m128i cdgh = _mm_set_epi32((int)state[2], (int)state[3], (int)state[6], (int)state[7]);
    for (size_t block = 0; block < n; block++) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i words[4];
        for (int i = 0; i < 16; i++) {
            const __m128i *from = (const __m128i *)(blocks + 64 * block) + i;
            __m128i *w = &words[i % 4];
            if (i < 4) {
                *w = _mm_shuffle_epi8(_mm_loadu_si128(from), swap);
            } else {
                const __m128i last = words[(i + 3) % 4], before_last = words[(i + 2) % 4];
                *w = _mm_sha256msg1_epu32(*w, words[(i + 1) % 4]);
                *w = _mm_add_epi32(*w, _mm_alignr_epi8(last, before_last, 4));
                *w = _mm_sha256msg2_epu32(*w, last);
            }
            const __m128i *constants = (const __m128i *)(sha256_constants + 4 * i);
            const __m128i added = _mm_add_epi32(*w, _mm_loadu_si128(constants));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    state[0] = (uint32_t)_mm_extract_epi32(abef, 3);
    state[1] = (uint32_t)_mm_extract_epi32(abef, 2);
    state[2] = (uint32_t)_mm_extract_epi32(cdgh, 3);
    state[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
    state[4] = (uint32_t)_mm_extract_epi32(abef, 1);
    state[5] = (uint32_t)_mm_extract_epi32(abef, 0);
    state[6] = (uint32_t)_mm_extract_epi32(cdgh, 1);
    state[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}

#else

static bool has_sha_extensions(void) { return false; }

static void add_blocks_by_sha(uint32_t state[8], const uint8_t *blocks, size_t n) {
    rgi_sha256_blocks_plain(state, blocks, n);
}

#endif

/* Changes the state by n blocks. */
static void sha256_add_blocks(uint32_t state[8], const uint8_t *blocks, size_t n) {
    if (has_sha_extensions())
        add_blocks_by_sha(state, blocks, n);
    else
        rgi_sha256_blocks_plain(state, blocks, n);
}

void rgi_sha256_begin(rg_sha256 *s) {
    memcpy(s->state, sha256_start, sizeof sha256_start);
    s->bytes = 0;
}

void rgi_sha256_add(rg_sha256 *s, const void *from, size_t n) {
    const uint8_t *p = from;
    const size_t used = s->bytes % sizeof s->block;
    s->bytes += n;
    if (used > 0) {
        const size_t lacking = sizeof s->block - used, taken = n < lacking ? n : lacking;
        memcpy(s->block + used, p, taken);
        if (n < lacking)
            return;
        sha256_add_blocks(s->state, s->block, 1);
        p += taken;
        n -= taken;
    }
    const size_t blocks = n / sizeof s->block, rest = n % sizeof s->block;
    if (blocks > 0)
        sha256_add_blocks(s->state, p, blocks);
    if (rest > 0)
        memcpy(s->block, p + n - rest, rest);
}

/* Behind the last byte comes a bit that is 1, then bits that are 0, and, in the last 8 bytes of a
 * block, the number of bits. */
void rgi_sha256_end(rg_sha256 *s, char hex[RG_SHA256_ROOM]) {
    static const uint8_t padding[64] = { 0x80 };
    const uint64_t bits = 8 * s->bytes;
    const size_t used = s->bytes % sizeof s->block;
    rgi_sha256_add(s, padding, (used < 56 ? 56 : 120) - used);
    uint8_t count[8];
    for (int i = 0; i < 8; i++)
        count[i] = (uint8_t)(bits >> (56 - 8 * i));
    rgi_sha256_add(s, count, sizeof count);
    for (int i = 0; i < 64; i++)
        hex[i] = "0123456789abcdef"[s->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = 0;
}
