// Rows of maximum pooling in windows K x K that do not overlap, of channels-last images; after the prelude.
//
// ``chosen`` is the place of the maximum in its window, in the order of rows: of equal ones the first, and of NaNs the
// last, as in PyTorch. What is left over at the right edge is in no window. ``cached``: the larger side is in the cache, so
// nothing is fetched ahead.

namespace {

constexpr int64_t POOLED = STRIP_BYTES / sizeof(float);

// The type in which values are compared.
template <typename X>
struct Compared {
  typedef float type;
};
template <>
struct Compared<double> {
  typedef double type;
};
template <typename X>
using Wider = typename Compared<X>::type;

// The maxima of m values from each place of a window, and which place has it.
template <int32_t K, typename F>
inline void most_of(const F* const* values, int64_t m, F* most, uint8_t* chosen, int64_t at = 0) {
  #pragma omp simd simdlen(16)
  for (int64_t c = at; c < at + m; ++c) {
    F best = values[0][c];
    int32_t place = 0;
    #pragma GCC unroll 16
    for (int32_t p = 1; p < K * K; ++p) {
      const F value = values[p][c];
      const bool more = value > best || value != value;
      place = more ? p : place;
      best = more ? value : best;
    }
    most[c] = best;
    chosen[c] = uint8_t(place);
  }
}

// K rows of x [K, W, C] to one of out and chosen [W / K, C].
template <typename X, int32_t K>
void forward_row(const X* x, X* out, uint8_t* chosen, int64_t W, int64_t C, bool streaming, bool cached = false) {
  typedef Wider<X> F;
  alignas(64) F wide[K * K][POOLED], best[POOLED];
  alignas(64) X narrow[POOLED];
  for (int64_t column = 0; column < W / K; ++column, x += K * C) {
    for (int64_t at = 0; at < C; at += POOLED) {
      const int64_t m = min(POOLED, C - at);
      const F* values[K * K];
      for (int32_t p = 0; p < K * K; ++p) {
        const X* from = x + (p / K * W + p % K) * C + at;
        values[p] = widened(wide[p], from, m);
        for (int64_t i = 0; i < m && !cached; i += 64 / sizeof(X)) __builtin_prefetch(from + i + AHEAD / sizeof(X));
      }
      F* most = direct<F>(out, best, streaming);
      if (m % 16)
        most_of<K>(values, m, most, chosen);
      else
        for (int64_t i = 0; i < m; i += 16) most_of<K>(values, 16, most, chosen, i);
      if (most == best) flush(out, narrowed(narrow, best, m), m * sizeof(X), streaming);
      out += m;
      chosen += m;
    }
  }
}

// The gradient of a row of out [W / K, C] to that of row number y in its windows [W, C].
template <typename X, int32_t K>
void backward_row(const X* g, const uint8_t* chosen, X* d_x, int32_t y, int64_t W, int64_t C, bool streaming) {
  typedef Wider<X> F;
  alignas(64) F wide[POOLED], values[K][POOLED];
  alignas(64) X narrow[POOLED];
  for (int64_t column = 0; column < W / K; ++column, g += C, chosen += C, d_x += K * C) {
    for (int64_t at = 0; at < C; at += POOLED) {
      const int64_t m = min(POOLED, C - at);
      for (int64_t i = 0; i < m; i += 64 / sizeof(X)) __builtin_prefetch(g + at + i + AHEAD / sizeof(X));
      const F* from = widened(wide, g + at, m);
      F* to[K];
      for (int32_t k = 0; k < K; ++k) to[k] = direct<F>(d_x + k * C + at, values[k], streaming);
      #pragma omp simd simdlen(16)
      for (int64_t c = 0; c < m; ++c) {
        const int32_t place = int32_t(chosen[at + c]) - y * K;
        const F value = from[c] + 0;  // as PyTorch adds to 0: no -0
        #pragma GCC unroll 4
        for (int32_t k = 0; k < K; ++k) to[k][c] = place == k ? value : 0;
      }
      for (int32_t k = 0; k < K && to[k] == values[k]; ++k)
        flush(d_x + k * C + at, narrowed(narrow, values[k], m), m * sizeof(X), streaming);
    }
  }
  memset(d_x, 0, W % K * C * sizeof(X));
}

}  // namespace
