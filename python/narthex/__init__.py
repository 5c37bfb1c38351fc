"""Narthex: a deep-learning framework and graph compiler written in C, with PyTorch's names.

    import narthex as torch

Tensors, operators, autograd, graphs and capture live in the extension `narthex._C`; the Python files are shapes,
defaults and glue. Submodules are imported when they are first named, so that `import narthex` stays cheap.
"""

from . import _C
from ._C import (
    Generator,
    Size,
    allclose,
    default_generator,
    device,
    dtype,
    equal,
    get_default_dtype,
    get_num_threads,
    initial_seed,
    is_grad_enabled,
    is_inference_mode_enabled,
    nonzero,
    set_default_dtype,
    set_num_threads,
    tensor,
)
from ._named_dtypes import NAMED

narthex_version = "0.1.0"
__version__ = "2.13.0"  # the PyTorch whose programs run here: they compare it


# Of these _foreach.py has more forms than the operators of `_C`.
_FOREACH_FORMS = {f"_foreach_{base}_" for base in ("add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv")}


def _take_from_extension() -> None:
    """Puts the dtypes, layouts, memory formats and operator functions of `_C` beside the names above.

    They are copied once, not looked up on demand: code that is being captured reads them as plain module globals.
    """
    kinds = {type(_C.add), dtype}
    for name in ("layout", "memory_format"):
        if hasattr(_C, name):
            kinds.add(getattr(_C, name))
            globals()[name] = getattr(_C, name)
    for name, value in vars(_C).items():
        if type(value) in kinds and name not in _FOREACH_FORMS:
            globals()[name] = value
    globals().setdefault("layout", type(_C.strided))
    globals().update(NAMED)
    aliases = {
        "float": "float32",
        "double": "float64",
        "half": "float16",
        "int": "int32",
        "long": "int64",
        "short": "int16",
        "chalf": "complex32",
        "cfloat": "complex64",
        "cdouble": "complex128",
    }
    for alias, name in aliases.items():
        globals()[alias] = getattr(_C, name)


_take_from_extension()

from ._tensor import Tensor  # noqa: E402  (needs the names above)
from .autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402

_C.register_tensor_class(Tensor)


def _of_frames(name: str):
    """torch._C._dynamo.eval_frame's names that are Python: loaded when first asked for."""
    from ._dynamo import types

    if name not in types._NAMES:
        raise AttributeError(f"module 'narthex._C._dynamo.eval_frame' has no attribute '{name}'")
    return getattr(types, name)


def _of_extension(name: str):
    """torch._C's names that are Python, modules and types."""
    from ._extension_rest import of_extension

    return of_extension(name)


def _tracing_state():
    """What torch.jit._get_trace_graph records into, None outside of it."""
    from sys import modules

    recorders = getattr(modules.get("narthex.jit._trace"), "_tracing", None)
    return recorders[-1] if recorders and hasattr(recorders[-1], "push_scope") else None


_C._dynamo.eval_frame.__getattr__ = _of_frames
_C.__getattr__, _C.__path__ = _of_extension, [f"{__path__[0]}/_extension"]
_C._TensorMeta = type(Tensor)
_C._are_functorch_transforms_active = lambda: False  # inside torch.func, tensors are tensors
def _is_tracing() -> bool:
    """Whether this is inside of torch.jit.trace."""
    from sys import modules

    return getattr(modules.get("narthex.jit._trace"), "_tracing", []) != []


_C._get_tracing_state, _C._is_tracing = _tracing_state, _is_tracing
_C._log_api_usage_once = lambda event: None  # what is used, nobody is told

