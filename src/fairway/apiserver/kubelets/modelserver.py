"""What does a simulated vLLM answer? OpenAI's paths, with text of no meaning in the time that its GPUs would take.

A container is a model server by its image or command; its arguments and its node's GPUs say what it serves, how fast
and with how much cache. Requests that run at the same time share steps, so each is slower than one alone. Answers come
in seconds of the wall clock, however fast the cluster's time goes.

Source: vllm/entrypoints/openai (protocol, error bodies), vllm/v1/metrics/loggers.py (names).
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fairway.errors import UserError
from fairway.kube.objects import Obj

if TYPE_CHECKING:
    from fairway.catalog.gpus import GpuModel
    from fairway.serving.steptimes import Deployed, StepTimes

_IMAGES: Final = ("vllm", "sglang", "text-generation-inference", "huggingfaceserver", "tgi")
_PORTS: Final = {"text-generation-inference": 80, "sglang": 30000, "huggingfaceserver": 8080}
_TEXT: Final = (
    "the a of to in and is for that with as on by this from at it are be which one each other may can after before "
    "over under between time step token cache request answer server node model layer head weight value key"
)
_WORDS: Final = tuple(_TEXT.split())
# So many tokens at once go out in a chunk where steps are shorter than a timer can tell.
_TICK_S: Final = 0.004
_CHAT_TOKENS: Final = (24, 220)
_PROMPT_MOST: Final = 4_000_000
# Of one request: choices, tokens of all of them together, characters of what is repeated to whoever sent it.
_CHOICES_MOST: Final = 128
_TOKENS_MOST: Final = 1_000_000
_SAID_MOST: Final = 200
# Of a flag's number: a million.
_DIGITS_MOST: Final = 6


@dataclass(slots=True)
class Engine:
    """One server process: what it serves, and what runs on it now."""

    model: str
    context: int
    times: StepTimes
    tokens_most: int
    seqs_most: int
    others: tuple[str, ...] = ()
    """Further names it serves the model under."""
    running: int = 0
    waiting: int = 0
    cached: int = 0
    done: int = 0
    read: int = 0
    written: int = 0
    started_s: float = field(default_factory=time.time)

    @property
    def models(self) -> tuple[str, ...]:
        return (self.model, *self.others)

    def step_s(self) -> float:
        """Of a token for everybody who writes."""
        writing = max(self.running, 1)
        linear = float(self.times.linear_s[min(writing, len(self.times.linear_s) - 1)])
        return linear + self.times.cached_token_s * self.cached

    def prompt_s(self, tokens: int) -> float:
        """Until the prompt is read, with the others' tokens in the same steps."""
        spent, left, before = 0.0, tokens, 0
        while left > 0:
            chunk = min(left, max(self.tokens_most - self.running, 1))
            linear = float(self.times.linear_s[min(chunk + self.running, len(self.times.linear_s) - 1)])
            spent += linear + self.times.attended_pair_s * chunk * (before + 0.5 * chunk)
            before, left = before + chunk, left - chunk
        return spent


def is_model_server(container: Obj) -> bool:
    text = str(container.get("image", "")).lower()
    said = " ".join(map(str, (*(container.get("command") or ()), *(container.get("args") or ()))))
    return any(name in text for name in _IMAGES) or "vllm serve" in said or "vllm.entrypoints" in said


def port_of(container: Obj) -> int:
    """Where it listens, declared or not."""
    given = _number(_flags(container).get("port"), 0)
    if given:
        return given
    image = str(container.get("image", "")).lower()
    return next((port for name, port in _PORTS.items() if name in image), 8000)


def _flags(container: Obj) -> dict[str, str]:
    """`--name value` and `--name=value` of its command line, dashes as they are; `serve`: what stands behind that."""
    words: list[str] = []
    for one in (*(container.get("command") or ()), *(container.get("args") or ())):
        words += [word.strip("\"'") for word in str(one).split() if word != "\\"]
    found: dict[str, str] = {}
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else ""
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name.replace("_", "-")] = value or ("" if following.startswith("--") else following)
            if name == "served-model-name" and not value:
                found[name] = " ".join(itertools.takewhile(lambda w: not w.startswith("-"), words[i + 1 :]))
        elif word == "serve" and following and not following.startswith("-"):
            found.setdefault("model", following)
    for variable in container.get("env") or ():
        if variable.get("name") in ("MODEL_ID", "MODEL_NAME", "MODEL") and variable.get("value"):
            found.setdefault("model", str(variable["value"]))
    return found


