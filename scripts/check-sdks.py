"""What applications are promised, asked by the clients that applications use. Run by scripts/check-sdks.

Each promise is one function; a promise that is broken is told with where, and the rest is tried all the same.
"""

import asyncio
import faulthandler
import functools
import importlib.metadata
import json
import operator
import os
import sys
import time
import traceback
import urllib.request
import uuid

for name in [name for name in os.environ if name.startswith(("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "CO_API_"))]:
    del os.environ[name]  # What the machine has configured is not what is tried.

import cohere
import llama_index.core
import openai
from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI as LangChainCompletion, OpenAIEmbeddings
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

# LangChain counts tokens by a vocabulary that it would download; LlamaIndex brings the same.
os.environ["TIKTOKEN_CACHE_DIR"] = os.path.join(os.path.dirname(llama_index.core.__file__), "_static", "tiktoken_cache")

ADDRESS, KEY, UPSTREAM = os.environ["MAI_URL"], os.environ["MAI_KEY"], os.environ["MAI_UPSTREAM"]
BASE = ADDRESS + "/v1"
SECONDS = 120  # the whole check
HELLO = [{"role": "user", "content": "Hello"}]
TEXTS = [f"Expenses of kind {n} are filed in the portal. 报销" for n in range(40)]  # more than the upstream takes at once
DOCUMENTS = ["The canteen opens at noon.", "Expenses are filed in the portal."]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA, "strict": True}}]
CITIES = [{"city": "Paris"}, {"city": "北京"}]

promises = []


def promise(function):
    promises.append(function)
    return function


class Person(BaseModel):
    name: str
    age: int


ANN = Person(name="Ann", age=3)

# ---- what the promises share


def client(**settings):
    return OpenAI(**{"base_url": BASE, "api_key": KEY, "timeout": 15, **settings})


def counting(**settings):
    """A client, and the list of the requests that it has sent."""
    sent = []
    hooks = {"request": [sent.append]}
    return client(http_client=openai.DefaultHttpxClient(event_hooks=hooks), **settings), sent


def reached(request_id):
    """What reached the model server of that call."""
    with urllib.request.urlopen(UPSTREAM + "/__mock/calls", timeout=5) as answer:
        calls = json.load(answer)["calls"]
    return [call for call in calls if ["x-request-id", request_id] in call["headers"]]


def until(end, request_id):
    """Waits until the model server has that one call, and it is so with it: `running`, or its caller is `gone`."""
    ends = []
    for _ in range(50):
        ends = [call["end"] for call in reached(request_id)]
        if ends == [end]:
            return
        time.sleep(0.1)
    raise AssertionError(f"the upstream's call is not {end}, but {ends}")