_SUBMODULES = (
    "__config__", "__future__", "_decomp", "_dynamo", "_export", "_functorch", "_guards", "_higher_order_ops",
    "_inductor", "_lazy", "_logging", "_ops", "_prims", "_refs", "_subclasses", "_tensor_str", "_utils",
    "accelerator", "amp", "ao", "autograd", "backends", "bridge", "compiler", "cpu", "cuda", "distributed",
    "distributions", "export", "fft", "func", "functional", "futures", "fx", "hub", "jit", "library", "linalg",
    "masked", "model_file", "monitor", "mps", "mtia", "multiprocessing", "nested", "nn", "onnx", "optim", "overrides",
    "package", "profiler", "quantization", "quasirandom", "random", "return_types", "serialization", "signal",
    "sparse", "special", "testing", "types", "utils", "version", "xpu",
)  # fmt: skip
_LAZY = {
    "DispatchKey": "_C",
    "DispatchKeySet": "_C",
    "_TorchCompileWrapper": "_compile",
    "Future": "futures",
    "as_tensor": "_from_numpy",
    "asarray": "_from_numpy",
    "autocast": "amp",
    "broadcast_shapes": "functional",
    "broadcast_tensors": "functional",
    "broadcast_to": "functional",
    "clear_autocast_cache": "_C",
    "compile": "_compile",
    "cond": "_higher_order_ops",
    "einsum": "functional",
    "from_dlpack": "utils.dlpack",
    "from_numpy": "_from_numpy",
    "frombuffer": "_from_numpy",
    "get_rng_state": "random",
    "include_dir": "_paths",
    "lib_dir": "_paths",
    "is_anomaly_check_nan_enabled": "autograd.anomaly_mode",
    "is_anomaly_enabled": "autograd.anomaly_mode",
    "load": "serialization",
    "istft": "_spectrum",
    "matrix_power": "linalg",
    "meshgrid": "functional",
    "norm": "functional",
    "ops": "_ops",
    "save": "serialization",
    "set_printoptions": "_tensor_str",
    "set_rng_state": "random",
    "stft": "_spectrum",
    "vmap": "_vmap",
}
_LAZY["thread_safe_generator"] = "random"
for _name in (
    "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor",
    "sparse_csr_tensor",
):  # fmt: skip
    _LAZY[_name] = "sparse._make"
for _name in (
    "_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo", "dsmm", "hsmm", "hspmm",
    "ccol_indices_copy", "col_indices_copy", "crow_indices_copy", "indices_copy", "native_norm", "resize_as_sparse_",
    "row_indices_copy", "saddmm", "smm", "spmm", "sspaddmm", "values_copy",
):  # fmt: skip
    _LAZY[_name] = "sparse._functions"
for _name in ("FatalError", "JITException", "ScriptFunction", "ScriptModule", "fork", "wait"):
    _LAZY[_name] = "jit"
for _name in ("pca_lowrank", "svd_lowrank"):
    _LAZY[_name] = "_lowrank"
for _name in ("_chunk_cat", "_segment_reduce", "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate",
              "segment_reduce"):  # fmt: skip
    _LAZY[_name] = "_segments"
for _name in ("gru", "lstm", "rnn_relu", "rnn_tanh"):
    _LAZY[_name] = "_recurrent"
for _name in (
    "block_diag", "cdist", "corrcoef", "cov", "cumulative_trapezoid", "diff", "gradient", "pdist", "renorm", "rot90",
    "tensordot", "trapezoid", "trapz",
):  # fmt: skip
    _LAZY[_name] = "_composed"
for _name in ("bartlett", "blackman", "hamming", "hann", "kaiser"):
    _LAZY[_name + "_window"] = "signal.windows"
for _name in ("can_cast", "finfo", "iinfo", "promote_types", "result_type"):
    _LAZY[_name] = "_type_info"
for _name in (
    "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_assert_scalar", "_check", "_check_index",
    "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "sym_float", "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not",
    "sym_constrain_range", "sym_constrain_range_for_size", "sym_sqrt", "sym_sum",
):  # fmt: skip
    _LAZY[_name] = "_symbolic"
for _name in ("embedding_bag", "embedding_renorm_"):
    _LAZY[_name] = "_bags"
for _name in (
    "affine_grid_generator", "batch_norm_update_stats", "bilinear", "celu_", "chain_matmul", "conv_tbc", "ctc_loss",
    "fill", "frobenius_norm", "get_device", "instance_norm", "is_inference", "lu", "native_batch_norm",
    "_batch_norm_with_update", "_native_batch_norm_legit",
    "norm_except_dim", "nuclear_norm", "range", "resize_as_", "rrelu", "rrelu_", "threshold_", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes", "vander",
):  # fmt: skip
    _LAZY[_name] = "_older"