def engine_of(container: Obj, node: Obj | None, pod: Obj | None = None) -> Engine:
    """`pod` says where the weights in its folder come from.

    Raises: UserError: a model or card nobody knows, one that does not fit the other.
    """
    from fairway.serving.models import model_named
    from fairway.serving.steptimes import Deployed, step_times

    flags = _flags(container)
    path = flags.get("model") or flags.get("model-id") or flags.get("model-path") or "llama-3.1-8b"
    parts = _gpus(container)
    deployed: Deployed = Deployed(
        model=model_named(_fetched(pod) or path if path.startswith("/") else path),
        gpu=_gpu_of(node),
        tensor_parallel=_number(flags.get("tensor-parallel-size") or flags.get("num-shard"), parts),
        quantization=flags.get("quantization") or "auto",
        memory_share=_share(flags.get("gpu-memory-utilization"), 0.9),
        seqs_most=_number(flags.get("max-num-seqs"), 256),
        tokens_most=_number(flags.get("max-num-batched-tokens"), 8192),
    )
    times = step_times(deployed)
    context = _number(flags.get("max-model-len"), deployed.model.context)
    if context > times.cache_tokens:
        raise UserError(
            f"To serve at least one request with the models's max seq len ({context}), more KV cache is needed than is "
            f"available: {times.cache_tokens} tokens. Try increasing `gpu_memory_utilization` or decreasing "
            "`max_model_len` when initializing the engine."
        )
    names = (flags.get("served-model-name") or flags.get("model-name") or path).split()
    return Engine(names[0], context, times, deployed.tokens_most, deployed.seqs_most, tuple(names[1:]))


def _fetched(pod: Obj | None) -> str:
    """What KServe's init container puts into the folder, such as `hf://meta-llama/Llama-3.1-8B-Instruct`."""
    for container in ((pod or {}).get("spec") or {}).get("initContainers") or ():
        if container.get("name") == "storage-initializer" and container.get("args"):
            return str(container["args"][0]).rstrip("/")
    return ""


def _number(text: str | None, otherwise: int) -> int:
    """Whoever may create pods writes these: no number that makes tables without end."""
    if not text or not text.isascii() or not text.isdigit() or len(text) > _DIGITS_MOST:
        return otherwise
    return int(text) or otherwise


def _share(text: str | None, otherwise: float) -> float:
    try:
        share = float(text or otherwise)
    except ValueError:
        return otherwise
    return share if 0 < share <= 1 else otherwise


def _gpus(container: Obj) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    found = [str(count) for name, count in limits.items() if str(name).startswith("nvidia.com/gpu")]
    return _number(found[0], 1) if found else 1


def _gpu_of(node: Obj | None) -> GpuModel:
    from fairway.catalog.catalog import load_catalog

    product = ((node or {}).get("metadata") or {}).get("labels", {}).get("nvidia.com/gpu.product", "")
    catalog = load_catalog()
    found = catalog.gpu(product) or catalog.gpu(re.sub(r"-(MIG|SHARED).*$", "", product)) or catalog.gpu("L4")
    if found is None:
        raise UserError(f"{product!r}: no such GPU in the catalog")
    return found


