# SPDX-License-Identifier: BSD-3-Clause
"""The paper: its studies, its numbers, and its errors.

The paper is *Data-driven Random Fourier Features using Stein Effect* (Chang, Li, Yang and Póczos, IJCAI 2017).
"""

from dataclasses import replace

from bochner.pages import paragraph
from reproduction.methods import DEFAULT, NYSTROEM
from reproduction.pieces import bullets
from reproduction.studies import ALL, MEDIAN, TUNED, LengthScale, Study

__all__ = ["BANDWIDTH", "BASELINES", "LEAD", "NOTES", "PAPER_ERRORS", "STUDIES", "TASK_SIZES", "TITLE", "quick"]

PAPER = ("cpu", "census", "years", "adult", "mnist", "covtype")
BASELINES = ("MC", "QMC", "BQ", "SES")
# Numbers of frequencies in Table 2. The digits are not in the paper; they need no download.
TASK_SIZES = {"cpu": 512, "census": 256, "years": 128, "adult": 64, "mnist": 256, "covtype": 128, "digits": 64}
# Table 2 of the paper: errors in %.
PAPER_ERRORS = {
    "cpu": dict(zip(BASELINES, (3.35, 3.29, 3.29, 3.27), strict=True)),
    "census": dict(zip(BASELINES, (8.46, 6.60, 6.44, 6.49), strict=True)),
    "years": dict(zip(BASELINES, (0.474, 0.473, 0.473, 0.473), strict=True)),
    "adult": dict(zip(BASELINES, (16.21, 15.57, 15.87, 15.45), strict=True)),
    "mnist": dict(zip(BASELINES, (7.33, 7.72, 7.96, 7.71), strict=True)),
    "covtype": dict(zip(BASELINES, (23.36, 22.88, 23.13, 22.67), strict=True)),
}

# The tuned length scale of the other studies: the cross-validated error of MC is lowest at it.
BANDWIDTH = Study(
    name="bandwidth",
    title="The length scale tuned for MC",
    measure="prediction",
    datasets=PAPER,
    methods=("MC",),
    n_frequencies=TASK_SIZES,
    length_scales=tuple(LengthScale("grid", 2.0**power) for power in range(-10, 11, 2)),
    seeds=(0, 1, 2),
    n_train=10_000,
    n_test=ALL,
)

STUDIES = {
    study.name: study
    for study in (
        Study(
            name="table2",
            title="Table 2: test errors",
            claim="At selected numbers of features, SES has the lowest test error on cpu, years (with QMC and BQ), "
            "adult and covtype; BQ has it on census and MC on mnist.",
            measure="prediction",
            datasets=PAPER,
            methods=(*BASELINES, DEFAULT, NYSTROEM),
            n_frequencies=TASK_SIZES,
            length_scales=(TUNED,),
            n_train=ALL,
            n_test=ALL,
            tables=("table2",),
            claims=("value", "order"),
        ),
        Study(
            name="figure1",
            title="Figure 1: kernel errors",
            claim="SES has a lower kernel error than MC, QMC and BQ on cpu, census, adult, mnist and covtype, most of "
            "all with few features, and is competitive with the best of them on years.",
            measure="kernel",
            datasets=PAPER,
            methods=(*BASELINES, DEFAULT, NYSTROEM),
            n_frequencies=(16, 32, 64, 128, 256, 512),
            length_scales=(MEDIAN, TUNED),
            figures=("errors",),
            claims=("lowest error", "few features"),
        ),
        Study(
            name="figure2",
            title="Figure 2: weights of the frequencies",
            claim="With few features the weights of BQ and SES vary widely; with more features they come closer to "
            "1/M.",
            measure="weights",
            datasets=("adult",),
            methods=("QMC", "BQ", "SES"),
            n_frequencies=(16, 32, 64, 128, 256, 512),
            figures=("weights",),
            claims=("closer to 1/M", "BQ and SES closer"),
        ),
        Study(
            name="figure3",
            title="Figure 3: number of sampled pairs",
            claim="As soon as the number of sampled pairs r exceeds M, SES has a lower error than QMC, and 2 M to 4 M "
            "pairs are enough for any number of rows. The error of BQ tuned on the same pairs varies erratically "
            "with r.",
            measure="kernel",
            datasets=("census", "covtype"),
            methods=("QMC", "BQ", "SES, pairs", "SES, row-norm pairs", "SES", NYSTROEM),
            n_frequencies=(64, 256),
            ratios=(0.5, 1, 2, 4, 8, 16),
            figures=("pairs",),
            claims=("pairs needed", "BQ erratic"),
        ),
        Study(
            name="figure4",
            title="Figure 4: one shrinkage factor, or one weight per frequency",
            claim="One shrinkage factor for all weights lowers the error of plain features, and one weight per "
            "frequency lowers it more.",
            measure="kernel",
            datasets=("cpu", "census"),
            methods=("MC", "MC, uniform shrinkage", "MC, SES weights", NYSTROEM),
            n_frequencies=(16, 32, 64, 128, 256, 512),
            seeds=tuple(range(20)),  # the effect of one factor is smaller than the variation between frequencies
            figures=("errors", "ratios"),
            claims=("uniform shrinkage", "one weight per frequency"),
        ),
    )
}


