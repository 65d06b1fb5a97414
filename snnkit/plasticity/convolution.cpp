// The weights of a convolution after one step, at the cost of the spikes: nothing is laid out by positions.
//
// Where a neuron of an output channel fires, the weights of its channel gain the traces of all inputs that it sees.
// Where one of an input channel fires, the weights from its channel lose the traces of all outputs that see it. Traces
// have their channels side by side, so that many channels are added at once.
//
// B samples; C input channels of H by W neurons; O output channels of Y by X; G groups of channels; kernels KY by KX.

// A product and its sum in one operation, where there is one.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

namespace {

enum Bound { NONE, HARD, SOFT };

template <class F>
struct Task {
    const F *up_post, *up_pre;      // [B, O, Y, X], [B, H, W, C]
    const F *down_post, *down_pre;  // [B, Y, X, O], [B, C, H, W]
    const F *weight;                // [O, C / G, KY, KX]
    F *out;                         // the same, or the weight itself
    int64_t B, C, H, W, O, Y, X, G, KY, KX, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
    F up, down, low, high;
};

template <class F>
void add(F *__restrict__ to, const F *__restrict__ from, F factor, int64_t count) {
    for (int64_t k = 0; k < count; k++) to[k] += factor * from[k];
}

// Hands each spike's index to `act`. Most are 0, and looked at in bunches.
template <class F, class Act>
void each_spike(const F *spikes, int64_t count, Act act) {
    constexpr int BUNCH = 32;
    for (int64_t first = 0; first < count; first += BUNCH) {
        const int64_t end = std::min(first + BUNCH, count);
        if (end - first == BUNCH) {
            int any = 0;
            for (int k = 0; k < BUNCH; k++) any |= spikes[first + k] != 0;
            if (!any) continue;
        }
        for (int64_t l = first; l < end; l++)
            if (spikes[l] != 0) act(l);
    }
}

// What an output channel gains: `sum` [KY, KX, C / G].
template <class F>
void gain(const Task<F> &task, int64_t o, F *sum) {
    const int64_t inputs = task.C / task.G, first = o / (task.O / task.G) * inputs;
    const bool side_by_side = task.G == 1 && task.dilation_x == 1;
    for (int64_t b = 0; b < task.B; b++) {
        const F *fires = task.up_post + (b * task.O + o) * task.Y * task.X;
        each_spike(fires, task.Y * task.X, [&](int64_t l) {
            const int64_t left = l % task.X * task.stride_x - task.pad_x;
            const int64_t top = l / task.X * task.stride_y - task.pad_y;
            for (int64_t ky = 0; ky < task.KY; ky++) {
                const int64_t y = top + ky * task.dilation_y;
                if (y < 0 || y >= task.H) continue;
                const F *row = task.up_pre + (b * task.H + y) * task.W * task.C + first;
                F *to = sum + ky * task.KX * inputs;
                if (side_by_side) {
                    const int64_t begin = std::max<int64_t>(0, -left), end = std::min(task.KX, task.W - left);
                    if (begin < end)
                        add(to + begin * inputs, row + (left + begin) * task.C, fires[l], (end - begin) * inputs);
                    continue;
                }
                for (int64_t kx = 0; kx < task.KX; kx++) {
                    const int64_t x = left + kx * task.dilation_x;
                    if (x >= 0 && x < task.W) add(to + kx * inputs, row + x * task.C, fires[l], inputs);
                }
            }
        });
    }
}

// The positions at which a part of the kernel meets a neuron, -1 where it does not: [neurons, kernel].
std::vector<int64_t> meeting(int64_t neurons, int64_t kernel, int64_t positions, int64_t stride, int64_t pad,
                             int64_t dilation) {
    std::vector<int64_t> table(neurons * kernel, -1);
    for (int64_t n = 0; n < neurons; n++)
        for (int64_t k = 0; k < kernel; k++) {
            const int64_t from = n + pad - k * dilation;
            if (from >= 0 && from % stride == 0 && from / stride < positions) table[n * kernel + k] = from / stride;
        }
    return table;
}

// What the weights from an input channel lose: `sum` [KY, KX, O / G].
template <class F>
void loss(const Task<F> &task, int64_t c, const int64_t *rows, const int64_t *columns, F *sum) {
    const int64_t outputs = task.O / task.G, first = c / (task.C / task.G) * outputs;
    for (int64_t b = 0; b < task.B; b++) {
        const F *fires = task.down_pre + (b * task.C + c) * task.H * task.W;
        each_spike(fires, task.H * task.W, [&](int64_t l) {
            const int64_t *y = rows + l / task.W * task.KY, *x = columns + l % task.W * task.KX;
            for (int64_t ky = 0; ky < task.KY; ky++)
                for (int64_t kx = 0; kx < task.KX; kx++)
                    if (y[ky] >= 0 && x[kx] >= 0)
                        add(sum + (ky * task.KX + kx) * outputs,
                            task.down_post + ((b * task.Y + y[ky]) * task.X + x[kx]) * task.O + first, fires[l],
                            outputs);
        });
    }
}

template <class F>
void run(const Task<F> &task, Bound bound, int threads) {
    const int64_t inputs = task.C / task.G, outputs = task.O / task.G, kernel = task.KY * task.KX;
    std::vector<F> gains(task.O * kernel * inputs), losses(task.C * kernel * outputs);
    const auto rows = meeting(task.H, task.KY, task.Y, task.stride_y, task.pad_y, task.dilation_y);
    const auto columns = meeting(task.W, task.KX, task.X, task.stride_x, task.pad_x, task.dilation_x);
#pragma omp parallel num_threads(threads)
    {
        if (task.up != 0) {
#pragma omp for nowait schedule(dynamic)
            for (int64_t o = 0; o < task.O; o++) gain(task, o, gains.data() + o * kernel * inputs);
        }
        if (task.down != 0) {
#pragma omp for schedule(dynamic)
            for (int64_t c = 0; c < task.C; c++)
                loss(task, c, rows.data(), columns.data(), losses.data() + c * kernel * outputs);
        }
#pragma omp barrier
#pragma omp for
        for (int64_t o = 0; o < task.O; o++)
            for (int64_t i = 0; i < inputs; i++)
                for (int64_t k = 0; k < kernel; k++) {
                    const int64_t at = (o * inputs + i) * kernel + k, c = o / outputs * inputs + i;
                    F more = task.up * gains[(o * kernel + k) * inputs + i];
                    F less = task.down * losses[(c * kernel + k) * outputs + o % outputs];
                    F w = task.weight[at];
                    if (bound == SOFT) more *= task.high - w, less *= w - task.low;
                    w += more - less;
                    if (bound != NONE) {
                        w = w < task.low ? task.low : w;
                        w = w > task.high ? task.high : w;
                    }
                    task.out[at] = w;
                }
    }
}

template <class F>
int changed(void *const *tensors, const int64_t *sizes, const double *numbers, int bound, int threads) {
    const F *const *in = (const F *const *)tensors;
    const int64_t *s = sizes;
    const Task<F> task{in[0], in[1], in[2], in[3], in[4],  (F *)tensors[5], s[0],          s[1],          s[2],
                       s[3],  s[4],  s[5],  s[6],  s[7],   s[8],            s[9],          s[10],         s[11],
                       s[12], s[13], s[14], s[15], (F)numbers[0], (F)numbers[1], (F)numbers[2], (F)numbers[3]};
    try {
        run(task, (Bound)bound, threads);
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

}  // namespace

// 0, or 1 where there was too little memory; then nothing has been written.
extern "C" int convolution_float32(void *const *tensors, const int64_t *sizes, const double *numbers, int bound,
                                   int threads) {
    return changed<float>(tensors, sizes, numbers, bound, threads);
}

extern "C" int convolution_float64(void *const *tensors, const int64_t *sizes, const double *numbers, int bound,
                                   int threads) {
    return changed<double>(tensors, sizes, numbers, bound, threads);
}
