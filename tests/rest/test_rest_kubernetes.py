"""People's requests to a driver whose jobs are objects of Kubernetes."""

import pytest

from holdfast.driver.settings import Settings


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1alpha1/jobs"),
        ("POST", "/v1alpha1/jobs/speech/suspend"),
        ("POST", "/v1alpha1/jobs/speech/resume"),
        ("DELETE", "/v1alpha1/jobs/speech"),
    ],
)
async def test_what_an_object_would_undo_is_refused_with_the_way_to_do_it(
    driver, tmp_path, method: str, path: str
) -> None:
    driver.control.settings = Settings(state=tmp_path, cluster="kubernetes", _cli_parse_args=[])
    answer = await driver.http.request(method, path, json={})
    assert answer.status_code == 409
    assert "TrainingJob objects" in answer.json()["detail"]
    assert "kubectl" in answer.json()["fix"]


async def test_what_is_the_drivers_own_goes_on(driver, tmp_path) -> None:
    driver.control.settings = Settings(state=tmp_path, cluster="kubernetes", _cli_parse_args=[])
    assert (await driver.http.get("/v1alpha1/jobs")).status_code == 200
