"""Renews tokens at an OAuth provider that nobody here wrote, and that forgives nothing.

    python3 tests/oauth/run.py --binary target/debug/outlast

Installs the provider first (`package-lock.json`), outside the checkout, and runs it on loopback over TLS.
Exits with 1 if a token is used twice, is lost, or a failure is told as something else.
"""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import contextlib
import hashlib
import http.cookiejar
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sdk"))

import install  # noqa: E402
import server  # noqa: E402

CALLBACK = "https://client.example/callback"
SECRET = "client secret/1+2&3"
"""With bytes that the two ways to send it encode in two ways."""

WAYS = {
    "client:basic": "client_secret_basic",
    "client:post": "client_secret_post",
    "client:none": "none",
}
"""The provider's clients, each with how it says who it is."""

ASKERS = 20
"""How many ask at once."""


def provided(folder: Path) -> Path:
    """Installs the provider as its lock file says; returns its folder."""
    install.install_node(folder)
    target = folder / "oauth"
    install.install_locked(folder, HERE, target)
    # It finds its library beside itself.
    shutil.copy(HERE / "provider.mjs", target)
    return target


class Provider:
    """A running provider, and what is asked of it."""

    def __init__(self, url: str, authority: Path) -> None:
        self.url, self.authority = url, authority
        self._context = ssl.create_default_context(cafile=str(authority))

    def opener(self) -> urllib.request.OpenerDirector:
        """Returns what keeps cookies and follows nothing by itself."""
        return urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=self._context),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
            Stay(),
        )

    def control(self, *words: object) -> Any:
        path = "/".join(urllib.parse.quote(str(word), safe="") for word in words)
        with self.opener().open(f"{self.url}/control/{path}", timeout=20) as reply:
            return json.load(reply)

    def sign_in(self, client: str) -> dict[str, Any]:
        """Has a person sign in and consent, and returns the tokens that the client gets for it."""
        opener, verifier = self.opener(), "v" * 64
        digest = hashlib.sha256(verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        asked = {
            "client_id": client,
            "response_type": "code",
            "scope": "openid offline_access",
            "prompt": "consent",
            "redirect_uri": CALLBACK,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        place = f"{self.url}/auth?{urllib.parse.urlencode(asked)}"
        for _ in range(12):
            if place.startswith(CALLBACK):
                break
            place = self._step(opener, place)
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(place).query)["code"][0]
        return self._exchange(opener, client, code, verifier)

    def _step(self, opener: urllib.request.OpenerDirector, place: str) -> str:
        """Goes where a browser would go next; returns where that leads."""
        form = None
        if "/interaction/" in place:
            with opener.open(place, timeout=20) as page:
                prompt = re.search(r'name="prompt" value="(\w+)"', page.read().decode())
            assert prompt is not None, "the provider shows a page that nobody knows"
            fields = {"prompt": prompt[1], "login": "ada", "password": "any"}
            form = urllib.parse.urlencode(fields).encode()
        with opener.open(place, form, timeout=20) as reply:
            return urllib.parse.urljoin(place, reply.headers["location"])

    def _exchange(
        self, opener: urllib.request.OpenerDirector, client: str, code: str, verifier: str
    ) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": verifier,
        }
        headers = {"x-sign-in": "1"}
        if WAYS[client] == "client_secret_basic":
            pair = ":".join(urllib.parse.quote_plus(text) for text in (client, SECRET))
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            form["client_id"] = client
        if WAYS[client] == "client_secret_post":
            form["client_secret"] = SECRET
        body = urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(f"{self.url}/token", body, headers)
        with opener.open(request, timeout=20) as reply:
            return json.load(reply)


class Stay(urllib.request.HTTPErrorProcessor):
    """Takes redirects for answers, and other refusals for what they are."""

    def http_response(self, request: Any, response: Any) -> Any:
        if 300 <= response.status < 400:
            return response
        return super().http_response(request, response)

    https_response = http_response


def certified(folder: Path) -> tuple[Path, Path, Path]:
    """Makes an authority, and what it vouches for: a certificate of loopback, and its key."""
    names = ("authority.pem", "authority.key", "cert.pem", "key.pem", "request", "extensions")
    authority, own, certificate, key, request, extensions = (folder / name for name in names)
    extensions.write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n")
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    signed = ["x509", "-req", "-days", "2", "-in", request, "-CA", authority, "-CAkey", own]
    for words in (
        [*new, "-x509", "-days", "2", "-subj", "/CN=test", "-keyout", own, "-out", authority],
        [*new, "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", request],
        [*signed, "-set_serial", "1", "-extfile", extensions, "-out", certificate],
    ):
        subprocess.run(["openssl", *map(str, words)], check=True, stderr=subprocess.DEVNULL)
    return authority, certificate, key


