// Products of spikes and weights at the cost of the spikes; after the prelude.
//
// B rows of I inputs that are 0 or 1, and O outputs. Where the ones of row b are is said by columns[starts[b]] to
// columns[starts[b + 1] - 1]. Outputs are taken in tiles: what a spike adds to a tile is one row of its weights
// (forward) or of its gradient (backward), of 256 bytes; the sums are in registers, and the tile in the second-level
// cache. Sums have fewer terms than those of dense products, in another order.

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace {

// Rows of gradients in the cache at a time: 256 KiB of float32.
constexpr int64_t BLOCK = 1024;

enum Failure { OTHER_VALUES = -1, TOO_MANY = -2, NO_MEMORY = -3, NOT_FINITE = -4 };

template <typename S>
struct Sums {
  static constexpr int64_t SIZE = 256 / sizeof(S), LANES = VECTOR / sizeof(S);
  typedef S V __attribute__((vector_size(VECTOR)));
  V part[SIZE / LANES];
  // One by one, as copying all is a call, or a slow instruction.
  explicit Sums(const S* from) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < SIZE / LANES; ++i) memcpy(part + i, from + i * LANES, sizeof(V));
  }
  void add(const S* from) {
    const Sums more(from);
#pragma GCC unroll 16
    for (int64_t i = 0; i < SIZE / LANES; ++i) part[i] += more.part[i];
  }
  void store(S* to) const {
#pragma GCC unroll 16
    for (int64_t i = 0; i < SIZE / LANES; ++i) memcpy(to + i * LANES, part + i, sizeof(V));
  }
};

inline bool is_zero(bfloat16 x) { return (x.bits & 0x7fff) == 0; }
inline bool is_one(bfloat16 x) { return x.bits == 0x3f80; }
template <typename X>
bool is_zero(X x) { return x == 0; }
template <typename X>
bool is_one(X x) { return x == 1; }

// Which of 64 values are 1, as bits; ``binary`` becomes false if one is neither 0 nor 1.
template <typename X>
uint64_t ones_of_64(const X* x, bool& binary) {
#if defined(__AVX512F__)
  if constexpr (same_type<X, float>) {
    uint64_t one = 0, known = 0;
    for (int k = 0; k < 4; ++k) {
      const __m512 part = _mm512_loadu_ps(x + 16 * k);
      const __mmask16 is_one = _mm512_cmp_ps_mask(part, _mm512_set1_ps(1), _CMP_EQ_OQ);
      one |= uint64_t(is_one) << 16 * k;
      known |= uint64_t(is_one | _mm512_cmp_ps_mask(part, _mm512_setzero_ps(), _CMP_EQ_OQ)) << 16 * k;
    }
    binary = binary && known == ~uint64_t(0);
    return one;
  }
#elif defined(__AVX__)
  if constexpr (same_type<X, float>) {
    uint64_t one = 0, known = 0;
    for (int k = 0; k < 8; ++k) {
      const __m256 part = _mm256_loadu_ps(x + 8 * k), is_one = _mm256_cmp_ps(part, _mm256_set1_ps(1), _CMP_EQ_OQ);
      const __m256 is_known = _mm256_or_ps(is_one, _mm256_cmp_ps(part, _mm256_setzero_ps(), _CMP_EQ_OQ));
      one |= uint64_t(_mm256_movemask_ps(is_one)) << 8 * k;
      known |= uint64_t(_mm256_movemask_ps(is_known)) << 8 * k;
    }
    binary = binary && known == ~uint64_t(0);
    return one;
  }
#endif
  uint8_t one[64], other = 0;
  for (int64_t i = 0; i < 64; ++i) {
    one[i] = is_one(x[i]);
    other |= !(one[i] | is_zero(x[i]));
  }
  binary = binary && !other;
  uint64_t bits = 0;
  for (int64_t i = 0; i < 64; i += 8) {
    uint64_t eight;
    memcpy(&eight, one + i, 8);
    bits |= (eight * 0x0102040810204080u) >> 56 << i;  // one multiplication gathers eight bytes in the highest
  }
  return bits;
}

// The same of at most 64.
template <typename X>
uint64_t ones(const X* x, int64_t count, bool& binary) {
  X rest[64] = {};
  if (count < 64) memcpy(rest, x, count * sizeof(X)), x = rest;
  return ones_of_64(x, binary);
}

