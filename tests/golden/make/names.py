"""Writes names.txt: what each public function is called in Python.

    python3 tests/golden/make/names.py

A line has a function, or a macro, and the names of torch (or of Python, NumPy or safetensors) for
it; or a '-' and the reason why there is none. Rules find most names, and this script sees that each
of them exists. `make docs` reads the file, and fails where a public function isn't in it.
"""

import builtins
import importlib
import inspect
import os
import re
import subprocess
import sys

import torch

from golden import folder

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "tests/docs"))
sys.dont_write_bytecode = True
import headers

# ---- rules -----------------------------------------------------------------------------

# rg_x is x in each of these modules and classes that has an x.
SPACES = [
    "torch",
    "torch.nn.functional",
    "torch.Tensor",
    "torch.autograd",
    "torch.autograd.functional",
    "torch.func",
    "torch.nn.utils",
    "torch.nn.utils.rnn",
    "torch.optim.swa_utils",
    "torch.utils.checkpoint",
    "torch.utils.data",
    "torch.autograd.function.FunctionCtx",
]
# For the functions of these headers, only the named class or module is searched for x.
ELSEWHERE = {
    "nn/module.h": ["torch.nn.Module"],
    "nn/parallel/process_group.h": ["torch.distributed"],
}
# rg_nn_some_layer is SomeLayer.
CLASSES = {
    "nn_": ["torch.nn"],
    "optim_": ["torch.optim", "torch.optim.lr_scheduler", "torch.optim.swa_utils"],
}
# rg_module_list_append is the method append.
METHODS = {
    "sequential_": "torch.nn.Sequential",
    "module_list_": "torch.nn.ModuleList",
    "module_dict_": "torch.nn.ModuleDict",
    "parameter_list_": "torch.nn.ParameterList",
    "optim_": "torch.optim.Optimizer",
    "schedule_": "torch.optim.lr_scheduler.LRScheduler",
    "averaged_model_": "torch.optim.swa_utils.AveragedModel",
    "generator_": "torch.Generator",
    "data_loader_": "torch.utils.data.DataLoader",
    "multihead_attention_": "torch.nn.MultiheadAttention",
    "transformer_encoder_layer_": "torch.nn.TransformerEncoderLayer",
    "transformer_encoder_": "torch.nn.TransformerEncoder",
    "transformer_decoder_layer_": "torch.nn.TransformerDecoderLayer",
    "transformer_decoder_": "torch.nn.TransformerDecoder",
    "transformer_": "torch.nn.Transformer",
    "rnn_": "torch.nn.RNN",
    "gru_": "torch.nn.GRU",
    "lstm_cell_": "torch.nn.LSTMCell",
    "lstm_": "torch.nn.LSTM",
}
METHOD_NAMES = {
    "set": "__setitem__",
    "get": "__getitem__",
    "contains": "__contains__",
    "seed": "manual_seed",
    "state": "get_state",
    "len": "__len__",
    "next": "__iter__",
    "add_group": "add_param_group",
    "step_closure": "step",
    "step_to": "step",
}
# These endings say how a function takes its arguments; docs/names.md tells what they mean.
ENDING = (
    r"_(with|list|of|many|items|dims|dim|as|p|step|dtype|full|alpha|packed|keywords|floor|trunc"
    r"|sizes|decimals|tanh)(?=_?$)"
)

# ---- what no rule finds ----------------------------------------------------------------

