"""What several tests assert."""

from hydrant_server import PROMPT_MARK

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "timeout_error",
    409: "conflict_error",
    411: "invalid_request_error",
    413: "invalid_request_error",
    414: "invalid_request_error",
    415: "invalid_request_error",
    417: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    500: "server_error",
    501: "invalid_request_error",
    503: "overloaded_error",
    504: "timeout_error",
}
# What a request asks for by name; a path that leads nowhere is an invalid request.
NOT_FOUND = ("model_not_found", "session_not_found", "session_expired")


def check_error(response, *statuses, param=None, code=None):
    """The response is one of `statuses`, and its body is the documented error object without any of the input."""
    assert response.status in statuses, f"{response.status}, not {statuses}: {response.body[:500]!r}"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    assert response.json().keys() == {"error"}
    assert isinstance(error["message"], str) and error["message"]
    expected = "not_found_error" if error["code"] in NOT_FOUND else ERROR_TYPES[response.status]
    assert error["type"] == expected, error
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] is None or isinstance(error["code"], str)
    assert PROMPT_MARK not in response.body.decode("utf-8"), "an error echoes the prompt"
    assert response.field("x-request-id"), "no x-request-id"
    assert response.field("content-type", "").startswith("application/json")
    if response.status == 405:
        assert response.field("allow")
    if response.status == 401:
        assert response.field("www-authenticate") == "Bearer"
    if response.status in (429, 503) or error["code"] == "queue_time_exceeded":
        assert int(response.field("retry-after")) >= 1
    if param is not None:
        assert error["param"] == param, error
    if code is not None:
        assert error["code"] == code, error
    return error


def each(cases, check):
    """Runs `check(*case)` on every (name, *case); reports all that fail, not only the first."""
    problems = []
    for name, *case in cases:
        try:
            check(*case)
        except Exception as error:  # every kind of failure is reported with its case
            problems.append(f"{name}: {type(error).__name__}: {error}")
    assert not problems, f"{len(problems)} of {len(cases)} cases:\n" + "\n".join(problems)