def refused(kind, call, **expected):
    """The error that the call raises, whose attributes are as expected."""
    try:
        call()
    except kind as error:
        for name, value in expected.items():
            assert getattr(error, name) == value, f"{name}: {getattr(error, name)!r}, not {value!r}"
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def said(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def near(some, others):
    assert len(some) == len(others) and all(abs(a - b) < 1e-6 for a, b in zip(some, others)), "other vectors"


# ---- OpenAI's SDK


@promise
def chat_answers_with_usage_and_with_the_headers_that_tell_of_the_call():
    answer = client().chat.completions.with_raw_response.create(
        model="chat", messages=HELLO, extra_headers={"x-request-id": "my-own-id"}
    )
    completion = answer.parse()
    assert "Hello" in completion.choices[0].message.content and completion.usage.total_tokens > 0
    assert completion._request_id == answer.headers["x-request-id"] == "my-own-id"
    assert (answer.headers["x-mai-route"], answer.headers["x-mai-upstream"]) == ("chat", "up/mock")


@promise
def a_stream_says_what_the_whole_answer_says_and_usage_to_those_alone_who_ask():
    create = client().chat.completions.create
    whole = create(model="chat", messages=HELLO)
    plain = list(create(model="chat", messages=HELLO, stream=True))
    assert said(plain) == whole.choices[0].message.content and not any(chunk.usage for chunk in plain)
    counted = list(create(model="chat", messages=HELLO, stream=True, stream_options={"include_usage": True}))
    assert said(counted) == said(plain) and counted[-1].usage == whole.usage


@promise
def who_leaves_a_stream_early_cancels_the_upstreams_call():
    id = str(uuid.uuid4())
    stream = client().chat.completions.create(
        model="talker", messages=HELLO, stream=True, extra_headers={"x-request-id": id}
    )
    for chunk in stream:
        if said([chunk]):
            break
    stream.close()
    until("gone", id)


@promise
def who_times_out_or_cancels_a_task_cancels_the_upstreams_call():
    id = str(uuid.uuid4())
    create = client(timeout=2, max_retries=0).chat.completions.create
    refused(openai.APITimeoutError, lambda: create(model="hung", messages=HELLO, extra_headers={"x-request-id": id}))
    until("gone", id)

    async def cancel(id):
        async with AsyncOpenAI(base_url=BASE, api_key=KEY) as patient:
            call = patient.chat.completions.create(model="hung", messages=HELLO, extra_headers={"x-request-id": id})
            task = asyncio.ensure_future(call)
            await asyncio.to_thread(until, "running", id)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    id = str(uuid.uuid4())
    asyncio.run(cancel(id))
    until("gone", id)


@promise
def many_async_calls_and_streams_at_once_are_answered():
    async def many():
        async with AsyncOpenAI(base_url=BASE, api_key=KEY) as patient:
            whole = [patient.chat.completions.create(model="chat", messages=HELLO) for _ in range(20)]
            streams = [patient.chat.completions.create(model="chat", messages=HELLO, stream=True) for _ in range(20)]
            texts = [answer.choices[0].message.content for answer in await asyncio.gather(*whole)]
            return texts + [said([chunk async for chunk in stream]) for stream in await asyncio.gather(*streams)]

    texts = asyncio.run(many())
    assert len(texts) == 40 and len(set(texts)) == 1 and texts[0]


@promise
def whatever_the_sdk_can_send_reaches_the_upstream_as_it_was_sent():
    id = str(uuid.uuid4())
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]
    sent = {
        "messages": [{"role": "developer", "content": "Be short."}, {"role": "user", "content": parts}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA, "strict": True}},
        "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False, "seed": 7, "temperature": 0.1,
        "logprobs": True, "top_logprobs": 3, "logit_bias": {"50256": -100}, "user": "u", "stop": ["\n"],
        "metadata": {"team": "rag"}, "reasoning_effort": "low", "prediction": {"type": "content", "content": "x"},
    }  # fmt: skip
    foreign = {"enable_thinking": False, "top_k": 40, "chat_template_kwargs": {"thinking": True}}
    hint = {"mai": {"query": "What is this?"}}
    client().chat.completions.create(model="chat", **sent, extra_body=foreign | hint, extra_headers={"x-request-id": id})
    (call,) = reached(id)
    assert call["json"] == {"model": "mock"} | sent | foreign, call["json"]
    assert KEY not in json.dumps(call["headers"])


@promise
def whatever_the_upstream_answers_reaches_the_sdk():
    answer = client().chat.completions.create(model="thinker", messages=HELLO, logprobs=True)
    choice = answer.choices[0]
    assert (choice.message.content, choice.message.reasoning_content) == ("42", "Let me think.")
    assert (choice.logprobs.content[0].token, choice.logprobs.content[0].bytes) == ("42", [52, 50])
    assert (answer.model, answer.system_fingerprint, answer.service_tier) == ("thinker-2", "fp_1", "default")
    usage = answer.usage
    assert (usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens) == (2, 3)
    deltas = [chunk.choices[0].delta for chunk in client().chat.completions.create(model="thinker", messages=HELLO, stream=True)]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "Let me think."


@promise
def tools_are_called_whole_and_streamed_and_their_results_go_back():
    completions = client().chat.completions
    message = completions.create(model="weather", messages=HELLO, tools=TOOLS).choices[0].message
    assert [json.loads(call.function.arguments) for call in message.tool_calls] == CITIES
    with completions.stream(model="weather", messages=HELLO, tools=TOOLS) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert [call.function.parsed_arguments for call in streamed.message.tool_calls] == CITIES
    assert streamed.finish_reason == "tool_calls"
    results = [{"role": "tool", "tool_call_id": call.id, "content": "21"} for call in message.tool_calls]
    answer = completions.create(model="weather", messages=[*HELLO, message, *results], tools=TOOLS)
    assert answer.choices[0].message.content == "It is 21 degrees."


