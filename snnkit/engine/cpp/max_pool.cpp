// Maximum pooling of channels-last images, in windows K x K that do not overlap; after the prelude.
//
// ``chosen`` is the place of the maximum in its window, in the order of rows: of equal ones the first, and of NaNs the
// last, as in PyTorch. What is left over at the lower and right edge is in no window.

constexpr int64_t STRIP = STRIP_BYTES / sizeof(float);

// K rows of x [K, W, C] to one of out and chosen [W / K, C].
template <typename X, int32_t K>
void forward_row(const X* x, X* out, uint8_t* chosen, int64_t W, int64_t C, bool streaming) {
  alignas(64) float wide[K * K][STRIP], best[STRIP];
  alignas(64) X narrow[STRIP];
  for (int64_t column = 0; column < W / K; ++column, x += K * C) {
    for (int64_t at = 0; at < C; at += STRIP) {
      const int64_t m = std::min(STRIP, C - at);
      const float* values[K * K];
      for (int32_t p = 0; p < K * K; ++p) {
        const X* from = x + (p / K * W + p % K) * C + at;
        values[p] = widened(wide[p], from, m);
        for (int64_t i = 0; i < m; i += 64 / sizeof(X)) __builtin_prefetch(from + i + AHEAD / sizeof(X));
      }
      #pragma omp simd simdlen(16)
      for (int64_t c = 0; c < m; ++c) {
        float most = -INFINITY;
        int32_t place = 0;
        #pragma GCC unroll 16
        for (int32_t p = 0; p < K * K; ++p) {
          const float value = values[p][c];
          const bool more = value > most || value != value;
          place = more ? p : place;
          most = more ? value : most;
        }
        best[c] = most;
        chosen[c] = uint8_t(place);
      }
      flush(out, narrowed(narrow, best, m), m * sizeof(X), streaming);
      out += m;
      chosen += m;
    }
  }
  settle();
}

// The gradient of a row of out [W / K, C] to that of row number y in its windows [W, C].
template <typename X, int32_t K>
void backward_row(const X* g, const uint8_t* chosen, X* d_x, int32_t y, int64_t W, int64_t C, bool streaming) {
  alignas(64) float wide[STRIP], values[STRIP];
  alignas(64) X narrow[STRIP];
  for (int64_t column = 0; column < W / K; ++column, g += C, chosen += C) {
    for (int32_t place = y * K; place < y * K + K; ++place) {
      for (int64_t at = 0; at < C; at += STRIP) {
        const int64_t m = std::min(STRIP, C - at);
        if (place == y * K)
          for (int64_t i = 0; i < m; i += 64 / sizeof(X)) __builtin_prefetch(g + at + i + AHEAD / sizeof(X));
        const float* from = widened(wide, g + at, m);
        #pragma omp simd simdlen(16)
        for (int64_t c = 0; c < m; ++c) values[c] = int32_t(chosen[at + c]) == place ? from[c] + 0.0f : 0.0f;  // as PyTorch adds to 0: no -0
        flush(d_x, narrowed(narrow, values, m), m * sizeof(X), streaming);
        d_x += m;
      }
    }
  }
  std::memset(d_x, 0, W % K * C * sizeof(X));
  settle();
}

// tensors: x [B, H, W, C], out and chosen [B, H / K, W / K, C]; sizes: B, H, W, C, streaming.
template <typename X, int32_t K>
void forward(void* const* tensors, const int64_t* sizes, int threads) {
  const int64_t B = sizes[0], H = sizes[1], W = sizes[2], C = sizes[3], rows = H / K;
  #pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t row = 0; row < B * rows; ++row) {
    const int64_t from = (row / rows * H + row % rows * K) * W * C, to = row * (W / K) * C;
    uint8_t* chosen = static_cast<uint8_t*>(tensors[2]) + to;
    X* out = static_cast<X*>(tensors[1]) + to;
    forward_row<X, K>(static_cast<const X*>(tensors[0]) + from, out, chosen, W, C, sizes[4]);
  }
}

// tensors: the gradient of out, chosen, the gradient of x; sizes: as above.
template <typename X, int32_t K>
void backward(void* const* tensors, const int64_t* sizes, int threads) {
  const int64_t B = sizes[0], H = sizes[1], W = sizes[2], C = sizes[3], rows = H / K;
  #pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t line = 0; line < B * H; ++line) {
    const int64_t y = line % H, from = (line / H * rows + y / K) * (W / K) * C;
    X* d_x = static_cast<X*>(tensors[2]) + line * W * C;
    if (y < rows * K) {
      const uint8_t* chosen = static_cast<const uint8_t*>(tensors[1]) + from;
      backward_row<X, K>(static_cast<const X*>(tensors[0]) + from, chosen, d_x, y % K, W, C, sizes[4]);
    } else {
      std::memset(d_x, 0, W * C * sizeof(X));
    }
  }
}

#define KERNELS(name, X, K)                                                              \
  extern "C" void forward_##name##_##K(void* const* t, const int64_t* s, int threads) {  \
    forward<X, K>(t, s, threads);                                                        \
  }                                                                                      \
  extern "C" void backward_##name##_##K(void* const* t, const int64_t* s, int threads) { \
    backward<X, K>(t, s, threads);                                                       \
  }
KERNELS(float32, float, 2)
KERNELS(float32, float, 3)
KERNELS(float32, float, 4)
KERNELS(bfloat16, bfloat16, 2)
KERNELS(bfloat16, bfloat16, 3)
KERNELS(bfloat16, bfloat16, 4)
