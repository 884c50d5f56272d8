"""A package that was changed is named with the file, and a hostile one is refused."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.report.package import Problem, check_package, write_package
from tests.engine.report.runs import log_steps, make_run

LOG = "runs/grpo-1/train_log.jsonl"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    run = make_run(root)
    log_steps(run, [{"reward/mean": 0.25}])
    return write_package(run, root / "grpo-1.zip", evaluations=root / "evaluations").path


@pytest.fixture
def folder(package: Path, tmp_path: Path) -> Path:
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "grpo-1-package"


def rewritten(package: Path, out: Path, add: Callable[[zipfile.ZipFile], None]) -> Path:
    """A copy of a package with more entries."""
    with zipfile.ZipFile(package) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            target.writestr(info, source.read(info))
        add(target)
    return out


@pytest.mark.row("H27")
def test_a_package_is_as_listed_packed_and_unpacked(package: Path, folder: Path) -> None:
    for path in (package, folder, folder.parent):
        check = check_package(path)
        assert check.problems == () and check.files == 4


@pytest.mark.row("H27")
def test_a_flipped_bit_a_missing_and_an_extra_file_differ(folder: Path) -> None:
    data = bytearray((folder / LOG).read_bytes())
    data[3] ^= 1
    (folder / LOG).write_bytes(data)
    (folder / "runs/grpo-1/state.json").unlink()
    (folder / "runs/grpo-1/.hidden").write_text("")
    assert [(problem.kind, problem.name) for problem in check_package(folder).problems] == [
        ("missing", "runs/grpo-1/state.json"),
        ("changed", LOG),
        ("extra", "runs/grpo-1/.hidden"),
    ]


@pytest.mark.parametrize(
    ("entry", "name"), [("grpo-1-package/x/", "x/"), ("grpo-1-package", "grpo-1-package")]
)
def test_content_in_a_folder_or_in_place_of_it_is_extra(
    package: Path, tmp_path: Path, entry: str, name: str
) -> None:
    path = rewritten(package, tmp_path / "a.zip", lambda archive: archive.writestr(entry, b"x"))
    assert check_package(path).problems == (Problem("extra", name),)


@given(st.data())
@pytest.mark.row("H27")
def test_no_flipped_bit_of_the_zip_file_passes(package: Path, data: st.DataObject) -> None:
    content = bytearray(package.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    flipped = package.with_name("flipped.zip")
    flipped.write_bytes(content)
    with suppress(UsageError):  # The directory of the zip file may be unreadable.
        assert check_package(flipped).problems


def test_the_changed_file_of_a_zip_file_is_named(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        info = archive.getinfo(f"grpo-1-package/{LOG}")
        start = info.header_offset + 30 + len(info.filename)
    content = bytearray(package.read_bytes())
    content[start + info.compress_size // 2] ^= 4
    (tmp_path / "x.zip").write_bytes(content)
    assert [(p.kind, p.name) for p in check_package(tmp_path / "x.zip").problems] == [
        ("changed", LOG)
    ]


def test_a_package_that_another_program_packed_again_is_accepted(
    folder: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "again.zip", "w") as archive:
        for path in (folder, *sorted(folder.rglob("*"))):
            archive.write(path, path.relative_to(tmp_path))
    assert check_package(tmp_path / "again.zip").problems == ()


def test_a_link_in_a_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "same").write_bytes((folder / LOG).read_bytes())
    (folder / LOG).unlink()
    (folder / LOG).symlink_to(tmp_path / "same")
    (folder / "loop").symlink_to(folder)
    assert check_package(folder).problems == (
        Problem("changed", LOG, "not a regular file"),
        Problem("extra", "loop"),
    )


def test_a_list_with_another_line_is_named(folder: Path) -> None:
    sums = folder / "SHA256SUMS"
    sums.write_text(sums.read_text() + "what is this\n")
    (problem,) = check_package(folder).problems
    assert problem.name == "SHA256SUMS" and "line 5" in problem.detail


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../outside", "leads out"),
        ("grpo-1-package/../../outside", "leads out"),
        ("/etc/passwd", "leads out"),
        ("C:/windows", "leads out"),
        ("grpo-1\\..\\outside", "differently"),
        ("grpo-1-package/\x1b[2J", "differently"),
        ("grpo-1-package/about.json", "2 entries named"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_names_are_refused(package: Path, tmp_path: Path, name: str, reason: str) -> None:
    path = rewritten(package, tmp_path / "x.zip", lambda zip_file: zip_file.writestr(name, "x"))
    with pytest.raises(UsageError, match=reason):
        check_package(path)


def test_a_link_in_a_zip_file_is_refused(package: Path, tmp_path: Path) -> None:
    info = zipfile.ZipInfo("grpo-1-package/runs/link")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    path = rewritten(package, tmp_path / "x.zip", lambda zip_file: zip_file.writestr(info, "/etc"))
    with pytest.raises(UsageError, match="a link or a device"):
        check_package(path)


def test_a_bomb_is_refused_before_it_is_expanded(package: Path, tmp_path: Path) -> None:
    def add(archive: zipfile.ZipFile) -> None:
        zeros = bytes(1 << 20)
        with archive.open("grpo-1/zeros", "w") as entry:
            for _ in range(65):
                entry.write(zeros)

    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        add(archive)
    with pytest.raises(UsageError, match=r"bytes expand to 68157440"):
        check_package(tmp_path / "bomb.zip")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip file" * 99])
def test_what_is_no_zip_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.zip: not a zip file, or a damaged one"):
        check_package(tmp_path / "x.zip")


def test_a_cut_zip_file_is_refused(package: Path, tmp_path: Path) -> None:
    content = package.read_bytes()
    (tmp_path / "x.zip").write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match="not a zip file, or a damaged one"):
        check_package(tmp_path / "x.zip")


def test_other_zip_files_and_folders_are_no_package(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a/b", "c")
    for path in (tmp_path, tmp_path / "x.zip"):
        with pytest.raises(UsageError, match="not a package"):
            check_package(path)
    with pytest.raises(UsageError, match="no such file"):
        check_package(tmp_path / "missing.zip")
