// Maximum pooling of channels-last images, a row of windows at a time, and of images by channels ("plain"), some rows at a
// time; after the prelude and the rows. What is left over at the lower edge is in no window.

// tensors: x [B, H, W, C], out and chosen [B, H / K, W / K, C]; sizes: B, H, W, C, streaming.
template <typename X, int32_t K>
void forward(void* const* tensors, const int64_t* sizes, int threads) {
  const int64_t B = sizes[0], H = sizes[1], W = sizes[2], C = sizes[3], rows = H / K;
  #pragma omp parallel num_threads(threads)
  {
    #pragma omp for schedule(static)
    for (int64_t row = 0; row < B * rows; ++row) {
      const int64_t from = (row / rows * H + row % rows * K) * W * C, to = row * (W / K) * C;
      uint8_t* chosen = static_cast<uint8_t*>(tensors[2]) + to;
      X* out = static_cast<X*>(tensors[1]) + to;
      forward_row<X, K>(static_cast<const X*>(tensors[0]) + from, out, chosen, W, C, sizes[4]);
    }
    settle();
  }
}

// tensors: the gradient of out, chosen, the gradient of x; sizes: as above.
template <typename X, int32_t K>
void backward(void* const* tensors, const int64_t* sizes, int threads) {
  const int64_t B = sizes[0], H = sizes[1], W = sizes[2], C = sizes[3], rows = H / K;
  #pragma omp parallel num_threads(threads)
  {
    #pragma omp for schedule(static)
    for (int64_t line = 0; line < B * H; ++line) {
      const int64_t y = line % H, from = (line / H * rows + y / K) * (W / K) * C;
      X* d_x = static_cast<X*>(tensors[2]) + line * W * C;
      if (y < rows * K) {
        const uint8_t* chosen = static_cast<const uint8_t*>(tensors[1]) + from;
        backward_row<X, K>(static_cast<const X*>(tensors[0]) + from, chosen, d_x, y % K, W, C, sizes[4]);
      } else {
        memset(d_x, 0, W * C * sizeof(X));
      }
    }
    settle();
  }
}

// K m numbers of a row, one after the other, to K strips of m: the first of each window, the second, …
template <typename X, int32_t K, typename F>
inline void split(const X* x, F* to, int64_t m) {
  alignas(64) F wide[K * POOLED];
  const F* from = widened(wide, x, K * m);
  for (int64_t j = 0; j < m; ++j) {
    #pragma GCC unroll 4
    for (int32_t k = 0; k < K; ++k) to[k * POOLED + j] = from[j * K + k];
  }
}

// The reverse.
template <int32_t K, typename F>
inline void join(const F* from, F* to, int64_t m) {
  for (int64_t j = 0; j < m; ++j) {
    #pragma GCC unroll 4
    for (int32_t k = 0; k < K; ++k) to[j * K + k] = from[k * POOLED + j];
  }
}

// As ``forward`` for x [B, H, W], out and chosen [B, H / K, W / K], with C = 1: windows side by side are columns of vectors.
template <typename X, int32_t K>
void forward_plain(void* const* tensors, const int64_t* sizes, int threads) {
  typedef Wider<X> F;
  const int64_t B = sizes[0], H = sizes[1], W = sizes[2], streaming = sizes[4];
  const int64_t rows = H / K, columns = W / K, part = min(columns, POOLED), group = POOLED / part;
  #pragma omp parallel num_threads(threads)
  {
    alignas(64) F wide[K * K][POOLED], best[POOLED];
    alignas(64) X narrow[POOLED];
    const F* values[K * K];
    for (int32_t p = 0; p < K * K; ++p) values[p] = wide[p];
    #pragma omp for schedule(static)
    for (int64_t first = 0; first < B * rows; first += group) {
      const int64_t count = min(group, B * rows - first);
      for (int64_t at = 0; at < columns; at += part) {
        const int64_t m = min(part, columns - at), to = first * columns + at;
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = first + i;
          const X* x = static_cast<const X*>(tensors[0]) + (row / rows * H + row % rows * K) * W + at * K;
          for (int32_t k = 0; k < K; ++k, x += W) {
            for (int64_t j = 0; j < K * m; j += 64 / sizeof(X)) __builtin_prefetch(x + j + AHEAD / sizeof(X));
            split<X, K>(x, wide[k * K] + i * m, m);
          }
        }
        X* out = static_cast<X*>(tensors[1]) + to;
        F* most = direct<F>(out, best, streaming);
        most_of<K>(values, count * m, most, static_cast<uint8_t*>(tensors[2]) + to);
        if (most == best) flush(out, narrowed(narrow, best, count * m), count * m * sizeof(X), streaming);
      }
    }
    settle();
  }
}

