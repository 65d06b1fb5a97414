"""The operations that PopTorch 3.4 supports, by their names in PyTorch's dispatcher.

They come from its user guide (docs/user_guide/supported_ops.rst). The guide leaves out some parts of layers; these come
from the handlers in its sources (poptorch/source/popart_canonicalization); © Graphcore Ltd., MIT licence. An in-place
form counts as its operation. Two operations look doubtful, but its tests use them, in training, too:
``x[mask] = value`` is recorded as a ``where`` (tests/index_ops_test.py), and ``sort`` has a gradient
(tests/math_ops_test.py).
"""

from __future__ import annotations

# As in the guide, without "torch." and "torch.nn.functional."; the parts of layers (capitals) are below.
DOCUMENTED = {
    "creation": "arange fill full full_like new_full new_ones new_zeros ones ones_like zeros zeros_like",
    "indexing": (
        "bucketize cat chunk gather index_select index_reduce reshape roll scatter scatter_add scatter_reduce stack "
        "split squeeze t transpose unbind unsqueeze where expand expand_as masked_fill index_fill"
    ),
    "random": "bernoulli randn normal rand uniform exponential randint random randperm",
    "pointwise": (
        "abs acos acosh add addcdiv addcmul amax amin asin asinh atan atanh bitwise_and bitwise_not bitwise_or "
        "bitwise_xor cdist ceil clamp clamp_max clamp_min cos cosh div exp expm1 floor floor_divide fmod frac log "
        "log10 log1p log2 logical_and logical_or mul norm neg pow reciprocal remainder round rsqrt sigmoid sign sin "
        "sinh sqrt square sub tan tanh true_divide trunc"
    ),
    "reduction": "all any argmax argmin count_nonzero mean median prod logsumexp std std_mean sum var var_mean",
    "comparison": "eq ge gt le lt max min ne isnan topk argsort sort maximum minimum",
    "linear algebra": "linalg_norm linalg_matrix_norm linalg_vector_norm addmm matmul bmm baddbmm mm",
    "other": "cumsum cumprod cross meshgrid cartesian_prod tensordot einsum one_hot",
    "activations": (
        "elu celu gelu mish hardshrink leaky_relu log_softmax relu selu silu softmax softplus softsign softshrink "
        "prelu rrelu hardtanh glu threshold"
    ),
    "losses": (
        "l1_loss mse_loss cross_entropy nll_loss binary_cross_entropy kl_div poisson_nll_loss "
        "hinge_embedding_loss binary_cross_entropy_with_logits smooth_l1_loss soft_margin_loss cosine_embedding_loss "
        "margin_ranking_loss triplet_margin_loss ctc_loss"
    ),
}
# Registered in the sources, but not in the guide.
REGISTERED = (
    "atan2 erf erfc rsub logical_not logical_xor log_sigmoid hardsigmoid flip repeat index index_put nansum "
    "hardswish unfold cosine_similarity pairwise_distance pixel_shuffle im2col col2im narrow dot mv "
    "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d constant_pad_nd"
)
# Parts of documented layers and functions below autograd, in current versions of PyTorch.
COMES_DOWN_TO = (
    "_softmax _log_softmax cross_entropy_loss log_sigmoid_forward nll_loss_forward nll_loss2d_forward native_dropout "
    "convolution convolution_overrideable max_pool2d_with_indices max_pool3d_with_indices max_pool1d_with_indices "
    "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d "
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
    "_native_batch_norm_legit_no_training _batch_norm_with_update native_group_norm native_layer_norm "
    "_prelu_kernel rrelu_with_noise rrelu_with_noise_functional embedding _embedding_bag _weight_norm_interface "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bicubic2d _cdist_forward "
    "_ctc_loss _unsafe_index linalg_cross _trilinear"
)
# Views, copies and memory: PopTorch's dispatcher handles them itself, or they do not reach an IPU.
MEMORY = (
    "empty empty_like empty_strided new_empty new_empty_strided alias detach clone contiguous _to_copy to copy_ "
    "lift lift_fresh lift_fresh_copy as_strided view _unsafe_view _reshape_alias view_as_real permute select slice "
    "diagonal unsafe_split unsafe_split_with_sizes split_with_sizes unflatten flatten movedim swapaxes zero "
    "scalar_tensor"
)

SUPPORTED = frozenset(
    name for group in (*DOCUMENTED.values(), REGISTERED, COMES_DOWN_TO, MEMORY) for name in group.split()
)
# The size of their result depends on values, so they cannot be part of a static graph.
SIZE_FROM_VALUES = frozenset({"nonzero", "masked_select", "unique_dim", "_unique2", "unique_consecutive", "bincount"})


def is_supported(name: str) -> bool:
    """Whether PopTorch 3.4 supports an operation, by its name without "aten::" and overload ("add", "add_", "gt")."""
    if name == "bernoulli_":  # no handler, although "bernoulli" has one
        return False
    # A profiler's marks compute nothing.
    return name.startswith("profiler::") or name in SUPPORTED or name.removesuffix("_") in SUPPORTED
