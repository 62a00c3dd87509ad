// What applications are promised, asked by OpenAI's client for Node. Run by scripts/check-sdks, from a copy beside its modules.
// Each promise is one function; a promise that is broken is told with where, and the rest is tried all the same.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import OpenAI from 'openai';

const { MAI_URL: address, MAI_KEY: apiKey, MAI_UPSTREAM: upstream } = process.env;
const SECONDS = 60; // the whole check
const messages = [{ role: 'user', content: 'Hello' }];
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: schema } }];
const cities = [{ city: 'Paris' }, { city: '北京' }];

const client = (settings = {}) => new OpenAI({ baseURL: `${address}/v1`, apiKey, timeout: 15_000, ...settings });

/** A client, and how often it has asked. */
function counting(settings) {
  const sent = [];
  const counted = (...call) => (sent.push(call), fetch(...call));
  return [client({ fetch: counted, ...settings }), sent];
}

const text = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');

async function all(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}

/** Waits until the model server has that one call, and it is so with it: `running`, or its caller is `gone`. */
async function until(end, id) {
  let ends = [];
  for (let tries = 0; tries < 50; tries++) {
    const { calls } = await (await fetch(`${upstream}/__mock/calls`)).json();
    ends = calls.filter((call) => call.headers.some(([, value]) => value === id)).map((call) => call.end);
    if (ends.length === 1 && ends[0] === end) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`the upstream's call is not ${end}, but ${ends}`);
}

