# SPDX-License-Identifier: BSD-3-Clause
"""Smallest sizes for synthetic errors with a known answer."""

import numpy as np
import pytest

from bochner.inspection.sizes import smallest_size


def synthetic_error(exponent, noise=0.0, constant=1.0, seed=0):
    """Return errors constant * size^-exponent, with noise per split of the rows and per draw."""

    def error_at(size, division, draw):
        shared = np.random.default_rng([seed, size, division]).normal()
        own = np.random.default_rng([seed, size, division, draw]).normal()
        return constant * size**-exponent * np.exp(noise * (shared + own))

    return error_at


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.01])
def test_size_without_noise_is_the_crossing(exponent, tolerance):
    size, error = smallest_size(synthetic_error(exponent), tolerance, 10**6)
    truth = tolerance ** (-1 / exponent)
    margin = np.exp(1.645 * 0.03 / exponent)  # for the variation on new rows
    assert truth * margin * 0.999 <= size <= 1.1 * truth * margin + 2
    assert error <= tolerance * (1 + 1e-9)


@pytest.mark.parametrize("exponent", [0.5, 1.5])
def test_error_of_a_new_draw_stays_below_the_tolerance(exponent):
    sizes, below = [], []
    for seed in range(40):
        size, _ = smallest_size(synthetic_error(exponent, 0.04, 2.0, seed), 0.02, 10**6)
        draws = 2.0 * size**-exponent * np.exp(0.04 * np.random.default_rng([seed, 1]).normal(size=50))
        sizes.append(size)
        below.append(np.mean(draws <= 0.02))
    smallest = 100 ** (1 / exponent)
    assert np.mean(below) >= 0.9
    assert np.median(sizes) <= 1.3 * smallest
    assert np.mean(np.array(sizes) <= 1.5 * smallest) >= 0.9


def test_result_is_a_size_that_was_tried():
    """The error has a jump that the extrapolation cannot predict."""
    tried = []

    def error_at(size, division, draw):
        tried.append(size)
        return 0.03 if size < 90 else 0.018

    size, error = smallest_size(error_at, 0.02, 10_000)
    assert size >= 90
    assert size in tried
    assert error == pytest.approx(0.018)


def test_smallest_size_can_be_one():
    assert smallest_size(lambda size, division, draw: 1e-3 / size, 0.02, 100)[0] == 1
    assert smallest_size(lambda size, division, draw: 0.0, 0.02, 100) == (1, pytest.approx(0.0, abs=1e-4))


@pytest.mark.parametrize("error_at", [lambda *_: 0.5, synthetic_error(0.5)])
def test_unreachable_tolerance_is_an_error(error_at):
    with pytest.raises(ValueError, match=r"^An error of 0\.001 needs about \d+ frequencies, .* use a larger"):
        smallest_size(error_at, 0.001, 500)
