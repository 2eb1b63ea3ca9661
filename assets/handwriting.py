"""Write scikit-learn's handwritten digits as one small file, from which nets are trained.

The file has 1,797 greyscale images of 8 × 8 pixels with levels 0 to 16, and their labels (source: UCI, Optical
Recognition of Handwritten Digits). README.md in this folder explains how to install the imported packages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TARGET = Path(__file__).parent / "handwriting.npz"


def main() -> None:
    digits = load_digits()
    np.savez_compressed(TARGET, images=digits.images.astype(np.uint8), labels=digits.target.astype(np.uint8))


if __name__ == "__main__":
    main()
