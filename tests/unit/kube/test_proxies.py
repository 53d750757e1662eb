"""Proxies: which one, and when none."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from trimtab.kube import proxies
from trimtab.kube.errors import ConfigError


@pytest.mark.parametrize(
    ("server", "exceptions", "want"),
    [
        pytest.param("https://api.example.com", "", False, id="no exceptions"),
        pytest.param("https://api.example.com", "example.com", True, id="a domain covers what is under it"),
        pytest.param("https://example.com", "example.com", True, id="and itself"),
        pytest.param("https://api.example.com", ".example.com", True, id="with a dot, what is under it"),
        pytest.param("https://example.com", ".example.com", False, id="but not itself"),
        pytest.param("https://badexample.com", "example.com", False, id="a suffix of letters is no domain"),
        pytest.param("https://api.example.com", "*", True, id="everything"),
        pytest.param("https://api.example.com", "*.example.com", True, id="a star and a dot"),
        pytest.param("https://api.example.com:6443", "api.example.com:6443", True, id="the right port"),
        pytest.param("https://api.example.com:6443", "api.example.com:443", False, id="another port"),
        pytest.param("https://api.example.com", "api.example.com:443", True, id="the port that https means"),
        pytest.param("https://10.1.2.3:6443", "10.0.0.0/8", True, id="a network"),
        pytest.param("https://11.1.2.3:6443", "10.0.0.0/8", False, id="an address outside of it"),
        pytest.param("https://10.1.2.3:6443", "other, 10.1.2.3 ", True, id="an address in a list with spaces"),
        pytest.param("https://[fd00::1]:6443", "fd00::/8", True, id="a network of the new kind"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:6443", True, id="an address of the new kind with a port"),
        pytest.param("https://127.0.0.1:6443", "", True, id="this machine, always"),
        pytest.param("https://localhost:6443", "", True, id="this machine by name"),
        pytest.param("https://[::1]:6443", "", True, id="this machine, the new way"),
    ],
)
def test_hosts_that_bypass_the_proxy(server: str, exceptions: str, want: bool) -> None:
    """NO_PROXY means what it means to kubectl."""
    assert proxies.is_bypassed(urlsplit(server), exceptions) is want


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"HTTPS_PROXY": "http://p:3128"}, "http://p:3128", id="for https"),
        pytest.param({"https_proxy": "http://p:3128"}, "http://p:3128", id="in small letters"),
        pytest.param({"HTTPS_PROXY": "p:3128"}, "http://p:3128", id="without a scheme"),
        pytest.param({"HTTP_PROXY": "http://p:3128"}, "", id="that of http is not for https"),
        pytest.param({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "example.com"}, "", id="an exception"),
    ],
)
def test_the_environment_s_proxy(environ: dict[str, str], want: str) -> None:
    """The variable of the server's own scheme, unless there is an exception."""
    assert proxies.from_environment("https://api.example.com", environ) == want


@pytest.mark.parametrize(
    ("proxy", "why"),
    [
        pytest.param(
            "socks5://user:hunter2@p:1080", "socks5 proxies are not supported", id="a kind that we do not speak"
        ),
        pytest.param("hunter2", "is not a valid address", id="no address"),
        pytest.param("http://", "is not a valid address", id="no host"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused(proxy: str, why: str) -> None:
    """The reason is clear, and a password in the address stays out of it."""
    with pytest.raises(ConfigError, match=why) as caught:
        proxies.check(proxy)
    assert "hunter2" not in str(caught.value)
