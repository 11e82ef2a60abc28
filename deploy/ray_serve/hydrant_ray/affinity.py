"""Which slot a request belongs to. Pure: neither Ray nor a network.

A slot is a replica's place: a small number that outlives the process, with a session directory of its own. A key (a session, or how a
prompt begins) is drawn to the slots in an order of its own, so that a slot that goes moves its own keys alone (rendezvous hashing)."""

import hashlib
import json

SESSION_HEADERS = ("x-session-id", "x-session-affinity", "x-claude-code-session-id", "session-id", "session_id")
SESSION_FIELDS = ("session_id", "conversation_id", "prompt_cache_key")
CREDENTIALS = ("authorization", "x-api-key")
GENERATIONS = ("/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses")
SESSIONS_PATH = "/v1/sessions/"
BODY_BYTES_MAX = 1 << 20  # a longer one is not looked into: it is sent to where its headers say
PREFIX_CHARS = 512  # of a prompt: long enough to tell system messages apart, short enough to be there from the first turn on


def ranked(key, slots):
    """`slots` in the key's order: the first is where it belongs, and each next one takes over where those before are gone."""

    def score(slot):
        return hashlib.blake2b(f"{slot} {key}".encode(errors="surrogatepass"), digest_size=8).digest()

    return sorted(slots, key=score, reverse=True)


def header(headers, name):
    """The first value of a field; `headers`: pairs of bytes, names in lower case, as ASGI has them."""
    name = name.encode()
    return next((value.decode("latin-1") for field, value in headers if field.lower() == name), "")


def key_of_head(headers, path):
    """The session that a request's head names, with the caller's credential: equal ids of two tenants are two sessions. "": none."""
    session = next((value for name in SESSION_HEADERS if (value := header(headers, name))), "")
    if not session and path.startswith(SESSIONS_PATH):
        session = path[len(SESSIONS_PATH) :].split("/", 1)[0]
    return _named("session", session, headers) if session else ""


def session_of(headers, path):
    """The id that hydrantd knows the session by, where the head has it."""
    session = header(headers, "x-session-id") or header(headers, "x-session-affinity")
    if not session and path.startswith(SESSIONS_PATH):
        session = path[len(SESSIONS_PATH) :].split("/", 1)[0]
    return session


def read_body(body):
    """The request's object; {} where it is none, or too long to be looked into."""
    if not body or len(body) > BODY_BYTES_MAX:
        return {}
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return {}  # hydrantd says what is wrong with it
    return request if isinstance(request, dict) else {}


def key_of_body(request, headers):
    """(key, whether it is a session's): the session that a body names, or how its prompt begins. ("", False): neither."""
    for name in SESSION_FIELDS:
        if isinstance(session := request.get(name), str) and session:
            return _named("session", session, headers), True
    for name in ("messages", "prompt", "input"):
        if name in request:
            began = request[name] if isinstance(request[name], str) else json.dumps(_beginning(request[name]))
            system = request.get("system") or request.get("instructions") or ""
            text = (system if isinstance(system, str) else json.dumps(system)) + began
            return _named("prefix", text[:PREFIX_CHARS], headers), False
    return "", False


def _beginning(value):
    """As much of a list as can be in the first characters of its text."""
    return value[:PREFIX_CHARS] if isinstance(value, list) else value


def _named(kind, text, headers):
    credential = next((value for name in CREDENTIALS if (value := header(headers, name))), "")
    # The same key, as Anthropic's clients send it, has no scheme before it.
    owner = credential.split(None, 1)[-1].strip() if credential.lower().startswith("bearer ") else credential
    return f"{kind} {owner} {text}"


def least_crowded(order, loads, mean_factor=1.25, spare=4):
    """The first slot of `order` that does not have much more to do than the others; a prefix that everybody shares fills one slot, and
    then the next. `loads`: requests in progress by slot."""
    if not order:
        return None
    mean = sum(loads.get(slot, 0) for slot in order) / len(order)
    return next((slot for slot in order if loads.get(slot, 0) <= mean_factor * mean + spare), order[0])
