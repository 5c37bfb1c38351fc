"""The modules below torch.distributed that packages import before they ask whether there are several processes."""

import sys
from types import ModuleType

from .._absent import getter
from .._later import names, never

_NAMES = {
    "tensor": "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor",
    "tensor.placement_types": "Partial Placement Replicate Shard",
    "tensor.parallel": "ColwiseParallel ParallelStyle PrepareModuleInput RowwiseParallel SequenceParallel"
    " parallelize_module",
    "tensor.experimental": "context_parallel implicit_replication local_map register_sharding",
    "_tensor": "DTensor DeviceMesh Partial Placement Replicate Shard distribute_module distribute_tensor"
    " init_device_mesh",
    "_tensor.experimental": "implicit_replication",
    "_composable": "",
    "_composable.fsdp": "CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy fully_shard",
    "device_mesh": "DeviceMesh init_device_mesh",
    "fsdp": "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig FullStateDictConfig"
    " FullyShardedDataParallel MixedPrecision MixedPrecisionPolicy OffloadPolicy OptimStateKeyType ShardingStrategy"
    " ShardedOptimStateDictConfig ShardedStateDictConfig StateDictType fully_shard",
    "fsdp.api": "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig LocalOptimStateDictConfig"
    " LocalStateDictConfig MixedPrecision OptimStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig"
    " ShardingStrategy StateDictConfig StateDictSettings StateDictType",
    "fsdp.fully_sharded_data_parallel": "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig"
    " FullyShardedDataParallel MixedPrecision ShardingStrategy ShardedStateDictConfig StateDictType",
    "fsdp.wrap": "ModuleWrapPolicy enable_wrap size_based_auto_wrap_policy transformer_auto_wrap_policy",
    "fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "checkpoint": "FileSystemReader FileSystemWriter load save",
    "checkpoint.state_dict": "StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict"
    " set_model_state_dict set_optimizer_state_dict set_state_dict",
    "algorithms": "",
    "algorithms.join": "Join Joinable JoinHook",
    "algorithms.model_averaging": "",
    "algorithms.model_averaging.averagers": "ModelAverager PeriodicModelAverager",
    "nn": "ReduceOp RemoteModule all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce"
    " reduce_scatter scatter",
    "nn.functional": "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter"
    " scatter",
    "optim": "PostLocalSGDOptimizer ZeroRedundancyOptimizer",
    "pipelining": "ScheduleGPipe SplitPoint pipeline",
    "utils": "",
    "rpc": "RRef get_worker_info init_rpc remote rpc_async rpc_sync shutdown",
    "elastic": "",
    "elastic.multiprocessing": "",
    "elastic.multiprocessing.errors": "",
}


def make_modules(package: str, namespace: dict) -> None:
    """Puts one module for each row below `package` ("narthex.distributed") into sys.modules and into `namespace`."""
    made = {"": namespace}
    for path, listed in _NAMES.items():
        public = f"torch.distributed.{path}"
        module = ModuleType(f"{package}.{path}", f"{public}: several processes are not there yet.")
        module.__path__ = []
        module.__dict__.update(names(public, "run one process", tuple(listed.split())), __getattr__=getter(public))
        if "ReduceOp" in module.__dict__:
            module.ReduceOp = namespace["ReduceOp"]
        if path == "rpc":
            module.__dict__.update(never(public, "there is one process", ("is_available",)))
        sys.modules[module.__name__] = module
        parent, _, own = path.rpartition(".")
        made[parent][own] = module
        made[path] = module.__dict__

