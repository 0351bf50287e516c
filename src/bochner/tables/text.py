# SPDX-License-Identifier: BSD-3-Clause
"""Text with many different values as a few dozen numbers: hashed character n-grams, projected on singular vectors."""

import numpy as np
import pyarrow as pa
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer

from bochner.rows import Floats

N_HASHED, MAX_COMPONENTS = 2**12, 30
N_GRAMS = HashingVectorizer(
    analyzer="char_wb", ngram_range=(3, 4), n_features=N_HASHED, alternate_sign=False, dtype=np.float32
)


def fit_text(texts: pa.Array) -> Floats:
    """Return the singular vectors of the hashed n-grams of sampled texts, scaled so that rows have length 1 on average.

    N-grams are weighted by the logarithm of their inverse document frequency. Text encoded in this way is close where
    it has rare n-grams in common, such as the words of a job title in any order.
    """
    distinct = texts.drop_null().unique()
    counts = N_GRAMS.transform(distinct.to_pylist() or [""])
    frequency = np.asarray((counts > 0).sum(axis=0)).ravel()
    weights = np.log((1.0 + counts.shape[0]) / (1.0 + frequency)) + 1.0
    weighted = counts.multiply(weights).tocsr()
    n_components = min(MAX_COMPONENTS, min(weighted.shape) - 1)
    if n_components < 1:
        return np.zeros((N_HASHED, 1))
    components = TruncatedSVD(n_components, random_state=0).fit(weighted).components_
    projected = weights[:, None] * components.T
    lengths = np.linalg.norm(counts @ projected, axis=1)
    return np.asarray(projected / (np.sqrt(np.square(lengths).mean()) or 1.0))


def encode_text(texts: pa.Array, components: Floats) -> Floats:
    """Return the projections of texts on singular vectors, zeros where they are missing."""
    encoded = texts.fill_null("").dictionary_encode()  # each distinct text is hashed once
    rows = N_GRAMS.transform(encoded.dictionary.to_pylist()) @ components
    return np.asarray(rows[encoded.indices.to_numpy(False)])
