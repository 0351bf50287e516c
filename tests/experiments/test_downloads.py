# SPDX-License-Identifier: BSD-3-Clause
import hashlib
import threading

import numpy as np
import pytest

from bochner.experiments import downloads
from bochner.experiments.downloads import fetch


class TestFetch:
    CONTENT = bytes(np.random.default_rng(0).integers(256, size=4500, dtype=np.uint8))
    SUM = hashlib.sha256(CONTENT).hexdigest()

    @pytest.fixture
    def target(self, tmp_path):
        return tmp_path / "new" / "file.bin"

    @pytest.fixture
    def part(self, target):
        target.parent.mkdir()
        return target.with_name("file.bin.part")

    def names(self, target):
        return [path.name for path in target.parent.iterdir()]

    def test_a_whole_file_with_progress(self, site, target):
        site.files["f"] = self.CONTENT
        calls = []

        def track(items, description, total):
            chunks = list(items)
            calls.append((len(chunks), description, total))
            assert not target.exists()
            return chunks

        assert fetch(site.url("f"), target, self.SUM, track) == target
        assert target.read_bytes() == self.CONTENT
        assert self.names(target) == ["file.bin"]
        assert calls == [(5, "fetching file.bin", 5)]

    def test_an_empty_file(self, site, target):
        site.files["f"] = b""
        assert fetch(site.url("f"), target).read_bytes() == b""

    def test_what_was_received_before_is_not_asked_for_again(self, site, target, part):
        site.files["f"] = self.CONTENT
        part.write_bytes(self.CONTENT[:1234])
        assert fetch(site.url("f"), target, self.SUM).read_bytes() == self.CONTENT
        assert site.requests == [("f", "bytes=1234-")]
        assert self.names(target) == ["file.bin"]

    @pytest.mark.parametrize("resumes", [True, False])
    def test_a_cut_body_is_resumed_or_begun_anew(self, site, target, resumes):
        site.files["f"] = self.CONTENT
        site.resumes = resumes
        site.cuts = [1500, 700]
        assert fetch(site.url("f"), target, self.SUM).read_bytes() == self.CONTENT
        assert site.requests == [("f", None), ("f", "bytes=1500-"), ("f", f"bytes={2200 if resumes else 700}-")]

    def test_a_body_that_is_always_cut_leaves_what_can_be_resumed(self, site, target):
        site.files["f"] = self.CONTENT
        site.cuts = [1000, 1000, 1000]
        with pytest.raises(
            ValueError,
            match=rf"^{site.url('f')} cannot be fetched \(.*1,000 of 2,500 bytes\); put the file into a folder",
        ):
            fetch(site.url("f"), target, self.SUM)
        assert self.names(target) == ["file.bin.part"]
        assert fetch(site.url("f"), target, self.SUM).read_bytes() == self.CONTENT
        assert site.requests[-1] == ("f", "bytes=3000-")

    @pytest.mark.parametrize("n_bytes", [4500, 6000])
    def test_more_than_can_be_resumed_is_begun_anew(self, site, target, part, n_bytes):
        site.files["f"] = self.CONTENT
        part.write_bytes(b"x" * n_bytes)
        assert fetch(site.url("f"), target, self.SUM).read_bytes() == self.CONTENT
        assert site.requests == [("f", f"bytes={n_bytes}-"), ("f", None)]

    def test_a_wrong_sum_leaves_nothing(self, site, target):
        site.files["f"] = self.CONTENT[::-1]
        actual = hashlib.sha256(self.CONTENT[::-1]).hexdigest()
        with pytest.raises(ValueError, match=f"{site.url('f')} has the SHA-256 sum {actual} instead of {self.SUM}; "):
            fetch(site.url("f"), target, self.SUM)
        assert self.names(target) == []

    def test_a_file_that_is_there_is_checked_and_not_fetched(self, site, target, part):
        target.write_bytes(self.CONTENT)
        fetch(site.url("f"), target)
        fetch(site.url("f"), target, self.SUM)
        target.write_bytes(b"changed")
        with pytest.raises(ValueError, match=rf"instead of {self.SUM}; delete it"):
            fetch(site.url("f"), target, self.SUM)
        assert target.read_bytes() == b"changed"
        assert site.requests == []

    def test_a_missing_page_is_asked_for_once(self, site, target):
        with pytest.raises(
            ValueError, match=r"/f cannot be fetched \(HTTP Error 404: Not Found\); put the file into a"
        ):
            fetch(site.url("f"), target)
        assert site.requests == [("f", None)]
        assert not target.exists()

    def test_an_unreachable_host(self, site, no_server, target):
        with pytest.raises(
            ValueError, match=rf"^{no_server}/f cannot be fetched \(.*refused.*\); put .* with --data\.$"
        ):
            fetch(f"{no_server}/f", target)
        assert not target.exists()

    @pytest.mark.skipif(downloads.fcntl is None, reason="this system has no locks")
    def test_two_at_once_fetch_it_once(self, site, target):
        site.files["f"] = self.CONTENT
        site.delay = 0.2
        threads = [threading.Thread(target=fetch, args=(site.url("f"), target, self.SUM)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert site.requests == [("f", None)]
        assert target.read_bytes() == self.CONTENT
        assert self.names(target) == ["file.bin"]