// As ``backward``, for images by channels.
template <typename X, int32_t K>
void backward_plain(void* const* tensors, const int64_t* sizes, int threads) {
  typedef Wider<X> F;
  const int64_t B = sizes[0], H = sizes[1], W = sizes[2], streaming = sizes[4];
  const int64_t rows = H / K, columns = W / K, part = min(columns, POOLED), group = POOLED / part;
  const bool whole = part == columns && W == K * columns && H == K * rows;  // rows of windows follow each other
  #pragma omp parallel num_threads(threads)
  {
    alignas(64) F wide[POOLED], parts[K * K][POOLED], joined[K * K * POOLED];
    alignas(64) X narrow[K * K * POOLED];
    #pragma omp for schedule(static)
    for (int64_t first = 0; first < B * rows; first += group) {
      const int64_t count = min(group, B * rows - first);
      for (int64_t at = 0; at < columns; at += part) {
        const int64_t m = min(part, columns - at), from = first * columns + at, n = count * m;
        const F* g = widened(wide, static_cast<const X*>(tensors[0]) + from, n);
        const uint8_t* chosen = static_cast<const uint8_t*>(tensors[1]) + from;
        for (int32_t p = 0; p < K * K; ++p) {
          #pragma omp simd simdlen(16)
          for (int64_t c = 0; c < n; ++c) parts[p][c] = chosen[c] == p ? g[c] + 0 : 0;  // as PyTorch adds to 0: no -0
        }
        X* all = static_cast<X*>(tensors[2]) + first * K * W;
        F* place = direct<F>(all, joined, streaming);
        for (int64_t i = 0; i < count && whole; ++i)
          for (int32_t k = 0; k < K; ++k) join<K>(parts[k * K] + i * m, place + (i * K + k) * W, m);
        if (whole && place == joined) flush(all, narrowed(narrow, joined, n * K * K), n * K * K * sizeof(X), streaming);
        for (int64_t i = 0; i < count && !whole; ++i) {
          const int64_t row = first + i;
          X* d_x = static_cast<X*>(tensors[2]) + (row / rows * H + row % rows * K) * W + at * K;
          for (int32_t k = 0; k < K; ++k, d_x += W) {
            join<K>(parts[k * K] + i * m, joined, m);
            memcpy(d_x, narrowed(narrow, joined, K * m), K * m * sizeof(X));
            if (at + m == columns) memset(d_x + K * m, 0, W % K * sizeof(X));
          }
          if (at == 0 && row % rows == rows - 1) memset(d_x, 0, H % K * W * sizeof(X));
        }
      }
    }
    settle();
  }
}

#define KERNELS(name, X, K)                                                              \
  extern "C" void forward_##name##_##K(void* const* t, const int64_t* s, int threads) {  \
    forward<X, K>(t, s, threads);                                                        \
  }                                                                                      \
  extern "C" void backward_##name##_##K(void* const* t, const int64_t* s, int threads) { \
    backward<X, K>(t, s, threads);                                                       \
  }                                                                                      \
  extern "C" void forward_plain_##name##_##K(void* const* t, const int64_t* s, int n) {  \
    forward_plain<X, K>(t, s, n);                                                        \
  }                                                                                      \
  extern "C" void backward_plain_##name##_##K(void* const* t, const int64_t* s, int n) { \
    backward_plain<X, K>(t, s, n);                                                       \
  }
KERNELS(float32, float, 2)
KERNELS(float32, float, 3)
KERNELS(float32, float, 4)
KERNELS(bfloat16, bfloat16, 2)
KERNELS(bfloat16, bfloat16, 3)
KERNELS(bfloat16, bfloat16, 4)
