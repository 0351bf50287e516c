# SPDX-License-Identifier: BSD-3-Clause
"""Files that are replaced as a whole."""

import pytest

from bochner.atomic_files import replaced_file


@pytest.mark.parametrize("error", [OSError("The disk is full."), KeyboardInterrupt()])
def test_error_keeps_the_old_file_and_deletes_the_new_one(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_and_fail():
        with replaced_file(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write_and_fail()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_rest_of_a_killed_process_is_replaced(tmp_path):
    (tmp_path / "a.txt.new").write_text("half")
    with replaced_file(tmp_path / "a.txt") as temporary:
        assert not temporary.exists()
        temporary.write_text("new")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a.txt": "new"}


def test_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("keep")
    (tmp_path / "a.txt.new").symlink_to(other)
    with replaced_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert (other.read_text(), (tmp_path / "a.txt").read_text()) == ("keep", "new")
