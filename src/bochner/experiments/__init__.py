# SPDX-License-Identifier: BSD-3-Clause
"""Experiments: data sets, studies, runs and reports."""