@promise
def structured_answers_are_parsed_whole_and_streamed():
    completions = client().chat.completions
    parsed = completions.parse(model="person", messages=HELLO, response_format=Person)
    assert parsed.choices[0].message.parsed == ANN
    with completions.stream(model="person", messages=HELLO, response_format=Person) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == ANN


@promise
def several_choices_and_several_prompts_are_answered_each():
    answer = client().chat.completions.create(model="chat", messages=HELLO, n=3, max_tokens=2)
    assert [(choice.index, choice.finish_reason) for choice in answer.choices] == [(n, "length") for n in range(3)]
    ask = {"model": "legacy", "prompt": ["a", "b"], "max_tokens": 5}
    whole = [choice.text for choice in client().completions.create(**ask).choices]
    parts = ["", ""]
    for chunk in client().completions.create(**ask, stream=True):
        for choice in chunk.choices:
            parts[choice.index] += choice.text
    assert whole == parts and all(whole)


@promise
def embeddings_come_in_order_in_every_form_however_many_the_upstream_takes():
    create = client().embeddings.create
    first = create(model="embedding", input=TEXTS[0]).data[0].embedding
    many = create(model="embedding", input=TEXTS)
    assert [entry.index for entry in many.data] == list(range(len(TEXTS))) and many.usage.total_tokens > 0
    near(many.data[0].embedding, first)
    near(many.data[39].embedding, create(model="embedding", input=[TEXTS[39]], encoding_format="float").data[0].embedding)
    assert len(create(model="embedding", input=TEXTS[:2], dimensions=8).data[1].embedding) == 8
    text = create(model="embedding", input=TEXTS[0], encoding_format="base64").data[0].embedding
    assert isinstance(text, str) and len(text) == 4 * len(first) * 4 // 3


@promise
def a_cache_answers_whole_and_streamed_with_nothing_lost():
    seen = []
    for stream in [True, False, True]:
        options = {"include_usage": True} if stream else openai.omit
        create = client().chat.completions.with_raw_response.create
        answer = create(model="cached", messages=HELLO, stream=stream, stream_options=options)
        body = answer.parse()
        if stream:
            chunks = list(body)
            seen.append((answer.headers["x-mai-cache"], said(chunks), chunks[-1].usage))
        else:
            seen.append((answer.headers["x-mai-cache"], body.choices[0].message.content, body.usage))
    assert [cache for cache, *_ in seen] == ["miss", "hit", "hit"]
    assert seen[0][1:] == seen[1][1:] == seen[2][1:] and seen[0][1] and seen[0][2]


@promise
def errors_are_the_sdks_own_kinds_with_code_and_field_and_are_asked_once():
    ask = {"model": "chat", "messages": HELLO}
    for settings, ask, kind, expected in [
        ({"api_key": "nobodys"}, ask, openai.AuthenticationError, {"status_code": 401, "code": "invalid_api_key"}),
        ({}, ask | {"model": "none"}, openai.NotFoundError, {"code": "model_not_found", "param": "model"}),
        ({}, ask | {"model": "foreign"}, openai.PermissionDeniedError, {"code": "route_not_allowed", "param": "model"}),
        ({}, ask | {"messages": "Hello"}, openai.BadRequestError, {"code": "invalid_request", "param": "messages"}),
        ({}, ask | {"messages": []}, openai.BadRequestError, {"code": "invalid_request", "param": "messages"}),
        ({}, ask | {"model": "picky"}, openai.BadRequestError, {"code": "unsupported_value", "param": "temperature"}),
        ({}, ask | {"model": "down"}, openai.InternalServerError, {"status_code": 502, "code": "upstream_error"}),
        ({"api_key": "sk-of-the-poor"}, ask, openai.RateLimitError, {"code": "insufficient_quota"}),
    ]:
        eager, sent = counting(max_retries=3, **settings)
        error = refused(kind, lambda: eager.chat.completions.create(**ask), **expected)
        assert error.request_id and len(sent) == 1, f"{error}: asked {len(sent)} times"


@promise
def a_rate_limit_says_when_to_come_back_and_the_sdk_comes_back_then():
    create = client(max_retries=3).chat.completions.with_raw_response.create
    answers = [create(model="limited-python", messages=HELLO) for _ in range(2)]
    assert [answer.retries_taken for answer in answers] == [0, 1]
    assert answers[0].headers["x-ratelimit-limit-requests"] == "1"
    impatient = client(max_retries=0).chat.completions.create
    error = refused(openai.RateLimitError, lambda: impatient(model="limited-python", messages=HELLO))
    assert error.code == "rate_limit_exceeded" and int(error.response.headers["retry-after"]) >= 1


