// Products of a few samples with recurrent weights, as rows of weights that are added: all rows, or those of the values
// that are not zero. The sum runs in vectors over the outputs, so each output adds in the order of the inputs.

#if defined(__AVX__) && !defined(GCC)
#include <immintrin.h>
#endif

namespace {

// Rows of a dense product at a time, as many as there are registers for: of AVX2, 16.
constexpr int64_t TOGETHER = VECTOR == 32 ? 2 : 4;

template <typename S>
struct Wide {
  typedef S type __attribute__((vector_size(VECTOR), aligned(sizeof(S)), may_alias));
};

// Outputs at a time: four vectors, as an addition takes four cycles. Samples at a time: they share what is read of the
// weights.
template <typename S>
constexpr int64_t BLOCK = 4 * VECTOR / sizeof(S);
constexpr int64_t MOST_SAMPLES = 8;

// Instructions that compilers do not choose for what is written below.
typedef float Floats __attribute__((vector_size(VECTOR)));
typedef double Doubles __attribute__((vector_size(VECTOR)));
typedef int32_t Places __attribute__((vector_size(VECTOR)));
#if defined(__AVX512F__) && defined(GCC)
// The last two arguments: for all numbers, rounded as usual.
inline Floats fused(Floats a, Floats b, Floats c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4); }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4); }
// Bits of the values that are not zero, or NaN: that comparison has the number 4.
inline uint16_t not_zero(Floats values) { return __builtin_ia32_cmpps512_mask(values, Floats{}, 4, -1, 4); }
inline Places selected(Places from, uint16_t bits) { return __builtin_ia32_compresssi512_mask(from, Places{}, bits); }
#elif defined(__AVX512F__)
inline Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
inline uint16_t not_zero(Floats values) { return _mm512_cmp_ps_mask(values, Floats{}, _CMP_NEQ_UQ); }
inline Places selected(Places from, uint16_t bits) { return Places(_mm512_maskz_compress_epi32(bits, __m512i(from))); }
#elif defined(__AVX__) && defined(__FMA__) && defined(GCC)
inline Floats fused(Floats a, Floats b, Floats c) { return __builtin_ia32_vfmaddps256(a, b, c); }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return __builtin_ia32_vfmaddpd256(a, b, c); }
#elif defined(__AVX__) && defined(__FMA__)
inline Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
#else
template <typename V>
inline V fused(V a, V b, V c) {
  return a * b + c;
}
#endif

// All else in a kernel is rounded as PyTorch rounds it, product and sum apart; in a long sum there is no such rule.
inline Wide<float>::type times_plus(Wide<float>::type a, Wide<float>::type b, Wide<float>::type c) {
  return fused(Floats(a), Floats(b), Floats(c));
}
inline Wide<double>::type times_plus(Wide<double>::type a, Wide<double>::type b, Wide<double>::type c) {
  return fused(Doubles(a), Doubles(b), Doubles(c));
}

// Weights from n inputs to n outputs, by blocks of outputs: [block][input][output]; the last block is filled up with
// zeros. Returns whether all are finite: where one is not, zero times it would not be zero.
template <typename S>
bool pack(S* to, const S* weight, int64_t n, int64_t of_output, int64_t of_input, int threads) {
  bool finite = true;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(&& : finite)
  for (int64_t first = 0; first < n; first += BLOCK<S>) {
    S* block = to + first * n;
    const int64_t m = min(BLOCK<S>, n - first);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) block[j * BLOCK<S> + i] = weight[(first + i) * of_output + j * of_input];
      for (int64_t i = m; i < BLOCK<S>; ++i) block[j * BLOCK<S> + i] = 0;
    }
    finite = finite && all_finite(block, n * BLOCK<S>);
  }
  return finite;
}

// The places of the values that are not zero; their number. It may write a vector of places too many.
template <typename S>
inline int64_t places(int32_t* to, const S* values, int64_t n) {
  int64_t count = 0, i = 0;
#if defined(__AVX512F__)
  if constexpr (sizeof(S) == 4) {
    Places at = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (; i + 16 <= n; i += 16, at += 16) {
      Floats some;
      memcpy(&some, values + i, sizeof(some));
      const uint16_t there = not_zero(some);
      const Places found = selected(at, there);
      memcpy(to + count, &found, sizeof(found));
      count += __builtin_popcount(there);
    }
  }
#endif
  for (; i < n; ++i) {
    to[count] = int32_t(i);
    count += values[i] != 0;
  }
  return count;
}

template <typename S>
inline void add_block(S* to, const typename Wide<S>::type* sums, int64_t m) {
  const S* values = reinterpret_cast<const S*>(sums);
  for (int64_t i = 0; i < m; ++i) to[i] += values[i];
}

// to[g][o] += sum over i of values[g][i] * weight[i][o], for `samples` rows of n; `lists` has room for n + 16 places of
// each. A row in which fewer than a third of the values are not zero adds those alone; there both take the same time.
template <typename S>
void add_products(S* to, const S* values, int64_t samples, int64_t n, const S* packed, int32_t* lists) {
  typedef typename Wide<S>::type V;
  constexpr int64_t W = VECTOR / sizeof(S);
  int64_t few = 0, many = 0, counts[MOST_SAMPLES], sparse[MOST_SAMPLES], dense[MOST_SAMPLES];
  for (int64_t g = 0; g < samples; ++g) {
    counts[g] = places(lists + g * (n + 16), values + g * n, n);
    if (counts[g] * 3 < n) {
      if (counts[g] > 0) sparse[few++] = g;
    } else {
      dense[many++] = g;
    }
  }
  for (int64_t first = 0; first < n; first += BLOCK<S>) {
    const S* block = packed + first * n;
    const int64_t m = min(BLOCK<S>, n - first);
    for (int64_t k = 0; k < few; ++k) {
      const int64_t g = sparse[k];
      const int32_t* list = lists + g * (n + 16);
      V sums[4] = {};
      for (int64_t c = 0; c < counts[g]; ++c) {
        const V* row = reinterpret_cast<const V*>(block + list[c] * BLOCK<S>);
        const V value = values[g * n + list[c]] - V{};
        for (int v = 0; v < 4; ++v) sums[v] = times_plus(value, row[v], sums[v]);
      }
      add_block(to + g * n + first, sums, m);
    }
    int64_t k = 0;
    for (; k + TOGETHER <= many; k += TOGETHER) {
      V sums[TOGETHER][4] = {};
      for (int64_t j = 0; j < n; ++j) {
        const V* row = reinterpret_cast<const V*>(block + j * BLOCK<S>);
        for (int r = 0; r < TOGETHER; ++r) {
          const V value = values[dense[k + r] * n + j] - V{};
          for (int v = 0; v < 4; ++v) sums[r][v] = times_plus(value, row[v], sums[r][v]);
        }
      }
      for (int r = 0; r < TOGETHER; ++r) add_block(to + dense[k + r] * n + first, sums[r], m);
    }
    for (; k < many; ++k) {
      V sums[4] = {};
      for (int64_t j = 0; j < n; ++j) {
        const V* row = reinterpret_cast<const V*>(block + j * BLOCK<S>);
        const V value = values[dense[k] * n + j] - V{};
        for (int v = 0; v < 4; ++v) sums[v] = times_plus(value, row[v], sums[v]);
      }
      add_block(to + dense[k] * n + first, sums, m);
    }
  }
}

}  // namespace
