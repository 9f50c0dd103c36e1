"""Reference tables for src/statistics/binomial.rs, uniformity.rs and log_fit.rs from scipy and numpy.

Usage: python scripts/reference/statistics_scipy.py tests/golden/statistics.csv
Writes the table and prints the values quoted in the tests of log_fit.rs.
"""
import sys
import numpy as np
from scipy import stats

print("statistic,n,argument,level,first,second", file=(out := open(sys.argv[1], "w")))
# Clopper-Pearson: n trials, argument = successes, level = total error, first and second = the ends of the interval.
for k, n, e in [(1, 7, 0.05), (3, 97, 0.01), (104, 2000, 1e-6), (499, 1009, 0.05), (2000, 2003, 1e-4)]:
    low, high = stats.beta.ppf(e / 2, k, n - k + 1), stats.beta.isf(e / 2, k + 1, n - k)
    print(f"clopper_pearson,{n},{k},{e!r},{float(low)!r},{float(high)!r}", file=out)
# Kolmogorov-Smirnov: n values, argument = distance, first = P(distance or more).
for name, law, ns, scaled in [
    ("one_sided", stats.ksone, [3, 11, 101, 1009], [0.2, 0.7, 1.3, 2.1, 3.1]),
    ("two_sided", stats.kstwo, [101, 503, 2003], [0.6, 0.828, 1.0, 1.36, 1.8, 2.4]),
]:
    for n in ns:
        for value in scaled:
            d = float(value / np.sqrt(n))
            if d < 1:
                print(f"{name},{n},{d!r},,{float(law.sf(d, n))!r},", file=out)

x = np.array([3.0, 5.0, 11.0, 17.0, 29.0])
y = np.array([7.1, 21.0, 118.0, 270.0, 870.0])
cv = np.array([0.02, 0.05, 0.01, 0.03, 0.04])
bias = cv**2 / 2
design = np.vstack([np.ones_like(x), np.log(x)]).T
w = 1 / cv
beta, *_ = np.linalg.lstsq(design * w[:, None], (np.log(y) + bias) * w, rcond=None)
cov = np.linalg.inv(design.T @ np.diag(w**2) @ design)
residual = (np.log(y) + bias - design @ beta) * w
print("log_fit intercept, slope, se intercept, se slope, chi square:")
print(repr(float(beta[0])), repr(float(beta[1])), repr(float(np.sqrt(cov[0, 0]))), repr(float(np.sqrt(cov[1, 1]))), repr(float(residual @ residual)))