def quick(study: Study, seeds: tuple[int, ...] = (0, 1, 2)) -> Study:
    """Return the study with fewer seeds and a shorter grid of length scales."""
    scales = tuple(scale for scale in study.length_scales if scale.rule != "grid" or 1.0 <= scale.factor <= 64.0)
    return replace(study, length_scales=scales, seeds=seeds)


TITLE = "Data-driven random Fourier features, reproduced"
LEAD = (
    "The experiments of Data-driven Random Fourier Features using Stein Effect (Chang, Li, Yang and Póczos, IJCAI "
    "2017), run again with bochner. The section Methods explains MC, QMC, BQ and SES."
)
CHOICES = paragraph(
    "On a data set all methods approximate the same Gaussian kernel. For covtype, class 2 is predicted against the "
    "other classes, as in LIBSVM's file. The target of census is the logarithm of the price. mnist has all 784 pixels; "
    "the paper counts 778. Two methods are not in the paper: orthogonal + stein, the default of bochner, and Nystroem, "
    "which has as many columns as the others but keeps training rows."
)
ERRORS = {  # what the paper has, and what bochner has instead
    "k(x - x') = ∫ 2 [cos cos + sin sin] dP, φ = √2 [cos, sin]": "no factors 2 and √2; otherwise k̂(x, x) = 2",
    "gamma_m = exp(-|w_m|² / (s_GP² + 1/s²))": "(s_GP² / (s_GP² + 1/s²))^(d/2) exp(-|w_m|² / (2 (s_GP² + 1/s²))), with "
    "the normalization and the factor 1/2 of the Gaussian integral",
    "p(w) = ∏ over i = 1..M of p_j(w_j)": "∏ over j = 1..d, one factor per dimension",
    "Z(k, :) = z(x_i) ∘ z(x_j)": "Z[(i, j), m] = cos(w_m · (x_i - x_j)), because the cosine and the sine of a "
    "frequency share one weight",
    "S_ii = 1/p_i": "1/√p_i, so that the sketched sum of squares is unbiased",
    "cost O(r d²)": "O(r M²), because the regression has M unknowns",
    "z' = diag(√β) z": "β ≥ 0 in the regression; ridge weights can be negative, and clipping them can raise the error",
    "β near 1/M in one place, near 1 in another": "near 1/M, because k̂ = Σ β_m cos(w_m · δ)",
    "n of covtype is 581,012": "four fifths of them are training rows; 581,012 is the number of all rows, and the "
    "other n in Table 1 are training rows",
}
NOTES = {
    "Choices that the paper leaves open": CHOICES,
    "Errors in the paper": paragraph("What the paper has, and what bochner has instead:")
    + bullets((wrong, "", correct) for wrong, correct in ERRORS.items()),
}
