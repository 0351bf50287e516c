# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark on public tables: data, methods, stored results and the page that shows them."""