// What the threads of the last call in this thread have found, one after the other.
thread_local std::vector<std::vector<int32_t>> found;
thread_local std::vector<int64_t> counts;

void release() { std::vector<std::vector<int32_t>>().swap(found); }

// Write ``starts``, and note the columns for ``take``; the number of spikes, or a failure. Row b begins at x + b stride.
template <typename X>
int64_t spikes(const X* x, int64_t B, int64_t I, int64_t stride, int64_t most, int64_t* starts, int threads) {
  std::atomic<int64_t> total{0};
  std::atomic<int> failure{0};
  try {
    found.resize(threads), counts.assign(threads, 0);
  } catch (const std::bad_alloc&) {
    return NO_MEMORY;
  }
  std::vector<int32_t>* lists = found.data();
  int64_t* sizes = counts.data();
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; ++t) {
    std::vector<int32_t>& list = lists[t];
    int64_t n = 0;
    for (int64_t b = B * t / threads; b < B * (t + 1) / threads && !failure; ++b) {
      if (int64_t(list.size()) < n + I + 8) {
        try {
          list.resize(2 * (n + I + 8));
        } catch (const std::bad_alloc&) {
          failure = NO_MEMORY;
          break;
        }
      }
      const int64_t before = n;
      bool binary = true;
      for (int64_t i = 0; i < I; i += 64) {
        uint64_t bits = ones(x + b * stride + i, min<int64_t>(64, I - i), binary);
        const int64_t end = n + __builtin_popcountll(bits);
        // Eight at a time, of which some may be none: a branch for each one would be a guess.
        for (int64_t at = n; at == n || at < end; at += 8)
          for (int64_t k = 0; k < 8; ++k, bits &= bits - 1)
            list[at + k] = int32_t(i + __builtin_ctzll(bits | uint64_t(1) << 63));
        n = end;
      }
      starts[b + 1] = n - before;
      if (!binary) failure = OTHER_VALUES;
      if ((total += n - before) > most) failure = TOO_MANY;
    }
    sizes[t] = n;
  }
  if (failure == NO_MEMORY) release();  // a dense product needs it
  if (failure) return failure;
  starts[0] = 0;
  for (int64_t b = 0; b < B; ++b) starts[b + 1] += starts[b];
  return total;
}

// A tile of the weights [O, I], transposed [I, SIZE], and whether all are finite. Outputs beyond the last have zeros.
template <typename X, typename S>
bool transposed(const X* weight, int64_t I, int64_t outputs, S* to) {
  constexpr int64_t SIZE = Sums<S>::SIZE, LINE = 16;
  if (outputs < SIZE) memset(to, 0, I * SIZE * sizeof(S));
  for (int64_t i = 0; i < I; i += LINE) {
    const int64_t n = min(LINE, I - i);
    for (int64_t o = 0; o < outputs; ++o) {
      S wide[LINE];
      const S* from = widened(wide, weight + o * I + i, n);
      for (int64_t k = 0; k < n; ++k) to[(i + k) * SIZE + o] = from[k];
    }
  }
  return all_finite(to, I * SIZE);
}

// out = x weightᵀ + bias. tensors: starts, columns, weight [O, I], bias [O] or null, out [B, O].
template <typename X, typename S>
int64_t product(void* const* tensors, int64_t B, int64_t I, int64_t O, int threads) {
  constexpr int64_t SIZE = Sums<S>::SIZE;
  const int64_t* starts = static_cast<const int64_t*>(tensors[0]);
  const int32_t* columns = static_cast<const int32_t*>(tensors[1]);
  const X *weight = static_cast<const X*>(tensors[2]), *bias = static_cast<const X*>(tensors[3]);
  X* out = static_cast<X*>(tensors[4]);
  const int64_t tiles = (O + SIZE - 1) / SIZE, parts = threads > 1 ? (2 * threads + tiles - 1) / tiles : 1;
  std::atomic<int> failure{0};
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (int64_t task = 0; task < tiles * parts; ++task) {
    if (failure) continue;
    static thread_local Room room;
    S* rows = static_cast<S*>(room.get(I * SIZE * sizeof(S)));
    const int64_t first = task / parts * SIZE, outputs = min(SIZE, O - first), part = task % parts;
    if (rows == nullptr || !transposed(weight + first * I, I, outputs, rows)) {
      failure = rows == nullptr ? NO_MEMORY : NOT_FINITE;
      continue;
    }
    S wide[SIZE], start[SIZE] = {};
    if (bias) memcpy(start, widened(wide, bias + first, outputs), outputs * sizeof(S));
    for (int64_t b = B * part / parts; b < B * (part + 1) / parts; ++b) {
      Sums<S> sums(start);
      for (int64_t j = starts[b]; j < starts[b + 1]; ++j) sums.add(rows + columns[j] * SIZE);
      X narrow[SIZE], *to = out + b * O + first;
      if (same_type<X, S> && outputs == SIZE) {
        sums.store(reinterpret_cast<S*>(to));
      } else {
        sums.store(wide);
        memcpy(to, narrowed(narrow, wide, outputs), outputs * sizeof(X));
      }
    }
  }
  return failure;
}