for _name in (
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "GradScaler", "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype", "has_lapack", "has_mkl", "has_openmp", "has_spectral", "init_num_threads",
    "is_autocast_cpu_enabled", "is_distributed", "is_warn_always_enabled", "set_anomaly_enabled",
    "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_gpu_dtype", "set_default_tensor_type",
    "set_flush_denormal", "set_warn_always",
    *(form.format(name) for name in ("ipu", "xla") for form in (
        "get_autocast_{}_dtype", "set_autocast_{}_dtype", "is_autocast_{}_enabled", "set_autocast_{}_enabled")),
):  # fmt: skip
    _LAZY[_name] = "_settings_rest"
for _name in ("Argument", "FunctionSchema", "parse_schema"):
    _LAZY[_name] = "_function_schema"
_LAZY["FileCheck"] = "testing"
_LAZY["lobpcg"] = "_lobpcg"
_LAZY["Tag"] = "_tags"
for _name in ("dequantize", "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"):
    _LAZY[_name] = "_quantised"
for _name in (
    "AVG", "AggregationType", "SUM", "batch_norm_backward_elemt", "batch_norm_backward_reduce", "batch_norm_elemt",
    "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts", "batch_norm_stats", "cudnn_affine_grid_generator",
    "cudnn_batch_norm", "cudnn_convolution", "cudnn_convolution_add_relu", "cudnn_convolution_relu",
    "cudnn_convolution_transpose", "cudnn_grid_sampler", "cudnn_is_acceptable", "int_repr", "is_vulkan_available",
    "miopen_batch_norm", "miopen_convolution", "miopen_convolution_add_relu", "miopen_convolution_relu",
    "miopen_convolution_transpose", "miopen_ctc_loss", "miopen_depthwise_convolution", "miopen_rnn",
    "mkldnn_adaptive_avg_pool2d", "mkldnn_convolution", "mkldnn_linear_backward_weights", "mkldnn_max_pool2d",
    "mkldnn_max_pool3d", "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric", "q_per_channel_axis", "q_per_channel_scales",
    "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme", "quantized_batch_norm", "quantized_max_pool1d",
    "quantized_max_pool2d", "quantized_max_pool3d",
):  # fmt: skip
    _LAZY[_name] = "_other_backends"
_LAZY["ThroughputBenchmark"] = "utils.throughput_benchmark"
for _name in ("as_strided_", "from_file", "hash_tensor", "slice_inverse"):
    _LAZY[_name] = "_tensor_rest"
for _name in ("histc", "histogram", "histogramdd", "nanquantile", "quantile", "unique", "unique_consecutive"):
    _LAZY[_name] = "_distinct"
for _name in (
    "atleast_1d", "atleast_2d", "atleast_3d", "cartesian_prod", "combinations", "dsplit", "hsplit", "index_reduce",
    "is_nonzero", "is_same_size", "is_signed", "scalar_tensor", "unravel_index", "vsplit",
):  # fmt: skip
    _LAZY[_name] = "_methods"
for _name in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"):
    _LAZY[_name + "Tensor"] = "_legacy"
    _LAZY[_name + "Storage"] = "storage"
for _name in ("ComplexFloatStorage", "ComplexDoubleStorage", "TypedStorage", "UntypedStorage", "is_storage"):
    _LAZY[_name] = "storage"
for _name in (
    "autocast_decrement_nesting", "autocast_increment_nesting", "get_autocast_dtype", "is_autocast_cache_enabled",
    "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled",
):  # fmt: skip
    _LAZY[_name] = "amp.autocast_mode"
for _name in (
    "are_deterministic_algorithms_enabled", "get_float32_matmul_precision", "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled", "set_default_device", "set_float32_matmul_precision",
    "set_num_interop_threads", "use_deterministic_algorithms", "get_default_device", "get_device_module",
    "get_deterministic_debug_mode", "set_deterministic_debug_mode", "Event", "Stream", "OutOfMemoryError",
    "AcceleratorError", "PyTorchFileReader", "PyTorchFileWriter",
):  # fmt: skip
    _LAZY[_name] = "_settings"
