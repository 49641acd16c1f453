"""Keys, the admin token, names, origins, TLS."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from twinfer.api.access import access
from twinfer.api.tls import certificate
from twinfer.errors import ConfigError

from .http_fake import FakeService
from .replies import error_of
from .threaded import connect, read_all, serving

KEY, SECOND, FROM_FILE, TOKEN = "sk-one", "sk-two", "sk-three", "admin-secret"
PROMPT = {"prompt": "a"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server with keys, an admin token, a name and an origin."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"# known clients\n\n{hashlib.sha256(FROM_FILE.encode()).hexdigest()}  # the third\n")
    allowed = access(
        host="127.0.0.1",
        api_keys=[KEY, SECOND],
        api_key_file=file,
        admin_token=TOKEN,
        allowed_hosts=["models.example.org"],
        cors_origins=["https://chat.example.org"],
    )
    with serving(FakeService(), access=allowed) as url, httpx.Client(base_url=url) as http:
        yield http


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@pytest.mark.parametrize("key", [KEY, SECOND, FROM_FILE])
def test_known_keys(guarded: httpx.Client, key: str) -> None:
    assert guarded.post("/v1/completions", json=PROMPT, headers=bearer(key)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("sk-on"),
        bearer("sk-one1"),
        bearer(TOKEN),
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": KEY},
        {"Authorization": "Bearer"},
        {"Authorization": b"Bearer \xff\xfe"},
    ],
    ids=str,
)
@pytest.mark.parametrize("route", ["/v1/completions", "/metrics", "/v1/models", "/openapi.json", "/nowhere"])
def test_unknown_keys(guarded: httpx.Client, headers: dict[str, str], route: str) -> None:
    for response in (guarded.get(route, headers=headers), guarded.post(route, json=PROMPT, headers=headers)):
        error = error_of(response, 401)
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
        assert KEY not in response.text
        assert response.headers["www-authenticate"] == "Bearer"


def test_health_needs_no_key(guarded: httpx.Client) -> None:
    assert guarded.get("/health").status_code == guarded.get("/ready").status_code == 200


def test_engines_change_with_the_token_only(guarded: httpx.Client) -> None:
    assert guarded.get("/admin/engines").status_code == 200
    route = "/admin/engines/decode-0/role"
    for headers in ({}, bearer(KEY), bearer("wrong"), {"X-Admin-Token": KEY}):
        error_of(guarded.post(route, json={"role": "mixed"}, headers=headers), 401)
    for headers in (bearer(TOKEN), {"X-Admin-Token": TOKEN}):
        assert guarded.post(route, json={"role": "mixed"}, headers=headers).json()["role"] == "mixed"


def test_admin_is_off_without_a_token(http: httpx.Client) -> None:
    assert "--admin-token" in error_of(http.post("/admin/engines/decode-0/drain"), 403)["message"]


def test_engines_are_shown_to_this_machine_or_with_the_token(guarded: httpx.Client) -> None:
    elsewhere = {"X-Forwarded-For": "203.0.113.7"}
    error_of(guarded.get("/admin/engines", headers=elsewhere), 401)
    assert guarded.get("/admin/engines", headers=elsewhere | bearer(TOKEN)).status_code == 200


def test_drain_resume_and_roles(guarded: httpx.Client) -> None:
    guarded.headers["X-Admin-Token"] = TOKEN
    assert guarded.post("/admin/engines/decode-0/drain").json()["state"] == "draining"
    assert "no other" in error_of(guarded.post("/admin/engines/prefill-0/drain"), 409)["message"]
    assert guarded.post("/admin/engines/decode-0/resume").json()["state"] == "ready"
    assert "nobody" in error_of(guarded.post("/admin/engines/nobody/drain"), 404)["message"]
    role = "/admin/engines/decode-0/role"
    assert error_of(guarded.post(role, json={"role": "chef"}), 400)["param"] == "role"
    assert error_of(guarded.post(role, json={}), 400)["param"] == "role"
    assert error_of(guarded.post(role, json={"role": "decode", "x": 1}), 400)["param"] == "x"
    del guarded.headers["X-Admin-Token"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8000", 200),
        ("localhost:1", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("192.168.1.5", 200),
        ("models.example.org", 200),
        ("Models.Example.org.:80", 200),
        ("evil.example.org", 421),
        ("models.example.org.evil.com", 421),
        ("127.0.0.1.evil.com", 421),
        ("localhost@evil.com", 400),
        ("a b", 400),
        ("", 400),
        ("localhost:port", 400),
    ],
)
def test_names(guarded: httpx.Client, host: str, status: int) -> None:
    response = guarded.get("/health", headers={"Host": host})
    assert response.status_code == status
    if status != 200:
        error_of(response, status)


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"]], ids=len)
def test_one_host_header(address: str, hosts: list[str]) -> None:
    with connect(address) as connection:
        lines = "".join(f"Host: {host}\r\n" for host in hosts)
        connection.sendall(f"GET /health HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
        assert read_all(connection).startswith(b"HTTP/1.1 400")


def test_pages_from_elsewhere_may_not_call(guarded: httpx.Client, http: httpx.Client) -> None:
    evil = {"Origin": "https://evil.example.org", **bearer(KEY)}
    error_of(guarded.post("/v1/completions", json=PROMPT, headers=evil), 403)
    error_of(http.post("/v1/completions", json=PROMPT, headers={"Origin": "null"}), 403)
    response = http.get("/health")
    assert "access-control-allow-origin" not in response.headers
    error_of(http.options("/v1/completions", headers={"Origin": "https://chat.example.org"}), 403)
    own = str(http.base_url).rstrip("/")
    assert http.post("/v1/completions", json=PROMPT, headers={"Origin": own}).status_code == 200


def test_pages_of_an_allowed_origin_may(guarded: httpx.Client) -> None:
    page = {"Origin": "https://chat.example.org"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    preflight = guarded.options("/v1/completions", headers=page | asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == page["Origin"]
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    for headers, status in ((page, 401), (page | bearer(KEY), 200)):
        response = guarded.post("/v1/completions", json=PROMPT, headers=headers)
        assert response.status_code == status
        assert response.headers["access-control-allow-origin"] == page["Origin"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_keys": [""]}, "an API key must be printable"),
        ({"api_keys": ["two words"]}, "an API key must be printable"),
        ({"admin_token": "schlüssel"}, "the admin token must be printable"),
        ({"cors_origins": ["chat.example.org"]}, "'chat.example.org' is not an origin"),
        ({"cors_origins": ["https://a.example/path"]}, "is not an origin"),
        ({"api_key_file": Path("/no/such")}, "cannot read the API keys in /no/such: No such file"),
    ],
    ids=str,
)
def test_options_that_cannot_be_honoured(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        access(host="127.0.0.1", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sk-plain\n", r"line 1: must be a key's SHA-256"),
        ("# none\n", "holds no API key"),
        ("\xff", "line 1"),
    ],
)
def test_bad_key_files_are_not_quoted(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(text, "latin-1")
    with pytest.raises(ConfigError, match=f"{message}|it is not text") as caught:
        access(host="127.0.0.1", api_key_file=tmp_path / "keys")
    assert "sk-plain" not in str(caught.value)


def test_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    trust = ssl.create_default_context()
    make_certificate(cert, key).configure_trust(trust)
    with (
        serving(FakeService(), certificate=certificate(cert, key)) as url,
        httpx.Client(base_url=url, verify=trust) as http,
    ):
        assert url.startswith("https://")
        assert http.post("/v1/completions", json=PROMPT).status_code == 200
        with connect(url) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" not in read_all(plain)
        assert http.get("/health").status_code == 200


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(cert, key)
    broken = tmp_path / "broken.pem"
    broken.write_text("nonsense")
    for arguments, message in (
        ((cert, None), "needed both"),
        ((cert, tmp_path / "none.pem"), "cannot read .*none.pem: No such file"),
        ((broken, key), "no usable certificate and key"),
        ((cert, broken), "no usable certificate and key"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            certificate(*arguments)
        assert "\n" not in str(caught.value)
    assert certificate(None, None) is None


def make_certificate(cert: Path, key: Path) -> trustme.CA:
    """A certificate for 127.0.0.1, and who vouches for it."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(cert)
    return authority
