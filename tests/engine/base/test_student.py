"""Student's t distribution against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from engine.base.paired_comparison import t_test_power
from engine.base.student import t_cdf, t_quantile, t_test_p

DF = st.floats(min_value=1, max_value=1e5)


@given(t=st.floats(min_value=-50, max_value=50), df=DF)
def test_the_cdf_is_scipys(t: float, df: float) -> None:
    assert t_cdf(t, df) == pytest.approx(stats.t.cdf(t, df), rel=1e-8, abs=1e-12)


@given(probability=st.floats(min_value=0.0005, max_value=0.9995), df=DF)
def test_the_quantile_is_scipys(probability: float, df: float) -> None:
    expected = stats.t.ppf(probability, df)
    assert t_quantile(probability, df) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@given(t=st.floats(min_value=-50, max_value=50), df=DF)
def test_the_p_value_is_two_sided(t: float, df: float) -> None:
    assert t_test_p(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 50, 400])
@pytest.mark.parametrize("effect", [0.0, 0.1, 0.5, 1.0, 2.0, 4.0])
def test_the_power_is_that_of_the_noncentral_t(effect: float, n: int) -> None:
    critical = stats.t.ppf(0.975, n - 1)
    noncentrality = effect * math.sqrt(n)
    above = stats.nct.sf(critical, n - 1, noncentrality)
    # scipy has no value for this tail where it is below 1e-300.
    below = np.nan_to_num(stats.nct.cdf(-critical, n - 1, noncentrality))
    assert t_test_power(effect, n) == pytest.approx(above + below, abs=1e-6)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1])
def test_a_quantile_needs_a_probability(probability: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(probability, 3)