SHARDED = "torch.distributed.optim.ZeroRedundancyOptimizer"
OTHERS = {
    "torch.tensor": "scalar scalar_dtype parse parse_dtype literal literal_as from from_dims "
    "from_float from_double from_int64 from_int from_bool from_uint8",
    "torch.get_default_dtype": "default_dtype",
    "torch.Tensor.dtype": "dtype_of",
    "torch.Tensor.item": "item item_int",
    "torch.Tensor.__getitem__": "at at_dims index index_items slice",
    "torch.Tensor.__setitem__": "set_item_ set_items_",
    "slice": "RG_SLICE",
    "torch.Tensor.numpy": "copy_out data_as data_as_dtype",
    "torch.Tensor._version": "version",
    "torch.Generator": "generator_new",
    "torch.nn.init.trunc_normal_": "trunc_normal_ trunc_normal_with_",
    "print": "print",
    "torch.Tensor.__repr__": "repr",
    "torch.Size": "repr_shape",
    "numpy.array_str": "repr_numpy",
    "torch.Tensor.__format__": "str",
    "torch.set_printoptions": "get_printoptions",
    "safetensors.torch.save_file": "save_file save_file_with",
    "safetensors.torch.load_file": "load_file",
    "safetensors.safe_open": "safe_open safe_close",
    "safetensors.safe_open.keys": "safe_keys",
    "safetensors.safe_open.get_tensor": "safe_get_tensor",
    "safetensors.safe_open.metadata": "safe_metadata",
    "json.load": "json_load json_length json_int json_float json_bool json_str",
    "safetensors.torch.save_model": "module_save module_save_with",
    "safetensors.torch.load_model": "module_load module_load_with",
    "numpy.load": "load_npy load_npz",
    "numpy.save": "save_npy",
    "numpy.savez": "save_npz",
    "numpy.loadtxt": "load_csv load_csv_with",
    "torch.load": "torch_load",
    "torch.save": "torch_save torch_save_checkpoint",
    "torch.autograd.grad": "grad grad_with grad_many",
    "torch.Tensor.data": "set_data",
    "torch.Tensor.grad": "grad_of set_grad",
    "torch.no_grad": "RG_NO_GRAD",
    "torch.enable_grad": "RG_ENABLE_GRAD",
    "torch.inference_mode": "RG_INFERENCE_MODE",
    "torch.autocast": "RG_AUTOCAST",
    "torch.utils.hooks.RemovableHandle.remove": "remove_hook remove_forward_hook",
    "torch.profiler.profile": "set_profiling",
    "torch.profiler.profile.key_averages": "profile_table",
    "torch.profiler.record_function": "RG_RECORD_FUNCTION profile_begin profile_end",
    "torch.autograd.Function.apply": "function_apply function_apply_list function_apply_many",
    "torch.autograd.function.BackwardCFunction.saved_tensors": "saved_tensor",
    "torch.autograd.function.BackwardCFunction.needs_input_grad": "needs_input_grad",
    "torch.autograd.graph.saved_tensors_hooks": "push_saved_hooks pop_saved_hooks RG_SAVED_HOOKS",
    "torch.nn.Module": "module_new RG_MODULE",
    "torch.nn.Parameter": "RG_PARAMETER",
    "torch.nn.Module.register_buffer": "RG_BUFFER",
    "torch.nn.Module.register_module": "register_child RG_CHILD",
    "torch.nn.Module.__call__": "call call_list call_with call_keywords",
    "torch.nn.Module.requires_grad_": "module_requires_grad_",
    "torch.nn.Module.to": "module_to",
    "torch.nn.Module.apply": "apply_to_modules",
    "torch.nn.Module.__repr__": "module_repr",
    "torch.nn.Module.load_state_dict": "load_state_dict_keys",
    "copy.deepcopy": "deepcopy",
    "torch.nn.Transformer.generate_square_subsequent_mask": "generate_square_subsequent_mask",
    "torch.optim.Optimizer": "optim_with optim_group optim_n_groups optim_parameters",
    "torch.optim.lr_scheduler.LRScheduler": "optim_schedule",
    "torch.optim.lr_scheduler.ReduceLROnPlateau.step": "schedule_step_metric",
    "torch.utils.data.DataLoader": "data_loader_new data_loader_new_with",
    "torch.distributed.get_rank": "rank",
    "torch.distributed.get_world_size": "world_size",
    "torch.distributed.all_reduce": "all_reduce_ all_reduce_with_",
    "torch.distributed.broadcast": "broadcast_",
    "torch.nn.parallel.DistributedDataParallel": "nn_distributed nn_distributed_with",
    SHARDED + ".step": "sharded_optim_step",
    SHARDED + ".consolidate_state_dict": "sharded_optim_gather",
    **{
        f"torch.nn.functional.{name}": name + "_"
        for name in ("relu6", "silu", "mish", "hardswish", "hardsigmoid")
    },
}