const promises = {
  async 'chat answers with usage and with the headers that tell of the call'() {
    const call = client().chat.completions.create({ model: 'chat', messages }, { headers: { 'x-request-id': 'my-own-id' } });
    const { data, response, request_id } = await call.withResponse();
    assert.match(data.choices[0].message.content, /Hello/);
    assert.ok(data.usage.total_tokens > 0);
    assert.equal(request_id, 'my-own-id');
    assert.equal(response.headers.get('x-mai-route'), 'chat');
  },
  async 'a stream says what the whole answer says, and usage to those alone who ask'() {
    const { completions } = client().chat;
    const whole = await completions.create({ model: 'chat', messages });
    const plain = await all(completions.create({ model: 'chat', messages, stream: true }));
    assert.equal(text(plain), whole.choices[0].message.content);
    assert.ok(!plain.some((chunk) => chunk.usage));
    const counted = await all(completions.create({ model: 'chat', messages, stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual(counted.at(-1).usage, whole.usage);
  },
  async "who leaves a stream early, or aborts, cancels the upstream's call"() {
    let id = randomUUID();
    const stream = await client().chat.completions.create({ model: 'talker', messages, stream: true }, { headers: { 'x-request-id': id } });
    for await (const chunk of stream) if (text([chunk])) break;
    await until('gone', id);
    id = randomUUID();
    const stop = new AbortController();
    const options = { signal: stop.signal, headers: { 'x-request-id': id } };
    const aborted = assert.rejects(client().chat.completions.create({ model: 'hung', messages }, options), OpenAI.APIUserAbortError);
    await until('running', id);
    stop.abort();
    await aborted;
    await until('gone', id);
  },
  async 'tools are called whole and streamed, and run by the SDK'() {
    const { completions } = client().chat;
    const whole = await completions.create({ model: 'weather', messages, tools });
    const streamed = await completions.stream({ model: 'weather', messages, tools }).finalChatCompletion();
    for (const answer of [whole, streamed]) {
      assert.deepEqual(answer.choices[0].message.tool_calls.map((call) => JSON.parse(call.function.arguments)), cities);
    }
    const runnable = { ...tools[0].function, parse: JSON.parse, function: () => '21' };
    const run = completions.runTools({ model: 'weather', messages, stream: true, tools: [{ type: 'function', function: runnable }] });
    assert.equal(await run.finalContent(), 'It is 21 degrees.');
  },
  async 'structured answers are parsed'() {
    const format = { type: 'json_schema', json_schema: { name: 'person', schema: { type: 'object' }, strict: true } };
    const answer = await client().chat.completions.create({ model: 'person', messages, response_format: format });
    assert.deepEqual(JSON.parse(answer.choices[0].message.content), { name: 'Ann', age: 3 });
  },
  async 'embeddings come in order, however many the upstream takes'() {
    const input = Array.from({ length: 40 }, (_, number) => `Expenses of kind ${number}. 报销`);
    const { data } = await client().embeddings.create({ model: 'embedding', input });
    assert.deepEqual(data.map((entry) => entry.index), [...input.keys()]);
    const last = await client().embeddings.create({ model: 'embedding', input: input[39], encoding_format: 'float' });
    last.data[0].embedding.forEach((number, at) => assert.ok(Math.abs(number - data[39].embedding[at]) < 1e-6));
    const short = await client().embeddings.create({ model: 'embedding', input: 'a', dimensions: 8 });
    assert.equal(short.data[0].embedding.length, 8);
  },
  async "errors are the SDK's own kinds, with code and field, and are asked once"() {
    for (const [settings, ask, kind, expected] of [
      [{ apiKey: 'nobodys' }, {}, OpenAI.AuthenticationError, { status: 401, code: 'invalid_api_key' }],
      [{}, { model: 'none' }, OpenAI.NotFoundError, { code: 'model_not_found', param: 'model' }],
      [{}, { model: 'foreign' }, OpenAI.PermissionDeniedError, { code: 'route_not_allowed', param: 'model' }],
      [{}, { messages: 'Hello' }, OpenAI.BadRequestError, { code: 'invalid_request', param: 'messages' }],
      [{}, { model: 'down' }, OpenAI.InternalServerError, { status: 502, code: 'upstream_error' }],
      [{ apiKey: 'sk-of-the-poor' }, {}, OpenAI.RateLimitError, { code: 'insufficient_quota' }],
    ]) {
      const [eager, sent] = counting({ maxRetries: 3, ...settings });
      await assert.rejects(eager.chat.completions.create({ model: 'chat', messages, ...ask }), (error) => {
        assert.ok(error instanceof kind, `${error}`);
        for (const [name, value] of Object.entries(expected)) assert.equal(error[name], value);
        return Boolean(error.requestID);
      });
      assert.equal(sent.length, 1);
    }
  },
  async 'a rate limit says when to come back, and the SDK comes back then'() {
    const [patient, sent] = counting({ maxRetries: 3 });
    for (let calls = 0; calls < 2; calls++) await patient.chat.completions.create({ model: 'limited-node', messages });
    assert.equal(sent.length, 3);
  },
  async 'a stream that breaks off is an error behind what came'() {
    const came = [];
    const stream = await client().chat.completions.create({ model: 'broken', messages, stream: true });
    const read = async () => {
      for await (const chunk of stream) came.push(chunk);
    };
    await assert.rejects(read, (error) => error instanceof OpenAI.APIError && error.code === 'upstream_error');
    assert.equal(text(came), 'ab');
  },
  async 'models are those of the key'() {
    const models = await all(client().models.list());
    assert.ok(models.some((model) => model.id === 'chat') && !models.some((model) => model.id === 'foreign'));
    assert.equal((await client().models.retrieve('chat')).id, 'chat');
  },
  async 'responses are answered where a route offers them, and refused with the way out elsewhere'() {
    const { responses } = client();
    assert.equal((await responses.create({ model: 'responder', input: 'Hi' })).output_text, 'Hello');
    const events = await all(responses.create({ model: 'responder', input: 'Hi', stream: true }));
    assert.equal(events.at(-1).type, 'response.completed');
    await assert.rejects(responses.create({ model: 'chat', input: 'Hi' }), /only on \/v1\/chat\/completions/);
  },
};

setTimeout(() => {
  console.error(`not done after ${SECONDS} s`);
  process.exit(1);
}, SECONDS * 1000).unref();
let broken = 0;
for (const [sentence, promise] of Object.entries(promises)) {
  const began = performance.now();
  let sign = 'ok    ';
  try {
    await promise();
  } catch (error) {
    broken += 1;
    sign = 'BROKEN';
    console.error(error);
  }
  console.log(`${sign} ${sentence} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
}
console.log(`node: ${Object.keys(promises).length - broken} passed, ${broken} failed`);
process.exit(broken ? 1 : 0);
