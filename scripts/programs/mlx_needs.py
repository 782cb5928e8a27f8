"""Prints formats/architectures/mlx_needs.txt: the fields without which each class of the installed mlx-lm refuses a config.json."""

import contextlib
import dataclasses
import importlib
import inspect
import sys
from importlib.metadata import version
from pathlib import Path

import mlx_lm.models
from mlx_lm.utils import MODEL_ARCHITECTURE_REMAPPING, MODEL_REMAPPING

HEAD = """\
# The model types of mlx-lm {version}, and the fields of config.json without which its class of each refuses a model. A class for the
# part of a config.json about the language model stands below TYPE/CLASS. scripts/programs/mlx_needs.py prints this file.
#
#   TYPE FIELD...   TYPE = TYPE, another name of it; TYPE:CLASS = TYPE, that of models which transformers has this class of
"""


def needs(cls: type) -> list[str]:
    nothing = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(cls) if f.default is nothing and f.default_factory is nothing]


def lines() -> list[str]:
    found = {f"{alias} =": [name] for alias, name in MODEL_REMAPPING.items()}
    found |= {f"{kind}:{cls} =": [name] for (kind, cls), name in MODEL_ARCHITECTURE_REMAPPING.items()}
    for file in sorted(Path(mlx_lm.models.__path__[0]).glob("*.py")):
        try:
            module = importlib.import_module("mlx_lm.models." + file.stem)
        except SystemExit:  # olmo, which wants a package of its own
            found[file.stem] = []
            continue
        if not (hasattr(module, "Model") and hasattr(module, "ModelArgs")):
            continue
        found[file.stem] = needs(module.ModelArgs)
        for name, cls in vars(module).items():
            own = inspect.isclass(cls) and cls.__module__ == module.__name__ and cls is not module.ModelArgs
            if own and dataclasses.is_dataclass(cls) and name.startswith("Text"):
                found[f"{file.stem}/{name}"] = needs(cls)
        if "from_dict" in vars(module.ModelArgs) and "text_config" in found[file.stem]:
            found[file.stem].remove("text_config")  # without one it takes the whole for it
    return [" ".join([name, *fields]) for name, fields in sorted(found.items())]


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # what classes say while they are read
        text = HEAD.format(version=version("mlx-lm")) + "\n" + "\n".join(lines())
    print(text)
