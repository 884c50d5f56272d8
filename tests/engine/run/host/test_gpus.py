"""Which GPUs are free, decided from what the driver and the other runs say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run.host.gpus import ALL, Device, GpuUser, Shortage, choose, visible

GIB = 2**30
IDLE = [Device(index, f"GPU-{index}abc", GIB // 2) for index in range(4)]


def busy(index: int, *users: GpuUser, used: int | None = None) -> list[Device]:
    held = sum(user.held for user in users) if used is None else used
    return [replace(d, used=held, users=users) if d.index == index else d for d in IDLE]


def shortage(*arguments: object, **named: object) -> str:
    result = choose(*arguments, **named)  # type: ignore[arg-type]
    assert isinstance(result, Shortage)
    return result.message


def test_the_first_free_devices_are_chosen() -> None:
    assert choose(2, IDLE, {}) == (0, 1)


def test_the_device_of_another_run_is_not_free() -> None:
    assert choose(2, IDLE, {"a": "0,2"}) == (1, 3)


def test_a_run_that_sees_every_device_has_them_all() -> None:
    assert shortage(1, IDLE[:1], {"a": ALL}) == "1 free GPU: 0 is used by run a"


def test_a_device_that_a_strange_process_fills_is_not_free() -> None:
    devices = busy(1, GpuUser(123, int(40.1 * GIB)))[:2]
    assert shortage(2, devices, {"x": "0"}) == (
        "2 free GPUs: 0 is used by run x, 1 holds 40.1 GiB of pid 123, which belongs to no run"
    )


def test_a_process_of_a_lost_run_on_a_device_is_named() -> None:
    devices = busy(0, GpuUser(123, 3 * GIB, run="old"))[:1]
    assert shortage(1, devices, {}).endswith("0 holds 3.0 GiB of pid 123, a process of run old")


def test_a_device_with_little_used_memory_counts_as_free() -> None:
    assert choose(4, busy(0, GpuUser(9, GIB // 4)), {}) == (0, 1, 2, 3)


def test_memory_of_processes_outside_the_container_counts() -> None:
    assert "0 holds 70.0 GiB of processes that cannot be seen here" in shortage(
        4, busy(0, used=70 * GIB), {}
    )


def test_a_device_that_does_not_answer_is_not_free() -> None:
    assert shortage(1, [Device(0, "GPU-0", None)], {}) == "1 free GPU: 0 does not answer"


def test_only_devices_that_the_launcher_could_see_are_chosen() -> None:
    assert choose(2, IDLE, {}, allowed="3,1") == (3, 1)


def test_too_few_visible_devices_are_named() -> None:
    assert shortage(2, IDLE, {}, allowed="3") == "2 free GPUs: 1 can be seen"


@pytest.mark.parametrize(
    ("variable", "indices"),
    [("0,2", [0, 2]), ("GPU-1", [1]), ("2,-1,0", [2]), ("", []), ("GPU-", []), (ALL, [0, 1, 2, 3])],
)
def test_devices_are_named_as_cuda_reads_them(variable: str, indices: list[int]) -> None:
    assert [device.index for device in visible(variable, IDLE)] == indices


def test_a_claim_that_cannot_be_read_claims_everything() -> None:
    assert isinstance(choose(1, IDLE, {"a": "MIG-7"}), Shortage)


devices = st.lists(
    st.builds(
        lambda used, held: (used + held, (GpuUser(7, held),) if held else ()),
        st.integers(0, 4 * GIB),
        st.integers(0, 80 * GIB),
    ),
    max_size=8,
).map(lambda found: [Device(i, f"GPU-{i}", used, users) for i, (used, users) in enumerate(found)])
indices = st.lists(st.integers(0, 9), max_size=3)
variables = indices.map(lambda found: ",".join(str(index) for index in found))
claims = st.dictionaries(st.sampled_from("abc"), st.one_of(st.just(ALL), variables))


@given(st.integers(1, 8), devices, claims)
def test_a_chosen_device_belongs_to_no_run(
    count: int, found: list[Device], taken: dict[str, str]
) -> None:
    chosen = choose(count, found, taken)
    if isinstance(chosen, Shortage):
        assert chosen.message.startswith(f"{count} free GPU")
        return
    assert len(set(chosen)) == count
    claimed = {d.index for variable in taken.values() for d in visible(variable, found)}
    assert not claimed & set(chosen)
    assert all(sum(user.held for user in found[index].users) <= GIB for index in chosen)
