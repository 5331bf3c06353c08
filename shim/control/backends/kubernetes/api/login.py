"""Who speaks to which API server, and how: kubeconfig or the pod's service account → address, TLS, credentials.

The only module that imports the packages ``kubernetes`` and ``urllib3``, and only when a login is made: together they cost more than
150 ms and 40 MB. Of ``kubernetes`` it takes what reads configurations and refreshes credentials, never its models.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.control.backends.kubernetes.api.errors import AccessError, NoContext
from shim.control.paths import unsafe
from shim.job import capped

if TYPE_CHECKING:
    import urllib3

_POD_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
_CREDENTIAL_LIFE = 10.0  # seconds one is used without asking for it again: an exec plugin may take one to answer
_PLUGIN_LIMIT = 60.0  # seconds to wait for another thread that asks the plugin
_loading = threading.Lock()  # keys pass through files that the package keeps one list of
# A peer that is gone without a word is noticed within a minute, whether we wait for it or send to it.
SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
]


class Login:
    """One reading of the configuration. Its methods may be called from any thread.

    ``context`` and its ``namespace``: what was chosen; "": the pod's service account. ``current``: the same two of kubectl's own.
    """

    def __init__(
        self,
        configuration: Any,
        context: str,
        namespace: str,
        current: tuple[str, str] | None,
        files: list[str],
        proxy: str | None = None,
    ) -> None:
        self.server = str(configuration.host).rstrip("/")
        self.context = context
        self.namespace = namespace
        self.current = current
        self.tls = _tls(configuration) if self.server.startswith("https") else None
        self.tls_name: str | None = getattr(configuration, "tls_server_name", None)
        self.proxy = proxy or _proxy(configuration, self.server)
        self.pool = self._pool()
        self._configuration = configuration
        self._lock = threading.Lock()
        self._credential: str | None = None
        self._asked = float("-inf")
        self.kubeconfig = os.pathsep.join(files)  # "" for the pod's service account
        self._files = _stamps(files)

    def _pool(self) -> urllib3.PoolManager:
        import urllib3

        if self.tls is not None and self.tls.verify_mode is ssl.CERT_NONE:
            # Said in the kubeconfig; once for every connection would be too often.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        settings: dict[str, Any] = {"maxsize": 16, "retries": False, "socket_options": SOCKET_OPTIONS}
        if self.tls is not None:
            settings["ssl_context"] = self.tls
        if self.tls_name:
            settings["server_hostname"] = self.tls_name
        pool = urllib3.ProxyManager(self.proxy, **settings) if self.proxy else urllib3.PoolManager(**settings)
        pool.pool_classes_by_scheme = {**pool.pool_classes_by_scheme, "https": _pool_class()}
        return pool

    def credential(self) -> str | None:
        """The Authorization header, refreshed when it has expired; None: by certificate, or anonymous. Raises AccessError."""
        if not self._lock.acquire(timeout=_PLUGIN_LIMIT):
            raise AccessError("the credential plugin of the kubeconfig does not answer")
        try:
            if time.monotonic() - self._asked > _CREDENTIAL_LIFE:
                # "BearerToken" since version 32 of the package, "authorization" before.
                ask = self._configuration.get_api_key_with_prefix
                self._credential = ask("BearerToken") or ask("authorization")
                self._asked = time.monotonic()
            return self._credential
        except Exception as problem:
            raise AccessError(f"no credentials: {problem}") from problem
        finally:
            self._lock.release()

    def stale(self) -> bool:
        """The configuration has been written since it was read."""
        return _stamps(list(self._files)) != self._files

    def close(self) -> None:
        """Closes the idle connections."""
        self.pool.clear()


def _pool_class() -> type[urllib3.HTTPSConnectionPool]:
    """A pool that tells a connection that was not made from one that broke: before a dead server there may be a live forwarder."""
    import urllib3

    class Connection(urllib3.connection.HTTPSConnection):
        def connect(self) -> None:
            try:
                super().connect()
            except ssl.SSLCertVerificationError:
                raise
            except OSError as problem:
                raise urllib3.exceptions.NewConnectionError(self, str(problem)) from problem

    class Pool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Connection

    return Pool


def load(kubeconfig: str | None, context: str | None) -> Login:
    """Reads the configuration as kubectl would: the given file(s), $KUBECONFIG, ~/.kube/config, the pod's service account.

    ``context``: a name; None: the current one; "": the pod's service account, whatever files there are. Blocks; may run the
    user's credential plugin. Raises AccessError; NoContext where another configuration would have it.
    """
    if context == "":
        return _from_pod("the pod's service account")
    present = files(kubeconfig)
    if present:
        _refuse_others(present, chosen=bool(kubeconfig or os.environ.get("KUBECONFIG")))
        return _from_files(present, context)
    if not kubeconfig and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _from_pod("no kubeconfig, and the pod's service account")
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    if named:
        raise NoContext(f'no kubeconfig: "{named}" does not exist')
    raise NoContext("no kubeconfig: KUBECONFIG is not set and there is no ~/.kube/config")


def files(kubeconfig: str | None) -> list[str]:
    """The files that a configuration is read from: those given or, as kubectl has it, found; if they are there."""
    named = kubeconfig or os.environ.get("KUBECONFIG", "") or "~/.kube/config"
    paths = [os.path.abspath(os.path.expanduser(file)) for file in named.split(os.pathsep) if file]
    return [file for file in paths if os.path.exists(file)]


def _refuse_others(files: list[str], *, chosen: bool) -> None:
    """AccessError for a file that others could have written: it may name programs to run. As with our own configuration, HOME may be
    another user's; who ``chosen`` a file goes by it, but for root, whose variables survive ``su`` and ``sudo -E``.
    """
    if chosen and os.geteuid() != 0:
        return
    for file in files:
        why = unsafe(file)
        if why:
            how = "it belongs in a file of root's own" if chosen else "KUBECONFIG may name one of your own"
            raise AccessError(f'kubeconfig "{file}" is not read: {why}, who could have put programs there; {how}')


def _from_files(files: list[str], context: str | None) -> Login:
    name = os.pathsep.join(files)
    for file in files:
        try:
            capped.kept(file)
        except OSError as problem:
            raise AccessError(f'kubeconfig "{file}" cannot be read: {problem.strerror}') from problem
    if not _loading.acquire(timeout=_PLUGIN_LIMIT):
        raise AccessError("another kubeconfig's credential plugin does not answer")
    words = _Words()
    try:
        with words:
            login = _read(name, context, files)
    except AccessError:
        raise
    except Exception as problem:  # whatever the package makes of a file that is wrong somewhere
        raise AccessError(f'kubeconfig "{name}": {_one_line(problem)}') from problem
    finally:
        _remove_key_files()
        _loading.release()
    if words.heard:
        # The package logs the failure of a credential plugin and goes on without credentials.
        raise AccessError(f'kubeconfig "{name}": {words.heard[-1]}')
    return login


def _read(name: str, wanted: str | None, files: list[str]) -> Login:
    config, configuration_class = _package()
    merged = config.kube_config.KubeConfigMerger(name).config
    if merged is None:
        raise AccessError(f'kubeconfig "{name}" is empty')
    contexts = {str(one.value["name"]): one.value["context"] for one in merged["contexts"]}
    current = str(merged.safe_get("current-context") or "")
    chosen = wanted or current
    if chosen not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        problem = f'has no context "{chosen}"' if chosen else "names no current context"
        raise NoContext(f'kubeconfig "{name}" {problem} (it has: {known})')
    configuration = configuration_class()
    config.load_kube_config(name, context=chosen, client_configuration=configuration)
    context = contexts[chosen]
    cluster = merged["clusters"].get_with_name(context["cluster"])["cluster"]
    # Older versions of the package do not know this word; and as kubectl has it, no variable overrules it.
    proxy = cluster.safe_get("proxy-url")
    kubectls = (current, _namespace(contexts[current])) if current in contexts else None
    return Login(configuration, chosen, _namespace(context), kubectls, files, proxy)


def _namespace(context: dict[str, Any] | None) -> str:
    return str((context or {}).get("namespace") or "default")


def _from_pod(wanted: str) -> Login:
    config, configuration_class = _package()
    try:
        configuration = configuration_class()
        config.incluster_config.InClusterConfigLoader(
            config.incluster_config.SERVICE_TOKEN_FILENAME, config.incluster_config.SERVICE_CERT_FILENAME
        ).load_and_set(configuration)
        namespace = Path(_POD_NAMESPACE).read_text().strip()
        return Login(configuration, "", namespace, ("", namespace), [])
    except (config.ConfigException, OSError) as problem:
        raise NoContext(f"{wanted}: {_one_line(problem)}") from problem


def _tls(configuration: Any) -> ssl.SSLContext:
    # Made once, not for every connection; and not by create_default_context, whose 15 ms go into the system's authorities.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif configuration.ssl_ca_cert:
        context.load_verify_locations(configuration.ssl_ca_cert)
    else:
        context.load_default_certs()
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _proxy(configuration: Any, server: str) -> str | None:
    host = urllib.parse.urlsplit(server).netloc
    without = getattr(configuration, "no_proxy", None) or ""
    if not configuration.proxy or urllib.request.proxy_bypass_environment(host, {"no": without}):  # type: ignore[attr-defined]
        return None
    return str(configuration.proxy)


def _package() -> tuple[Any, Any]:
    # Not by an import statement: whether the package says its types depends on its version.
    config = importlib.import_module("kubernetes.config")
    return config, importlib.import_module("kubernetes.client").Configuration


def _remove_key_files() -> None:
    """Certificates and keys that stood in the kubeconfig were written to files for OpenSSL; it has read them."""
    importlib.import_module("kubernetes.config.kube_config")._cleanup_temp_files()


def _stamps(files: list[str]) -> dict[str, tuple[int, int] | None]:
    stamps: dict[str, tuple[int, int] | None] = {}
    for file in files:
        try:
            found = os.stat(file)
            stamps[file] = (found.st_mtime_ns, found.st_ino)
        except OSError:
            stamps[file] = None
    return stamps


def _one_line(problem: Exception) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__


class _Words(logging.Handler):
    """What this thread logs as an error while it is in force."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread and record.name == "root":
            self.heard.append(" ".join(record.getMessage().split()))

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