@contextlib.contextmanager
def providing(folder: Path) -> Iterator[Provider]:
    """Runs the provider on loopback, and ends it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="outlast-oauth-") as made:
        log = Path(made) / "log"
        authority, certificate, key = certified(Path(made))
        node = str(install.node(install.cache()))
        command = [node, "provider.mjs", str(port), str(key), str(certificate)]
        environment = {"HOME": made, "PATH": os.environ["PATH"]}
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors
            )
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError(f"the provider does not start:\n{log.read_text()[-4000:]}")
            yield Provider(f"https://127.0.0.1:{port}", authority)
        finally:
            process.kill()
            process.wait()


class Held:
    """A credential of one client in a vault of the server."""

    def __init__(self, outlast: server.Server, provider: Provider, vault: str, client: str) -> None:
        self._outlast, self._provider, self.client = outlast, provider, client
        self._path = f"/v1/vaults/{vault}/credentials"
        self.id = self._post("", {"auth": self._auth(whole=True)})["id"]

    def _auth(self, whole: bool) -> dict[str, Any]:
        """Returns what a sign-in gives: all of a new credential, or what changes of one."""
        tokens, url = self._provider.sign_in(self.client), self._provider.url
        how: dict[str, str] = {"type": WAYS[self.client]}
        if how["type"] != "none":
            how["client_secret"] = SECRET
        refresh = {"refresh_token": tokens["refresh_token"]}
        auth = {"type": "mcp_oauth", "access_token": tokens["access_token"], "refresh": refresh}
        if whole:
            auth["mcp_server_url"] = f"{url}/mcp/{urllib.parse.quote(self.client, safe='')}"
            refresh |= {"token_endpoint": f"{url}/token", "client_id": self.client}
            refresh["token_endpoint_auth"] = how
        return auth

    def _post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else b""
        headers = {"x-api-key": self._outlast.key, "content-type": "application/json"}
        url = f"{self._outlast.url}{self._path}{path}"
        request = urllib.request.Request(url, data, headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def renew_by_hand(self) -> None:
        """Signs in anew, and gives the server what came of it."""
        self._post(f"/{self.id}", {"auth": self._auth(whole=False)})

    def validate(self) -> dict[str, Any]:
        return self._post(f"/{self.id}/mcp_oauth_validate")

    def at_once(self, many: int) -> list[dict[str, Any]]:
        with concurrent.futures.ThreadPoolExecutor(many) as pool:
            return [one.result() for one in [pool.submit(self.validate) for _ in range(many)]]

    def stale(self) -> None:
        """Has the provider forget every access token that it gave so far."""
        self._provider.control("stale", self.client)

    def books(self) -> dict[str, Any]:
        return self._provider.control("books", self.client)

    def expect(self, told: dict[str, Any], status: str, refresh: str | None) -> None:
        found = (told["status"], (told["refresh"] or {}).get("status"))
        assert found == (status, refresh), f"{self.client}: {found}, and not {(status, refresh)}: {told}"


def rotates(held: Held, outlast: server.Server) -> None:
    """Each refresh token is used once, whoever asks, also after a kill."""
    held.expect(held.validate(), "valid", None)
    for _ in range(3):
        held.stale()
        held.expect(held.validate(), "valid", "succeeded")
    held.stale()
    for told in held.at_once(ASKERS):
        assert told["status"] == "valid", told
    outlast.kill()
    outlast.start()
    held.expect(held.validate(), "valid", None)
    held.stale()
    held.expect(held.validate(), "valid", "succeeded")
    assert held.books() == {"granted": 5, "used": 5, "refused": [], "revoked": 0}, held.books()


def fails(held: Held, provider: Provider) -> None:
    """An endpoint that cannot answer takes nothing away; nobody can tell meanwhile."""
    held.stale()
    for status in (503, 429):
        provider.control("trouble", status, 0)
        told = held.validate()
        held.expect(told, "unknown", "failed")
        assert told["refresh"]["http_response"]["status_code"] == status, told
    provider.control("trouble", 0, 0)
    held.expect(held.validate(), "valid", "succeeded")
    # A slow one is asked once, however many wait for it.
    held.stale()
    provider.control("trouble", 0, 1500)
    for told in held.at_once(ASKERS):
        assert told["status"] == "valid", told
    provider.control("trouble", 0, 0)
    assert held.books() == {"granted": 7, "used": 7, "refused": [], "revoked": 0}, held.books()


def revoked(held: Held, provider: Provider) -> None:
    """A grant that was taken away is told so, once asked for; a new one is good at once."""
    provider.control("revoke", held.client)
    for told in (held.validate(), held.validate()):
        held.expect(told, "invalid", "failed")
        said = told["refresh"]["http_response"]
        assert said["status_code"] == 400 and "invalid_grant" in said["body"], told
    assert held.books()["refused"] == ["invalid_grant"], held.books()
    held.renew_by_hand()
    held.expect(held.validate(), "valid", None)
    held.stale()
    held.expect(held.validate(), "valid", "succeeded")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the binary `outlast`")
    given = parser.parse_args()
    folder = install.cache()
    folder.mkdir(parents=True, exist_ok=True)
    with providing(provided(folder)) as provider:
        place = provider.url.removeprefix("https://")
        configuration = (
            f'[egress]\nopen = ["{place}"]\nauthorities = "{provider.authority}"\n'
        )
        with server.running(given.binary, configuration=configuration) as outlast:
            key = {"x-api-key": outlast.key, "content-type": "application/json"}
            made = urllib.request.Request(
                f"{outlast.url}/v1/vaults", b'{"display_name": "Ada"}', key
            )
            with urllib.request.urlopen(made, timeout=20) as reply:
                vault = json.load(reply)["id"]
            for client in WAYS:
                held = Held(outlast, provider, vault, client)
                rotates(held, outlast)
                fails(held, provider)
                revoked(held, provider)
                print(f"{client}: each token was used once, and none was lost", flush=True)


if __name__ == "__main__":
    main()