ABSENT = {
    "Python frees what nobody refers to": "scope_begin scope_end scope_copy keep drop escape "
    "generator_free replay_free replays_free module_free optim_free tokens_close data_loader_free "
    "vocabulary_free tokenizer_free sharded_optim_release",
    "a macro of C is made of it": "scope_open scope_close scope_restart grad_guard_open "
    "grad_guard_close inference_guard_open inference_guard_close profile_open profile_close "
    "autocast_guard_open autocast_guard_open_with autocast_guard_close "
    "saved_guard_open saved_guard_close hooks_guard_open hooks_guard_close wrap_float wrap_int "
    "wrap_unsigned wrap_bool wrap_tensor wrap_void index_text index_number index_unsigned "
    "index_tensor index_bool index_slice index_item sizes_of_dims sizes_of_number list_of "
    "named_list_of module_ready",
    "Python raises exceptions": "error error_peek error_code error_clear fail check_tensor "
    "on_error print_error abort_on_error training_halted halt_training abort_ranks_on_error",
    "it is Python's warnings": "print_warning on_warning",
    "torch counts the memory of CUDA alone": "live_tensors memory_stats memory_reset_peak "
    "memory_trim memory_fail_at replay_bytes replay_live_bytes",
    "regard's own": "dtype_name set_name set_load_limit get_load_limit named_below profile_cost "
    "graph_dot graph_save explain explain_with tie move_places num_parameters keywords_of_call "
    "joint_attention lstm_scan gru_scan rnn_scan transformer_decoder_cache save_checkpoint "
    "load_checkpoint seal_begin seal_begin_with seal_check seal_step seal_hash seal_end "
    "replay_to_c replay_to_c_with run_function_loop function_args function_state function_check "
    "function_check_with "
    "data_loader_state_dict data_loader_load_state_dict distributed_part distributed_check "
    "distributed_save_checkpoint distributed_load_checkpoint load_lines",
    "TensorBoard's SummaryWriter is the nearest": "report_begin report_begin_with report_setting "
    "report_text report_number report_picture report_picture_with report_histogram "
    "report_parameters report_end",
    "matplotlib is the nearest": "print_curve print_curve_with save_curve save_curve_with "
    "print_heat_map print_heat_map_with save_heat_map save_heat_map_with",
    "it is tqdm's": "progress_begin progress_show progress_due progress_note progress_end",
    "torch.compile is the nearest": "record replay_compile replay_run replays_new replays_run",
    "it is TensorFlow's text": "repr_tf",
    "TransformerLens has it": "hook_point run_with_hooks run_with_hooks_list run_with_cache "
    "run_with_cache_list cache_get",
    "the notebooks define it": "nn_self_attention self_attention_weights nn_learned_positions "
    "nn_sinusoidal_positions nn_rotary_positions positions_forward vocabulary_new "
    "vocabulary_new_with vocabulary_index encode decode",
    "it is SequentialLR of LinearLR and CosineAnnealingLR": "optim_warmup_cosine_lr",
    "its paper's code has it": "optim_lion optim_lion_with",
    "nanoGPT has it": "tokens_open tokens_open_with tokens_count tokens_windows tokens_get_batch "
    "tokens_get_batch_with split_text get_batch get_batch_with nn_gpt nn_gpt_with gpt_forward "
    "gpt_generate gpt_generate_with gpt_cache gpt_cached",
    "transformers has it": "gpt_from_folder gpt_to_folder tokenizer_from_folder "
    "tokenizer_from_file tokenizer_size tokenizer_id tokenizer_token tokenizer_encode "
    "tokenizer_encode_with tokenizer_encode_batch tokenizer_encode_batch_with "
    "tokenizer_decode tokenizer_decode_with token_stream_begin "
    "token_stream_add token_stream_end rotary_embedding rotary_frequencies "
    "rotary_frequencies_with sample_logits sample_logits_with "
    "kv_cache_append kv_cache_rewind kv_cache_free",
}


# ---- finding ---------------------------------------------------------------------------


def whole(name):
    return name if name.startswith("RG_") else "rg_" + name


def by_function(table):
    """Returns what the table says of each function. Fails if two lines name a function."""
    found = {}
    for says, names in table.items():
        for name in names.split():
            if found.setdefault(whole(name), says) != says:
                raise SystemExit(f"names.py names {name} twice")
    return found


def get(path):
    """Returns what Python has under a dotted name, or what is built in, or None."""
    parts = path.split(".")
    if len(parts) == 1:
        return getattr(builtins, path, None)
    for n in range(len(parts) - 1, 0, -1):
        try:
            at = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            at = getattr(at, part, None)
        return at


def class_like(space, name):
    """Returns the class of a module whose name has the same letters."""
    plain = name.replace("_", "")
    return [
        f"{space}.{n}"
        for n, value in vars(importlib.import_module(space)).items()
        if n.lower() == plain and inspect.isclass(value)
    ]


def method_like(name):
    for prefix, owner in METHODS.items():
        if name.startswith(prefix):
            method = name[len(prefix) :]
            path = f"{owner}.{METHOD_NAMES.get(method, method)}"
            return [path] if get(path) is not None else []
    return []


def by_rule(name, header):
    """Returns what the rules find for the name. If they find nothing, its endings are removed."""
    while True:
        found = []
        if name.startswith("nn_init_"):
            found = [p for p in ["torch.nn.init." + name[8:]] if get(p)]
        for prefix, spaces in CLASSES.items():
            if name.startswith(prefix) and not found:
                found = [c for s in spaces for c in class_like(s, name[len(prefix) :])]
        spaces = ELSEWHERE.get(header, SPACES)
        found = found or method_like(name)
        found = found or [f"{s}.{name}" for s in spaces if get(f"{s}.{name}") is not None]
        shorter = re.sub(ENDING, "", name)
        if found or shorter == name:
            return found
        name = shorter


def main():
    make = ["make", "-s", "-C", ROOT, "print-public", "print-mpi-public"]
    out = os.path.abspath(folder())
    paths = subprocess.run(make, capture_output=True, text=True, check=True).stdout.split()
    os.chdir(ROOT)
    others, absent, lines = by_function(OTHERS), by_function(ABSENT), []
    for header in headers.read_all(paths):
        for d in header.declarations():
            if d.kind not in ("function", "macro"):
                continue
            said = others.pop(d.name, None)
            found = [said] if said else by_rule(d.name[3:], header.path)
            if said and get(said) is None:
                raise SystemExit(f"names.py: there is no {said}")
            if d.name in absent:
                lines.append(f"{d.name} - {absent.pop(d.name)}")
            elif d.name.startswith("rg_") and not found:
                raise SystemExit(f"names.py doesn't say what {d.name} is in Python")
            elif found and (said or d.name.startswith("rg_")):
                lines.append(" ".join([d.name, *found]))
    if others or absent:
        raise SystemExit(f"names.py names what isn't there: {[*others, *absent]}")
    with open(os.path.join(out, "names.txt"), "w") as f:
        f.write("\n".join(sorted(lines)) + "\n")


main()
