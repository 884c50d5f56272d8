"""What is installed under another name than it is imported by."""

from __future__ import annotations

_PACKAGES = {
    "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil", "dotenv": "python-dotenv", "faiss": "faiss-cpu",
    "flash_attn": "flash-attn", "git": "GitPython", "google": "google-api-python-client",
    "hydra": "hydra-core", "jwt": "PyJWT", "Levenshtein": "python-Levenshtein",
    "liger_kernel": "liger-kernel", "math_verify": "math-verify", "PIL": "pillow",
    "pkg_resources": "setuptools", "pylatexenc": "pylatexenc", "pynvml": "nvidia-ml-py",
    "reasoning_gym": "reasoning-gym", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "torch_npu": "torch-npu", "transfer_queue": "TransferQueue", "yaml": "PyYAML", "zmq": "pyzmq",
}  # fmt: skip


def package_of(module: str) -> str:
    """The package that holds a top-level module, as pip calls it."""
    return _PACKAGES.get(module, module)