// The same spikes by input, for each block of rows: begins[block][i] to begins[block][i + 1] - 1 in rows, which count from
// the first of the block.
struct ByInput {
  std::vector<int64_t> begins;
  std::vector<uint16_t> rows;
  ByInput(const int64_t* starts, const int32_t* columns, int64_t B, int64_t I, int threads)
      : begins((B + BLOCK - 1) / BLOCK * (I + 2)), rows(starts[B]) {
#pragma omp parallel for num_threads(threads)
    for (int64_t block = 0; block < B; block += BLOCK) {
      const int64_t end = min(B, block + BLOCK);
      int64_t* at = begins.data() + block / BLOCK * (I + 2);
      for (int64_t j = starts[block]; j < starts[end]; ++j) ++at[columns[j] + 2];
      at[0] = at[1] = starts[block];
      for (int64_t i = 0; i < I; ++i) at[i + 2] += at[i + 1];
      for (int64_t b = block; b < end; ++b)  // at[i + 1] moves from the begin of input i to its end
        for (int64_t j = starts[b]; j < starts[b + 1]; ++j) rows[at[columns[j] + 1]++] = uint16_t(b - block);
    }
  }
};

// The gradients of weight and bias. tensors: starts, columns, gradient [B, O], those of weight [O, I] and of bias [O].
template <typename X, typename S>
int64_t gradients(void* const* tensors, int64_t B, int64_t I, int64_t O, int threads) try {
  constexpr int64_t SIZE = Sums<S>::SIZE, LINE = 16;
  const int64_t* starts = static_cast<const int64_t*>(tensors[0]);
  const X* gradient = static_cast<const X*>(tensors[2]);
  X *d_weight = static_cast<X*>(tensors[3]), *d_bias = static_cast<X*>(tensors[4]);
  const ByInput spikes(starts, static_cast<const int32_t*>(tensors[1]), B, I, threads);
  const int64_t tiles = (O + SIZE - 1) / SIZE, parts = max<int64_t>(1, threads / tiles);
  const S zeros[SIZE] = {};
  std::atomic<int> failure{0};
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (int64_t task = 0; task < tiles * parts; ++task) {
    if (failure) continue;
    static thread_local Room room;
    const int64_t first = task / parts * SIZE, outputs = min(SIZE, O - first), part = task % parts;
    const int64_t low = I * part / parts, high = I * (part + 1) / parts;
    S* sums = static_cast<S*>(room.get((high - low + BLOCK) * SIZE * sizeof(S)));  // of each input [high - low, SIZE]
    if (sums == nullptr) {
      failure = NO_MEMORY;
      continue;
    }
    S* rows = sums + (high - low) * SIZE;
    Sums<S> all(zeros);
    for (int64_t block = 0; block < B; block += BLOCK) {
      const int64_t* begins = spikes.begins.data() + block / BLOCK * (I + 2);
      Sums<S> some(zeros);
      S wide[SIZE] = {};
      for (int64_t b = block; b < min(B, block + BLOCK); ++b) {
        S* row = rows + (b - block) * SIZE;
        const S* from = widened(wide, gradient + b * O + first, outputs);
        if (outputs < SIZE && from != wide) from = static_cast<S*>(memcpy(wide, from, outputs * sizeof(S)));
        Sums<S>(from).store(row);
        some.add(from);
      }
      some.store(wide);
      all.add(wide);
      for (int64_t i = low; i < high; ++i) {
        S* sum = sums + (i - low) * SIZE;
        Sums<S> of_input(block ? sum : zeros);
        for (int64_t j = begins[i]; j < begins[i + 1]; ++j) of_input.add(rows + spikes.rows[j] * SIZE);
        of_input.store(sum);
      }
    }
    S wide[SIZE];
    X narrow[SIZE];
    all.store(wide);
    if (!all_finite(wide, outputs)) failure = NOT_FINITE;  // 0 times infinity would be NaN
    if (d_bias && part == 0) memcpy(d_bias + first, narrowed(narrow, wide, outputs), outputs * sizeof(X));
    for (int64_t i = low; i < high; i += LINE) {
      const int64_t n = min(LINE, high - i);
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t k = 0; k < n; ++k) wide[k] = sums[(i - low + k) * SIZE + o];
        memcpy(d_weight + (first + o) * I + i, narrowed(narrow, wide, n), n * sizeof(X));
      }
    }
  }
  return failure;
} catch (const std::bad_alloc&) {
  return NO_MEMORY;
}

}  // namespace

