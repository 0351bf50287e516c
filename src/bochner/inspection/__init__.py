# SPDX-License-Identifier: BSD-3-Clause
"""What fitted features and models are inspected by: kernel errors, sizes and the importance of columns."""
