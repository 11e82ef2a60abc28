#!/usr/bin/env python3
"""`./hydrant chat`: a conversation in the terminal, with this server or another OpenAI-style one.

What is typed is a message; a line that begins with / is a command (/help). Standard input that is no terminal is read line by
line, an answer each, so that it can be scripted. Python's standard library only."""

import argparse
import http.client
import json
import os
import pathlib
import secrets
import sys
import time

import openai_server
from openai_server import Failure, Server, events

BUSY_S = 3
KV = {"budget": int, "policy": str}  # what a conversation has of a cache

HELP = """\
/budget N | off    keep N tokens of the conversation in the cache, or all of it
/policy NAME       which ones: h2o, h2o-plus, auto, … (docs/kv.md), full: all; alone: which there are
/system TEXT       what the model is told before anything else; without TEXT: nothing
/temperature X     0: always the likeliest; /temperature alone: the server's default
/max N             longest answer, in tokens; alone: as the server has it
/schema FILE       answers are JSON of this schema; off: text
/again             another answer to the last message
/undo              forget the last message and its answer
/new               forget everything
/save FILE         write the conversation as JSON
/load FILE         go on from such a file
/show              settings, and what the cache holds
/quit              end; so does Ctrl-D. Ctrl-C stops an answer
A line that ends with \\ goes on in the next one."""


# What a model writes is not to move the cursor or to name the window: all control characters but line ends and tabs.
CONTROLS = {code: None for code in [*range(32), *range(127, 160)] if code not in (9, 10)}