@promise
def a_stream_that_breaks_off_is_an_error_behind_what_came():
    came = []
    stream = client().chat.completions.create(model="broken", messages=HELLO, stream=True)
    error = refused(openai.APIError, lambda: came.extend(stream), code="upstream_error")
    assert said(came) == "ab" and "broke off" in error.message


@promise
def an_idempotency_key_gives_the_first_answer_again():
    create = client().chat.completions.with_raw_response.create
    key = {"idempotency-key": str(uuid.uuid4())}
    first, again = (create(model="chat", messages=HELLO, extra_headers=key) for _ in range(2))
    assert first.parse().id == again.parse().id and again.headers["x-mai-cache"] == "replay"
    other = lambda: create(model="chat", messages=HELLO * 2, extra_headers=key)
    refused(openai.UnprocessableEntityError, other, code="idempotency_conflict")


@promise
def models_are_those_of_the_key():
    models = {model.id for model in client().models.list()}
    assert {"chat", "embedding", "rerank"} <= models and "foreign" not in models
    assert client().models.retrieve("chat").id == "chat"
    refused(openai.NotFoundError, lambda: client().models.retrieve("foreign"), code="model_not_found")


@promise
def responses_are_answered_where_a_route_offers_them_and_refused_with_the_way_out_elsewhere():
    responses = client().responses
    assert responses.create(model="responder", input="Hi").output_text == "Hello"
    with responses.stream(model="responder", input="Hi") as stream:
        assert stream.get_final_response().output_text == "Hello"
    error = refused(openai.NotFoundError, lambda: responses.create(model="chat", input="Hi"), code="model_not_found")
    assert "only on /v1/chat/completions" in error.message


@promise
def uploads_pass():
    heard = client().audio.transcriptions.create(model="listener", file=("a.wav", b"RIFF" * 10_000), language="zh")
    assert heard.text == "heard"


@promise
def a_base_url_without_version_or_with_a_slash_does_too():
    for base in [ADDRESS, ADDRESS + "/", BASE + "/"]:
        assert client(base_url=base).chat.completions.create(model="chat", messages=HELLO).choices


# ---- LangChain


def langchain(model, **settings):
    return ChatOpenAI(**{"model": model, "base_url": BASE, "api_key": KEY, "timeout": 15, **settings})


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return "21"


@promise
def langchain_invokes_batches_and_streams():
    chat = langchain("chat", stream_usage=True, include_response_headers=True)
    answer = chat.invoke("Hello")
    assert answer.usage_metadata["total_tokens"] > 0 and answer.response_metadata["headers"]["x-mai-route"] == "chat"
    chunks = list(chat.stream("Hello"))
    assert "".join(chunk.text for chunk in chunks) == answer.text
    assert sum((chunk.usage_metadata or {}).get("total_tokens", 0) for chunk in chunks) == answer.usage_metadata["total_tokens"]
    assert [one.text for one in chat.batch(["Hello"] * 5)] == [answer.text] * 5

    async def streamed():
        return "".join([chunk.text async for chunk in chat.astream("Hello")])

    assert asyncio.run(streamed()) == answer.text
    assert LangChainCompletion(model="legacy", base_url=BASE, api_key=KEY).batch(["a", "b"])


@promise
def langchain_calls_tools_and_reads_structured_answers():
    chat = langchain("weather").bind_tools([get_weather])
    question = HumanMessage("How is the weather?")
    answer = chat.invoke([question])
    streamed = functools.reduce(operator.add, chat.stream([question]))
    for message in [answer, streamed]:
        assert [call["args"] for call in message.tool_calls] == CITIES and not message.invalid_tool_calls
    results = [get_weather.invoke(call) for call in answer.tool_calls]
    assert chat.invoke([question, answer, *results]).text == "It is 21 degrees."
    for method in ["json_schema", "json_mode"]:
        assert langchain("person").with_structured_output(Person, method=method).invoke("Who? In JSON.") == ANN


