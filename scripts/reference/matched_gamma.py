"""How far a gamma law matched by three moments is from the truth: the table at DISTORTION_LIMIT in error_model.rs.

The truth is the product of two independent gamma variables of shapes a and b (mean 1 each), the law of a variance of
logits with d = 1. Its moments are exact; its tail is integrated numerically beyond the quantiles of the matched law.

Usage: python scripts/reference/matched_gamma.py
"""
import mpmath as mp
import numpy as np
from scipy import stats


def study(a, b):
    moment = lambda k: (mp.rf(a, k) / mp.mpf(a) ** k) * (mp.rf(b, k) / mp.mpf(b) ** k)
    variance = moment(2) - 1
    third = moment(3) - 3 * moment(2) + 2
    fourth = moment(4) - 4 * moment(3) + 6 * moment(2) - 3 - 3 * variance**2
    skewness, excess = float(third / variance**1.5), float(fourth / variance**2)
    deviation, shape = float(mp.sqrt(variance)), 4 / skewness**2
    log_g = np.linspace(np.log(a) - 12 / np.sqrt(a) - 3, np.log(a) + 12 / np.sqrt(a) + 2, 20001)
    density = np.exp(stats.gamma.logpdf(np.exp(log_g), a) + log_g)
    mismatch = excess - 1.5 * skewness**2
    print(f"a={a} b={b} skewness {skewness:.3f} excess {excess:.3f} mismatch {mismatch:.4f} "
          f"share {mismatch / skewness**2:.3f}", end="")
    for level in [0.05, 1e-3, 1e-6]:
        ratios = []
        for quantile, tail in [(stats.gamma.isf, stats.gamma.sf), (stats.gamma.ppf, stats.gamma.cdf)]:
            x = 1 + deviation * (quantile(level / 2, shape) - shape) / np.sqrt(shape)
            true = np.trapezoid(density * tail(x * a * b / np.exp(log_g), b), log_g) if x > 0 else 0.0
            ratios.append(true / (level / 2))
        estimate = stats.norm.isf(level / 2) ** 4 * abs(mismatch) / 24
        print(f" | {level:g}: {ratios[0]:.3f}, {ratios[1]:.3f} (estimated {estimate:.3f})", end="")
    print()


for shape in [2, 5, 10, 20, 50, 100, 300, 1000, 3000]:
    study(shape, shape)
for shape in [5, 50, 500]:
    study(shape, 10 * shape)
