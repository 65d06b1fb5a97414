// What every generated kernel begins with: number formats, prefetching, and stores that bypass the cache.

// No header of the C++ library: parsing <cmath> and <algorithm> takes as long as compiling a kernel.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// GCC's own names of instructions are used: parsing <immintrin.h> takes a third of a second, as long as compiling a kernel.
#if defined(__GNUC__) && !defined(__clang__)
#define GCC
#endif

// glibc has vectorised versions of these; telling the compiler lets it use them without -ffast-math.
#if defined(GCC) && defined(__x86_64__) && defined(__GLIBC__)
extern "C" {
__attribute__((simd("notinbranch"))) float expf(float) noexcept;
__attribute__((simd("notinbranch"))) double exp(double) noexcept;
__attribute__((simd("notinbranch"))) float logf(float) noexcept;
__attribute__((simd("notinbranch"))) double log(double) noexcept;
}
#endif

namespace {

// What <cmath> has of these functions, each for both types; other arguments are converted to double, as they are there.
namespace math {

constexpr float nan = __builtin_nanf(""), inf = __builtin_inff();

#define OF_ONE(name)                                               \
  inline float name(float x) { return __builtin_##name##f(x); }    \
  inline double name(double x) { return __builtin_##name(x); }     \
  template <typename X>                                            \
  inline double name(X x) { return __builtin_##name(double(x)); }
#define OF_TWO(name)                                                                \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); }         \
  inline double name(double x, double y) { return __builtin_##name(x, y); }         \
  template <typename X, typename Y>                                                 \
  inline double name(X x, Y y) { return __builtin_##name(double(x), double(y)); }
OF_ONE(exp) OF_ONE(exp2) OF_ONE(expm1) OF_ONE(log) OF_ONE(log2) OF_ONE(log10) OF_ONE(log1p)
OF_ONE(sqrt) OF_ONE(erf) OF_ONE(erfc) OF_ONE(floor) OF_ONE(ceil) OF_ONE(trunc) OF_ONE(nearbyint) OF_ONE(fabs)
OF_ONE(sin) OF_ONE(cos) OF_ONE(tan) OF_ONE(asin) OF_ONE(acos) OF_ONE(atan)
OF_ONE(sinh) OF_ONE(cosh) OF_ONE(tanh) OF_ONE(asinh) OF_ONE(acosh) OF_ONE(atanh)
OF_TWO(pow) OF_TWO(fmod) OF_TWO(copysign) OF_TWO(atan2) OF_TWO(hypot)

}  // namespace math

template <typename T>
inline const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}

template <typename T>
inline const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}

template <typename A, typename B>
constexpr bool same_type = false;
template <typename A>
constexpr bool same_type<A, A> = true;

// Bytes of a vector. Compilers keep wider ones than the machine's in memory.
#if defined(__AVX512F__)
constexpr int64_t VECTOR = 64;
#elif defined(__AVX__)
constexpr int64_t VECTOR = 32;
#else
constexpr int64_t VECTOR = 16;
#endif

// The upper half of a float32.
struct bfloat16 {
  uint16_t bits;
};

// Bytes of a strip, the neurons that are computed between two stores to memory; and bytes that input is fetched ahead, of
// one sequence forward, of two backward. They wait in the first-level cache. (2048 ahead took forward 1.5 times as long.)
constexpr int64_t STRIP_BYTES = 512, AHEAD = 8192, AHEAD_OF_TWO = 5120;

// A strip of numbers in the type of the arithmetic, and back. Loops of their own, as compilers vectorise these alone but
// not in the midst of an equation; nothing is copied where the types are the same.
template <typename S>
inline const S* widened(S*, const S* from, int64_t) {
  return from;
}

template <typename S>
inline const S* narrowed(S*, const S* from, int64_t) {
  return from;
}

template <typename S>
inline const S* widened(S* to, const bfloat16* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = uint32_t(from[i].bits) << 16;
    float value;
    memcpy(&value, &bits, 4);
    to[i] = S(value);
  }
  return to;
}

// Rounded to nearest, ties to even.
template <typename S>
inline const bfloat16* narrowed(bfloat16* to, const S* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = float(from[i]);
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t magnitude = bits & 0x7fffffffu;
    to[i].bits = uint16_t(magnitude > 0x7f800000u ? 0x7fc0u : rounded);
  }
  return to;
}

#if defined(GCC) && defined(__F16C__)  // clang takes these instructions by itself
#define CONVERTS
typedef float EightFloats __attribute__((vector_size(32), aligned(4), may_alias));
typedef short EightHalves __attribute__((vector_size(16), aligned(2), may_alias));
#endif

#if defined(HALF)  // a type that not every compiler knows
template <typename S>
inline const S* widened(S* to, const _Float16* from, int64_t n) {
  int64_t i = 0;
#if defined(CONVERTS)
  if constexpr (sizeof(S) == 4)
    for (; i + 8 <= n; i += 8)
      *reinterpret_cast<EightFloats*>(to + i) =
          __builtin_ia32_vcvtph2ps256(*reinterpret_cast<const EightHalves*>(from + i));
#endif
  for (; i < n; ++i) to[i] = S(from[i]);
  return to;
}

template <typename S>
inline const _Float16* narrowed(_Float16* to, const S* from, int64_t n) {
  int64_t i = 0;
#if defined(CONVERTS)
  if constexpr (sizeof(S) == 4)
    for (; i + 8 <= n; i += 8)
      *reinterpret_cast<EightHalves*>(to + i) =
          __builtin_ia32_vcvtps2ph256(*reinterpret_cast<const EightFloats*>(from + i), 0);  // rounds to nearest
#endif
  for (; i < n; ++i) to[i] = _Float16(from[i]);
  return to;
}
#endif

// Spikes of one byte.
template <typename S>
inline const uint8_t* narrowed(uint8_t* to, const S* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = uint8_t(from[i]);
  return to;
}

// Fetch the strip that comes ``bytes`` after the number ``at`` in a row of n, with ``left`` rows after it: often of a later
// row. Always inline, as GCC takes a function that only fetches for one without an effect, and drops it.
template <int64_t strip, int64_t bytes, typename T>
__attribute__((always_inline)) inline void prefetch(const T* row, int64_t stride, int64_t left, int64_t at, int64_t n) {
  constexpr int64_t ahead = bytes / sizeof(T);
  const int64_t position = at + ahead % n, rows = ahead / n + (position >= n);
  const T* p = row + min(rows, left) * stride + (position < n ? position : position - n);
  for (size_t i = 0; i < strip; i += 64 / sizeof(T)) __builtin_prefetch(p + i);
}

#if defined(__AVX__)
typedef long long Line __attribute__((vector_size(VECTOR), may_alias));

inline void stream(Line* to, Line value) {
#if defined(__clang__)
  __builtin_nontemporal_store(value, to);
#elif defined(__AVX512F__)
  __builtin_ia32_movntdq512(to, value);
#else
  __builtin_ia32_movntdq256(to, value);
#endif
}
#endif

// Copy a strip to its place. An ordinary store first reads the line that it overwrites; a streaming one does not, which
// saves a third of all traffic where the output is larger than the cache.
inline void flush(void* to, const void* from, size_t bytes, bool streaming) {
#if defined(__AVX__)
  char* d = static_cast<char*>(to);
  const char* s = static_cast<const char*>(from);
  if (streaming) {
    const size_t head = min(bytes, size_t(-reinterpret_cast<uintptr_t>(d)) % VECTOR);
    memcpy(d, s, head);
    size_t i = head;
    for (; i + VECTOR <= bytes; i += VECTOR) {
      Line value;
      memcpy(&value, s + i, VECTOR);
      stream(reinterpret_cast<Line*>(d + i), value);
    }
    memcpy(d + i, s + i, bytes - i);
    return;
  }
#endif
  memcpy(to, from, bytes);
}

// Where a strip of results is made: in its place, or where it waits to be narrowed or written past the cache. (A copy of
// 128 numbers takes as long as their arithmetic.)
template <typename S, typename X>
inline S* direct(X* to, S* waiting, bool streaming) {
  return same_type<X, S> && !streaming ? reinterpret_cast<S*>(to) : waiting;
}

// The first n of a tile's states, each from its place or, where they are the same for all neurons, from one.
template <typename S>
inline void start(S* to, const S* from, int64_t begin, int64_t n, bool same) {
  if (same)
    for (const S value = *from, *end = to + n; to != end; ++to) *to = value;
  else
    memcpy(to, from + begin, n * sizeof(S));
}

// x - x is 0 for every finite number, and NaN for all others.
template <typename S>
inline bool all_finite(const S* values, int64_t n) {
  S zero = 0;
#pragma omp simd reduction(+ : zero)
  for (int64_t i = 0; i < n; ++i) zero += values[i] - values[i];
  return zero == 0;
}

// Streaming stores are weakly ordered: other threads may look only after this.
inline void settle() {
#if defined(__AVX__)
  __builtin_ia32_sfence();
#endif
}

// Scratch memory of a thread, reused between calls, as fresh pages cost more than the arithmetic.
struct Room {
  void* memory = nullptr;
  size_t bytes = 0;
  void* get(size_t wanted) {
    if (wanted > bytes) {
      free(memory);
      bytes = (wanted + 63) / 64 * 64;
      memory = aligned_alloc(64, bytes);
      if (memory == nullptr) bytes = 0;
    }
    return memory;
  }
  ~Room() { free(memory); }
};

}  // namespace