@promise
def langchain_embeds_with_its_defaults_also_where_the_upstream_takes_no_tokens():
    for route in ["embedding", "embedding-of-texts"]:
        settings = {"model": route, "base_url": BASE, "api_key": KEY}
        tokens = OpenAIEmbeddings(**settings).embed_documents(TEXTS)
        texts = OpenAIEmbeddings(**settings, check_embedding_ctx_length=False).embed_documents(TEXTS)
        assert len(tokens) == len(texts) == len(TEXTS)
        if route == "embedding-of-texts":  # which the tokens were decoded for
            near(tokens[39], texts[39])


@promise
def langchain_and_cohere_rerank():
    documents = [Document(text, metadata={"page": page}) for page, text in enumerate(DOCUMENTS)]
    for base in [ADDRESS, BASE]:
        rerank = CohereRerank(model="rerank", base_url=base, cohere_api_key=KEY, top_n=1)
        (best,) = rerank.compress_documents(documents, "file expenses")
        assert best.metadata["page"] == 1 and best.metadata["relevance_score"] > 0
    ask = {"model": "rerank", "query": "file expenses", "documents": DOCUMENTS, "top_n": 1}
    first = cohere.Client(api_key=KEY, base_url=ADDRESS).rerank(**ask, return_documents=True).results[0]
    assert (first.index, first.document.text) == (1, DOCUMENTS[1])
    second = cohere.ClientV2(api_key=KEY, base_url=ADDRESS).rerank(**ask)
    assert second.results[0].index == 1 and second.meta.billed_units.search_units == 1


@promise
def langchain_raises_the_sdks_errors_and_uses_responses_where_told():
    refused(openai.AuthenticationError, lambda: langchain("chat", api_key="nobodys").invoke("Hello"))
    error = refused(openai.NotFoundError, lambda: langchain("chat", use_responses_api=True).invoke("Hello"))
    assert "only on /v1/chat/completions" in str(error)
    assert langchain("responder", use_responses_api=True).invoke("Hello").text == "Hello"


# ---- LlamaIndex


def llama(model, **settings):
    settings = {"is_chat_model": True, "timeout": 15, **settings}
    return OpenAILike(**{"model": model, "api_base": BASE, "api_key": KEY, **settings})


@promise
def llama_index_completes_chats_and_streams():
    hello = [ChatMessage(role="user", content="Hello")]
    answer = llama("chat").chat(hello).message.content
    assert "Hello" in answer and llama("chat").complete("Hello").text == answer
    assert list(llama("chat").stream_chat(hello))[-1].message.content == answer

    async def streamed():
        return "".join([part.delta or "" async for part in await llama("chat").astream_chat(hello)])

    assert asyncio.run(streamed()) == answer
    assert llama("legacy", is_chat_model=False).complete("Hello").text
    forgotten = lambda: llama("chat", is_chat_model=False).complete("Hello")
    assert "only on /v1/chat/completions" in str(refused(openai.NotFoundError, forgotten))


@promise
def llama_index_calls_tools_and_reads_structured_answers():
    model = llama("weather", is_function_calling_model=True)
    weather = FunctionTool.from_defaults(get_weather.func, name="get_weather")
    called = list(model.stream_chat_with_tools([weather], user_msg="How is the weather?"))[-1]
    assert [call.tool_kwargs for call in model.get_tool_calls_from_response(called)] == CITIES
    assert llama("person", should_use_structured_outputs=True).as_structured_llm(Person).complete("Who?").raw == ANN


@promise
def llama_index_embeds_and_reranks():
    embed = OpenAILikeEmbedding(model_name="embedding", api_base=BASE, api_key=KEY, embed_batch_size=100)
    vectors = embed.get_text_embedding_batch(TEXTS)
    assert len(vectors) == len(TEXTS)
    near(vectors[39], embed.get_text_embedding(TEXTS[39]))
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in DOCUMENTS]
    tei = TextEmbeddingInference(base_url=BASE, auth_token=f"Bearer {KEY}", top_n=1)  # which names no model
    assert [node.text for node in tei.postprocess_nodes(nodes, QueryBundle("file expenses"))] == [DOCUMENTS[1]]


def main():
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    tried = ["openai", "langchain-openai", "langchain-cohere", "cohere", "llama-index-core"]
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in tried))
    broken = 0
    for function in promises:
        began = time.monotonic()
        try:
            function()
            sign = "ok    "
        except Exception:
            broken += 1
            sign = "BROKEN"
            traceback.print_exc(limit=-4, chain=False)
        print(f"{sign} {function.__name__.replace('_', ' ')} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"python: {len(promises) - broken} passed, {broken} failed", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
