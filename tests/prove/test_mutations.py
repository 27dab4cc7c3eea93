from __future__ import annotations

import pytest

from tests.prove.mutations import MUTATIONS, ROOT, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_each_check_that_is_taken_away_is_still_in_the_code(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text()
    assert text.count(mutation.check) == 1
    assert mutation.instead not in (mutation.check, text)
    assert all((ROOT / tests).exists() for tests in mutation.tests)


def test_there_is_a_check_of_each_law() -> None:
    assert {mutation.law for mutation in MUTATIONS} == set(range(1, 12))
