"""The libraries that pack weights: the numbers that they make of what they packed are those of a mounted model, after one rounding to the type in
which each of them computes. The modules are those of testdata/quantise/foreign.zip."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import common
import torch
from common import Case
from safetensors.torch import load_file

PROGRAM = sys.argv[1]
State = dict[str, torch.Tensor]

# What the library wants to know of modules whose config.json names a format alone.
BY_FORMAT = {
    "float-quantized": dict(num_bits=8, type="float", strategy="channel", symmetric=True),
    "int-quantized": dict(num_bits=8, type="int", strategy="channel", symmetric=True),
    "nvfp4-pack-quantized": dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True),
    "mxfp4-pack-quantized": dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True),
}


def compressed_tensors(state: State, config: dict) -> torch.Tensor:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme

    groups = list(config.get("config_groups", {}).values()) or [dict(weights=BY_FORMAT[config["format"]])]
    scheme = groups[0] | dict(targets=["Linear"])
    form = scheme.get("format") or config["format"]
    made = BaseCompressor.get_value_from_registry(form).decompress(state, QuantizationScheme.model_validate(scheme))
    return made["weight"]


def gptqmodel(state: State, config: dict) -> torch.Tensor:
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
    from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module

    if config["quant_method"] == "awq":
        return dequantize_gemm(**state, bits=config["bits"], group_size=config["group_size"]).T.contiguous()
    words, outputs = state["qweight"].shape
    module = TorchLinear(
        bits=config["bits"],
        group_size=config["group_size"],
        sym=config["sym"],
        desc_act=config["desc_act"],
        in_features=words * 32 // config["bits"],
        out_features=outputs,
        bias=False,
        pack_dtype=torch.int32,
        register_buffers=True,
    )
    for name, value in state.items():
        setattr(module, name, value)
    if config["checkpoint_format"] == "gptq":
        convert_gptq_v1_to_v2_format_module(module, bits=config["bits"], pack_dtype=torch.int32)
    module.post_init()
    return module.dequantize_weight().T.contiguous()


def bitsandbytes(state: State, config: dict) -> torch.Tensor:
    from bitsandbytes import functional
    from bitsandbytes.backends.default.ops import _dequantize_4bit_compute

    if config.get("load_in_8bit"):
        return functional.int8_vectorwise_dequant(state["weight"], state["SCB"])
    stats = {name.removeprefix("weight."): value for name, value in state.items() if name != "weight"}
    how = functional.QuantState.from_dict(stats, device=torch.device("cpu"))
    if how.shape[-1] > how.blocksize and how.shape[-1] % how.blocksize:
        # Of such rows, 0.50.2 loses even what it packed itself on a CPU; its implementation for other devices does not.
        if how.nested:
            how.absmax = functional.dequantize_blockwise(how.absmax, how.state2).float() + how.offset
        return _dequantize_4bit_compute(state["weight"].flatten(), how.absmax, how.code, how.blocksize, how.shape, how.dtype)
    return functional.dequantize_4bit(state["weight"], quant_state=how)


def auto_round(state: State, config: dict) -> torch.Tensor:
    from types import SimpleNamespace

    from auto_round.experimental import qmodules
    from auto_round.export.export_to_awq.utils import dequantize_gemm
    from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp

    own = next((own for name, own in config.get("extra_config", {}).items() if name == "m"), {})
    bits, group = own.get("bits", config["bits"]), own.get("group_size", config["group_size"])
    packing = config.get("packing_format", "")
    if "qweight" in state and "awq" in packing:
        return dequantize_gemm(**state, bits=bits, group_size=group if group > 0 else len(state["qweight"])).T.contiguous()
    if "qweight" in state:
        inputs = len(state["qweight"]) * 32 // bits
        order = state.pop("g_idx", None)  # it is what the class assumes; with it, it takes square matrices alone
        assert order is None or torch.equal(order, (torch.arange(inputs) // group).int())
        kind = qlinear_torch_zp if "gptq" in packing and "gptqmodel" not in packing else qlinear_torch
        linear = kind.QuantLinear(bits, group, inputs, state["scales"].shape[1], False)
        for name, value in state.items():
            setattr(linear, name, value)
        return linear(torch.eye(inputs, dtype=torch.float16)).T.contiguous()
    kind = {"nv_fp": qmodules.NVFP4QuantLinear, "mx_fp": qmodules.MXFP4QuantLinear if bits == 4 else qmodules.MXFP8QuantLinear}
    module = torch.nn.Module.__new__(kind.get(config["data_type"], qmodules.WeightFP8ActFP8StaticQuantLinear))
    torch.nn.Module.__init__(module)
    for name, value in state.items():
        module.register_buffer(name, value)
    inputs = next(iter(state[name].shape[1] * factor for name, factor in (("weight_packed", 2), ("weight", 1)) if name in state))
    module.dtype, module.group_size, module.in_features, module.pre_dequantized = torch.bfloat16, group, inputs, False
    module.out_features, module.config = len(next(iter(state.values()))), SimpleNamespace(**config)
    return module.dequant_weight_online().to(torch.bfloat16)


LIBRARIES: dict[str, tuple[tuple[str, ...], Callable[[State, dict], torch.Tensor]]] = {  # beginnings of names of cases
    "compressed-tensors": (("ct-",), compressed_tensors),
    "gptqmodel": (("gptq-", "awq-"), gptqmodel),
    "bitsandbytes": (("bnb-",), bitsandbytes),
    "auto-round": (("ar-",), auto_round),
}


def check(case: Case) -> None:
    source, _, unpack = case.root / "packed" / case.name, *LIBRARIES[PROGRAM]
    seen: list[torch.Tensor] = []

    def load() -> None:
        config = json.loads((source / "config.json").read_text())["quantization_config"]
        state = {name.removeprefix("m."): value for name, value in load_file(source / "model.safetensors").items()}
        with torch.no_grad():
            seen.append(unpack(state, config))

    def numbers() -> None:
        want = seen[0]
        ours = torch.frombuffer(bytearray((case.seen / "f32/m.weight").read_bytes()), dtype=torch.float32).reshape(want.shape)
        other = int((ours.to(want.dtype) != want).sum())
        assert not other, f"{other} of {want.numel()} numbers are others than {PROGRAM}'s, in {want.dtype}"

    common.run(case, PROGRAM, dict(load=load, numbers=numbers), case.seen / "hf")


def main() -> None:
    root, seen = Path(os.environ["MODELS"]), Path(os.environ["MOUNTED"]) / "models/packed"
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    for directory in sorted((root / "packed").glob("*")):
        name = directory.name
        if name.startswith(LIBRARIES[PROGRAM][0]) and [name, "any", "packed", PROGRAM][: len(only)] == only:
            check(Case(name, "any", "packed", root, seen / name))


main()