def text_of(prompt: str, tokens: int) -> list[str]:
    """Words that the same prompt always gets, one a token."""
    state = int.from_bytes(hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    words = []
    for i in range(tokens):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        word = _WORDS[(state >> 33) % len(_WORDS)]
        words.append(word.capitalize() if i == 0 else f" {word}")
    return words


def token_count(text: str) -> int:
    """As tokenizers do on average: four characters a token."""
    return max(math.ceil(len(text) / 4), 1)


Write = Callable[[bytes], None]


class Answering:
    """One request on its way: what is written when."""

    def __init__(self, engine: Engine, write: Write, done: Callable[[], None]) -> None:
        self._engine, self._write, self._done = engine, write, done
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self._held = 0
        self._waits = False

    def begin(self, path: str, body: bytes) -> None:
        """Whoever can reach the port writes the body: what is wrong with it is answered, in the server's words."""
        try:
            given = json.loads(body or b"{}")
            if not isinstance(given, dict):
                raise _Refused("Input should be a valid dictionary")
            self._begin(path, given)
        except _Refused as wrong:
            self._error(wrong.code, wrong.type, str(wrong))
        except (ValueError, RecursionError):
            self._error(400, "BadRequestError", "There was an error parsing the body")

    def _begin(self, path: str, given: dict[str, Any]) -> None:
        """Raises: _Refused."""
        self._is_chat = path.endswith("/chat/completions")
        prompt = _prompt_of(given, self._is_chat)
        if prompt is None:
            field_ = "messages" if self._is_chat else "prompt"
            raise _Refused(f"[{{'type': 'missing', 'loc': ('body', '{field_}'), 'msg': 'Field required'}}]")
        engine = self._engine
        model = given.get("model")
        if model is not None and not isinstance(model, str):
            raise _Refused(_wrong("string_type", "model", "Input should be a valid string"))
        if model and model not in engine.models:
            raise _Refused(f"The model `{model[:_SAID_MOST]}` does not exist.", 404, "NotFoundError")
        self._prompt_tokens = token_count(prompt)
        asked = _integer(given, "max_completion_tokens")
        asked = _integer(given, "max_tokens") if asked is None else asked
        if asked is not None and asked < 1:
            raise _Refused(f"max_tokens must be at least 1, got {asked}.")
        choices = _integer(given, "n")
        self._choices = 1 if choices is None else choices
        if self._choices < 1:
            raise _Refused(f"n must be at least 1, got {choices}.")
        if self._prompt_tokens + (asked or 0) > engine.context:
            wanted = (
                f"{self._prompt_tokens} in the messages"
                if self._is_chat
                else f"{self._prompt_tokens} in the prompt"
            )
            raise _Refused(
                f"This model's maximum context length is {engine.context} tokens. However, you requested "
                f"{self._prompt_tokens + (asked or 0)} tokens ({wanted}, {asked or 0} in the completion). "
                "Please reduce the length of the messages or completion."
            )
        low, high = _CHAT_TOKENS
        digest = hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=2).digest()
        natural = low + int.from_bytes(digest, "big") % (high - low)
        most = asked if asked is not None else (natural if self._is_chat else 16)
        tokens = most if given.get("ignore_eos") else min(most, natural)
        if self._choices > _CHOICES_MOST or self._choices * tokens > _TOKENS_MOST:
            raise _Refused(f"n must be at most {min(_TOKENS_MOST // tokens, _CHOICES_MOST)}, got {choices}.")
        texts = [text_of(f"{prompt}{'#' * i}", tokens) for i in range(self._choices)]
        self._texts, self._tokens = texts, texts[0]
        self._reason = "stop" if len(self._tokens) < most or (asked is None and self._is_chat) else "length"
        self._streams = bool(given.get("stream"))
        options = given.get("stream_options")
        self._tells_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        number = hashlib.blake2b(
            f"{prompt}{time.time_ns()}".encode("utf-8", "replace"), digest_size=12
        ).hexdigest()
        self._id = f"{'chatcmpl' if self._is_chat else 'cmpl'}-{number}"
        self._created = int(time.time())
        self._at = 0
        engine.waiting += 1
        self._waits = True
        self._take_up()

    def cancel(self) -> None:
        """The client went away."""
        if self._timer is not None:
            self._timer.cancel()
        self._leave()

    # Time

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _take_up(self) -> None:
        engine = self._engine
        if (
            engine.running >= engine.seqs_most
            or engine.cached + self._prompt_tokens > engine.times.cache_tokens
        ):
            self._later(engine.step_s(), self._take_up)
            return
        engine.waiting -= 1
        self._waits = False
        reads_s = engine.prompt_s(self._prompt_tokens)
        engine.running += self._choices
        self._held = self._prompt_tokens
        engine.cached += self._held
        self._later(reads_s, self._first)

    def _first(self) -> None:
        self._engine.read += self._prompt_tokens
        if self._streams:
            self._write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            if self._is_chat:
                for index in range(self._choices):
                    self._send(self._piece({"role": "assistant", "content": ""}, None, index))
        self._tell(1)

    def _tell(self, count: int) -> None:
        """So many tokens are there; on to the next, or the end."""
        engine = self._engine
        until = min(self._at + count, len(self._tokens))
        if self._streams:
            for i in range(self._at, until):
                for index, tokens in enumerate(self._texts):
                    what = {"content": tokens[i]} if self._is_chat else tokens[i]
                    self._send(self._piece(what, None, index))
        written = (until - self._at) * self._choices
        engine.written += written
        engine.cached += written
        self._held += written
        self._at = until
        if self._at == len(self._tokens):
            self._finish()
            return
        step_s = engine.step_s()
        several = max(math.ceil(_TICK_S / step_s), 1) if self._streams else len(self._tokens) - self._at
        several = min(several, len(self._tokens) - self._at)
        self._later(step_s * several, lambda: self._tell(several))

    def _finish(self) -> None:
        self._engine.done += 1
        if self._streams:
            for index in range(self._choices):
                self._send(self._piece({} if self._is_chat else "", self._reason, index))
            if self._tells_usage:
                self._send({**self._head("chunk"), "choices": [], "usage": self._usage()})
            self._chunk(b"data: [DONE]\n\n")
            self._write(b"0\r\n\r\n")
        else:
            choices = []
            for index, tokens in enumerate(self._texts):
                text = "".join(tokens)
                said = (
                    {"message": {"role": "assistant", "content": text}} if self._is_chat else {"text": text}
                )
                choices.append({"index": index, "logprobs": None, "finish_reason": self._reason, **said})
            self._write(json_response(200, {**self._head(""), "choices": choices, "usage": self._usage()}))
        self._leave()
        self._done()

    def _leave(self) -> None:
        if not self._is_over and self._held:
            self._engine.running -= self._choices
            self._engine.cached -= self._held
        if not self._is_over and self._waits:
            self._engine.waiting -= 1
        self._is_over = True

    # Words

    def _head(self, part: str) -> dict[str, Any]:
        kind = ("chat.completion" + (f".{part}" if part else "")) if self._is_chat else "text_completion"
        return {"id": self._id, "object": kind, "created": self._created, "model": self._engine.model}

    def _usage(self) -> dict[str, int]:
        written = len(self._tokens) * self._choices
        total = self._prompt_tokens + written
        return {"prompt_tokens": self._prompt_tokens, "completion_tokens": written, "total_tokens": total}

    def _piece(self, what: Any, reason: str | None, index: int) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, "logprobs": None, "finish_reason": reason}
        choice["delta" if self._is_chat else "text"] = what
        return {**self._head("chunk"), "choices": [choice]}

    def _send(self, event: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def _error(self, code: int, type_: str, message: str) -> None:
        error = {"message": message, "type": type_, "param": None, "code": code}
        self._write(json_response(code, {"error": error}))
        self._done()


def _prompt_of(given: dict[str, Any], is_chat: bool) -> str | None:
    if not is_chat:
        prompt = given.get("prompt")
        if isinstance(prompt, list):
            prompt = _text_of_all(prompt)
        return prompt[:_PROMPT_MOST] if isinstance(prompt, str) else None
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        return None
    return "\n".join(_text_of_all([m.get("content")]) for m in messages)[:_PROMPT_MOST]


def _text_of_all(parts: list[Any]) -> str:
    """Texts as they are, parts of type `text` by their text; token ids as so many tokens."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            found.append(part["text"])
        elif isinstance(part, list):
            found += [
                one
                if isinstance(one, str)
                else str(one.get("text") or "")
                if isinstance(one, dict)
                else "####"
                for one in part
            ]
        elif part is not None:
            found.append("###")
    return " ".join(found)


class _Refused(Exception):
    def __init__(self, message: str, code: int = 400, type_: str = "BadRequestError") -> None:
        super().__init__(message)
        self.code, self.type = code, type_


def _wrong(type_: str, field_: str, message: str) -> str:
    """As FastAPI's validation tells it."""
    return f"[{{'type': '{type_}', 'loc': ('body', '{field_}'), 'msg': '{message}'}}]"


def _integer(given: dict[str, Any], name: str) -> int | None:
    """As pydantic reads one: also from a text or a whole float. Raises: _Refused."""
    value = given.get(name)
    if value is None or isinstance(value, int):
        return None if value is None else int(value)
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        fraction = "Input should be a valid integer, got a number with a fractional part"
        raise _Refused(_wrong("int_from_float", name, fraction))
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", value):
        return int(value)
    if isinstance(value, str):
        unread = "Input should be a valid integer, unable to parse string as an integer"
        raise _Refused(_wrong("int_parsing", name, unread))
    raise _Refused(_wrong("int_type", name, "Input should be a valid integer"))


_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


def response(code: int, body: bytes, content_type: str) -> bytes:
    head = f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def json_response(code: int, body: Any) -> bytes:
    return response(code, json.dumps(body).encode(), "application/json")


def page(engine: Engine, path: str) -> bytes | None:
    """What is answered at once; None: generating is asked for, or nothing is there."""
    path = path.removeprefix("/openai")
    if path in ("/health", "/ping"):
        return response(200, b"", "text/plain")
    if path == "/v1/models":
        said = {"object": "model", "created": int(engine.started_s), "owned_by": "vllm", "root": engine.model}
        data = [
            {"id": name, **said, "parent": None, "max_model_len": engine.context} for name in engine.models
        ]
        return json_response(200, {"object": "list", "data": data})
    if path == "/version":
        return json_response(200, {"version": "0.11.0"})
    if path == "/metrics":
        return response(200, _metrics(engine).encode(), "text/plain; version=0.0.4; charset=utf-8")
    return None


def _metrics(engine: Engine) -> str:
    rows = (
        (
            "vllm:num_requests_running",
            "gauge",
            "Number of requests in model execution batches.",
            engine.running,
        ),
        ("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", engine.waiting),
        (
            "vllm:kv_cache_usage_perc",
            "gauge",
            "KV-cache usage. 1 means 100 percent usage.",
            engine.cached / engine.times.cache_tokens,
        ),
        ("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", engine.read),
        ("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", engine.written),
        ("vllm:request_success_total", "counter", "Count of successfully processed requests.", engine.done),
    )
    lines = []
    for name, type_, said, value in rows:
        lines += [f"# HELP {name} {said}", f"# TYPE {name} {type_}"]
        lines.append(f'{name}{{engine="0",model_name="{engine.model}"}} {float(value)}')
    return "\n".join(lines) + "\n"
