// Maximum pooling of channels-last images, in windows K x K that do not overlap; after the prelude.
//
// ``chosen`` is the place of the maximum in its window, in the order of rows: of equal ones the first, and of NaNs the
// last, as in PyTorch. What is left over at the lower and right edge is in no window.

constexpr int64_t STRIP = STRIP_BYTES / sizeof(float);

// K rows of x [K, W, C] to one of out and chosen [W / K, C].
template <int32_t K>
void forward_row(const float* x, float* out, uint8_t* chosen, int64_t W, int64_t C, bool streaming) {
  alignas(64) float best[STRIP];
  for (int64_t column = 0; column < W / K; ++column, x += K * C) {
    for (int64_t at = 0; at < C; at += STRIP) {
      const int64_t m = std::min(STRIP, C - at);
      for (int64_t row = 0; row < K; ++row)
        for (int64_t i = 0; i < K * m; i += 64 / sizeof(float)) __builtin_prefetch(x + row * W * C + at * K + i + AHEAD / 4);
      #pragma omp simd simdlen(16)
      for (int64_t c = 0; c < m; ++c) {
        float most = -INFINITY;
        int32_t place = 0;
        #pragma GCC unroll 16
        for (int32_t p = 0; p < K * K; ++p) {
          const float value = x[(p / K * W + p % K) * C + at + c];
          const bool more = value > most || value != value;
          place = more ? p : place;
          most = more ? value : most;
        }
        best[c] = most;
        chosen[c] = uint8_t(place);
      }
      flush(out, best, m * sizeof(float), streaming);
      out += m;
      chosen += m;
    }
  }
  settle();
}

// The gradient of a row of out [W / K, C] to that of row number y in its windows [W, C].
template <int32_t K>
void backward_row(const float* g, const uint8_t* chosen, float* d_x, int32_t y, int64_t W, int64_t C, bool streaming) {
  alignas(64) float values[STRIP];
  for (int64_t column = 0; column < W / K; ++column, g += C, chosen += C) {
    for (int32_t place = y * K; place < y * K + K; ++place) {
      for (int64_t at = 0; at < C; at += STRIP) {
        const int64_t m = std::min(STRIP, C - at);
        if (place == y * K)
          for (int64_t i = 0; i < m; i += 64 / sizeof(float)) __builtin_prefetch(g + at + i + AHEAD / 4);
        #pragma omp simd simdlen(16)
        for (int64_t c = 0; c < m; ++c) values[c] = int32_t(chosen[at + c]) == place ? g[at + c] : 0.0f;
        flush(d_x, values, m * sizeof(float), streaming);
        d_x += m;
      }
    }
  }
  std::memset(d_x, 0, W % K * C * sizeof(float));
  settle();
}

// tensors: x [B, H, W, C], out and chosen [B, H / K, W / K, C]; sizes: B, H, W, C, streaming.
template <int32_t K>
void forward(void* const* tensors, const int64_t* sizes, int threads) {
  const int64_t B = sizes[0], H = sizes[1], W = sizes[2], C = sizes[3], rows = H / K;
  #pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t row = 0; row < B * rows; ++row) {
    const int64_t from = (row / rows * H + row % rows * K) * W * C, to = row * (W / K) * C;
    float* out = static_cast<float*>(tensors[1]) + to;
    uint8_t* chosen = static_cast<uint8_t*>(tensors[2]) + to;
    forward_row<K>(static_cast<const float*>(tensors[0]) + from, out, chosen, W, C, sizes[4]);
  }
}

// tensors: the gradient of out, chosen, the gradient of x; sizes: as above.
template <int32_t K>
void backward(void* const* tensors, const int64_t* sizes, int threads) {
  const int64_t B = sizes[0], H = sizes[1], W = sizes[2], C = sizes[3], rows = H / K;
  #pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t line = 0; line < B * H; ++line) {
    const int64_t y = line % H, from = (line / H * rows + y / K) * (W / K) * C;
    float* d_x = static_cast<float*>(tensors[2]) + line * W * C;
    if (y < rows * K) {
      const uint8_t* chosen = static_cast<const uint8_t*>(tensors[1]) + from;
      backward_row<K>(static_cast<const float*>(tensors[0]) + from, chosen, d_x, y % K, W, C, sizes[4]);
    } else {
      std::memset(d_x, 0, W * C * sizeof(float));
    }
  }
}

extern "C" {
void forward2(void* const* tensors, const int64_t* sizes, int threads) { forward<2>(tensors, sizes, threads); }
void forward3(void* const* tensors, const int64_t* sizes, int threads) { forward<3>(tensors, sizes, threads); }
void forward4(void* const* tensors, const int64_t* sizes, int threads) { forward<4>(tensors, sizes, threads); }
void backward2(void* const* tensors, const int64_t* sizes, int threads) { backward<2>(tensors, sizes, threads); }
void backward3(void* const* tensors, const int64_t* sizes, int threads) { backward<3>(tensors, sizes, threads); }
void backward4(void* const* tensors, const int64_t* sizes, int threads) { backward<4>(tensors, sizes, threads); }
}
