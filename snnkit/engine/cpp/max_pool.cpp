// Maximum pooling of channels-last images, a row of windows at a time; after the prelude and the rows. What is left over
// at the lower edge is in no window.

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