for _name in (
    "AliasDb", "AnyType", "AwaitType", "Block", "BoolType", "ClassType", "Code", "CompleteArgumentSpec", "ComplexType",
    "DeviceObjType", "DictType", "EnumType", "ExecutionPlan", "FloatType", "FutureType", "Gradient", "IODescriptor",
    "IntType", "InterfaceType", "ListType", "Node", "NoneType", "NumberType", "OperatorInfo", "OptionalType",
    "PyObjectType", "RRefType", "ScriptObject", "StreamObjType", "StringType", "SymBoolType", "SymIntType",
    "ScriptMethod", "TensorType", "TracingState", "TupleType", "Type", "UnionType", "Use", "Value",
):  # fmt: skip
    _LAZY[_name] = "_extension_rest"


def __getattr__(name: str):
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"{__package__}.{name}")
    if name == "torch":  # some programs write torch.torch.Tensor
        return import_module(__package__)
    if name == "__all__":  # from torch import *
        return [each for each in __dir__() if not each.startswith("_") and each not in _SUBMODULES]
    if name in _LAZY:
        value = getattr(import_module(f"{__package__}.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    if name.startswith("_foreach_"):
        value = globals()[name] = getattr(import_module(f"{__package__}._foreach"), name)
        return value
    from ._absent import absent
    from ._aliases import function

    if (value := function(name)) is not None:
        globals()[name] = value
        return value
    raise absent("torch", name, "`narthex op` lists the operators")


def __dir__() -> list:
    from ._aliases import WRITING

    return sorted({*globals(), *_SUBMODULES, *_LAZY, *WRITING})


legacy_contiguous_format = _C.contiguous_format
inf, pi, e, newaxis = 1e999, 3.141592653589793, 2.718281828459045, None
nan = inf - inf


def is_floating_point(input) -> bool:
    """Whether the elements are floating point numbers."""
    return input.is_floating_point()


def is_conj(input) -> bool:
    """False: a conjugate is computed at once."""
    return input.is_conj()


def is_neg(input) -> bool:
    """False: a negative is computed at once."""
    return input.is_neg()


def is_complex(input) -> bool:
    """Whether the elements are complex numbers."""
    return input.dtype.is_complex


def numel(input):
    """How many elements there are."""
    return input.numel()


is_floating_point, is_complex, numel = map(_C.shell, (is_floating_point, is_complex, numel))
is_conj, is_neg = map(_C.shell, (is_conj, is_neg))


def is_tensor(obj, /) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def typename(obj, /) -> str:
    """The type of `obj` as messages name it; of a tensor with its element type."""
    if isinstance(obj, Tensor):
        return obj.type()
    module = type(obj).__module__
    return type(obj).__qualname__ if module == "builtins" else f"{module}.{type(obj).__qualname__}"


def manual_seed(seed):
    """The numbers of all devices start again at `seed`; gives the CPU's generator."""
    return _C.manual_seed(seed)


def seed() -> int:
    """Seeds every generator from the system's entropy and returns the seed."""
    from random import SystemRandom

    value = SystemRandom().getrandbits(64)
    manual_seed(value)
    return value


TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins

    from . import (
        _dynamo,
        _functorch,
        _lazy,
        _logging,
        amp,
        autograd,
        backends,
        bridge,
        compiler,
        cuda,
        distributed,
        fx,
        jit,
        library,
        multiprocessing,
        nn,
        optim,
        random,
        serialization,
        utils,
        version,
    )
    from ._C import *
    from ._compile import compile
    from ._from_numpy import as_tensor, asarray, from_numpy, frombuffer
    from ._ops import ops
    from ._paths import include_dir, lib_dir
    from ._settings import *
    from ._tensor_str import set_printoptions
    from .amp import autocast
    from .functional import broadcast_shapes, broadcast_tensors, broadcast_to, einsum, meshgrid, norm
    from .random import get_rng_state, set_rng_state
    from .serialization import load, save

    Number = builtins.int | builtins.float
