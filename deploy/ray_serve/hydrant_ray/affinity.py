"""Which slot a request belongs to. Pure: neither Ray nor a network.

A slot is a replica's place: a small number that outlives the process, with a session directory of its own. A key (a session, or how a
prompt begins) is drawn to the slots in an order of its own, so that a slot that goes moves its own keys alone (rendezvous hashing)."""

import hashlib
import json
import re

SESSION_HEADERS = ("x-session-id", "x-session-affinity", "x-claude-code-session-id", "session-id", "session_id")
CREDENTIALS = ("authorization", "x-api-key")
GENERATIONS = ("/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses")
SESSIONS_PATH = re.compile(r"/v1/(?:sessions|conversations)/([^/]+)")  # a conversation is a session
RESPONSE_PATH = re.compile(r"/v1/responses/([^/]+)")
RESPONSE_ID = re.compile(r"resp_[0-9a-f]{16}_(.+)")  # and a response is in the one that its id ends with
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
    session = next((value for name in SESSION_HEADERS if (value := header(headers, name))), "") or _session_of_path(path)
    return _named("session", session, headers) if session else ""


def session_of(headers, path):
    """The id that hydrantd knows the session by, where the head has it."""
    return header(headers, "x-session-id") or header(headers, "x-session-affinity") or _session_of_path(path)


def session_of_body(request):
    """The same of a body. What a response goes on from is in the session that it names, whatever else names one."""
    conversation = request.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    names = (conversation, _session_of_response(request.get("previous_response_id")), request.get("session_id"), request.get("conversation_id"))
    return next((name for name in names if isinstance(name, str) and name), "")


def _session_of_path(path):
    if found := SESSIONS_PATH.match(path):
        return found[1]
    return _session_of_response(found[1]) if (found := RESPONSE_PATH.match(path)) else ""


def _session_of_response(response):
    found = RESPONSE_ID.fullmatch(response) if isinstance(response, str) else None
    return found[1] if found else ""


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
    for session in (session_of_body(request), request.get("prompt_cache_key")):
        if isinstance(session, str) and session:
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
