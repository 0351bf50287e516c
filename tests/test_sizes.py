# SPDX-License-Identifier: BSD-3-Clause
"""The smallest size on made-up errors, where the answer is known."""

import numpy as np
import pytest

from bochner.sizes import smallest_size


def made_up(exponent, noise=0.0, constant=1.0, seed=0):
    """Errors constant * size^-exponent, with noise that belongs to a division of the rows and to a draw."""

    def error_at(size, division, draw):
        shared = np.random.default_rng([seed, size, division]).normal()
        own = np.random.default_rng([seed, size, division, draw]).normal()
        return constant * size**-exponent * np.exp(noise * (shared + own))

    return error_at


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.01])
def test_without_noise_it_is_the_crossing(exponent, tolerance):
    size, error = smallest_size(made_up(exponent), tolerance, 10**6)
    truth = tolerance ** (-1 / exponent)
    margin = np.exp(1.645 * 0.03 / exponent)  # for the error of other rows
    assert truth * margin * 0.999 <= size <= 1.1 * truth * margin + 2
    assert error <= tolerance * (1 + 1e-9)


@pytest.mark.parametrize("exponent", [0.5, 1.5])
def test_with_noise_another_draw_stays_below_and_the_size_is_not_much_larger(exponent):
    sizes, below = [], []
    for seed in range(40):
        size, _ = smallest_size(made_up(exponent, 0.04, 2.0, seed), 0.02, 10**6)
        draws = 2.0 * size**-exponent * np.exp(0.04 * np.random.default_rng([seed, 1]).normal(size=50))
        sizes.append(size)
        below.append(np.mean(draws <= 0.02))
    smallest = 100 ** (1 / exponent)
    assert np.mean(below) >= 0.9
    assert np.median(sizes) <= 1.3 * smallest
    assert np.mean(np.array(sizes) <= 1.5 * smallest) >= 0.9


def test_the_size_has_been_tried():
    """A cliff that no line foresees: the answer must lie beyond it."""
    tried = []

    def error_at(size, division, draw):
        tried.append(size)
        return 0.03 if size < 90 else 0.018

    size, error = smallest_size(error_at, 0.02, 10_000)
    assert size >= 90
    assert size in tried
    assert error == pytest.approx(0.018)


def test_a_single_feature_may_be_enough():
    assert smallest_size(lambda size, division, draw: 1e-3 / size, 0.02, 100)[0] == 1
    assert smallest_size(lambda size, division, draw: 0.0, 0.02, 100) == (1, pytest.approx(0.0, abs=1e-4))


@pytest.mark.parametrize("error_at", [lambda *_: 0.5, made_up(0.5)])
def test_out_of_reach_is_one_sentence(error_at):
    with pytest.raises(ValueError, match=r"^An error of 0\.001 takes about \d+ frequencies, .* give a larger"):
        smallest_size(error_at, 0.001, 500)
