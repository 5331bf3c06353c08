"""The variables by which programs find their GPUs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def gpu_variables(indexes: Iterable[int]) -> dict[str, str]:
    """The devices for CUDA, ROCm and oneAPI programs: ``0,1``; empty values hide all."""
    text = ",".join(map(str, indexes))
    return dict.fromkeys(_NAMES, text)
