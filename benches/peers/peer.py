"""What all peers share: their options, and the one JSON line that they print. Standard library only, so that it adds nothing to their memory."""
import argparse
import json
import os
import resource
import time

STARTED = time.perf_counter()

# What a trial of each job amounts to, raw and scaled.
MOMENTS = ("mean", "variance", "skewness", "excess_kurtosis")
SPIKINESS = ("entropy", "max_weight", "sum_p2", "sum_p3", "jacobian_frobenius", "frac_max_gt_0.99")


def arguments(methods, default):
    """The options of a peer; `--method` is one of `methods`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--m", type=int, default=0, help="default: n")
    parser.add_argument("--dk", type=int, default=64, help="width of Q and K, and of V")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--dtype", choices=("f32", "f64"), default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", choices=methods, default=default)
    return parser.parse_args()


def numpy_threads(threads):
    """Holds NumPy's matrix products to so many threads; before NumPy is imported."""
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # these slow a current NumPy
        os.environ.pop(name, None)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)


def seconds():
    """Since this module was imported: what importing the library took, where it is asked just after."""
    return time.perf_counter() - STARTED


def median(numbers):
    ascending, middle = sorted(numbers), len(numbers) // 2
    return ascending[middle] if len(numbers) % 2 else (ascending[middle - 1] + ascending[middle]) / 2


def raw_and_scaled(names, rows):
    """The numbers of each trial by name, from one row a trial: those of the raw logits, then those of the scaled ones; None for what a method
    does not give."""
    columns = zip([f"{which}_{name}" for which in ("raw", "scaled") for name in names], zip(*rows))
    return {name: numbers for name, numbers in columns if numbers[0] is not None}


def mean_and_error(numbers):
    """The mean over the trials and its standard error, None for one trial."""
    count = len(numbers)
    mean = sum(numbers) / count
    if count < 2:
        return [float(mean), None]
    return [float(mean), float((sum((number - mean) ** 2 for number in numbers) / (count - 1) / count) ** 0.5)]


def report(a, peer, job, version, imported, times, stats, **more):
    """Prints the line. `times` are seconds of each trial by stage, `stats` the numbers of each trial by name."""
    print(json.dumps({
        "peer": peer, "job": job, "method": a.method, "version": version,
        "n": a.n, "m": a.m or a.n, "dk": a.dk, "dtype": a.dtype, "threads": a.threads, "trials": a.trials,
        "import_s": round(imported, 4), **more,
        "median_ms": {stage: round(median(taken) * 1e3, 4) for stage, taken in times.items()},
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "stats": {name: mean_and_error(numbers) for name, numbers in stats.items()},
    }))
