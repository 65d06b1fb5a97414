// Weights that change step by step, a few rows at a time and all steps over them, so that they stay in the cache.
//
// Of the spikes, most are 0. A row changes as a whole where its own neuron fires, and otherwise in the columns whose
// neurons fire: so columns are taken in blocks of a vector's width, and blocks in which no neuron fires are skipped.
// Bounds are applied to the whole row in the first step (which is not written where it is within them), and after that
// to what has changed.
//
// T steps, S samples, P rows, N columns.

// A product and its sum in one operation, where there is one.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

// GCC would rather call it, at twice the time for a small layer.
#define ALWAYS_INLINE __attribute__((always_inline)) inline

namespace {

enum Bound { NONE, HARD, SOFT };

constexpr int ROWS = 8;  // at a time: as many sums as hide the time that an addition takes

// Bytes; compilers keep vectors that are wider than the machine's in memory.
#if defined(__AVX512F__)
constexpr int VECTOR = 64;
#elif defined(__AVX__)
constexpr int VECTOR = 32;
#else
constexpr int VECTOR = 16;
#endif

template <class F>
struct Wide {
    static constexpr int SIZE = VECTOR / sizeof(F);
    typedef F V __attribute__((vector_size(VECTOR)));
};

template <class F>
struct Task {
    const F *up_post, *up_pre;      // [T, S, P], [T, S, N]: what increases, where the first is not 0
    const F *down_post, *down_pre;  // the same, of what decreases, where the second is not 0
    const F *weight;                // [P, N]
    F *out;                         // the same, or the weight itself
    int64_t T, S, P, N;
    F up, down, low, high;
};

// Of what decreases: for each step and block of columns the samples in which one of its neurons fires.
template <class F>
struct Firing {
    int64_t blocks;
    std::vector<int64_t> start;   // [T blocks + 1]
    std::vector<int32_t> sample;
    std::vector<F> value;         // `down` times the block of columns, 0 beyond the last
};

// A row of traces, and what it counts.
template <class F>
struct Factor {
    const F *row;
    F factor;
};

template <class F, bool WHOLE>
inline typename Wide<F>::V load(const F *from, int64_t count) {
    typename Wide<F>::V v = {};
    std::memcpy(&v, from, WHOLE ? sizeof v : count * sizeof(F));
    return v;
}

template <class F, bool WHOLE>
inline void store(F *to, typename Wide<F>::V v, int64_t count) {
    std::memcpy(to, &v, WHOLE ? sizeof v : count * sizeof(F));
}

template <class F>
Firing<F> firing(const Task<F> &task) {
    constexpr int SIZE = Wide<F>::SIZE;
    Firing<F> firing;
    firing.blocks = (task.N + SIZE - 1) / SIZE;
    firing.start.assign(task.T * firing.blocks + 1, 0);
    if (task.down == 0) return firing;
    firing.sample.reserve(firing.blocks), firing.value.reserve(firing.blocks * SIZE);  // a step of one sample
    int64_t *end = firing.start.data() + 1;
    for (int64_t t = 0; t < task.T; t++)
        for (int64_t column = 0; column < task.N; column += SIZE) {
            const int64_t count = std::min<int64_t>(SIZE, task.N - column);
            for (int64_t s = 0; s < task.S; s++) {
                const F *from = task.down_pre + (t * task.S + s) * task.N + column;
                int any = 0;
                if (count == SIZE)
                    for (int k = 0; k < SIZE; k++) any |= from[k] != 0;
                else
                    for (int k = 0; k < count; k++) any |= from[k] != 0;
                if (!any) continue;
                firing.sample.push_back((int32_t)s);
                const size_t first = firing.value.size();
                firing.value.resize(first + SIZE);
                for (int k = 0; k < count; k++) firing.value[first + k] = task.down * from[k];
            }
            *end++ = (int64_t)firing.sample.size();
        }
    return firing;
}

// R rows of one block of columns, of which `count` are left if it is not whole.
template <class F, int R, Bound BOUND, bool WHOLE>
ALWAYS_INLINE void change(const Task<F> &task, const F *up, const F *value, const int32_t *sample, int64_t firing,
                          const F *down, const F *from, F *to, int64_t count) {
    using V = typename Wide<F>::V;
    V less[R] = {};
    for (int64_t i = 0; i < firing; i++) {
        const V v = load<F, true>(value + i * Wide<F>::SIZE, 0);
        const F *post = down + sample[i] * task.P;
        for (int r = 0; r < R; r++) less[r] += post[r] * v;
    }
    const V low = V{} + task.low, high = V{} + task.high;
    for (int r = 0; r < R; r++) {
        V w = load<F, WHOLE>(from + r * task.N, count);
        const V more = up ? load<F, WHOLE>(up + r * task.N, count) : V{};
        if (BOUND == SOFT)
            w += more * (high - w) - less[r] * (w - low);
        else
            w += more - less[r];
        if (BOUND != NONE) {
            w = w < low ? low : w;
            w = w > high ? high : w;
        }
        store<F, WHOLE>(to + r * task.N, w, count);
    }
}

// The sum of `count` rows of N columns, each times its factor.
template <class F>
void sum(const Factor<F> *factors, int64_t count, int64_t N, F *__restrict__ to) {
    using V = typename Wide<F>::V;
    constexpr int SIZE = Wide<F>::SIZE, AT_ONCE = 4;  // vectors that stay in registers
    int64_t k = 0;
    for (; k + AT_ONCE * SIZE <= N; k += AT_ONCE * SIZE) {
        V total[AT_ONCE] = {};
        for (int64_t i = 0; i < count; i++)
            for (int v = 0; v < AT_ONCE; v++)
                total[v] += factors[i].factor * load<F, true>(factors[i].row + k + v * SIZE, 0);
        for (int v = 0; v < AT_ONCE; v++) store<F, true>(to + k + v * SIZE, total[v], 0);
    }
    for (; k < N; k += SIZE) {
        const int64_t left = N - k;
        V total = {};
        for (int64_t i = 0; i < count; i++) {
            const F *row = factors[i].row + k;
            total += factors[i].factor * (left < SIZE ? load<F, false>(row, left) : load<F, true>(row, 0));
        }
        left < SIZE ? store<F, false>(to + k, total, left) : store<F, true>(to + k, total, 0);
    }
}

// What the firing of R rows brings to each of their columns, written to `up` [R, N]; false if none fires.
template <class F, int R>
bool increase(const Task<F> &task, int64_t t, int64_t row, Factor<F> *factors, F *up) {
    if (task.up == 0) return false;
    int64_t count[R] = {}, all = 0;
    for (int64_t s = 0; s < task.S; s++) {
        const F *fire = task.up_post + (t * task.S + s) * task.P + row;
        for (int r = 0; r < R; r++)
            if (fire[r] != 0) {
                const F *trace = task.up_pre + (t * task.S + s) * task.N;
                factors[r * task.S + count[r]++] = {trace, task.up * fire[r]};
                all++;
            }
    }
    if (all)
        for (int r = 0; r < R; r++) sum(factors + r * task.S, count[r], task.N, up + r * task.N);
    return all;
}

// Whether no weight of so many is beyond the bounds.
template <class F>
__attribute__((noinline)) bool within(const F *weight, int64_t count, F low, F high) {
    constexpr int WIDTH = 64;  // as many as hide the time that a comparison takes
    F least[WIDTH], most[WIDTH];
    for (int j = 0; j < WIDTH; j++) least[j] = high, most[j] = low;
    int64_t k = 0;
    for (; k + WIDTH <= count; k += WIDTH)
#pragma omp simd
        for (int j = 0; j < WIDTH; j++) {
            least[j] = std::min(least[j], weight[k + j]);
            most[j] = std::max(most[j], weight[k + j]);
        }
    int beyond = 0;
    for (; k < count; k++) beyond |= (weight[k] < low) | (weight[k] > high);
    for (int j = 0; j < WIDTH; j++) beyond |= (least[j] < low) | (most[j] > high);
    return !beyond;
}

// All steps of R rows.
template <class F, int R, Bound BOUND>
void rows(const Task<F> &task, const Firing<F> &fired, int64_t row, Factor<F> *factors, F *scratch) {
    constexpr int SIZE = Wide<F>::SIZE;
    const int64_t whole = task.N / SIZE;
    const F *weight = task.weight + row * task.N;
    F *out = task.out + row * task.N;
    for (int64_t t = 0; t < task.T; t++) {
        const F *up = increase<F, R>(task, t, row, factors, scratch) ? scratch : nullptr;
        const F *down = task.down_post + t * task.S * task.P + row;
        const F *from = t == 0 ? weight : out;
        bool everywhere = up || (t == 0 && weight != out);
        if (BOUND != NONE && t == 0 && !everywhere) everywhere = !within(weight, R * task.N, task.low, task.high);
        const int64_t *start = fired.start.data() + t * fired.blocks;
        for (int64_t b = 0; b < fired.blocks; b++) {
            const int64_t firing = start[b + 1] - start[b], k = b * SIZE;
            if (!everywhere && !firing) continue;
            const F *more = up ? up + k : nullptr, *value = fired.value.data() + start[b] * SIZE;
            const int32_t *sample = fired.sample.data() + start[b];
            if (b < whole)
                change<F, R, BOUND, true>(task, more, value, sample, firing, down, from + k, out + k, 0);
            else
                change<F, R, BOUND, false>(task, more, value, sample, firing, down, from + k, out + k, task.N - k);
        }
    }
}

template <class F, Bound BOUND>
void run(const Task<F> &task, int threads) {
    const Firing<F> fired = firing(task);
    bool failed = false;  // exceptions must not leave the parallel part
#pragma omp parallel num_threads(threads)
    {
        std::unique_ptr<F[]> scratch(new (std::nothrow) F[ROWS * task.N]);
        std::unique_ptr<Factor<F>[]> factors(new (std::nothrow) Factor<F>[ROWS * task.S]);
        if (!scratch || !factors) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp barrier
#pragma omp for
        for (int64_t tile = 0; tile < task.P; tile += ROWS) {
            if (failed) continue;
            const int64_t end = std::min(tile + ROWS, task.P);
            for (int64_t row = tile; row < end;)
                if (end - row == ROWS)
                    rows<F, ROWS, BOUND>(task, fired, row, factors.get(), scratch.get()), row += ROWS;
                else if (end - row >= ROWS / 2)
                    rows<F, ROWS / 2, BOUND>(task, fired, row, factors.get(), scratch.get()), row += ROWS / 2;
                else
                    rows<F, 1, BOUND>(task, fired, row, factors.get(), scratch.get()), row += 1;
        }
    }
    if (failed) throw std::bad_alloc();
}

template <class F>
int changed(void *const *tensors, const int64_t *sizes, const double *numbers, int bound, int threads) {
    const F *const *in = (const F *const *)tensors;
    const Task<F> task{in[0],    in[1],    in[2],    in[3],         in[4],         (F *)tensors[5], sizes[0],
                       sizes[1], sizes[2], sizes[3], (F)numbers[0], (F)numbers[1], (F)numbers[2],   (F)numbers[3]};
    try {
        if (bound == HARD)
            run<F, HARD>(task, threads);
        else if (bound == SOFT)
            run<F, SOFT>(task, threads);
        else
            run<F, NONE>(task, threads);
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

// Traces [T, N] of spikes: trace ← decay trace + spikes.
template <class F>
void traced(const F *spikes, const F *start, F *trace, int64_t T, int64_t N, F decay) {
    for (int64_t t = 0; t < T; t++, start = trace, trace += N, spikes += N)
#pragma omp simd
        for (int64_t k = 0; k < N; k++) trace[k] = decay * start[k] + spikes[k];
}

// One step: tensors as for `changed`, but with the traces before it, then where its own go; numbers, then decays.
template <class F>
int stepped(void *const *tensors, const int64_t *sizes, const double *numbers, int bound, int threads) {
    const F *const *in = (const F *const *)tensors;
    F *const pre = (F *)tensors[6], *const post = (F *)tensors[7];
    traced(in[3], in[1], pre, 1, sizes[1] * sizes[3], (F)numbers[4]);
    traced(in[0], in[2], post, 1, sizes[1] * sizes[2], (F)numbers[5]);
    void *const with[] = {tensors[0], pre, post, tensors[3], tensors[4], tensors[5]};
    return changed<F>(with, sizes, numbers, bound, threads);
}

}  // namespace

// `kernel` and `step` give 0, or 1 where there was too little memory; then no weight has been written.
#define CALL (void *const *tensors, const int64_t *sizes, const double *numbers, int bound, int threads)
#define EXPORT(NAME, F)                                                                                         \
    extern "C" int kernel_##NAME CALL { return changed<F>(tensors, sizes, numbers, bound, threads); }           \
    extern "C" int step_##NAME CALL { return stepped<F>(tensors, sizes, numbers, bound, threads); }             \
    extern "C" void trace_##NAME(void *const *tensors, int64_t T, int64_t N, double decay) {                    \
        traced((const F *)tensors[0], (const F *)tensors[1], (F *)tensors[2], T, N, (F)decay);                  \
    }
EXPORT(float32, float) EXPORT(float64, double)
