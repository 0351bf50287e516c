# SPDX-License-Identifier: BSD-3-Clause
"""Files that are replaced as a whole."""

import os
from contextlib import ExitStack
from stat import S_IMODE

import pytest

from bochner.atomic_files import check_writable, replaced_file


def contents(folder):
    return {file.name: file.read_text() for file in folder.iterdir()}


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
    assert contents(tmp_path) == {"a.txt": "old"}


def test_of_two_writers_each_publishes_its_own_complete_file(tmp_path):
    path = tmp_path / "a.txt"
    first, second = ExitStack(), ExitStack()
    with second:
        with first:
            one = first.enter_context(first.enter_context(replaced_file(path)).open("w"))
            one.write("first, ")
            two = second.enter_context(second.enter_context(replaced_file(path)).open("w"))
            two.write("second, ")
            two.flush()
            one.write("complete")
        assert path.read_text() == "first, complete"
        two.write("complete")
    assert contents(tmp_path) == {"a.txt": "second, complete"}


def test_file_of_the_user_that_ends_in_new_is_kept(tmp_path):
    (tmp_path / "a.txt.new").write_text("keep")
    with replaced_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert contents(tmp_path) == {"a.txt": "new", "a.txt.new": "keep"}


def test_link_in_the_place_of_a_temporary_file_is_not_followed(tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("keep")
    (tmp_path / "a.txt.new").symlink_to(other)
    with replaced_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert (other.read_text(), (tmp_path / "a.txt").read_text()) == ("keep", "new")


def test_link_is_replaced_by_a_file(tmp_path):
    other, link = tmp_path / "other.txt", tmp_path / "a.txt"
    other.write_text("keep")
    link.symlink_to(other)
    with replaced_file(link) as temporary:
        temporary.write_text("new")
    assert not link.is_symlink()
    assert (other.read_text(), link.read_text()) == ("keep", "new")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions.")
class TestPermissions:
    def test_those_of_the_old_file_are_kept_from_the_first_byte_on(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("old")
        path.chmod(0o600)
        with replaced_file(path) as temporary:
            temporary.write_text("new")
            assert S_IMODE(temporary.stat().st_mode) == 0o600
        assert (S_IMODE(path.stat().st_mode), path.read_text()) == (0o600, "new")

    @pytest.mark.parametrize("mask", [0o022, 0o077])
    def test_those_of_a_new_file_are_the_usual_ones(self, tmp_path, mask):
        before = os.umask(mask)
        try:
            with replaced_file(tmp_path / "a.txt") as temporary:
                temporary.write_text("new")
        finally:
            os.umask(before)
        assert S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~mask

    def test_folder_that_does_not_exist_is_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none/a\.txt is in a folder that does not exist; make the folder"):
            check_writable(tmp_path / "none" / "a.txt")

    def test_read_only_file_is_refused(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("old")
        path.chmod(0o444)
        with (
            pytest.raises(PermissionError, match=r"a\.txt is read-only; make it writable, or give another name\."),
            replaced_file(path) as temporary,
        ):
            temporary.write_text("new")
        assert contents(tmp_path) == {"a.txt": "old"}