class Chat:
    def __init__(self, server, arguments, out):
        self.server, self.out = server, out
        model = server.model(arguments.model)
        self.model, self.is_hydrant = model["id"], "kv_block_bytes" in model
        self.policies = [name for name in model.get("kv_policies") or [] if isinstance(name, str)]
        self.messages = []
        self.settings = {"temperature": arguments.temperature, "max_tokens": arguments.max_tokens}
        self.kv = {}
        if arguments.budget is not None:
            self.kv["budget"] = arguments.budget
        self.schema = None
        self.report = {}
        if arguments.policy is not None:
            self.do_policy(arguments.policy)
        self.rename()
        if arguments.system:
            self.set_system(arguments.system)

    def rename(self):
        """Another session: what the server keeps under the old one is not this conversation's any more."""
        self.session = "chat-" + secrets.token_hex(6)

    def set_system(self, text):
        self.messages = [message for message in self.messages if message["role"] != "system"]
        if text:
            self.messages.insert(0, {"role": "system", "content": text})

    def body(self):
        body = {"model": self.model, "messages": self.messages, "stream": True, "stream_options": {"include_usage": True}}
        body |= {name: value for name, value in self.settings.items() if value is not None}
        if self.kv:
            body["kv"] = self.kv
        if self.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": self.schema}}
        if self.is_hydrant:  # its cache is kept from turn to turn
            body |= {"session_id": self.session, "kv_report": True}
        return body

    def open(self):
        """The stream of an answer. A turn that was stopped is over as soon as the server has seen that."""
        give_up = time.monotonic() + BUSY_S
        while True:
            try:
                return self.server.open("POST", "/v1/chat/completions", self.body())
            except Failure as error:
                if not error.busy or time.monotonic() > give_up:
                    raise
                time.sleep(0.1)

    def answer(self):
        """Sends the conversation and writes what comes. One that is stopped or fails leaves the conversation as it was."""
        began, first, text, thinks = time.monotonic(), None, "", False
        response = self.open()
        finish = usage = None
        try:
            for event in events(response):
                usage = event.get("usage") or usage
                self.report = event.get("kv") or self.report
                for choice in event.get("choices", []):
                    finish = choice.get("finish_reason") or finish
                    delta = choice.get("delta", {})
                    piece, thought = delta.get("content") or "", delta.get("reasoning_content") or ""
                    if (piece or thought) and first is None:
                        first = time.monotonic()
                    text += piece
                    if self.out.isatty():
                        # What the model thinks is for who watches, and faint; it is no part of the answer.
                        if thought:
                            self.out.write(f"\x1b[2m{thought.translate(CONTROLS)}\x1b[22m")
                        self.out.write("\n\n" * bool(thinks and piece) + piece.translate(CONTROLS))
                    else:
                        self.out.write(piece)
                    thinks = not piece and (thinks or bool(thought))
                    self.out.flush()
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"The connection ended before the answer did ({error}).") from error
        finally:
            response.close()
            self.out.write("" if text.endswith("\n") else "\n")
        if finish is None:
            raise Failure("The connection ended before the answer did.")
        if finish in ("abort", "error"):
            raise Failure("The server stopped before the answer ended.")
        self.messages.append({"role": "assistant", "content": text})
        return self.summary(usage or {}, finish, began, first or time.monotonic())

    def summary(self, usage, finish, began, first):
        parts = [f"{(first - began):.2f} s to the first token"]
        tokens = usage.get("completion_tokens")
        if tokens and tokens > 1:
            parts.append(f"{(tokens - 1) / max(time.monotonic() - first, 1e-6):.0f} tokens/s")
        if usage.get("prompt_tokens"):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            parts.append(f"{usage['prompt_tokens']} tokens read, {cached} of them kept")
        if self.report:
            parts.append(f"cache {self.report['live']}" + (f" of {self.report['budget']}" if self.report.get("budget") else ""))
        if finish == "length":
            parts.append("cut at its longest (/max)")
        return ", ".join(parts)

    def turn(self, text):
        self.messages.append({"role": "user", "content": text})
        try:
            return self.answer()
        except (Failure, KeyboardInterrupt):
            self.messages.pop()
            raise

    # --- commands: each returns what to tell -------------------------------------------------------------------------

    def command(self, line):
        name, _, rest = line[1:].partition(" ")
        run = getattr(self, "do_" + name, None)
        if run is None:
            raise Failure(f"There is no command /{name}. /help lists them.")
        return run(rest.strip())

    def do_help(self, _):
        return HELP

    def do_budget(self, rest):
        budget = None if rest in ("", "off") else number(rest, int, "/budget")
        self.kv.pop("budget", None)
        if budget is not None:
            self.kv["budget"] = budget
        self.rename()  # a session has one budget for its life
        return f"The cache keeps {self.kv.get('budget', 'everything')}" + (" tokens." if "budget" in self.kv else ".")

    def do_policy(self, rest):
        known = ", ".join(self.policies)
        if rest and self.policies and rest not in self.policies:
            raise Failure(f"There is no policy {rest} here; there are {known}.")
        self.kv.pop("policy", None)
        if rest:
            self.kv["policy"] = rest
        self.rename()
        return f"Policy: {rest or 'as the server has it'}." + (f" There are {known}." if known and not rest else "")

    def do_system(self, rest):
        self.set_system(rest)
        self.rename()
        return "The model is told that before anything else." if rest else "The model is told nothing beforehand."

    def do_temperature(self, rest):
        self.settings["temperature"] = number(rest, float, "/temperature") if rest else None
        return f"Temperature: {rest or 'as the server has it'}."

    def do_max(self, rest):
        self.settings["max_tokens"] = number(rest, int, "/max") if rest else None
        return f"Answers have at most {rest} tokens." if rest else "Answers are as long as the server lets them be."

    def do_schema(self, rest):
        self.schema = None if rest in ("", "off") else read_json(rest)
        return "Answers are text." if self.schema is None else f"Answers are JSON as {rest} has it."

    def do_again(self, _):
        dropped = self.drop_answer()
        if not self.messages or self.messages[-1]["role"] != "user":
            self.messages += dropped
            raise Failure("There is no message to answer yet.")
        try:
            return self.answer()
        except (Failure, KeyboardInterrupt):
            self.messages += dropped
            raise

    def drop_answer(self):
        """The last answer, which is forgotten; the session of what is left is another one."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            return []
        self.rename()
        return [self.messages.pop()]

    def do_undo(self, _):
        self.drop_answer()
        if not self.messages or self.messages[-1]["role"] != "user":
            raise Failure("There is nothing to undo.")
        self.messages.pop()
        return f"{len(self.messages)} messages are left."

    def do_new(self, _):
        self.messages = [message for message in self.messages if message["role"] == "system"]
        self.report = {}
        self.rename()
        return "A new conversation."

    def do_save(self, rest):
        if not rest:
            raise Failure("/save FILE: into which file?")
        try:
            pathlib.Path(rest).write_text(json.dumps({"model": self.model, "kv": self.kv, "messages": self.messages}, indent=1) + "\n")
        except OSError as error:
            raise Failure(f"{rest} cannot be written: {error.strerror}.") from error
        return f"{len(self.messages)} messages are in {rest}."

    def do_load(self, rest):
        saved = read_json(rest)
        messages = saved.get("messages") if isinstance(saved, dict) else None
        good = isinstance(messages, list) and all(
            isinstance(message, dict) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str)
            for message in messages
        )
        kv = saved.get("kv", self.kv) if good else None
        if not isinstance(kv, dict) or not all(isinstance(kv[name], kind) for name, kind in KV.items() if name in kv):
            raise Failure(f"{rest} is no conversation that /save wrote.")
        self.messages = messages
        self.kv = {name: kv[name] for name in KV if name in kv}
        self.rename()
        return f"{len(messages)} messages are there again."

    def do_show(self, _):
        lines = [f"{self.model} at {self.server.url}, {len(self.messages)} messages"]
        lines += [f"{name}: {value}" for name, value in (self.settings | self.kv).items() if value is not None]
        if self.report:
            lines.append(f"cache: {self.report['live']} tokens held, {self.report['evicted']} evicted, {self.report['blocks']} blocks")
        return "\n".join(lines)


def number(text, kind, name):
    try:
        return kind(text)
    except ValueError:
        raise Failure(f"{name} wants a number, not {text}.") from None


def read_json(path):
    try:
        return json.loads(pathlib.Path(path).read_text())
    except OSError as error:
        raise Failure(f"{path or 'A file'} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise Failure(f"{path} is no JSON: {error}.") from error


class Terminal:
    """Where lines come from and remarks go to, in grey where that is a terminal."""

    def __init__(self):
        self.interactive = sys.stdin.isatty()
        self.grey = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        if self.interactive:
            try:
                import readline  # noqa: F401, PLC0415: gives input() a history
            except ImportError:
                pass

    def tell(self, text):
        text = text.translate(CONTROLS)  # it may be the server's
        print(f"\033[2m{text}\033[0m" if self.grey else text, file=sys.stderr, flush=True)

    def line(self):
        """What was typed, with the lines that it goes on in; None at the end."""
        text, prompt = "", "> "
        while True:
            try:
                piece = input(prompt if self.interactive else "")
            except EOFError:
                return text or None
            if not piece.endswith("\\"):
                return text + piece
            text, prompt = text + piece[:-1] + "\n", "… "


def talk(chat, terminal):
    """Until there are no more lines. The number of those that failed."""
    failed = 0
    while True:
        try:
            line = terminal.line()
            if line is None or line.strip() == "/quit":
                return failed
            if not line.strip():
                continue
            is_command = line.startswith("/")
            said = chat.command(line.strip()) if is_command else chat.turn(line)
            if terminal.interactive or is_command:
                terminal.tell(said)
        except Failure as error:
            failed += 1
            terminal.tell(str(error))
        except KeyboardInterrupt:
            terminal.tell("stopped")


def main(argv):
    parser = argparse.ArgumentParser(prog=f"{openai_server.DOOR} chat", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Commands:\n" + HELP)  # fmt: skip
    openai_server.add_flags(parser)
    parser.add_argument("--model", help="default: the first that the server has")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told before anything else")
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest answer")
    parser.add_argument("--budget", type=int, metavar="N", help="tokens that the cache keeps")
    parser.add_argument("--policy", metavar="NAME", help="which it keeps (docs/kv.md)")
    arguments = parser.parse_args(argv)
    terminal = Terminal()
    try:
        chat = Chat(Server(arguments.url, arguments.api_key), arguments, sys.stdout)
    except Failure as error:
        terminal.tell(f"hydrant: {error}")
        return 1
    if terminal.interactive:
        terminal.tell(f"{chat.model} at {chat.server.url}. /help lists commands, Ctrl-D ends.")
    return 1 if talk(chat, terminal) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        sys.exit(0)
