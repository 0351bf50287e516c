# SPDX-License-Identifier: BSD-3-Clause
"""The recommendation: which method to use on a data set, in computed sentences."""

from bochner.experiments.findings import AS_LOW, MANY_ROWS, Findings, Statement, standard_error
from bochner.experiments.methods import KMEANS_NYSTROEM, LIMIT, METHODS, NystroemMethod
from bochner.experiments.studies import MEDIAN, Study

__all__ = ["candidates", "choice", "recommendation"]

ROUNDING = 1e-9  # smaller errors are rounding
AS_GOOD = 1.01  # a test error of up to this many times the lowest counts as the lowest


def candidates(study: Study) -> list[str]:
    """Return the methods to choose from; the limit is not one of them."""
    return [method for method in study.methods if method != LIMIT]


def choice(found: Findings, name: str, size: int, label: str = MEDIAN.label) -> str:
    """Return the fastest of the methods whose mean kernel error is within 10 % of the lowest.

    A wider margin would give up what a slower method gains; no margin would follow the noise of a few seeds. If there
    is a target, only methods whose test error is within the noise of the lowest are considered.
    """
    errors = _means(found, "kernel_error", name, size, label)
    if found.splits[name].task is not None and label == MEDIAN.label:  # test errors are those at the median distance
        errors = {method: errors[method] for method in _predict_well(found, name, size)}
    most = max(AS_LOW * min(errors.values()), ROUNDING)
    # Of methods with the same error, only the first: the others do more work for the same features.
    good = {round(error, 12): method for method, error in reversed(errors.items()) if error <= most}
    return min(good.values(), key=lambda method: found.seconds(name, method, size, label))


def recommendation(found: Findings, name: str) -> list[Statement]:
    """Recommend a method at the largest width and the median distance, beside the best method of the other kind.

    Features of bochner are compared with scikit-learn's Nystroem, and Nystroem with them. More statements name the
    lowest error, the choice at the other length scales, and the test error of a linear model if there is a target.
    """
    size, n_train = found.study.sizes(name)[-1], min(len(found.splits[name].X_train), found.study.n_train)
    errors = _means(found, "kernel_error", name, size)
    chosen = choice(found, name, size)
    rival = min((m for m in errors if _is_ours(m) != _is_ours(chosen)), key=errors.__getitem__)
    best = min(errors, key=errors.__getitem__)
    times = {method: _duration(found.seconds(name, method, size, MEDIAN.label)) for method in (chosen, rival)}
    sentences = [
        f"Use {_call(found, name, chosen, size)}: {_share(errors[chosen])} error at {2 * size} columns, compared with "
        f"{_share(errors[rival])} for {rival}. Fitting on {n_train:,} rows and transforming {MANY_ROWS:,} rows takes "
        f"about {times[chosen]}, and {times[rival]} with {rival}."
    ]
    if best not in (chosen, rival) and _share(errors[best]) != _share(errors[chosen]):
        sentences.append(f"The lowest error is that of {best}: {_error_and_time(found, name, best, size)}.")
    sentences += _other_scales(found, name, chosen, size) + _test_errors(found, name, chosen, size)
    return [Statement(sentence) for sentence in sentences]


def _predict_well(found: Findings, name: str, size: int) -> list[str]:
    """Return the methods whose test error is at most 1 % or one standard error of the difference above the lowest."""
    errors = {m: found.values("test_error", name, m, size, MEDIAN.label) for m in candidates(found.study)}
    best = min(errors.values(), key=lambda values: float(values.mean()))
    return [
        method
        for method, values in errors.items()
        if values.mean() <= max(AS_GOOD * best.mean(), best.mean() + standard_error(values - best))
    ]


def _means(found: Findings, field: str, name: str, size: int, label: str = MEDIAN.label) -> dict[str, float]:
    """Return the mean over the seeds of a field, for each method to choose from."""
    return {method: float(found.values(field, name, method, size, label).mean()) for method in candidates(found.study)}


def _is_ours(method: str) -> bool:
    return not isinstance(METHODS[method], NystroemMethod)


def _call(found: Findings, name: str, method: str, size: int) -> str:
    """Return the call in Python; its length scale is the median distance."""
    if _is_ours(method):
        return METHODS[method].description(size)
    gamma = 0.5 / float(found.values("length_scale", name, method, size, MEDIAN.label).mean()) ** 2
    fitted = f" fitted on the centers of {2 * size} k-means clusters" if method == KMEANS_NYSTROEM else ""
    return f"scikit-learn's Nystroem(gamma={gamma:.3g}, n_components={2 * size}){fitted}"


def _other_scales(found: Findings, name: str, chosen: str, size: int) -> list[str]:
    """Return what the same rule chooses at the other length scales."""
    scales = [scale for scale in found.study.length_scales if scale != MEDIAN]
    choices = {scale: choice(found, name, size, scale.label) for scale in scales}
    same = [f"{scale.factor:g}" for scale, method in choices.items() if method == chosen]
    sentences = [f"At {' and '.join(same)} times the median distance the choice is the same."] if same else []
    for scale, method in choices.items():
        if method != chosen:
            this, that = (_error_and_time(found, name, m, size, scale.label) for m in (method, chosen))
            sentences.append(
                f"At {scale.factor:g} times the median distance the choice is {method}: {this}, compared with {that} "
                f"for {chosen}."
            )
    return sentences


def _error_and_time(found: Findings, name: str, method: str, size: int, label: str = MEDIAN.label) -> str:
    error = _means(found, "kernel_error", name, size, label)[method]
    return f"{_share(error)} in {_duration(found.seconds(name, method, size, label))}"


def _test_errors(found: Findings, name: str, chosen: str, size: int) -> list[str]:
    if found.splits[name].task is None:
        return []
    errors = _means(found, "test_error", name, size)
    best = min(errors, key=errors.__getitem__)
    start = f"A linear model on these features has a test error of {_share(errors[chosen])}"
    if errors[best] == errors[chosen]:
        return [f"{start}, the lowest of all methods."]
    return [f"{start}, within the noise of the lowest, {_share(errors[best])} with {best}."]


def _share(value: float) -> str:
    return f"{100.0 * value:.3g} %"


def _duration(seconds: float) -> str:
    if seconds < 10.0:
        return f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"