// The columns that the last call of ``spikes`` in this thread has found; without ``columns``, their memory is given back.
extern "C" void take(int32_t* columns) {
  if (!columns) return release();
  for (size_t t = 0; t < found.size(); columns += counts[t++]) std::copy_n(found[t].data(), counts[t], columns);
}

// The spikes of images as the windows of a convolution see them. Line y of image b [W, C] has row b H + y in the lists;
// the result has a row for each window, with columns [KY, KX, C]. sizes: B, H, C, Y by X windows, KY, KX, strides and
// paddings. Without ``to``, only ``windows`` is written, where the rows of the result start.
extern "C" void unfold(const int64_t* starts, const int32_t* columns, const int64_t* sizes, int64_t* windows, int32_t* to,
                       int threads) {
  const int64_t B = sizes[0], H = sizes[1], C = sizes[2], Y = sizes[3], X = sizes[4], KY = sizes[5], KX = sizes[6];
  if (!to) std::fill_n(windows, B * Y * X + 1, 0);
#pragma omp parallel for num_threads(threads)
  for (int64_t line = 0; line < B * Y; ++line) {
    int64_t* at = windows + line * X;
    for (int64_t ky = 0; ky < KY; ++ky) {
      const int64_t y = line % Y * sizes[7] - sizes[9] + ky;
      if (y < 0 || y >= H) continue;
      const int64_t row = line / Y * H + y, last = starts[row + 1];
      for (int64_t x = 0, begin = starts[row], end = begin; x < X; ++x) {
        const int64_t left = (x * sizes[8] - sizes[10]) * C;
        while (begin < last && columns[begin] < left) ++begin;
        end = max(begin, end);
        while (end < last && columns[end] < left + KX * C) ++end;
        if (to)
          for (int64_t j = begin; j < end; ++j) to[at[x]++] = int32_t(columns[j] - left + ky * KX * C);
        else
          at[x + 1] += end - begin;
      }
    }
  }
  if (to) {  // each start has become the next one
    memmove(windows + 1, windows, B * Y * X * sizeof(int64_t));
    windows[0] = 0;
  } else {
    for (int64_t i = 0; i < B * Y * X; ++i) windows[i + 1] += windows[i];
  }
}

#define KERNELS(name, X, S)                                                                                        \
  extern "C" int64_t spikes_##name(const void* x, int64_t B, int64_t I, int64_t stride, int64_t most, int64_t* starts, \
                                   int threads) {                                                                  \
    return spikes(static_cast<const X*>(x), B, I, stride, most, starts, threads);                                  \
  }                                                                                                                \
  extern "C" int64_t product_##name(void* const* t, int64_t B, int64_t I, int64_t O, int threads) {                \
    return product<X, S>(t, B, I, O, threads);                                                                     \
  }                                                                                                                \
  extern "C" int64_t gradients_##name(void* const* t, int64_t B, int64_t I, int64_t O, int threads) {              \
    return gradients<X, S>(t, B, I, O, threads);                                                                   \
  }
KERNELS(float32, float, float)
KERNELS(float64, double, double)
KERNELS(bfloat16, bfloat16, float)
