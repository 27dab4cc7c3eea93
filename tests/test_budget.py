from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalindex.budget import Account, Budget

MOST = 100


def free(budget: Budget) -> int:
    """How much the budget still grants, found out by asking."""
    for size in range(MOST, -1, -1):
        if budget.take(size):
            budget.give_back(size)
            return size
    return -1


def test_what_fits_is_granted_and_the_rest_refused() -> None:
    budget = Budget(MOST, 1, 9)
    assert budget.take(60)
    assert budget.take(40)
    assert not budget.take(1)
    budget.give_back(40)
    assert not budget.take(41)
    assert budget.take(40)


def test_a_refused_size_is_not_held() -> None:
    budget = Budget(MOST, 1, 9)
    assert not budget.take(MOST + 1)
    assert budget.take(MOST)


def test_always_is_granted_whatever_others_hold_and_counts() -> None:
    budget = Budget(MOST, 1, 9)
    assert budget.take(MOST)
    assert budget.take(1000, always=True)
    budget.give_back(MOST)
    assert not budget.take(1)
    budget.give_back(1000)
    assert budget.take(MOST)


def test_the_sample_delivered_next_is_held_whatever_others_hold() -> None:
    budget = Budget(MOST, 1, 9)
    assert budget.take(MOST)
    account = Account(budget, 10)
    assert not account.hold(0, 5, always=False)
    assert account.hold(0, 5000, always=True)
    account.release(0)
    budget.give_back(MOST)
    assert free(budget) == MOST


def test_a_call_is_bounded_by_its_own_limit_too() -> None:
    budget = Budget(MOST, 1, 9)
    account = Account(budget, 10)
    assert account.hold(0, 10, always=False)
    assert not account.hold(1, 1, always=False)
    account.release(0)
    assert account.hold(1, 10, always=False)
    assert Account(budget, None).hold(0, MOST - 10, always=False)


def test_calls_share_one_budget() -> None:
    budget = Budget(MOST, 1, 9)
    first, second = Account(budget, None), Account(budget, None)
    assert first.hold(0, 70, always=False)
    assert not second.hold(0, 31, always=False)
    first.release_all()
    assert second.hold(0, MOST, always=False)


def test_a_sample_can_turn_out_larger_or_smaller() -> None:
    budget = Budget(MOST, 1, 9)
    account = Account(budget, None)
    assert account.hold(0, 40, always=False)
    assert account.hold(0, 90, always=False)
    assert free(budget) == 10
    assert not account.hold(0, 101, always=False)
    assert free(budget) == 10
    assert account.hold(0, 30, always=False)
    assert free(budget) == 70


@pytest.mark.parametrize("most", [None, 10])
def test_holding_less_than_before_is_never_refused(most: int | None) -> None:
    budget = Budget(10, 1, 9)
    account = Account(budget, most)
    assert account.hold(0, 50, always=True)
    assert account.hold(0, 20, always=False)
    assert account.hold(0, 20, always=False)


def test_releasing_what_is_not_held_changes_nothing() -> None:
    budget = Budget(MOST, 1, 9)
    account = Account(budget, None)
    account.release(3)
    account.hold(0, 60, always=False)
    account.release(0)
    account.release(0)
    assert free(budget) == MOST
    assert not budget.take(MOST + 1)


positions = st.integers(0, 4)
operations = st.lists(
    st.tuples(
        st.sampled_from(["hold", "always", "release", "all"]),
        st.integers(0, 2),
        positions,
        st.integers(0, 120),
    ),
    max_size=40,
)


@given(operations)
def test_no_more_is_held_than_granted_and_all_of_it_comes_back(
    steps: list[tuple[str, int, int, int]],
) -> None:
    budget = Budget(MOST, 1, 9)
    limits = (None, 50, 0)
    accounts = [Account(budget, limit) for limit in limits]
    held: list[dict[int, int]] = [{}, {}, {}]
    for action, who, position, size in steps:
        mine = held[who]
        before = mine.get(position, 0)
        if action in ("hold", "always"):
            granted = accounts[who].hold(position, size, always=action == "always")
            if granted:
                mine[position] = size
            if action == "always":
                assert granted
            elif granted and size > before:
                limit = limits[who]
                assert sum(sum(h.values()) for h in held) <= MOST
                assert limit is None or sum(mine.values()) <= limit
        elif action == "release":
            accounts[who].release(position)
            mine.pop(position, None)
        else:
            accounts[who].release_all()
            mine.clear()
        total = sum(sum(h.values()) for h in held)
        assert free(budget) == (MOST - total if total <= MOST else -1)
    for account in accounts:
        account.release_all()
    assert free(budget) == MOST


def test_threads_lose_no_byte() -> None:
    budget = Budget(MOST, 1, 9)
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        account = Account(budget, None)
        for i in range(3000):
            account.hold(i % 7, i % 40, always=i % 5 == 0)
            account.release((i + 3) % 7)
        account.release_all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert free(budget) == MOST


def test_threads_are_shared_and_one_is_always_had() -> None:
    budget = Budget(MOST, 3, 9)
    with budget.threads(2, 8, distant=False) as first:
        assert first == 2
        with budget.threads(None, 8, distant=False) as second:
            assert second == 1
            with budget.threads(5, 8, distant=False) as third:
                assert third == 1
            with budget.threads(None, 8, distant=True) as requests:
                assert requests == 6  # nine, of which three are busy
    with budget.threads(None, 8, distant=False) as all_of_them:
        assert all_of_them == 3
    with budget.threads(None, 2, distant=True) as no_more_than_there_is_work_for:
        assert no_more_than_there_is_work_for == 2


def test_what_was_taken_before_a_fork_is_not_given_back_behind_it() -> None:
    budget = Budget(MOST, 1, 9)
    account = Account(budget, None)
    assert account.hold(0, 60, always=False)
    budget.after_fork()
    account.release_all()
    assert free(budget) == MOST
    assert not budget.take(MOST + 1)
